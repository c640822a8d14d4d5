//! Starts programs as child processes and cleans up after them.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, PoisonError, RwLock};

use nuncio_confine::RunningProgram;
use nuncio_core::agent::Agent;
use nuncio_core::ids::AgentName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, Command};

use super::profile::{ProgramPermissions, ProgramStateFolders, explain};

/// Environment variables that a program inherits from the server.
const INHERITED_VARIABLES: [&str; 3] = ["PATH", "HOME", "LANG"];
/// Command name in agent files that starts this executable.
pub const OWN_COMMAND_NAME: &str = "nuncio";
/// Number of last bytes of standard error that are kept.
const TAIL_BYTES: usize = 4 * 1024;

/// Starts the programs of agents as child processes.
#[derive(Debug)]
pub(crate) struct ProgramStarter {
    executable: PathBuf,
    working_dir: PathBuf,
    /// Folders of confined programs; `None` without confinement.
    folders: Option<ProgramStateFolders>,
    base_dirs: RwLock<HashMap<AgentName, PathBuf>>,
}

impl ProgramStarter {
    pub(crate) fn new(executable: PathBuf, working_dir: PathBuf, confined: bool) -> Self {
        let folders = confined.then(|| ProgramStateFolders::new(working_dir.clone()));
        Self { executable, working_dir, folders, base_dirs: RwLock::default() }
    }

    pub(crate) fn set_base_dir(&self, agent: AgentName, folder: PathBuf) {
        self.base_dirs.write().unwrap_or_else(PoisonError::into_inner).insert(agent, folder);
    }

    /// Base folder of an agent's relative paths.
    pub(crate) fn base_dir(&self, agent: &AgentName) -> PathBuf {
        let folders = self.base_dirs.read().unwrap_or_else(PoisonError::into_inner);
        match (folders.get(agent), &self.folders) {
            (Some(folder), _) => folder.clone(),
            (None, Some(folders)) => folders.of(agent),
            (None, None) => self.working_dir.clone(),
        }
    }

    /// Folder that the agent's programs may write to.
    pub(crate) fn state_folder(&self, agent: &AgentName) -> PathBuf {
        self.folders.as_ref().map_or_else(|| self.working_dir.clone(), |folders| folders.of(agent))
    }

    /// Checks the `allow` section of an agent file.
    pub(crate) fn check(&self, agent: &Agent) -> Result<(), String> {
        match &self.folders {
            Some(folders) => folders.check(agent, &self.base_dir(&agent.name)),
            None => Ok(()),
        }
    }

    /// Starts a program of an agent without a shell: clean environment, pipes on all three streams, its own process
    /// group, confined to the `allow` section.
    pub(crate) async fn start(
        &self,
        agent: &Agent,
        base_dir: &Path,
        argv: &[String],
        env: Vec<(String, String)>,
    ) -> Result<StartedProgram, String> {
        let Some((program, arguments)) = argv.split_first() else {
            return Err("the agent file names no program".into());
        };
        let failed = |error: std::io::Error| format!("`{program}` cannot be started: {error}");
        let path = self.locate(base_dir, program);
        let profile = match &self.folders {
            Some(folders) => Some(folders.profile(agent, base_dir, &path).map_err(failed)?),
            None => None,
        };
        let mut command = Command::new(&path);
        command
            .args(arguments)
            .env_clear()
            .envs(INHERITED_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .current_dir(base_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = match &profile {
            Some(profile) => {
                command.envs(profile.environment()).envs(env);
                nuncio_confine::spawn(command, profile.reach()).await
            }
            None => {
                if program == OWN_COMMAND_NAME {
                    // The state folder is in the data directory, wherever the agent file is.
                    command.env("NUNCIO_DATA", &self.working_dir);
                }
                RunningProgram::start(command.envs(env))
            }
        };
        let running = started.map_err(|error| explain(profile.as_ref(), failed(error)))?;
        Ok(StartedProgram { running, profile: profile.map(Arc::new) })
    }

    fn locate(&self, base_dir: &Path, program: &str) -> PathBuf {
        if program == OWN_COMMAND_NAME {
            self.executable.clone()
        } else if program.contains('/') {
            base_dir.join(program)
        } else {
            PathBuf::from(program)
        }
    }
}

/// Started program with its permissions. The field order matters: the temporary folder is removed last.
#[derive(Debug)]
pub(crate) struct StartedProgram {
    pub(crate) running: RunningProgram,
    /// Permissions of the program; `None` without confinement.
    pub(crate) profile: Option<Arc<ProgramPermissions>>,
}

impl StartedProgram {
    /// Adds to a failure text the missing permission that the text indicates.
    pub(crate) fn explain(&self, failure: String) -> String {
        explain(self.profile.as_deref(), failure)
    }
}

/// Writes the input of a program and closes the pipe. A program that does not read its input is accepted.
pub(crate) async fn feed(mut stdin: ChildStdin, input: &[u8]) -> Infallible {
    let _ = stdin.write_all(input).await;
    drop(stdin);
    std::future::pending().await
}

/// Last [`TAIL_BYTES`] bytes of a program's standard error.
#[derive(Default)]
pub(crate) struct StderrTail(VecDeque<u8>);

impl StderrTail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let excess = (self.0.len() + bytes.len()).saturating_sub(TAIL_BYTES);
        self.0.drain(..excess);
        self.0.extend(bytes);
    }

    /// Reads standard error until it is closed, and keeps its end.
    pub(crate) async fn read(&mut self, stderr: &mut ChildStderr) {
        let mut bytes = [0; 1024];
        while let Ok(count @ 1..) = stderr.read(&mut bytes).await {
            self.push(&bytes[..count]);
        }
    }

    /// Kept text without control characters other than line breaks and tabs.
    pub(crate) fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        printable(&String::from_utf8_lossy(&bytes)).trim().to_owned()
    }
}

impl fmt::Debug for StderrTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The output of a program may contain a secret.
        write!(f, "Tail({} bytes)", self.0.len())
    }
}

/// Removes control characters other than line breaks and tabs, so that a terminal can show the text safely.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stderr_tail_keeps_the_last_4_kib_without_control_characters() {
        let mut tail = StderrTail::default();
        tail.push(&vec![b'a'; 10_000]);
        tail.push(b"\x1b[31mthe end\n");
        let text = tail.text();
        assert!(text.len() <= TAIL_BYTES);
        assert!(text.ends_with("a[31mthe end"), "{text}");
        assert_eq!(StderrTail::default().text(), "");
    }
}
