//! Base64 and base58 in strict form: every byte string has exactly one accepted text.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// Padded base64, as in HTTP structured fields.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

pub(crate) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn from_base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Decodes base64url of exactly `N` bytes.
pub(crate) fn base64url_exact<const N: usize>(text: &str) -> Option<[u8; N]> {
    from_base64url(text)?.try_into().ok()
}

pub(crate) fn multibase(bytes: &[u8]) -> String {
    format!("z{}", bs58::encode(bytes).into_string())
}

/// Decodes `z` and base58btc of at most `most` bytes. Decoding takes quadratic time, so the length is checked first.
pub(crate) fn from_multibase(text: &str, most: usize) -> Option<Vec<u8>> {
    from_base58(text.strip_prefix('z')?, most)
}

/// Decodes base58btc of at most `most` bytes.
pub(crate) fn from_base58(text: &str, most: usize) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() > most * 2 {
        return None;
    }
    bs58::decode(text).into_vec().ok().filter(|bytes| bytes.len() <= most)
}
