//! How a device comes in and stays in: `/a2h/auth`, `/a2h/users/me`.

use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::person::{Assertion, Device};
use nuncio_core::signature::{PublicKey, Signature};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `POST /a2h/auth/enroll`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EnrollRequest {
    /// The invite's code.
    pub code: String,
    /// What the person calls the device.
    pub device_name: String,
    /// The device's Ed25519 public key.
    pub public_key: PublicKey,
    /// Its signature over [`nuncio_core::person::Enrolment::message`].
    pub signature: Signature,
}

/// `POST /a2h/auth/token`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// Which device.
    pub device_id: DeviceId,
    /// For which server.
    pub audience: String,
    /// When.
    pub at: Timestamp,
    /// Unlike any other of this device: 16 to 128 bytes.
    pub nonce: String,
    /// Its signature over [`Assertion::message`].
    pub signature: Signature,
}

impl TokenRequest {
    /// What the device signed.
    #[must_use]
    pub fn assertion(&self) -> Assertion {
        Assertion {
            device_id: self.device_id.clone(),
            audience: self.audience.clone(),
            at: self.at,
            nonce: self.nonce.clone(),
        }
    }
}

/// An access token.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct TokenView {
    /// The token.
    pub access_token: String,
    /// `Bearer`.
    pub token_type: String,
    /// For how many seconds it is good.
    pub expires_in: u64,
    /// Until when.
    pub expires_at: Timestamp,
}

/// The answer to an enrolment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct EnrolledView {
    /// The device.
    pub device: DeviceView,
    /// Its first token.
    #[serde(flatten)]
    pub token: TokenView,
    /// Who let it in. Its fingerprint must be the one in the invite.
    pub server: ServerView,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct DeviceView {
    /// Names it.
    pub id: DeviceId,
    /// Whose it is.
    pub user_id: PersonName,
    /// What they call it.
    pub name: String,
    /// Its public key.
    pub public_key: PublicKey,
    /// Since when.
    pub enrolled_at: Timestamp,
    /// Until when, if it was taken away.
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

/// Who a server is to devices.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ServerView {
    /// What devices sign for.
    pub audience: String,
    /// The key that signs access tokens.
    pub public_key: PublicKey,
    /// SHA-256 of that key in hex: what an invite says.
    pub fingerprint: String,
}

/// `GET /a2h/auth/keys`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct KeysView {
    /// The server.
    #[serde(flatten)]
    pub server: ServerView,
    /// The same key as a JWK, for whoever verifies tokens.
    pub keys: Vec<Value>,
}

/// `POST /a2h/users/me/devices`: who asks is known, and nothing else is to be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InviteRequest {}

/// The answer: an invite for a further device of the person who asks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct InviteView {
    /// Who is invited.
    pub user: PersonName,
    /// The code, which is shown once.
    pub code: String,
    /// Until when it is good.
    pub expires_at: Timestamp,
    /// Where the device enrols.
    pub server: String,
    /// SHA-256 of the server's key in hex, for the new device to compare.
    pub fingerprint: String,
}

/// `GET /a2h/users/me`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct MeView {
    /// Who asks.
    pub user_id: PersonName,
    /// On which device.
    pub device_id: Option<DeviceId>,
}
