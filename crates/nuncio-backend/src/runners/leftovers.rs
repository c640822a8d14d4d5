//! Ends programs that outlived the server process. Such programs are found in `/proc` by the execution id in their
//! environment, which their children inherit. Without `/proc` they run until they end by themselves.

use std::collections::HashSet;
use std::time::Duration;

use nuncio_core::ids::ExecutionId;
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};

/// Environment variable with the execution id.
const EXECUTION_ID_VARIABLE: &str = "NUNCIO_EXECUTION_ID";
/// Maximum number of checks whether the killed programs have ended.
const CHECKS: u32 = 500;
/// Delay between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Kills all processes that were started for these executions, and waits until they have ended, at most five seconds.
pub(super) async fn end(executions: &[ExecutionId]) {
    let marks: HashSet<Vec<u8>> =
        executions.iter().map(|id| format!("{EXECUTION_ID_VARIABLE}={id}").into_bytes()).collect();
    for look in 0..CHECKS {
        let left = processes_of(&marks);
        if left.is_empty() {
            return;
        }
        if look == 0 {
            tracing::warn!(processes = left.len(), "ending programs that an earlier server process left running");
        }
        for process in left {
            // Also kills the process group, for children with another environment; never our own group.
            if let Ok(group) = getpgid(Some(process))
                && getpgid(None).is_ok_and(|ours| ours != group)
            {
                let _ = kill_process_group(group, Signal::KILL);
            }
            // Fails only if the process has ended.
            let _ = kill_process(process, Signal::KILL);
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    tracing::error!("programs that an earlier server process left running do not end");
}

/// Processes whose environment contains one of `marks`, each of the form `NAME=value`.
#[cfg(all(target_os = "linux", not(nuncio_portable)))]
fn processes_of(marks: &HashSet<Vec<u8>>) -> Vec<Pid> {
    let ours = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(|id| *id != ours);
    let is_marked = |id: &u32| {
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|line| marks.contains(line))
    };
    ids.filter(is_marked).filter_map(|id| Pid::from_raw(i32::try_from(id).ok()?)).collect()
}

/// Finds no process, because other systems do not show the environment of processes.
#[cfg(not(all(target_os = "linux", not(nuncio_portable))))]
fn processes_of(_: &HashSet<Vec<u8>>) -> Vec<Pid> {
    Vec::new()
}
