//! Process groups: a program together with everything it starts.

use std::io;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// Child and its process group. The field order matters: the group is killed before the child is dropped.
#[derive(Debug)]
pub struct RunningProgram {
    pub group: ProcessGroup,
    pub child: Child,
}

impl RunningProgram {
    /// Starts a program in its own process group.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        // With `kill_on_drop` the runtime also reaps a dropped child.
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        Ok(Self { group: ProcessGroup::of(&child), child })
    }

    /// Standard input, output and error, where they are pipes. They can be taken once.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }
}

/// Process group that is killed as a whole when dropped.
#[derive(Debug)]
pub struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn of(child: &Child) -> Self {
        // The group id is the leader's process id. It is copied, because a child that has ended no longer has one.
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// Kills everything in the group. A second call does nothing, because the id may belong to another group by then.
    pub fn kill(&mut self) {
        if let Some(leader) = self.0.take() {
            // Fails only if the group is empty.
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
