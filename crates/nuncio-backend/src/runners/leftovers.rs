//! Programs that outlived the process that started them. A program knows its execution by a variable in its
//! environment, and so does everything it starts; that is how they are found, where there is `/proc`.

use std::collections::HashSet;
use std::time::Duration;

use nuncio_core::ids::ExecutionId;
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};

/// What `command` tells a program its execution by.
const VARIABLE: &str = "NUNCIO_EXECUTION_ID";
/// How often is looked whether all are gone.
const LOOKS: u32 = 500;
/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Ends everything that was started for these executions, and waits until it is gone.
pub(super) async fn end(executions: &[ExecutionId]) {
    let marks: HashSet<Vec<u8>> = executions.iter().map(|id| format!("{VARIABLE}={id}").into_bytes()).collect();
    for look in 0..LOOKS {
        let left = marked(&marks);
        if left.is_empty() {
            return;
        }
        if look == 0 {
            tracing::warn!(processes = left.len(), "ending what a server that is gone left running");
        }
        for process in left {
            // Its group too, for whatever has another environment; never ours.
            if let Ok(group) = getpgid(Some(process))
                && getpgid(None).is_ok_and(|ours| ours != group)
            {
                let _ = kill_process_group(group, Signal::KILL);
            }
            // It fails only when it is gone.
            let _ = kill_process(process, Signal::KILL);
        }
        tokio::time::sleep(PAUSE).await;
    }
    tracing::error!("what a server that is gone left running does not end");
}

/// The processes of this machine with one of these in their environment. One that has ended has none.
fn marked(marks: &HashSet<Vec<u8>>) -> Vec<Pid> {
    let ours = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(|id| *id != ours);
    let is_marked = |id: &u32| {
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|line| marks.contains(line))
    };
    ids.filter(is_marked).filter_map(|id| Pid::from_raw(i32::try_from(id).ok()?)).collect()
}
