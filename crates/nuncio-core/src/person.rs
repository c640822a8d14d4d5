//! People with an account on this server, their devices, and invites for new devices.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{DeviceId, PersonName};
use crate::signature::{PublicKey, labelled};
use crate::time::Timestamp;

/// Longest device name, in characters.
pub const MAX_DEVICE_NAME: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    pub name: PersonName,
    pub created_at: Timestamp,
}

/// A person's device, identified by a key pair whose private half never leaves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub id: DeviceId,
    pub person: PersonName,
    pub name: String,
    pub key: PublicKey,
    pub enrolled_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revoked_at: Option<Timestamp>,
}

impl Device {
    /// Whether the device was enrolled and not revoked at `moment`.
    #[must_use]
    pub fn is_valid_at(&self, moment: Timestamp) -> bool {
        moment >= self.enrolled_at && self.revoked_at.is_none_or(|end| moment < end)
    }
}

/// An invite for one device. Only the digest of its code is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    /// Digest of the invite's code.
    pub code: Digest,
    pub person: PersonName,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub used_by: Option<DeviceId>,
}

impl Invite {
    /// Uses the invite for a device. Fails if it was used or has expired.
    pub fn admit(&self, device: DeviceId, now: Timestamp) -> Result<Self, InviteClosedReason> {
        if self.used_by.is_some() {
            return Err(InviteClosedReason::Used);
        }
        if now >= self.expires_at {
            return Err(InviteClosedReason::Expired);
        }
        Ok(Self { used_by: Some(device), ..self.clone() })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InviteClosedReason {
    #[error("the invite was already used")]
    Used,
    #[error("the invite has expired")]
    Expired,
}

/// Message that a new device signs to prove that it holds its key and was invited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentAssertion {
    /// Digest of the invite's code.
    pub invite: Digest,
    pub key: PublicKey,
    pub name: String,
}

impl EnrolmentAssertion {
    /// The bytes that a new device signs to enrol.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        labelled("nuncio/device-enrolment/v1", self)
    }
}

/// Message that a device signs to get a new token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceAssertion {
    pub device_id: DeviceId,
    /// Public URL of the server that accepts the assertion.
    pub audience: String,
    pub at: Timestamp,
    /// Random text of the assertion, unique per device, so that a server accepts the assertion only once.
    pub nonce: String,
}

impl DeviceAssertion {
    /// The bytes that a device signs to get a new token.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        labelled("nuncio/device-assertion/v1", self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn invite_admits_only_one_device_and_only_before_expiry() {
        let device = DeviceId::parse("dev_1").unwrap();
        let invite = Invite {
            code: Digest::ZERO,
            person: PersonName::parse("ada").unwrap(),
            created_at: at(0),
            expires_at: at(10),
            used_by: None,
        };
        assert_eq!(invite.admit(device.clone(), at(10)), Err(InviteClosedReason::Expired));
        let used = invite.admit(device.clone(), at(9)).unwrap();
        assert_eq!(used.admit(device, at(9)), Err(InviteClosedReason::Used));
    }

    #[test]
    fn device_is_valid_from_enrolment_until_revocation() {
        let device = Device {
            id: DeviceId::parse("dev_1").unwrap(),
            person: PersonName::parse("ada").unwrap(),
            name: "laptop".to_owned(),
            key: PublicKey::new([9; 32]).unwrap(),
            enrolled_at: at(5),
            revoked_at: Some(at(8)),
        };
        assert_eq!([4, 5, 7, 8].map(|moment| device.is_valid_at(at(moment))), [false, true, true, false]);
    }
}
