//! Introduction: data that an inviting device appends to the invite code for the new device, unknown to the relay.
//!
//! It holds the key fingerprint of the inviting device, which the new device trusts at once, and a shared secret. The
//! secret and the new device's key give six digits that the person compares instead of a fingerprint; without the
//! secret the relay cannot find another key with the same digits.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nuncio_core::bundle::BundleKeys;
use nuncio_core::digest::Digest;
use nuncio_core::signature::{PublicKey, labelled};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Entropy;
use ring::hmac;
use serde::{Deserialize, Serialize};

/// Length of the fingerprint prefix, and of the secret, in bytes.
const INTRODUCTION_HALF_BYTES: usize = 16;

/// Name of the record in which a new device stores its introduction until the inviting device has endorsed it.
pub(crate) const INTRODUCED: &str = "introduced";

/// Name of the record in which the inviting device stores its pending invite.
pub(crate) const INVITING: &str = "inviting";

/// Data shared by an inviting and an invited device of one person, and unknown to the relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeviceIntroductionSecret {
    /// First bytes of the key fingerprint of the inviting device.
    by: [u8; INTRODUCTION_HALF_BYTES],
    secret: [u8; INTRODUCTION_HALF_BYTES],
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PendingDeviceInvite {
    pub(crate) introduction: DeviceIntroductionSecret,
    pub(crate) expires_at: Timestamp,
}

impl DeviceIntroductionSecret {
    pub(crate) fn new(by: &PublicKey, entropy: &dyn Entropy) -> Self {
        let mut secret = [0; INTRODUCTION_HALF_BYTES];
        entropy.fill(&mut secret);
        Self { by: beginning(&by.fingerprint()), secret }
    }

    /// Invite code with this introduction appended.
    pub(crate) fn behind(&self, code: &str) -> String {
        format!("{code}.{}", URL_SAFE_NO_PAD.encode([self.by, self.secret].concat()))
    }

    /// Splits an invite text into the relay's invite code and the introduction, if it has a valid one.
    pub(crate) fn split(text: &str) -> (&str, Option<Self>) {
        let read = |rest: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(rest).ok()?;
            let (by, secret) = bytes.split_first_chunk::<INTRODUCTION_HALF_BYTES>()?;
            Some(Self { by: *by, secret: secret.try_into().ok()? })
        };
        match text.split_once('.') {
            Some((code, rest)) => (code, read(rest)),
            None => (text, None),
        }
    }

    /// Whether the key belongs to the inviting device.
    pub(crate) fn is_by(&self, key: &PublicKey) -> bool {
        beginning(&key.fingerprint()) == self.by
    }

    /// Six digits for the new device's keys, which the person compares on both screens.
    pub(crate) fn number(&self, new: &BundleKeys) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.secret);
        let whose = (&new.owner, &new.device_id, &new.signing_key, URL_SAFE_NO_PAD.encode(self.by));
        let tag = hmac::sign(&key, &labelled("nuncio/device-introduction/v1", &whose));
        let number = tag.as_ref().iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte)) % 1_000_000;
        format!("{:03} {:03}", number / 1000, number % 1000)
    }
}

fn beginning(digest: &Digest) -> [u8; INTRODUCTION_HALF_BYTES] {
    std::array::from_fn(|index| digest.as_bytes()[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduction() -> DeviceIntroductionSecret {
        DeviceIntroductionSecret {
            by: beginning(&PublicKey::new([9; 32]).unwrap().fingerprint()),
            secret: [7; INTRODUCTION_HALF_BYTES],
        }
    }

    #[test]
    fn device_introduction_appended_to_an_invite_code_is_parsed_back() {
        let introduction = introduction();
        let text = introduction.behind("inv_abc");
        assert_eq!(DeviceIntroductionSecret::split(&text), ("inv_abc", Some(introduction.clone())));
        assert!(introduction.is_by(&PublicKey::new([9; 32]).unwrap()));
        assert!(!introduction.is_by(&PublicKey::new([8; 32]).unwrap()));
        assert_eq!(DeviceIntroductionSecret::split("inv_abc"), ("inv_abc", None));
        // A truncated introduction is ignored; the invite code stays usable.
        assert_eq!(DeviceIntroductionSecret::split(&text[..text.len() - 4]), ("inv_abc", None));
    }
}
