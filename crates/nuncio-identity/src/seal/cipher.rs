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
        .expect("the text is far smaller than the limit of AES-GCM");
}

/// Encrypts a value under a random nonce. Returns ciphertext, tag and nonce, in this order.
pub(super) fn seal(key: &[u8; 32], aad: &[u8], value: &[u8]) -> Vec<u8> {
    let nonce = random::<NONCE>();
    let mut sealed = Vec::with_capacity(value.len() + TAG + NONCE);
    sealed.extend_from_slice(value);
    encrypt(key, nonce, aad, &mut sealed);
    sealed.extend_from_slice(&nonce);
    sealed
}

/// Reverse of [`seal`]; `None` if authentication fails.
pub(super) fn open(key: &[u8; 32], aad: &[u8], mut sealed: Vec<u8>) -> Option<Vec<u8>> {
    let (text, nonce) = sealed.split_last_chunk_mut::<NONCE>()?;
    let length = decrypt(key, *nonce, aad, text)?.len();
    sealed.truncate(length);
    Some(sealed)
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
