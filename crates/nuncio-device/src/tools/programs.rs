//! Runs programs with a minimal environment, in their own process group, with limits of time and output. Programs that
//! the person added are confined to the access that the person allowed; system programs of the desktop tools are not.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Once;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_confine::{RunningProgram, confinement};
use nuncio_core::schema::Schema;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use super::{ConfinementRules, LocalTool, LocalToolAccess, LocalToolFailure};

/// Limit of a program's output, in bytes.
const MAX_OUTPUT: usize = 48 * 1024;

/// Directories in which system programs are searched, also the `PATH` of started programs.
const PROGRAM_FOLDERS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// Path of an installed system program.
pub(super) fn installed(name: &str) -> Option<PathBuf> {
    PROGRAM_FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

pub(super) struct ProgramToRun<'a> {
    pub(super) path: &'a Path,
    pub(super) arguments: &'a [String],
    pub(super) input: Vec<u8>,
    pub(super) folder: &'a Path,
    pub(super) environment: &'a BTreeMap<String, OsString>,
    /// Rules that confine the program; `None` for system programs, which run unconfined.
    pub(super) reach: Option<ConfinementRules>,
}

impl ProgramToRun<'_> {
    /// Runs the program until it ends or `time` is over, then kills its whole process group. Returns its output.
    pub(super) async fn run(self, time: Duration) -> Result<Vec<u8>, LocalToolFailure> {
        static WARNED: Once = Once::new();
        let failed =
            |why: &dyn std::fmt::Display| LocalToolFailure::Failed(format!("the program cannot be run: {why}"));
        let mut command = Command::new(self.path);
        command.args(self.arguments).env_clear().env("PATH", PROGRAM_FOLDERS.join(":")).env("LANG", "C.UTF-8");
        command.envs(self.environment).current_dir(self.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = match self.reach {
            Some(reach) => {
                if !confinement().files {
                    WARNED.call_once(|| tracing::warn!("programs in `tools` are {}", confinement()));
                }
                nuncio_confine::spawn(command, reach).await
            }
            None => RunningProgram::start(&mut command),
        };
        let mut running = started.map_err(|why| failed(&why))?;
        let (stdin, stdout, _) = running.pipes();
        let work = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // Writing may fail, because a program need not read its input.
                    let _ = stdin.write_all(&self.input).await;
                }
            };
            let read = async {
                let mut output = Vec::new();
                if let Some(stdout) = stdout {
                    stdout.take(MAX_OUTPUT as u64 + 1).read_to_end(&mut output).await.map_err(|why| failed(&why))?;
                }
                Ok::<_, LocalToolFailure>(output)
            };
            let ((), output) = tokio::join!(write, read);
            let output = output?;
            if output.len() > MAX_OUTPUT {
                return Err(LocalToolFailure::Failed(format!("the program printed more than {MAX_OUTPUT} bytes")));
            }
            let status = running.child.wait().await.map_err(|why| failed(&why))?;
            match status.success() {
                true => Ok(output),
                false => Err(LocalToolFailure::Failed(format!("the program failed: {status}"))),
            }
        };
        match tokio::time::timeout(time, work).await {
            Ok(done) => done,
            Err(_) => Err(LocalToolFailure::Failed("the program exceeded its time limit".to_owned())),
        }
    }
}

/// Program in the person's tools folder: reads its arguments as JSON from stdin and prints its result as JSON.
#[derive(Debug, Clone)]
pub struct ProgramTool {
    /// Program and its fixed arguments.
    pub command: Vec<String>,
    /// Working directory of the program; the program may read it.
    pub folder: PathBuf,
    /// JSON Schema of the tool's arguments.
    pub input: Option<Schema>,
    /// Limit of the program's run time; the time limit of the call also applies.
    pub time: Option<Duration>,
    pub reach: ConfinementRules,
}

#[async_trait]
impl LocalTool for ProgramTool {
    fn limits(&self) -> Option<LocalToolAccess> {
        let ConfinementRules { read, write, network, .. } = &self.reach;
        Some(LocalToolAccess { reads: read.clone(), writes: write.clone(), network: *network, file_bytes: None })
    }

