//! Looking at processes from outside.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Whether a process runs. One that ended and waits to be reaped does not.
pub(crate) fn runs(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Waits until a process has ended; a kill takes its moment to arrive.
pub(crate) async fn ended(pid: u32) {
    for _ in 0..1000 {
        if !runs(pid) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("process {pid} still runs");
}

/// Ends a process as the kernel would.
pub(crate) fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
}
