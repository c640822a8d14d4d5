//! Cacheable JSON documents.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};

use crate::etag::{etag, unless_known};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachePolicy {
    /// Any cache may store the document for a minute.
    Public,
    /// No shared cache may store the document, because it is for one reader.
    Private,
}

/// A JSON document with its `ETag`.
#[derive(Debug, Clone)]
pub struct CacheableDocument {
    bytes: Bytes,
    tag: HeaderValue,
    caching: CachePolicy,
}

impl CacheableDocument {
    #[must_use]
    pub fn json(bytes: impl Into<Bytes>, caching: CachePolicy) -> Self {
        let bytes = bytes.into();
        let tag = etag(&bytes);
        Self { bytes, tag, caching }
    }

    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The document, or 304 if the request names its `ETag`. `vary` lists the headers that the response depends on.
    #[must_use]
    pub fn answer(&self, request: &HeaderMap, vary: &'static str) -> Response {
        let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let mut response = unless_known(request, self.tag.clone(), || (json, self.bytes.clone()).into_response());
        let headers = response.headers_mut();
        headers.insert(header::VARY, HeaderValue::from_static(vary));
        let caching = match self.caching {
            CachePolicy::Public => "public, max-age=60",
            CachePolicy::Private => "private, no-store",
        };
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_with_a_matching_etag_is_answered_with_304() {
        let document = CacheableDocument::json("{}", CachePolicy::Public);
        let with = |value: &str| {
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, value.parse().unwrap())]);
            document.answer(&headers, "authorization").status().as_u16()
        };
        let tag = document.tag.to_str().unwrap();
        assert_eq!(with(tag), 304);
        assert_eq!(with(&format!("\"a\", W/{tag}")), 304);
        assert_eq!(with("*"), 304);
        assert_eq!(with("\"a\""), 200);
        assert_eq!(document.answer(&HeaderMap::new(), "authorization").status(), 200);
    }
}
