//! AES-256-GCM and random bytes.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

/// Length of a nonce, in bytes.
pub(super) const NONCE: usize = 12;
/// Length of the authentication tag that encryption adds, in bytes.
pub(super) const TAG: usize = 16;

pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

fn key(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("an AES-256 key has 32 bytes"))
}

/// Encrypts in place and appends the tag. A nonce must be used only once per key.
pub(super) fn encrypt(secret: &[u8; 32], nonce: [u8; NONCE], aad: &[u8], text: &mut Vec<u8>) {
    key(secret)
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), text)
        .expect("what is sealed here is far smaller than AES-GCM's limit");
}

/// Decrypts in place and returns the plaintext; `None` if authentication fails.
pub(super) fn decrypt<'a>(
    secret: &[u8; 32],
    nonce: [u8; NONCE],
    aad: &[u8],
    text: &'a mut [u8],
) -> Option<&'a mut [u8]> {
    key(secret).open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(aad), text).ok()
}
