//! Programs on this machine: with an empty environment, in a process group of their own, for so long and with so much
//! to say. Some are the system's own, for the clipboard and for notices; others the person put into a folder.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::{LocalTool, ToolFailure};

/// How much a program may say.
const MAX_OUTPUT: usize = 48 * 1024;

/// Where programs are looked for.
const PATHS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// What of our own environment a program of the desktop needs.
const DESKTOP: [&str; 5] = ["DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY"];

/// The first of these programs that is installed.
fn installed(names: &[&str]) -> Option<PathBuf> {
    let places = names.iter().flat_map(|name| PATHS.iter().map(move |folder| Path::new(folder).join(name)));
    places.into_iter().find(|path| path.is_file())
}

/// A program to be run.
struct Program<'a> {
    path: &'a Path,
    arguments: &'a [String],
    /// What it gets to read.
    input: Vec<u8>,
    /// Where it runs.
    folder: &'a Path,
    desktop: bool,
}

impl Program<'_> {
    /// Runs it, and everything it starts, to its end or to the end of the time.
    async fn run(self, time: Duration) -> Result<Vec<u8>, ToolFailure> {
        let failed = |why: &dyn std::fmt::Display| ToolFailure::Failed(format!("the program cannot be run: {why}"));
        let mut command = Command::new(self.path);
        command.args(self.arguments).env_clear().env("PATH", PATHS.join(":")).env("LANG", "C.UTF-8");
        if self.desktop {
            command.envs(DESKTOP.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        }
        command.current_dir(self.folder).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut group = Group(command.spawn().map_err(|why| failed(&why))?);
        let (stdin, stdout) = (group.0.stdin.take(), group.0.stdout.take());
        let work = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // A program that does not read is no failure.
                    let _ = stdin.write_all(&self.input).await;
                }
            };
            let read = async {
                let mut output = Vec::new();
                if let Some(stdout) = stdout {
                    stdout.take(MAX_OUTPUT as u64 + 1).read_to_end(&mut output).await.map_err(|why| failed(&why))?;
                }
                Ok::<_, ToolFailure>(output)
            };
            let ((), output) = tokio::join!(write, read);
            let output = output?;
            if output.len() > MAX_OUTPUT {
                return Err(ToolFailure::Failed(format!("the program says more than {MAX_OUTPUT} bytes")));
            }
            let status = group.0.wait().await.map_err(|why| failed(&why))?;
            match status.success() {
                true => Ok(output),
                false => Err(ToolFailure::Failed(format!("the program failed: {status}"))),
            }
        };
        match tokio::time::timeout(time, work).await {
            Ok(done) => done,
            Err(_) => Err(ToolFailure::Failed("the program took longer than its time".to_owned())),
        }
    }
}

/// A program with all it started; none of it outlives this.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let id = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = id {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// The clipboard, where the desktop has a program for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clipboard;

#[async_trait]
impl LocalTool for Clipboard {
    async fn run(&self, _: &Value, time: Duration) -> Result<Value, ToolFailure> {
        let ways: [(&str, &[&str]); 3] =
            [("wl-paste", &["--no-newline"]), ("xclip", &["-selection", "clipboard", "-o"]), ("xsel", &["-b", "-o"])];
        let found = ways.iter().find_map(|(name, arguments)| Some((installed(&[name])?, *arguments)));
        let Some((path, arguments)) = found else {
            let message = "this device has no way to its clipboard: install wl-clipboard, xclip or xsel";
            return Err(ToolFailure::Unavailable(message.to_owned()));
        };
        let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
        let program =
            Program { path: &path, arguments: &arguments, input: Vec::new(), folder: Path::new("/"), desktop: true };
        Ok(json!({"text": String::from_utf8_lossy(&program.run(time).await?)}))
    }
}

/// A notice on the desktop.
#[derive(Debug, Clone, Copy, Default)]
pub struct Notify;

#[async_trait]
impl LocalTool for Notify {
    async fn run(&self, arguments: &Value, time: Duration) -> Result<Value, ToolFailure> {
        let text =
            |names: &[&str]| names.iter().find_map(|name| arguments[name].as_str()).map(nuncio_core::text::plain);
        let Some(title) = text(&["title", "message", "text", "body"]) else {
            return Err(ToolFailure::Arguments("`title` or `body` says what to show".to_owned()));
        };
        let body = text(&["body", "message", "text"]).unwrap_or_default();
        let Some(path) = installed(&["notify-send"]) else {
            return Err(ToolFailure::Unavailable(
                "this device has no way to show notices: install libnotify".to_owned(),
            ));
        };
        // Behind `--`, so that no text is taken for an option.
        let arguments: Vec<_> = ["--app-name=Nuncio", "--", &title, &body].map(str::to_owned).into();
        let program =
            Program { path: &path, arguments: &arguments, input: Vec::new(), folder: Path::new("/"), desktop: true };
        program.run(time).await?;
        Ok(json!({"shown": true}))
    }
}

/// A program the person put into their folder of tools: it reads the arguments as JSON and says the result as JSON.
#[derive(Debug, Clone)]
pub struct ProgramTool {
    /// The program and its first arguments.
    pub command: Vec<String>,
    /// Where it runs.
    pub folder: PathBuf,
}

#[async_trait]
impl LocalTool for ProgramTool {
    async fn run(&self, arguments: &Value, time: Duration) -> Result<Value, ToolFailure> {
        let Some((program, rest)) = self.command.split_first() else {
            return Err(ToolFailure::Unavailable("the tool names no program".to_owned()));
        };
        let path = match program.contains('/') {
            true => self.folder.join(program),
            false => installed(&[program])
                .ok_or_else(|| ToolFailure::Unavailable(format!("{program} is not installed on this device")))?,
        };
        let program = Program {
            path: &path,
            arguments: rest,
            input: arguments.to_string().into_bytes(),
            folder: &self.folder,
            desktop: false,
        };
        let output = program.run(time).await?;
        let text = String::from_utf8_lossy(&output);
        Ok(serde_json::from_str(&text).unwrap_or_else(|_| json!({"text": text.trim_end()})))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> ProgramTool {
        let command = ["sh", "-c", script].map(str::to_owned).into();
        ProgramTool { command, folder: std::env::temp_dir() }
    }

    #[tokio::test]
    async fn a_program_reads_its_arguments_and_nothing_of_ours() {
        let time = Duration::from_secs(20);
        let said = sh("cat").run(&json!({"a": 1}), time).await;
        assert_eq!(said, Ok(json!({"a": 1})));
        let environment = sh("env").run(&json!({}), time).await.unwrap();
        let environment = environment["text"].as_str().unwrap();
        assert!(!environment.contains("HOME=") && !environment.contains("CARGO"), "{environment}");
        assert!(matches!(sh("exit 3").run(&json!({}), time).await, Err(ToolFailure::Failed(_))));
        let endless = sh("yes").run(&json!({}), time).await;
        assert!(matches!(endless, Err(ToolFailure::Failed(ref why)) if why.contains("more than")), "{endless:?}");
    }

    #[tokio::test]
    async fn nothing_it_starts_outlives_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("child");
        let script = format!("sleep 600 & echo $! > {}; wait", mark.display());
        let late = sh(&script).run(&json!({}), Duration::from_millis(700)).await;
        assert!(matches!(late, Err(ToolFailure::Failed(_))), "{late:?}");
        let child: i32 = std::fs::read_to_string(&mark).unwrap().trim().parse().unwrap();
        let gone = || (!nuncio_testkit::is_alive(u32::try_from(child).unwrap())).then_some(());
        nuncio_testkit::eventually("the child is gone", async || gone()).await;
    }
}
