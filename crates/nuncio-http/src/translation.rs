//! Responses whose body exists in several languages.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};

use crate::pages::Language;

/// Body of a response in another language, as an extension of the response. The server sends it if the request prefers
/// that language.
#[derive(Debug, Clone)]
pub struct LocalizedResponseBody {
    pub language: Language,
    pub body: Bytes,
}

impl LocalizedResponseBody {
    /// Adds this translation to a response whose body is in English.
    pub fn add_to(self, response: &mut Response) {
        response.headers_mut().insert(header::CONTENT_LANGUAGE, content_language(Language::English));
        response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-language"));
        response.extensions_mut().insert(self);
    }
}

/// Replaces the body of a response by its translation, if it has one in the preferred language.
pub fn translate(response: &mut Response, preferred: Language) {
    let Some(translated) = response.extensions_mut().remove::<LocalizedResponseBody>() else { return };
    if translated.language == preferred {
        response.headers_mut().insert(header::CONTENT_LANGUAGE, content_language(preferred));
        response.headers_mut().remove(header::CONTENT_LENGTH);
        *response.body_mut() = Body::from(translated.body);
    }
}

fn content_language(language: Language) -> HeaderValue {
    HeaderValue::from_static(language.tag())
}
