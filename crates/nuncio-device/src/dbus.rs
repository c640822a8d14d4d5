//! Desktop services over D-Bus: notifications, location and the keyring.
//!
//! They need Linux and the feature `desktop`; other builds use the module `unavailable`, which only returns errors.

use crate::tools::LocalToolFailure;

#[cfg(all(feature = "desktop", target_os = "linux", not(nuncio_portable)))]
mod client;
#[cfg(all(feature = "desktop", target_os = "linux", not(nuncio_portable)))]
mod keyring;
#[cfg(not(all(feature = "desktop", target_os = "linux", not(nuncio_portable))))]
mod unavailable;

#[cfg(all(feature = "desktop", target_os = "linux", not(nuncio_portable)))]
pub(crate) use client::{locate, notify};
#[cfg(all(feature = "desktop", target_os = "linux", not(nuncio_portable)))]
pub use keyring::Keyring;
#[cfg(not(all(feature = "desktop", target_os = "linux", not(nuncio_portable))))]
pub use unavailable::Keyring;
#[cfg(not(all(feature = "desktop", target_os = "linux", not(nuncio_portable))))]
pub(crate) use unavailable::{locate, notify};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    #[error("there is no keyring in this session: {0}")]
    Absent(String),
    #[error("the keyring is locked: unlock it and try again")]
    Locked,
    /// The keyring refused the request, or its answer cannot be parsed.
    #[error("the keyring failed: {0}")]
    Failed(String),
}

pub(crate) fn no_desktop(why: &str) -> LocalToolFailure {
    LocalToolFailure::Unavailable(format!("this device has no desktop to show notices on: {why}"))
}

fn no_location(why: &str) -> LocalToolFailure {
    LocalToolFailure::Unavailable(format!("this device has no location ({why}): write your location into place.toml"))
}