    async fn run(&self, arguments: &Value, time: Duration) -> Result<Value, LocalToolFailure> {
        if let Some(Err(faults)) = self.input.as_ref().map(|input| input.check(arguments)) {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            return Err(LocalToolFailure::Arguments(faults.join("; ")));
        }
        let Some((program, rest)) = self.command.split_first() else {
            return Err(LocalToolFailure::Unavailable("the tool names no program".to_owned()));
        };
        let path = match program.contains('/') {
            true => self.folder.join(program),
            false => installed(program)
                .ok_or_else(|| LocalToolFailure::Unavailable(format!("{program} is not installed on this device")))?,
        };
        let mut reach = self.reach.clone();
        reach.read.extend([self.folder.clone(), path.clone()]);
        let program = ProgramToRun {
            path: &path,
            arguments: rest,
            input: arguments.to_string().into_bytes(),
            folder: &self.folder,
            environment: &BTreeMap::new(),
            reach: Some(reach),
        };
        let output = program.run(self.time.map_or(time, |own| own.min(time))).await?;
        let text = String::from_utf8_lossy(&output);
        Ok(serde_json::from_str(&text).unwrap_or_else(|_| json!({"text": text.trim_end()})))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tool that runs a shell script, which may write to its folder.
    fn sh(folder: &Path, script: &str) -> ProgramTool {
        let command = ["sh", "-c", script].map(str::to_owned).into();
        let reach = ConfinementRules { write: vec![folder.to_owned()], ..ConfinementRules::default() };
        ProgramTool { command, folder: folder.to_owned(), input: None, time: None, reach }
    }

    #[tokio::test]
    async fn program_gets_arguments_on_stdin_without_environment_and_output_is_limited() {
        let time = Duration::from_secs(20);
        let folder = tempfile::tempdir().unwrap();
        let sh = |script: &str| sh(folder.path(), script);
        let said = sh("cat").run(&json!({"a": 1}), time).await;
        assert_eq!(said, Ok(json!({"a": 1})));
        let environment = sh("env").run(&json!({}), time).await.unwrap();
        let environment = environment["text"].as_str().unwrap();
        assert!(!environment.contains("HOME=") && !environment.contains("CARGO"), "{environment}");
        assert!(matches!(sh("exit 3").run(&json!({}), time).await, Err(LocalToolFailure::Failed(_))));
        let endless = sh("yes").run(&json!({}), time).await;
        assert!(matches!(endless, Err(LocalToolFailure::Failed(ref why)) if why.contains("more than")), "{endless:?}");
    }

    #[tokio::test]
    async fn program_does_not_run_with_invalid_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("ran");
        let input = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let tool = ProgramTool {
            input: Some(Schema::compile_arguments(input).unwrap()),
            ..sh(folder.path(), &format!("echo >> {}", mark.display()))
        };
        let time = Duration::from_secs(20);
        let refused = tool.run(&json!({"n": "one"}), time).await;
        assert!(matches!(refused, Err(LocalToolFailure::Arguments(ref why)) if why.contains("/n")), "{refused:?}");
        assert!(!mark.exists());
        tool.run(&json!({"n": 1}), time).await.unwrap();
        assert!(mark.exists());
    }

    #[tokio::test]
    async fn child_processes_are_killed_when_the_program_ends_or_times_out() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("child");
        let script = format!("sleep 600 & echo $! > {}; wait", mark.display());
        // The shorter of the tool's and the call's time limit counts.
        let own = ProgramTool { time: Some(Duration::from_secs(2)), ..sh(folder.path(), &script) };
        let late = own.run(&json!({}), Duration::from_secs(600)).await;
        assert!(matches!(late, Err(LocalToolFailure::Failed(_))), "{late:?}");
        gone(&mark).await;
        // The child process is also killed when the program itself ends normally.
        let script = format!("sleep 600 < /dev/null > /dev/null & echo $! > {}", mark.display());
        sh(folder.path(), &script).run(&json!({}), Duration::from_secs(600)).await.unwrap();
        gone(&mark).await;
    }

    /// Waits until the process whose id is in the file `mark` has ended.
    async fn gone(mark: &Path) {
        let child: u32 = std::fs::read_to_string(mark).unwrap().trim().parse().unwrap();
        let gone = || (!nuncio_testkit::is_alive(child)).then_some(());
        nuncio_testkit::eventually("the child is gone", async || gone()).await;
    }
}
