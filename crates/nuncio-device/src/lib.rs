//! A person's own device: it asks before it acts.
//!
//! A [`Device`] is let in at a relay, keeps its keys, knows what its person allows and proves it from ledgers it
//! verifies itself. For every call of an agent the [`guard`] decides, in the protocol's order and by the core's one
//! policy function; what only the device knows it adds: what the person was asked, when, and what they said. Calls run
//! once, and everything that was decided is in the [`audit`] log.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

pub mod audit;
mod calls;
mod consent;
mod device;
mod error;
pub mod guard;
pub mod policy;
pub mod prompt;
mod records;
mod standing;
pub mod tools;
mod vouched;
mod windows;

pub use consent::{Ask, AskedScope, Given};
pub use device::{Device, DeviceConfig, DeviceIdentity};
pub use error::DeviceError;
pub use standing::Known;
