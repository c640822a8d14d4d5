//! Test helpers: an in-process gateway on a free port, clients, and clocks that tests control.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

pub mod a2h;
mod background_panics;
mod client;
mod clock;
mod eventually;
mod gateway;
mod leftovers;
mod raw;
mod stream;

pub use client::AapClient;
pub use clock::ManualClock;
pub use eventually::{eventually, is_alive};
pub use gateway::{ApiKeyHolder, Gateway, GatewayBuilder};
pub use leftovers::{DescendantProcess, descendants};
pub use raw::RawHttpResponse;
pub use reqwest::Method;
pub use stream::{EventStream, ReceivedSseEvent};
