//! Clock that stands still until a test moves it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock;
use tokio::sync::watch;

use crate::eventually;

/// A clock that stands still until a test moves it. Clones share the time.
#[derive(Debug, Clone)]
pub struct ManualClock {
    now: Arc<watch::Sender<Timestamp>>,
    sleepers: Arc<ClockSleepers>,
}

/// Times that sleeping tasks wait for.
#[derive(Debug, Default)]
struct ClockSleepers {
    next: AtomicU64,
    moments: Mutex<HashMap<u64, Timestamp>>,
}

/// One sleeping task, removed from the clock's list on drop.
struct ClockSleeper {
    number: u64,
    among: Arc<ClockSleepers>,
}

impl ManualClock {
    /// A clock that starts at `2026-11-15T11:00:00Z`.
    #[must_use]
    pub fn new() -> Self {
        let now = Arc::new(watch::Sender::new(Timestamp::from_millis(1_794_740_400_000)));
        Self { now, sleepers: Arc::default() }
    }

    /// Moves the clock and wakes sleepers whose time has come.
    pub fn advance(&self, span: Duration) {
        self.now.send_modify(|now| *now = now.after(span));
    }

    /// Waits until a task sleeps for exactly this time, so that moving the clock wakes the task.
    pub async fn wait_for_sleeper(&self, span: Duration) {
        let moment = self.now().after(span);
        eventually("a task waits for the clock", async || {
            self.sleepers.lock().values().any(|waited| *waited == moment).then_some(())
        })
        .await;
    }

    /// Waits until a task sleeps for exactly this time, then moves the clock by it, which wakes the task.
    pub async fn pass(&self, span: Duration) {
        self.wait_for_sleeper(span).await;
        self.advance(span);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn sleep_until(&self, moment: Timestamp) -> BoxFuture<'static, ()> {
        let mut now = self.now.subscribe();
        let sleeper = self.sleepers.add(moment);
        Box::pin(async move {
            let _sleeper = sleeper;
            // The sender lives as long as any clone of the clock; without it the future never resolves.
            if now.wait_for(|now| *now >= moment).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

impl ClockSleepers {
    fn add(self: &Arc<Self>, moment: Timestamp) -> ClockSleeper {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, moment);
        ClockSleeper { number, among: Arc::clone(self) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Timestamp>> {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClockSleeper {
    fn drop(&mut self) {
        self.among.lock().remove(&self.number);
    }
}
