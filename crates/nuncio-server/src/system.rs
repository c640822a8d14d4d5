//! The system clock and the system's random numbers. No other module reads them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::{Clock, Entropy};
use ring::rand::{SecureRandom as _, SystemRandom};

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the port's real implementation")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep_until(&self, moment: Timestamp) -> BoxFuture<'static, ()> {
        let span = self.now().until(moment);
        Box::pin(tokio::time::sleep(span))
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        SystemRandom::new().fill(bytes).expect("the system has randomness");
    }
}

/// Name of this machine, as it is listed with the nodes of a store.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
