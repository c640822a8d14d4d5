//! Current time and timers.

use std::fmt;

use futures_util::future::BoxFuture;
use nuncio_core::time::Timestamp;

/// Source of time. Tests use a clock that they advance themselves.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    /// Waits until the clock reaches `moment`.
    fn sleep_until(&self, moment: Timestamp) -> BoxFuture<'static, ()>;
}
