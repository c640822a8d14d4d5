//! A person's own device, which asks its person before it acts for an agent.
//!
//! A [`Device`] enrols at a relay, stores its keys, and verifies from signed ledgers what its person allows. The
//! [`guard`] decides on every call of an agent, in the protocol's order and with the core's policy function. Each call
//! runs at most once, and every decision is in the [`audit`] log.

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
