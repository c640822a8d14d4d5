//! A person's device: runs tools for agents, and asks the person before where needed.
//!
//! A [`Device`] enrols at a relay, stores its keys, and verifies from signed ledgers what its person allows. The
//! [`guard`] decides on every call of an agent, in the protocol's order and with the core's policy function. Each call
//! runs at most once, and every decision is in the [`audit`] log.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

pub mod audit;
mod backup;
mod call_handler;
mod calls;
mod change;
mod consent;
mod consent_windows;
mod context;
mod dbus;
mod device;
mod device_events;
mod devices;
mod did_verification;
mod error;
mod former_devices;
pub mod guard;
mod introduction;
mod kept_arguments;
mod known_agents;
mod localized_text;
mod other_device_claims;
pub mod pages;
pub mod policy;
pub mod prompt;
mod record_store;
mod server_connection;
pub mod talk;
pub mod tools;

pub use backup::{DeviceBackupFile, DeviceBackupService};
pub use change::ChangesSinceConsent;
pub use consent::{AccessRequest, AgentConsentService, AgentSearchHit, GrantedScopes, RequestedScope};
pub use dbus::{Keyring, KeyringError};
pub use device::{Device, DeviceDependencies, DeviceIdentity};
pub use device_events::DeviceEvent;
pub use devices::{DeviceInvite, OwnDevice, OwnDeviceService, OwnDeviceTrust};
pub use error::DeviceError;
pub use former_devices::FormerDevice;
pub use known_agents::KnownAgent;
pub use localized_text::{LANGUAGES, SanitisedTextByLanguage, ScopeTexts};
pub use server_connection::ServerConnectionState;
