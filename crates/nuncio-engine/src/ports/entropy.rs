use std::fmt;

use nuncio_core::time::Timestamp;

/// Characters of random names: safe in paths and in ascending order, so that encoded times sort.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A source of cryptographically secure random bytes.
pub trait Entropy: fmt::Debug + Send + Sync + 'static {
    fn fill(&self, bytes: &mut [u8]);
}

/// A random name that sorts by creation time, so that contemporaneous rows lie together on disk. Has 100 random bits.
pub fn timed_name(entropy: &dyn Entropy, prefix: &str, now: Timestamp) -> String {
    let millis = now.as_millis().unsigned_abs();
    let time = (0..9).rev().map(|place| char::from(LETTERS[usize::try_from(millis >> (5 * place) & 31).unwrap_or(0)]));
    let random = random_name(entropy, "");
    prefix.chars().chain(time).chain(random.chars().take(20)).collect()
}

/// A random name: `prefix` and 130 random bits in path-safe characters.
pub fn random_name(entropy: &dyn Entropy, prefix: &str) -> String {
    let mut bytes = [0_u8; 26];
    entropy.fill(&mut bytes);
    let random = bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)]));
    prefix.chars().chain(random).collect()
}
