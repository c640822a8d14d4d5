//! The time, and waiting for it.

use std::fmt;

use futures_util::future::BoxFuture;
use nuncio_core::time::Timestamp;

/// A clock. Tests move theirs by hand.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Ends when the clock shows `moment`.
    fn sleep_until(&self, moment: Timestamp) -> BoxFuture<'static, ()>;
}
