//! `Content-Digest` (RFC 9530).

use sha2::{Digest as _, Sha512};

use crate::encoding::{base64, from_base64};
use crate::jcs::sha256;

/// The value of `Content-Digest` for a body.
#[must_use]
pub fn content_digest(body: &[u8]) -> String {
    format!("sha-256=:{}:", base64(&sha256(body)))
}

/// Whether a body is the one a `Content-Digest` was made of. Every digest that is known must fit, and one must
/// be known.
///
/// # Errors
/// Says what is wrong.
pub fn check_content_digest(field: &str, body: &[u8]) -> Result<(), &'static str> {
    if field.len() > 1024 {
        return Err("Content-Digest is too long");
    }
    let mut known = false;
    for member in field.split(',') {
        let unreadable = "Content-Digest is not well formed";
        let (name, value) = member.trim().split_once('=').ok_or(unreadable)?;
        let value = value.strip_prefix(':').and_then(|value| value.strip_suffix(':')).ok_or(unreadable)?;
        let told = from_base64(value).ok_or(unreadable)?;
        let fits = match name {
            "sha-256" => told == sha256(body),
            "sha-512" => told == Sha512::digest(body).as_slice(),
            _ => continue,
        };
        if !fits {
            return Err("the body is not the one Content-Digest was made of");
        }
        known = true;
    }
    if known { Ok(()) } else { Err("Content-Digest has neither sha-256 nor sha-512") }
}
