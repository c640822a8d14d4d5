//! A person's own device: it asks before it acts.
//!
//! A [`Device`] is let in at a relay, keeps its keys, knows what its person allows and proves it from ledgers it
//! verifies itself. For every call of an agent the [`guard`] decides, in the protocol's order and by the core's one
//! policy function; what only the device knows it adds: what the person was asked, when, and what they said. Calls run
//! once, and everything that was decided is in the [`audit`] log.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

pub mod audit;
mod backup;
mod calls;
mod change;
mod consent;
mod device;
mod devices;
mod error;
mod former;
pub mod guard;
mod introduction;
mod keyring;
mod news;
pub mod pages;
pub mod policy;
pub mod prompt;
mod records;
mod standing;
mod taken;
pub mod talk;
pub mod tools;
mod vouched;
mod windows;
mod words;

pub use backup::BackupFile;
pub use change::Changed;
pub use consent::{Ask, AskedScope, FoundAgent, Given};
pub use device::{Device, DeviceConfig, DeviceIdentity};
pub use devices::{Invite, OwnDevice, OwnStanding};
pub use error::DeviceError;
pub use former::Former;
pub use keyring::{Keyring, KeyringError};
pub use news::News;
pub use standing::Known;
pub use words::{LANGUAGES, ScopeWords, Words};
