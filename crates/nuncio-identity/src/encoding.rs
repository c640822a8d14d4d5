//! Base64 and base58, strictly: one text for the same bytes.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// Base64 with padding, as HTTP's structured fields write it.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads padded base64.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Base64url without padding.
pub(crate) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads base64url without padding.
pub(crate) fn from_base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Reads exactly `N` bytes of base64url.
pub(crate) fn base64url_exact<const N: usize>(text: &str) -> Option<[u8; N]> {
    from_base64url(text)?.try_into().ok()
}

/// Multibase: `z` and base58btc.
pub(crate) fn multibase(bytes: &[u8]) -> String {
    format!("z{}", bs58::encode(bytes).into_string())
}

/// Reads `z` and base58btc of at most `most` bytes; decoding is quadratic, so the length is looked at first.
pub(crate) fn from_multibase(text: &str, most: usize) -> Option<Vec<u8>> {
    from_base58(text.strip_prefix('z')?, most)
}

/// Reads base58btc of at most `most` bytes.
pub(crate) fn from_base58(text: &str, most: usize) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() > most * 2 {
        return None;
    }
    bs58::decode(text).into_vec().ok().filter(|bytes| bytes.len() <= most)
}
