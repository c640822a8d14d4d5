//! Waiting for what has no clock of ours: other processes, other threads.

use std::time::Duration;

/// When to give up on something that should happen at once. Nothing is ever waited for this long.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Looks again and again until there is something to see; panics when nothing ever comes.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            // Others on this thread, then others on this processor.
            tokio::task::yield_now().await;
            std::thread::yield_now();
        }
    };
    match tokio::time::timeout(GIVE_UP, looking).await {
        Ok(found) => found,
        Err(_) => panic!("it never happened: {what}"),
    }
}

/// Whether a process runs. One that ended and waits to be reaped does not.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}
