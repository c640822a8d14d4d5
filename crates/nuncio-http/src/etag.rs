//! Entity tags (RFC 9110 §8.8.3).

use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nuncio_core::digest::Digest;

/// `ETag` made from the SHA-256 of the bytes.
///
/// # Panics
/// Never; quoted hex is a valid header value.
#[must_use]
pub fn etag(bytes: &[u8]) -> HeaderValue {
    HeaderValue::try_from(format!("\"{}\"", short_digest(bytes))).expect("hex in quotes is a header value")
}

/// Whether `If-None-Match` contains this tag, or `*`.
fn has_etag(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = known.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|known| known == "*" || *tag == known.trim_start_matches("W/"))
}

/// The response with its `ETag`, or 304 if the client has the response already.
pub fn unless_known(request: &HeaderMap, tag: HeaderValue, response: impl FnOnce() -> Response) -> Response {
    let is_known = has_etag(request, &tag);
    let mut response = if is_known { StatusCode::NOT_MODIFIED.into_response() } else { response() };
    response.headers_mut().insert(header::ETAG, tag);
    response
}

/// Hex of the first sixteen bytes of the SHA-256, which suffice to distinguish files.
pub(crate) fn short_digest(bytes: &[u8]) -> String {
    Digest::of_bytes(bytes).to_string()[..32].to_owned()
}
