//! Public keys of devices and agents, and people's key backups: `/a2h/keys` and key uploads.

use nuncio_core::bundle::{KeyBackup, KeyBundle, OneTimeKey};
use nuncio_core::signature::Signature;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Body of `POST /a2h/agents/{id}/keys/register` and `POST /a2h/users/me/devices/{id}/keys`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RegisterKeysRequest {
    /// New key bundle; absent to keep the published keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<KeyBundle>,
    #[serde(default)]
    pub one_time_keys: Vec<OneTimeKey>,
}

/// State of the caller's published keys, without the keys themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct PublishedKeysStatus {
    /// Sequence number of the published key bundle.
    pub seq: u64,
    pub one_time_keys: usize,
}

/// Body of `POST /a2h/users/me/devices/{id}/endorsement`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EndorsementRequest {
    /// Signature of the calling device over [`nuncio_core::bundle::BundleKeys::endorsed`].
    pub signature: Signature,
}

/// Response of `GET`, `POST` and `PUT /a2h/keys/backup`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct KeyBackupView {
    #[serde(flatten)]
    pub backup: KeyBackup,
    pub updated_at: Timestamp,
}
