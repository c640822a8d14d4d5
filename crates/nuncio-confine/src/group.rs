//! A program together with everything it starts.

use std::io;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// A child and its process group. In this order, so that the group is killed before the child is dropped.
#[derive(Debug)]
pub struct Running {
    /// The child and everything it starts.
    pub group: Group,
    /// The child itself.
    pub child: Child,
}

impl Running {
    /// Starts a program in a process group of its own.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        // With `kill_on_drop` the runtime also reaps a child that was dropped.
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        Ok(Self { group: Group::of(&child), child })
    }

    /// Its standard input, output and error, where they are pipes; they can be taken once.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }
}

/// A process group, killed as a whole when this is dropped.
#[derive(Debug)]
pub struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        // The leader of a group gives it its number. It is copied, since a child that has ended no longer has one.
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// Kills everything that is still in the group. A second call does nothing: by then the number may belong to
    /// another group.
    pub fn kill(&mut self) {
        if let Some(leader) = self.0.take() {
            // It fails only when the group is empty.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn leader(&self) -> Option<Pid> {
        self.0
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
