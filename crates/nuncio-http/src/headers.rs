//! Parsers of headers that all protocols share.

use std::time::Duration;

use http::{HeaderMap, header};
use nuncio_core::{ErrorCode, json};
use nuncio_engine::EngineError;

/// Refuses a request whose `Content-Type` is not JSON.
pub fn is_json(headers: &HeaderMap) -> Result<(), EngineError> {
    let declared = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if json::is_json(declared) {
        return Ok(());
    }
    let found = if declared.is_empty() { "no Content-Type" } else { declared };
    let message = format!("send the body as `Content-Type: application/json`; found {found}");
    Err(EngineError::new(ErrorCode::UnsupportedMediaType, message))
}

/// Value of `Idempotency-Key`, which must be 1 to 255 visible ASCII characters.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, EngineError> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str() {
        Ok(key) if !key.is_empty() && key.len() <= 255 => Ok(Some(key)),
        _ => Err(EngineError::new(ErrorCode::BadHeader, "Idempotency-Key must be 1 to 255 visible ASCII characters")),
    }
}

/// Waiting preference of a client (RFC 7240).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitPreference {
    None,
    /// The request prefers an immediate answer (`respond-async`).
    Async,
    /// The request prefers to wait this long (`wait=SECONDS`).
    Wait(Duration),
}

/// Parses `Prefer`; unknown preferences are ignored, as RFC 7240 requires.
#[must_use]
pub fn preference(headers: &HeaderMap) -> WaitPreference {
    let mut found = WaitPreference::None;
    for value in headers.get_all("prefer") {
        for part in value.to_str().unwrap_or_default().split(',') {
            let part = part.split(';').next().unwrap_or_default().trim();
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if name.trim().eq_ignore_ascii_case("respond-async") {
                return WaitPreference::Async;
            }
            if name.trim().eq_ignore_ascii_case("wait")
                && found == WaitPreference::None
                && let Ok(seconds) = value.trim().trim_matches('"').parse::<u64>()
            {
                found = WaitPreference::Wait(Duration::from_secs(seconds));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))])
    }

    #[test]
    fn content_type_other_than_json_is_refused() {
        assert!(is_json(&headers("content-type", "application/problem+json")).is_ok());
        let told = is_json(&headers("content-type", "text/plain")).unwrap_err();
        assert!(told.message.ends_with("found text/plain"), "{told}");
        assert!(is_json(&HeaderMap::new()).unwrap_err().message.ends_with("found no Content-Type"));
    }

    #[test]
    fn prefer_header_is_parsed_for_wait_and_respond_async() {
        let wait = |seconds| WaitPreference::Wait(Duration::from_secs(seconds));
        for (value, meant) in [
            ("wait=10", wait(10)),
            ("handling=strict, wait=5; x=1", wait(5)),
            ("wait=\"7\"", wait(7)),
            ("wait=1, wait=9", wait(1)),
            ("wait=10, respond-async", WaitPreference::Async),
            ("wait=-1", WaitPreference::None),
            ("wait=soon", WaitPreference::None),
            ("wait=999999999999", wait(999_999_999_999)),
            ("wait=99999999999999999999", WaitPreference::None),
            ("", WaitPreference::None),
        ] {
            assert_eq!(preference(&headers("prefer", value)), meant, "{value}");
        }
    }
}
