//! Inspects and ends processes.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Whether a process runs; a zombie does not.
pub(crate) fn is_running(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Waits up to ten seconds until a process has ended.
pub(crate) async fn wait_for_end(pid: u32) {
    for _ in 0..1000 {
        if !is_running(pid) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("process {pid} still runs");
}

/// Sends SIGKILL to a process.
pub(crate) fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
}
