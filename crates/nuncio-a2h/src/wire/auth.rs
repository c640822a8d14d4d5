//! Enrolment and login of devices: `/a2h/auth`, `/a2h/users/me`.

use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::person::{Device, DeviceAssertion};
use nuncio_core::signature::{PublicKey, Signature};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Body of `POST /a2h/auth/enroll`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EnrollRequest {
    pub code: String,
    /// Device name chosen by the person.
    pub device_name: String,
    /// Ed25519 public key of the device.
    pub public_key: PublicKey,
    /// Signature of the device over [`nuncio_core::person::EnrolmentAssertion::message`].
    pub signature: Signature,
}

/// Body of `POST /a2h/auth/token`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    pub device_id: DeviceId,
    pub audience: String,
    pub at: Timestamp,
    /// Text that the device never uses twice; 16 to 128 bytes.
    pub nonce: String,
    /// Signature of the device over [`DeviceAssertion::message`].
    pub signature: Signature,
}

impl TokenRequest {
    #[must_use]
    pub fn assertion(&self) -> DeviceAssertion {
        DeviceAssertion {
            device_id: self.device_id.clone(),
            audience: self.audience.clone(),
            at: self.at,
            nonce: self.nonce.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct TokenView {
    pub access_token: String,
    /// Token type, always `Bearer`.
    pub token_type: String,
    /// Lifetime of the token in seconds.
    pub expires_in: u64,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct EnrollResponse {
    pub device: DeviceView,
    #[serde(flatten)]
    pub token: TokenView,
    /// The server's identity; its key fingerprint must be the one in the invite.
    pub server: ServerIdentityView,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct DeviceView {
    pub id: DeviceId,
    pub user_id: PersonName,
    pub name: String,
    pub public_key: PublicKey,
    pub enrolled_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

impl From<Device> for DeviceView {
    fn from(device: Device) -> Self {
        Self {
            id: device.id,
            user_id: device.person,
            name: device.name,
            public_key: device.key,
            enrolled_at: device.enrolled_at,
            revoked_at: device.revoked_at,
        }
    }
}

/// Identity of a server, by which devices recognise it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ServerIdentityView {
    pub audience: String,
    /// Public key of the server, which signs access tokens.
    pub public_key: PublicKey,
    /// SHA-256 of the server's public key in hex, as named in invites.
    pub fingerprint: String,
}

/// Response of `GET /a2h/auth/keys`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ServerKeysView {
    #[serde(flatten)]
    pub server: ServerIdentityView,
    /// The token-signing key as a JWK.
    pub keys: Vec<Value>,
}

/// Body of `POST /a2h/users/me/devices`; has no fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceInviteRequest {}

/// Invite for another device of the calling person.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct DeviceInviteView {
    pub user: PersonName,
    /// Invite code, shown only once.
    pub code: String,
    pub expires_at: Timestamp,
    pub server: String,
    /// SHA-256 of the server's key in hex, for the new device to compare.
    pub fingerprint: String,
}

/// Response of `GET /a2h/users/me`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct CurrentUserView {
    pub user_id: PersonName,
    pub device_id: Option<DeviceId>,
}
