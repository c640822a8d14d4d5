//! System clock that can jump ahead.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock;
use nuncio_server::SystemClock;
use tokio::sync::watch;

/// Clock that shows system time plus all jumps. Clones share the time.
#[derive(Debug, Clone)]
pub struct JumpingClock(Arc<watch::Sender<Duration>>);

impl JumpingClock {
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Duration::ZERO)))
    }

    /// Moves the clock ahead and wakes sleepers whose time has come.
    pub fn jump(&self, ahead: Duration) {
        self.0.send_modify(|jumped| *jumped += ahead);
    }
}

impl Default for JumpingClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().after(*self.0.borrow())
    }

    fn sleep_until(&self, moment: Timestamp) -> BoxFuture<'static, ()> {
        let mut jumped = self.0.subscribe();
        Box::pin(async move {
            loop {
                let due = moment.before(*jumped.borrow_and_update());
                tokio::select! {
                    () = SystemClock.sleep_until(due) => return,
                    jumped = jumped.changed() => {
                        if jumped.is_err() {
                            return std::future::pending().await;
                        }
                    }
                }
            }
        })
    }
}
