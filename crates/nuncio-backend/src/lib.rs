//! Implementations of the engine's ports for agents: brains, tool runners and the HTTP client.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

use std::time::Duration;

use nuncio_engine::ports::Clock;

pub mod brains;
pub mod fetch;
pub mod runners;

/// Result of a future; `None` if it takes longer than `limit`.
async fn within<T>(clock: &dyn Clock, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        outcome = future => Some(outcome),
        () = clock.sleep_until(clock.now().after(limit)) => None,
    }
}
