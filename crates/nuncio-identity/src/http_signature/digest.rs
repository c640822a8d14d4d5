//! `Content-Digest` (RFC 9530).

use sha2::{Digest as _, Sha512};

use crate::encoding::{base64, from_base64};
use crate::jcs::sha256;

#[must_use]
pub fn content_digest(body: &[u8]) -> String {
    format!("sha-256=:{}:", base64(&sha256(body)))
}

/// Checks that a body matches `Content-Digest`. Every digest of a known algorithm must match, and at least one must be
/// known.
pub fn check_content_digest(field: &str, body: &[u8]) -> Result<(), &'static str> {
    if field.len() > 1024 {
        return Err("Content-Digest is too long");
    }
    let mut known = false;
    for member in field.split(',') {
        let unreadable = "Content-Digest is not well formed";
        let (name, value) = member.trim().split_once('=').ok_or(unreadable)?;
        let value = value.strip_prefix(':').and_then(|value| value.strip_suffix(':')).ok_or(unreadable)?;
        let expected = from_base64(value).ok_or(unreadable)?;
        let fits = match name {
            "sha-256" => expected == sha256(body),
            "sha-512" => expected == Sha512::digest(body).as_slice(),
            _ => continue,
        };
        if !fits {
            return Err("Content-Digest does not match the body");
        }
        known = true;
    }
    if known { Ok(()) } else { Err("Content-Digest has neither sha-256 nor sha-512") }
}
