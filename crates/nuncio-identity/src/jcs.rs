//! RFC 8785: the one way to write a JSON value.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The canonical form of a value.
#[must_use]
pub fn canonical(value: &Value) -> Vec<u8> {
    nuncio_core::digest::canonical(value)
}

/// SHA-256 of some bytes.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Adds the canonical form of a value to a text.
pub(crate) fn push(value: &Value, into: &mut Vec<u8>) {
    into.extend_from_slice(&canonical(value));
}
