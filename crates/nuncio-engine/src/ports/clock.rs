//! Current time and timers.

use std::fmt;

use futures_util::future::BoxFuture;
use nuncio_core::time::Timestamp;

/// Tests use a clock that they advance themselves.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    /// Completes at `moment`.
    fn sleep_until(&self, moment: Timestamp) -> BoxFuture<'static, ()>;
}
