//! Polling for conditions that no test clock controls: other processes and threads.

use std::time::Duration;

/// Time after which a polling test fails; a passing test never reaches it.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Polls until `look` returns a value; panics after a minute.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            // Yields to other tasks on this thread, then to other threads.
            tokio::task::yield_now().await;
            std::thread::yield_now();
        }
    };
    match tokio::time::timeout(GIVE_UP, looking).await {
        Ok(found) => found,
        Err(_) => panic!("timed out while waiting until {what}"),
    }
}

/// Whether a process is running; a zombie is not.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}
