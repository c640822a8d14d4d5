//! Programs as children of ours: how they are started, and that nothing of them is left behind.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, PoisonError, RwLock};

use nuncio_confine::Running;
use nuncio_core::agent::Agent;
use nuncio_core::ids::AgentName;
use tokio::process::Command;

use super::profile::{Profile, StateFolders};

/// What of our own environment a child gets.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];
/// The program that means this one.
const OURSELVES: &str = "nuncio";
/// How much of what a child complains about is kept.
const TAIL_BYTES: usize = 4 * 1024;

/// What programs are called and where they are at home.
#[derive(Debug)]
pub(crate) struct Programs {
    executable: PathBuf,
    working_dir: PathBuf,
    /// The folders of confined programs; none where programs are not confined.
    folders: Option<StateFolders>,
    base_dirs: RwLock<HashMap<AgentName, PathBuf>>,
}

impl Programs {
    pub(crate) fn new(executable: PathBuf, working_dir: PathBuf, confined: bool) -> Self {
        let folders = confined.then(|| StateFolders::new(working_dir.clone()));
        Self { executable, working_dir, folders, base_dirs: RwLock::default() }
    }

    pub(crate) fn set_base_dir(&self, agent: AgentName, folder: PathBuf) {
        self.base_dirs.write().unwrap_or_else(PoisonError::into_inner).insert(agent, folder);
    }

    /// The folder an agent's relative paths begin in.
    pub(crate) fn base_dir(&self, agent: &AgentName) -> PathBuf {
        let folders = self.base_dirs.read().unwrap_or_else(PoisonError::into_inner);
        match (folders.get(agent), &self.folders) {
            (Some(folder), _) => folder.clone(),
            (None, Some(folders)) => folders.of(agent),
            (None, None) => self.working_dir.clone(),
        }
    }

    /// The folder that an agent's programs may write to.
    pub(crate) fn state_folder(&self, agent: &AgentName) -> PathBuf {
        self.folders.as_ref().map_or_else(|| self.working_dir.clone(), |folders| folders.of(agent))
    }

    /// Checks what an agent's file allows its programs.
    pub(crate) fn check(&self, agent: &Agent) -> Result<(), String> {
        match &self.folders {
            Some(folders) => folders.check(agent, &self.base_dir(&agent.name)),
            None => Ok(()),
        }
    }

    /// Starts a program of an agent: no shell, a clean environment, pipes on all three streams, a
    /// process group of its own, and confined to what the agent file allows.
    pub(crate) async fn start(
        &self,
        agent: &Agent,
        base_dir: &Path,
        argv: &[String],
        env: Vec<(String, String)>,
    ) -> Result<Program, String> {
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
            .envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
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
                if program == OURSELVES {
                    // So that its files are with ours, wherever the agent file is.
                    command.env("NUNCIO_DATA", &self.working_dir);
                }
                Running::start(command.envs(env))
            }
        };
        let explain = |failure: String| match &profile {
            Some(profile) => profile.explain(failure),
            None => failure,
        };
        let running = started.map_err(|error| explain(failed(error)))?;
        Ok(Program { running, profile: profile.map(Arc::new) })
    }

    fn locate(&self, base_dir: &Path, program: &str) -> PathBuf {
        if program == OURSELVES {
            self.executable.clone()
        } else if program.contains('/') {
            base_dir.join(program)
        } else {
            PathBuf::from(program)
        }
    }
}

/// A program that was started, and what it may reach. In this order, so that its temporary folder is removed last.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) running: Running,
    /// None where programs are not confined.
    pub(crate) profile: Option<Arc<Profile>>,
}

impl Program {
    /// A failure with the missing permission it shows, if it shows one.
    pub(crate) fn explain(&self, failure: String) -> String {
        match &self.profile {
            Some(profile) => profile.explain(failure),
            None => failure,
        }
    }
}

/// The end of what a child wrote to its standard error.
#[derive(Default)]
pub(crate) struct Tail(VecDeque<u8>);

impl Tail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let excess = (self.0.len() + bytes.len()).saturating_sub(TAIL_BYTES);
        self.0.drain(..excess);
        self.0.extend(bytes);
    }

    /// The text, without control characters other than line breaks; empty if there was none.
    pub(crate) fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        printable(&String::from_utf8_lossy(&bytes)).trim().to_owned()
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What a program says may hold a secret.
        write!(f, "Tail({} bytes)", self.0.len())
    }
}

/// Text as it may be shown in a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_keeps_the_end() {
        let mut tail = Tail::default();
        tail.push(&vec![b'a'; 10_000]);
        tail.push(b"\x1b[31mthe end\n");
        let text = tail.text();
        assert!(text.len() <= TAIL_BYTES);
        assert!(text.ends_with("a[31mthe end"), "{text}");
        assert_eq!(Tail::default().text(), "");
    }
}
