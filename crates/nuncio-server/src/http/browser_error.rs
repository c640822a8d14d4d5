//! Errors as pages: a person who opens an address in a browser gets a page instead of JSON.

use ::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY};
use ::http::{HeaderMap, HeaderValue, Method};
use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::Response;
use nuncio_console::ErrorPage;
use nuncio_http::pages::Language;
use serde_json::Value;

/// Size limit of an error body that becomes a page, in bytes.
const MAX_BODY: usize = 64 * 1024;

/// A request of a person: a browser opens the address as a page.
pub(super) struct BrowserPageRequest {
    language: Language,
    address: String,
}

impl BrowserPageRequest {
    /// `None` if a program sent the request. Browsers name `text/html` first when they open an address.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let accepts = |headers: &HeaderMap| {
            let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok())?;
            accepted.trim_start().starts_with("text/html").then_some(())
        };
        if request.method() != Method::GET {
            return None;
        }
        accepts(request.headers())?;
        let query = request.uri().query().unwrap_or_default();
        let asked = query.split('&').find_map(|pair| pair.strip_prefix("lang=")).and_then(Language::parse);
        let address = request.uri().path_and_query().map_or("/", |path| path.as_str());
        Some(Self {
            language: asked.unwrap_or_else(|| Language::accepted(request.headers())),
            address: address.to_owned(),
        })
    }

    /// Replaces a JSON error by a page that says the same. Other responses, and errors that cannot be read, stay.
    pub(super) async fn show_error(self, response: Response) -> Response {
        let status = response.status();
        let is_error = status.is_client_error() || status.is_server_error();
        if !(is_error && is_json(response.headers())) {
            return response;
        }
        let (mut parts, body) = response.into_parts();
        let bytes = to_bytes(body, MAX_BODY).await.unwrap_or_default();
        let error: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let (message, code) = words(&error);
        let page = ErrorPage { language: self.language, address: &self.address, status, message, code };
        let Some(page) = page.response() else {
            return Response::from_parts(parts, bytes.into());
        };
        let (page, html) = page.into_parts();
        // Challenges and `Retry-After` stay.
        for name in [CONTENT_LENGTH, ETAG] {
            parts.headers.remove(name);
        }
        parts.headers.extend(page.headers);
        parts.headers.append(VARY, HeaderValue::from_static("Accept, Accept-Language"));
        Response::from_parts(parts, html)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.starts_with("application/json") || kind.starts_with("application/problem+json")
}

/// Message and code of an error body of any protocol: `error` is a text, or an object with both.
fn words(body: &Value) -> (&str, Option<&str>) {
    let error = &body["error"];
    let message = [error, &error["message"], &body["message"]].into_iter().find_map(Value::as_str);
    let code = [&error["code"], &body["code"]].into_iter().find_map(Value::as_str);
    (message.unwrap_or_default(), code)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn message_and_code_are_found_in_the_error_bodies_of_all_protocols() {
        for body in [
            json!({"error": "no", "code": "c"}),
            json!({"error": {"message": "no", "code": "c"}}),
            json!({"success": false, "error": {"code": "c", "message": "no"}}),
        ] {
            assert_eq!(words(&body), ("no", Some("c")));
        }
        assert_eq!(words(&json!("x")), ("", None));
    }
}
