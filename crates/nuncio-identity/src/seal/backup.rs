//! Backup of the long-term keys under a passphrase. Sessions are never included, because restoring a ratchet would
//! reuse its keys.

use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use nuncio_core::ErrorCode;
use nuncio_core::bundle::X25519PublicKey;
pub use nuncio_core::bundle::{Argon2Params, KeyBackup};
use nuncio_core::digest::canonical;
use nuncio_core::ids::DeviceId;
use nuncio_core::signature::{PublicKey, Signature};
use zeroize::Zeroizing;

use super::cipher::{self, NONCE, TAG};
use super::identity::SealIdentity;
use super::secrets::SealPrivateKeys;
use crate::encoding::{base64url, base64url_exact};
use crate::jcs::sha256;

/// Length of the Argon2 salt, in bytes.
const SALT: usize = 32;
/// Length of a wrapped key in bytes.
const WRAPPED: usize = NONCE + 32 + TAG;

/// Derives the wrapping key from the passphrase with Argon2id.
pub(super) fn derive(
    params: Argon2Params,
    passphrase: &str,
    salt: &[u8; SALT],
) -> Result<Zeroizing<[u8; 32]>, KeyBackupError> {
    if !params.is_safe() {
        return Err(KeyBackupError::Params(params));
    }
    let costs = Params::new(params.m.get(), params.t.get(), params.p.get(), Some(32));
    let costs = costs.map_err(|_| KeyBackupError::Params(params))?;
    let mut key = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, costs)
        .hash_password_into(passphrase.as_bytes(), salt, key.as_mut_slice())
        .map_err(|_| KeyBackupError::Params(params))?;
    Ok(key)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyBackupError {
    /// The device to back up has no device id yet.
    #[error("this device is not enrolled yet: enrol it first")]
    Unnamed,
    #[error("a passphrase must have at least {SHORTEST} characters: use several words")]
    Short,
    /// The Argon2 parameters are too weak or too expensive.
    #[error("the backup requires argon2 m={}, t={}, p={}, which is outside the safe range", .0.m, .0.t, .0.p)]
    Params(Argon2Params),
    #[error("the backup is damaged")]
    Damaged,
    /// The passphrase is wrong, or the backup was changed.
    #[error("the passphrase does not open this backup, or the backup was changed")]
    Refused,
}

impl KeyBackupError {
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Unnamed => ErrorCode::DeviceNotFound,
            Self::Short => ErrorCode::BadRequest,
            Self::Params(_) | Self::Damaged | Self::Refused => ErrorCode::BackupUnreadable,
        }
    }
}

/// Minimum length of a passphrase, in characters.
pub const SHORTEST: usize = 12;

/// Decrypted keys of a backup, for [`SealIdentity::restore`].
pub struct RestoredKeys {
    secrets: SealPrivateKeys,
    device: DeviceId,
}

impl RestoredKeys {
    /// The device to which the restored keys belong.
    #[must_use]
    pub const fn device(&self) -> &DeviceId {
        &self.device
    }

    #[must_use]
    pub fn signing_key(&self) -> PublicKey {
        self.secrets.signing_key()
    }

    pub(super) fn hpke_key(&self) -> X25519PublicKey {
        self.secrets.hpke_key()
    }

    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        self.secrets.sign(message)
    }

    pub(super) fn into_secrets(self) -> SealPrivateKeys {
        self.secrets
    }
}

impl fmt::Debug for RestoredKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestoredKeys").field("device", &self.device).field("secrets", &self.secrets).finish()
    }
}

/// Encrypts the long-term keys of an identity under a passphrase. Fails if the identity has no device id yet, or the
/// passphrase fewer than 12 characters.
pub fn seal(identity: &SealIdentity, passphrase: &str, params: Argon2Params) -> Result<KeyBackup, KeyBackupError> {
    let (_, device) = identity.owner_device().ok_or(KeyBackupError::Unnamed)?;
    if passphrase.chars().count() < SHORTEST {
        return Err(KeyBackupError::Short);
    }
    wrap(&identity.secrets, device, passphrase, params, cipher::random(), [cipher::random(), cipher::random()])
}

pub(super) fn wrap(
    secrets: &SealPrivateKeys,
    device: &DeviceId,
    passphrase: &str,
    params: Argon2Params,
    salt: [u8; SALT],
    [nonce_a, nonce_b]: [[u8; NONCE]; 2],
) -> Result<KeyBackup, KeyBackupError> {
    let key = derive(params, passphrase, &salt)?;
    let mut backup = KeyBackup {
        backup_a: String::new(),
        backup_b: String::new(),
        argon2_salt: base64url(&salt),
        argon2_params: params,
        public_key: secrets.hpke_key(),
        signing_public_key: secrets.signing_key(),
        device_id: device.clone(),
    };
    let wrap = |label, secret: &[u8; 32], nonce: [u8; NONCE]| {
        let mut text = Vec::with_capacity(WRAPPED);
        text.extend_from_slice(secret);
        cipher::encrypt(&key, nonce, &associated(&backup, label), &mut text);
        base64url(&[nonce.as_slice(), &text].concat())
    };
    let wrapped =
        (wrap(AGREEMENT, secrets.agreement_secret(), nonce_a), wrap(SIGNING, secrets.signing_seed(), nonce_b));
    (backup.backup_a, backup.backup_b) = wrapped;
    Ok(backup)
}

/// Decrypts a backup with its passphrase.
pub fn open(backup: &KeyBackup, passphrase: &str) -> Result<RestoredKeys, KeyBackupError> {
    let salt = base64url_exact(&backup.argon2_salt).ok_or(KeyBackupError::Damaged)?;
    let key = derive(backup.argon2_params, passphrase, &salt)?;
    let unwrap = |label, text: &str| {
        let mut bytes = Zeroizing::new(base64url_exact::<WRAPPED>(text).ok_or(KeyBackupError::Damaged)?);
        let (nonce, text) = bytes.split_first_chunk_mut::<NONCE>().ok_or(KeyBackupError::Damaged)?;
        let secret = cipher::decrypt(&key, *nonce, &associated(backup, label), text).ok_or(KeyBackupError::Refused)?;
        <[u8; 32]>::try_from(&*secret).map(Zeroizing::new).map_err(|_| KeyBackupError::Damaged)
    };
    let agreement = unwrap(AGREEMENT, &backup.backup_a)?;
    let signing = unwrap(SIGNING, &backup.backup_b)?;
    let secrets = SealPrivateKeys::new(&signing, &agreement);
    if (secrets.hpke_key(), secrets.signing_key()) != (backup.public_key, backup.signing_public_key) {
        return Err(KeyBackupError::Damaged);
    }
    Ok(RestoredKeys { secrets, device: backup.device_id.clone() })
}

const AGREEMENT: &str = "a2h/backup/v1/x25519";
const SIGNING: &str = "a2h/backup/v1/ed25519";

/// Associated data of a wrapped key: its purpose, its owner, and how the wrapping key was derived.
fn associated(backup: &KeyBackup, label: &str) -> Vec<u8> {
    let whose = serde_json::json!({
        "argon2_params": backup.argon2_params,
        "argon2_salt": backup.argon2_salt,
        "device_id": backup.device_id,
        "public_key": backup.public_key,
        "signing_public_key": backup.signing_public_key,
    });
    [label.as_bytes(), &sha256(&canonical(&whose))].concat()
}
