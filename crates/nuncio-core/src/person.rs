//! People with an account here, their devices, and the invites by which a device comes in.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{DeviceId, PersonName};
use crate::signature::{PublicKey, labelled};
use crate::time::Timestamp;

/// The longest name of a device, in characters.
pub const MAX_DEVICE_NAME: usize = 80;

/// A person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// Their name here.
    pub name: PersonName,
    /// Since when.
    pub created_at: Timestamp,
}

/// A device of a person: a key that never leaves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Names it.
    pub id: DeviceId,
    /// Whose it is.
    pub person: PersonName,
    /// What they call it.
    pub name: String,
    /// Its public key.
    pub key: PublicKey,
    /// Since when.
    pub enrolled_at: Timestamp,
    /// Until when, if it was taken away.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revoked_at: Option<Timestamp>,
}

impl Device {
    /// Whether it could speak for its person at that moment.
    #[must_use]
    pub fn is_valid_at(&self, moment: Timestamp) -> bool {
        moment >= self.enrolled_at && self.revoked_at.is_none_or(|end| moment < end)
    }
}

/// Lets one device in. The code itself is never kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    /// The digest by which the code is recognised.
    pub code: Digest,
    /// Who is invited.
    pub person: PersonName,
    /// Since when.
    pub created_at: Timestamp,
    /// Until when.
    pub expires_at: Timestamp,
    /// The device that came in by it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub used_by: Option<DeviceId>,
}

impl Invite {
    /// Lets a device in, once and in time.
    ///
    /// # Errors
    /// It was used, or its time is over.
    pub fn admit(&self, device: DeviceId, now: Timestamp) -> Result<Self, InviteClosed> {
        if self.used_by.is_some() {
            return Err(InviteClosed::Used);
        }
        if now >= self.expires_at {
            return Err(InviteClosed::Expired);
        }
        Ok(Self { used_by: Some(device), ..self.clone() })
    }
}

/// Why an invite lets nobody in any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InviteClosed {
    /// A device came in by it.
    #[error("the invite was used already")]
    Used,
    /// Its time is over.
    #[error("the invite has expired")]
    Expired,
}

/// What a new device signs to show that it holds its key, and that it is the one that was let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolment {
    /// The digest of the invite's code.
    pub invite: Digest,
    /// The device's public key.
    pub key: PublicKey,
    /// What the person calls it.
    pub name: String,
}

impl Enrolment {
    /// The bytes to sign.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        labelled("nuncio/device-enrolment/v1", self)
    }
}

/// What a device signs to get in again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assertion {
    /// Which device.
    pub device_id: DeviceId,
    /// For which server: its public address.
    pub audience: String,
    /// When.
    pub at: Timestamp,
    /// Unlike any other of this device.
    pub nonce: String,
}

impl Assertion {
    /// The bytes to sign.
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
    fn an_invite_lets_one_device_in_and_only_in_time() {
        let device = DeviceId::parse("dev_1").unwrap();
        let invite = Invite {
            code: Digest::ZERO,
            person: PersonName::parse("ada").unwrap(),
            created_at: at(0),
            expires_at: at(10),
            used_by: None,
        };
        assert_eq!(invite.admit(device.clone(), at(10)), Err(InviteClosed::Expired));
        let used = invite.admit(device.clone(), at(9)).unwrap();
        assert_eq!(used.admit(device, at(9)), Err(InviteClosed::Used));
    }

    #[test]
    fn a_device_speaks_from_its_enrolment_to_its_end() {
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
