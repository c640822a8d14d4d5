//! Entity tags (RFC 9110 §8.8.3).

use http::{HeaderMap, HeaderValue, header};
use nuncio_core::digest::Digest;

/// `ETag` of the bytes.
///
/// # Panics
/// Never; quoted hex is a valid header value.
#[must_use]
pub fn etag(bytes: &[u8]) -> HeaderValue {
    HeaderValue::try_from(format!("\"{}\"", short_digest(bytes))).expect("hex in quotes is a header value")
}

/// Whether `If-None-Match` contains this tag, or `*`.
#[must_use]
pub fn has_etag(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = known.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|known| known == "*" || *tag == known.trim_start_matches("W/"))
}

/// Hex of the first sixteen bytes of the SHA-256, which suffice to distinguish files.
pub(crate) fn short_digest(bytes: &[u8]) -> String {
    Digest::of_bytes(bytes).to_string()[..32].to_owned()
}
