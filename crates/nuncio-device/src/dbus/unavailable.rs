//! Replaces the desktop services in a build without D-Bus: every function returns an error.

use std::time::Duration;

use serde_json::Value;

use super::{KeyringError, no_desktop, no_location};
use crate::tools::{DesktopEnvironment, LocalToolFailure};

const UNAVAILABLE_REASON: &str = "this program was built without D-Bus";

pub(crate) async fn notify(_: &str, _: &str, _: &str, _: Duration) -> Result<(), LocalToolFailure> {
    Err(no_desktop(UNAVAILABLE_REASON))
}

pub(crate) async fn locate(_: &str, _: Duration) -> Result<Value, LocalToolFailure> {
    Err(no_location(UNAVAILABLE_REASON))
}

/// Session with a keyring; has no values, because none can be opened in this build.
#[derive(Debug)]
pub enum Keyring {}

impl Keyring {
    pub async fn open(_: &DesktopEnvironment) -> Result<Self, KeyringError> {
        Err(KeyringError::Absent(UNAVAILABLE_REASON.to_owned()))
    }

    pub async fn store(&mut self, _: &str, _: &str, _: &[u8]) -> Result<(), KeyringError> {
        match *self {}
    }

    pub async fn load(&mut self, _: &str) -> Result<Option<Vec<u8>>, KeyringError> {
        match *self {}
    }

    pub async fn delete(&mut self, _: &str) -> Result<(), KeyringError> {
        match *self {}
    }
}
