//! The public keys of devices and agents, and people's backups: `/a2h/keys` and where keys are brought.

use std::num::NonZeroU32;

use nuncio_core::bundle::{AgreementKey, KeyBundle, OneTimeKey};
use nuncio_core::ids::DeviceId;
use nuncio_core::signature::{PublicKey, Signature};
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

/// `POST` and `PUT /a2h/keys/backup`: a person's private keys, sealed with a key only they can derive.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// The agreement key, sealed; base64.
    pub backup_a: String,
    /// The signing key, sealed; base64.
    pub backup_b: String,
    /// 32 bytes; base64.
    pub argon2_salt: String,
    /// How the key that seals them is derived.
    pub argon2_params: Argon2Params,
    /// The public half of the agreement key.
    pub public_key: AgreementKey,
    /// The public half of the signing key.
    pub signing_public_key: PublicKey,
    /// Whose keys they are.
    pub device_id: DeviceId,
}

/// How costly it is to derive a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Argon2Params {
    /// Memory in KiB.
    pub m: NonZeroU32,
    /// Passes.
    pub t: NonZeroU32,
    /// Lanes.
    pub p: NonZeroU32,
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
