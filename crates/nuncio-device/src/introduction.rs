//! How one device introduces another: what stands behind the code of an invite and never reaches the relay.
//!
//! It names the key of the device that invites, which the new one trusts at once, and a secret of the two. From the
//! secret and the new device's key follows a short number. Whoever stands between cannot make another key fit it, and
//! so the person compares six digits instead of sixty-four.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nuncio_core::bundle::BundleKeys;
use nuncio_core::digest::Digest;
use nuncio_core::signature::{PublicKey, labelled};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Entropy;
use ring::hmac;
use serde::{Deserialize, Serialize};

/// How many bytes of each there are.
const HALF: usize = 16;

/// Kept by the new device until the other one has vouched for it.
pub(crate) const INTRODUCED: &str = "introduced";

/// Kept by the device that invites.
pub(crate) const INVITING: &str = "inviting";

/// What two devices of one person know of each other and the relay does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Introduction {
    /// How the fingerprint of the key of the device that invites begins.
    by: [u8; HALF],
    secret: [u8; HALF],
}

/// An invite that is open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Inviting {
    pub(crate) introduction: Introduction,
    pub(crate) expires_at: Timestamp,
}

impl Introduction {
    /// A new one, by the device with that key.
    pub(crate) fn new(by: &PublicKey, entropy: &dyn Entropy) -> Self {
        let mut secret = [0; HALF];
        entropy.fill(&mut secret);
        Self { by: beginning(&by.fingerprint()), secret }
    }

    /// The code of an invite with this behind it.
    pub(crate) fn behind(&self, code: &str) -> String {
        format!("{code}.{}", URL_SAFE_NO_PAD.encode([self.by, self.secret].concat()))
    }

    /// The code for the relay, and what stood behind it.
    pub(crate) fn split(text: &str) -> (&str, Option<Self>) {
        let read = |rest: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(rest).ok()?;
            let (by, secret) = bytes.split_first_chunk::<HALF>()?;
            Some(Self { by: *by, secret: secret.try_into().ok()? })
        };
        match text.split_once('.') {
            Some((code, rest)) => (code, read(rest)),
            None => (text, None),
        }
    }

    /// Whether the device with that key invited.
    pub(crate) fn is_by(&self, key: &PublicKey) -> bool {
        beginning(&key.fingerprint()) == self.by
    }

    /// The number that the person compares on both screens.
    pub(crate) fn number(&self, new: &BundleKeys) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.secret);
        let whose = (&new.owner, &new.device_id, &new.signing_key, URL_SAFE_NO_PAD.encode(self.by));
        let tag = hmac::sign(&key, &labelled("nuncio/device-introduction/v1", &whose));
        let number = tag.as_ref().iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte)) % 1_000_000;
        format!("{:03} {:03}", number / 1000, number % 1000)
    }
}

fn beginning(digest: &Digest) -> [u8; HALF] {
    let mut half = [0; HALF];
    half.copy_from_slice(&digest.as_bytes()[..HALF]);
    half
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduction() -> Introduction {
        Introduction { by: beginning(&PublicKey::new([9; 32]).unwrap().fingerprint()), secret: [7; HALF] }
    }

    #[test]
    fn what_stands_behind_a_code_is_read_again_and_a_code_alone_is_a_code() {
        let introduction = introduction();
        let text = introduction.behind("inv_abc");
        assert_eq!(Introduction::split(&text), ("inv_abc", Some(introduction.clone())));
        assert!(introduction.is_by(&PublicKey::new([9; 32]).unwrap()));
        assert!(!introduction.is_by(&PublicKey::new([8; 32]).unwrap()));
        assert_eq!(Introduction::split("inv_abc"), ("inv_abc", None));
        // Cut short it introduces nobody; the code is still a code.
        assert_eq!(Introduction::split(&text[..text.len() - 4]), ("inv_abc", None));
    }
}
