//! Randomness.

use std::fmt;

/// A source of unguessable bytes.
pub trait Entropy: fmt::Debug + Send + Sync + 'static {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// A random name: `prefix` and 130 bits in letters and digits that are safe in any path.
pub fn random_name(entropy: &dyn Entropy, prefix: &str) -> String {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut bytes = [0_u8; 26];
    entropy.fill(&mut bytes);
    let random = bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)]));
    prefix.chars().chain(random).collect()
}
