//! Canonical JSON (RFC 8785) and SHA-256.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

#[must_use]
pub fn canonical(value: &Value) -> Vec<u8> {
    nuncio_core::digest::canonical(value)
}

#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
