//! Process groups: a program together with all processes that it starts.

use std::io;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// Child process and its process group. The field order matters: the group is killed before the child is dropped.
#[derive(Debug)]
pub struct RunningProgram {
    pub group: ProcessGroup,
    pub child: Child,
}

impl RunningProgram {
    /// Starts a program in its own process group.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        // With `kill_on_drop` the tokio runtime also reaps the child after it is dropped.
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        Ok(Self { group: ProcessGroup::of(&child), child })
    }

    /// Takes the pipes of the child's standard input, output and error; `None` if not piped or already taken.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }
}

/// Process group that is killed as a whole when dropped.
#[derive(Debug)]
pub struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn of(child: &Child) -> Self {
        // The group id is the child's process id, copied here because `Child` forgets its id when the child has ended.
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// Kills all processes of the group. A second call does nothing, because another group may have got the same id.
    pub fn kill(&mut self) {
        if let Some(leader) = self.0.take() {
            // Killing fails only if the group is empty.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }

    #[cfg(all(target_os = "linux", not(nuncio_portable)))]
    pub(crate) fn leader(&self) -> Option<Pid> {
        self.0
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
