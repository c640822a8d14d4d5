//! Cost of the cryptographic primitives alone, as a baseline for the measurement of sealing.

use std::convert::Infallible;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::Signer as _;
use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::rand_core::{TryCryptoRng, TryRng};
use hpke::{Deserializable as _, Kem, OpModeR, OpModeS};
use nuncio_identity::jcs::sha256;
use nuncio_identity::seal::padded_len;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use vodozemac::olm::{Account, OlmMessage, Session, SessionConfig};

/// Approximate header length, in bytes.
const HEADER: usize = 320;
/// Approximate length of one envelope entry, in bytes.
const ENTRY: usize = 300;
/// Length of the associated data of a body, in bytes.
const ASSOCIATED: usize = 43;
/// Application context (`info`) of HPKE.
const INFO: &[u8] = b"a2h/cek/v1";

type KeyWrappingKem = X25519HkdfSha256;

/// The cryptographic primitives that sealing and opening a message for one device use, without envelope encoding,
/// lookups or storage.
pub(super) struct SealPrimitivesBaseline {
    signing: ed25519_dalek::SigningKey,
    agreement: (<KeyWrappingKem as Kem>::PrivateKey, <KeyWrappingKem as Kem>::PublicKey),
    /// The two ends of an established session; the first one sends.
    sessions: [Session; 2],
    padded: Vec<u8>,
    /// The ciphertext in base64url.
    body: Vec<u8>,
}

impl SealPrimitivesBaseline {
    /// Prepares a message whose payload has `payload` bytes.
    pub(super) fn new(payload: usize) -> Self {
        let agreement =
            <KeyWrappingKem as Kem>::PrivateKey::from_bytes(&random::<32>()).expect("any 32 bytes are a key");
        let public = KeyWrappingKem::sk_to_pk(&agreement);
        let padded = vec![b'x'; padded_len(payload)];
        let body = URL_SAFE_NO_PAD.encode(&padded).into_bytes();
        let signing = ed25519_dalek::SigningKey::from_bytes(&random());
        Self { signing, agreement: (agreement, public), sessions: running(), padded, body }
    }

    /// Swaps sender and receiver of the session.
    pub(super) fn turn(&mut self) {
        self.sessions.reverse();
    }

    /// Processes one message with its key in a session; returns whether every step succeeded.
    pub(super) fn in_session(&mut self) -> bool {
        let key = random::<32>();
        let wrapped = URL_SAFE_NO_PAD.encode([key, self.header()].concat());
        let [from, to] = &mut self.sessions;
        let unwrapped = from.encrypt(wrapped).ok().and_then(|message| to.decrypt(&message).ok());
        unwrapped.is_some() && self.body(&key) && self.signature()
    }

    /// Processes one message with its key wrapped by HPKE; returns whether every step succeeded.
    pub(super) fn to_key(&self) -> bool {
        let (key, hash) = (random::<32>(), self.header());
        let content = [key, hash].concat();
        let (private, public) = &self.agreement;
        let mut fresh = SystemRng;
        let wrapped = hpke::single_shot_seal_with_rng::<AesGcm256, HkdfSha256, KeyWrappingKem>(
            &OpModeS::Base,
            public,
            INFO,
            &content,
            &hash,
            &mut fresh,
        );
        let unwrapped = wrapped.and_then(|(enc, ct)| {
            hpke::single_shot_open::<AesGcm256, HkdfSha256, KeyWrappingKem>(
                &OpModeR::Base,
                private,
                &enc,
                INFO,
                &ct,
                &hash,
            )
        });
        unwrapped.is_ok() && self.body(&key) && self.signature()
    }

    /// Hashes the header twice, because sender and receiver both do.
    fn header(&self) -> [u8; 32] {
        std::hint::black_box(sha256(&self.body[..HEADER]));
        sha256(&self.body[..HEADER])
    }

    fn body(&self, key: &[u8; 32]) -> bool {
        let (nonce, mut text) = (random(), self.padded.clone());
        let cipher = || LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("an AES-256 key has 32 bytes"));
        let aad = Aad::from(&self.body[..ASSOCIATED]);
        let sealed = cipher().seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut text);
        sealed.is_ok() && cipher().open_in_place(Nonce::assume_unique_for_key(nonce), aad, &mut text).is_ok()
    }

    /// Signs and verifies; sender and receiver both hash the body and the entries.
    fn signature(&self) -> bool {
        let signed = || [sha256(&self.body), sha256(&self.body[..ENTRY])].concat();
        let signature = self.signing.sign(&signed());
        let key = ed25519_dalek::VerifyingKey::from_bytes(self.signing.verifying_key().as_bytes());
        key.is_ok_and(|key| key.verify_strict(&signed(), &signature).is_ok())
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

/// Both ends of a session, after one message in each direction.
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

/// Random number generator of the system, for HPKE.
struct SystemRng;

impl TryRng for SystemRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::from_ne_bytes(random()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_ne_bytes(random()))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        SystemRandom::new().fill(bytes).expect("the system gives random bytes");
        Ok(())
    }
}

impl TryCryptoRng for SystemRng {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarked_primitives_succeed_and_detect_wrong_keys() {
        for payload in [0, 1024] {
            let mut primitives = SealPrimitivesBaseline::new(payload);
            for _ in 0..3 {
                assert!(primitives.in_session() && primitives.to_key());
                primitives.turn();
            }
        }
        let mut broken = SealPrimitivesBaseline::new(10);
        broken.sessions[1] = running().into_iter().nth(1).expect("a session has two ends");
        assert!(!broken.in_session());
        broken.agreement.1 = SealPrimitivesBaseline::new(10).agreement.1;
        assert!(!broken.to_key());
    }
}
