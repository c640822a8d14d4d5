//! Programs as children of ours: how they are started, and that nothing of them is left behind.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{PoisonError, RwLock};

use nuncio_core::ids::AgentName;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

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
    base_dirs: RwLock<HashMap<AgentName, PathBuf>>,
}

impl Programs {
    pub(crate) fn new(executable: PathBuf, working_dir: PathBuf) -> Self {
        Self { executable, working_dir, base_dirs: RwLock::default() }
    }

    pub(crate) fn set_base_dir(&self, agent: AgentName, folder: PathBuf) {
        self.base_dirs.write().unwrap_or_else(PoisonError::into_inner).insert(agent, folder);
    }

    /// The folder an agent's relative paths begin in.
    pub(crate) fn base_dir(&self, agent: &AgentName) -> PathBuf {
        let folders = self.base_dirs.read().unwrap_or_else(PoisonError::into_inner);
        folders.get(agent).unwrap_or(&self.working_dir).clone()
    }

    /// Starts a program of an agent: no shell, a clean environment, pipes on all three streams, a
    /// process group of its own.
    pub(crate) fn start(
        &self,
        base_dir: &Path,
        argv: &[String],
        mut env: Vec<(String, String)>,
    ) -> Result<Running, String> {
        let Some((program, arguments)) = argv.split_first() else {
            return Err("the agent file names no program".into());
        };
        let mut command = Command::new(self.locate(base_dir, program));
        if program == OURSELVES {
            // So that its files are with ours, wherever the agent file is.
            env.push(("NUNCIO_DATA".to_owned(), self.working_dir.display().to_string()));
        }
        command
            .args(arguments)
            .env_clear()
            .envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .envs(env)
            .current_dir(base_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            // So that a child we let go of is also reaped.
            .kill_on_drop(true);
        let child = command.spawn().map_err(|error| format!("`{program}` cannot be started: {error}"))?;
        Ok(Running { group: Group::of(&child), child })
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

/// A child and what it may start. In this order, so that the group is killed before its leader is
/// let go of.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) group: Group,
    pub(crate) child: Child,
}

impl Running {
    /// Its standard input, output and error, taken once.
    pub(crate) fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }
}

/// A child's process group, killed as a whole when this is dropped.
#[derive(Debug)]
pub(crate) struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        // A child started in a group of its own gives the group its number.
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// Ends everything that is still in the group. A second time does nothing: by then the number
    /// may belong to someone else.
    pub(crate) fn kill(&mut self) {
        if let Some(leader) = self.0.take() {
            // It fails only when nobody is left.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
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
