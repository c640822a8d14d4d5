//! Cost of the cryptographic primitives alone, as a baseline for benchmarks of sealing.

use std::fmt;

use ed25519_dalek::Signer as _;
use nuncio_core::bundle::AgreementKey;
use vodozemac::olm::{Account, OlmMessage, Session, SessionConfig};

use super::body::padded_len;
use super::{cipher, hpke};
use crate::encoding::base64url;
use crate::jcs::sha256;

/// Approximate header length, in bytes.
const HEADER: usize = 320;
/// Approximate length of one envelope entry, in bytes.
const ENTRY: usize = 300;

/// The primitives that sealing and opening a message for one device call, without envelope encoding, lookups or
/// storage.
pub struct PrimitiveBaseline {
    signing: ed25519_dalek::SigningKey,
    agreement: [u8; 32],
    agreement_key: AgreementKey,
    /// The two ends of an established session; the first one sends.
    sessions: [Session; 2],
    padded: Vec<u8>,
    /// The ciphertext in base64url.
    body: Vec<u8>,
}

impl PrimitiveBaseline {
    /// Prepares a message whose payload has `payload` bytes.
    ///
    /// # Panics
    /// If the Olm library fails to establish a session.
    #[must_use]
    pub fn new(payload: usize) -> Self {
        let agreement = cipher::random();
        let padded = vec![b'x'; padded_len(payload)];
        let body = base64url(&padded).into_bytes();
        Self {
            signing: ed25519_dalek::SigningKey::from_bytes(&cipher::random()),
            agreement,
            agreement_key: hpke::public(&agreement),
            sessions: running(),
            padded,
            body,
        }
    }

    /// Swaps sender and receiver of the session.
    pub fn turn(&mut self) {
        self.sessions.reverse();
    }

    /// Processes one message with its key in a session; returns whether every step succeeded.
    #[must_use]
    pub fn in_session(&mut self) -> bool {
        let key = cipher::random::<32>();
        let wrapped = base64url(&[key, self.header()].concat());
        let [from, to] = &mut self.sessions;
        let unwrapped = from.encrypt(wrapped).ok().and_then(|message| to.decrypt(&message).ok());
        unwrapped.is_some() && self.body(&key) && self.signature()
    }

    /// Processes one message with its key wrapped by HPKE; returns whether every step succeeded.
    #[must_use]
    pub fn to_key(&self) -> bool {
        let (key, hash) = (cipher::random::<32>(), self.header());
        let content = super::sealing::content(&key, &hash);
        let wrapped = hpke::wrap(&self.agreement_key, &hash, &content, cipher::random());
        let unwrapped = wrapped.and_then(|(enc, ct)| hpke::unwrap(&self.agreement, &hash, &enc, &ct));
        unwrapped.is_some() && self.body(&key) && self.signature()
    }

    /// Both ends hash the header.
    fn header(&self) -> [u8; 32] {
        std::hint::black_box(sha256(&self.body[..HEADER]));
        sha256(&self.body[..HEADER])
    }

    fn body(&self, key: &[u8; 32]) -> bool {
        let (nonce, mut text) = (cipher::random(), self.padded.clone());
        cipher::encrypt(key, nonce, &self.body[..43], &mut text);
        cipher::decrypt(key, nonce, &self.body[..43], &mut text).is_some()
    }

    /// Signs and verifies; both ends compute the hashes of body and entries.
    fn signature(&self) -> bool {
        let signed = || [sha256(&self.body), sha256(&self.body[..ENTRY])].concat();
        let signature = self.signing.sign(&signed());
        let key = ed25519_dalek::VerifyingKey::from_bytes(self.signing.verifying_key().as_bytes());
        key.is_ok_and(|key| key.verify_strict(&signed(), &signature).is_ok())
    }
}

/// Two session ends that have exchanged a message in each direction.
fn running() -> [Session; 2] {
    let (ours, mut theirs) = (Account::new(), Account::new());
    theirs.generate_one_time_keys(1);
    let one_time = theirs.one_time_keys().into_values().next().expect("one was made");
    let agreed = "two accounts agree";
    let config = SessionConfig::version_1;
    let mut from = ours.create_outbound_session(config(), theirs.curve25519_key(), one_time).expect(agreed);
    let OlmMessage::PreKey(first) = from.encrypt("hello").expect(agreed) else { unreachable!("{agreed}") };
    let made = theirs.create_inbound_session(config(), ours.curve25519_key(), &first).expect(agreed);
    let mut to = made.session;
    from.decrypt(&to.encrypt("hello").expect(agreed)).expect(agreed);
    [from, to]
}

impl fmt::Debug for PrimitiveBaseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrimitiveBaseline")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarked_primitives_succeed_and_detect_wrong_keys() {
        for payload in [0, 1024] {
            let mut primitives = PrimitiveBaseline::new(payload);
            for _ in 0..3 {
                assert!(primitives.in_session() && primitives.to_key());
                primitives.turn();
            }
        }
        let mut broken = PrimitiveBaseline::new(10);
        broken.sessions[1] = running().into_iter().nth(1).unwrap();
        assert!(!broken.in_session());
        broken.agreement_key = hpke::public(&[1; 32]);
        assert!(!broken.to_key());
    }
}
