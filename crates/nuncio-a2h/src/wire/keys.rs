//! The public keys of devices and agents, and people's backups: `/a2h/keys` and where keys are brought.

use nuncio_core::bundle::{Backup, KeyBundle, OneTimeKey};
use nuncio_core::signature::Signature;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// `POST /a2h/agents/{id}/keys/register` and `POST /a2h/users/me/devices/{id}/keys`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KeysRequest {
    /// The keys; without them those that are known stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<KeyBundle>,
    /// Keys for first messages.
    #[serde(default)]
    pub one_time_keys: Vec<OneTimeKey>,
}

/// What is known of somebody's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct KeysHeldView {
    /// The number of the bundle.
    pub seq: u64,
    /// How many one-time keys wait.
    pub one_time_keys: usize,
}

/// `POST /a2h/users/me/devices/{id}/endorsement`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EndorsementRequest {
    /// Over [`nuncio_core::bundle::BundleKeys::endorsed`], by the device that asks.
    pub signature: Signature,
}

/// `GET /a2h/keys/backup`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct BackupView {
    /// What was backed up.
    #[serde(flatten)]
    pub backup: Backup,
    /// When.
    pub updated_at: Timestamp,
}
