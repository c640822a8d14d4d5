//! Requests from pages of other origins. A server that asks for keys accepts them, since no browser sends a key by
//! itself. A server that is open to `local` refuses them, even if keys exist, because otherwise any page in a local
//! browser could use it; only the origins that the operator listed are accepted.

use ::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use nuncio_auth::{NetworkExposure, is_forwarded};
use nuncio_core::ErrorCode;
use nuncio_engine::EngineError;
use nuncio_http::pages::sender::{RequestOrigin, host, sender};

use super::MiddlewareState;

const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PATCH, PUT, DELETE, HEAD, OPTIONS");
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, last-event-id, x-request-id, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name",
);
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "retry-after, x-request-id, www-authenticate, authentication-info, accept-signature, link, etag, location, \
     content-language, idempotency-replayed, mcp-session-id",
);

#[derive(Debug)]
pub(super) struct AllowedOrigins {
    origins: Vec<String>,
}

impl AllowedOrigins {
    pub(super) fn new(origins: &[String]) -> Self {
        Self { origins: origins.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect() }
    }

    fn lists(&self, origin: &str) -> bool {
        self.origins.iter().any(|listed| listed == "*" || listed.eq_ignore_ascii_case(origin))
    }
}

/// The cross-origin decision on one request, and the CORS headers of its response.
pub(super) struct CrossOriginCheck {
    has_origin: bool,
    allowed: Result<Option<HeaderValue>, EngineError>,
}

impl CrossOriginCheck {
    pub(super) fn of(shared: &MiddlewareState, request: &Request) -> Self {
        let needs_key = shared.auth.exposure.asks_for_keys(shared.engine.access().has_keys());
        let allowed = if needs_key { Ok(Some(HeaderValue::from_static("*"))) } else { admit(shared, request) };
        Self { has_origin: request.headers().contains_key(header::ORIGIN), allowed }
    }

    /// The response to a refused request or to a preflight.
    pub(super) fn refusal(&self, shared: &MiddlewareState, request: &Request) -> Option<Response> {
        match &self.allowed {
            Err(error) => Some(shared.refuse(request.uri().path(), error)),
            Ok(_) if is_preflight(request) => Some(preflight(request.headers())),
            Ok(_) => None,
        }
    }

    pub(super) fn add_cors_headers(self, response: &mut Response) {
        if !self.has_origin {
            return;
        }
        let headers = response.headers_mut();
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        if let Ok(Some(allowed)) = self.allowed {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
        }
    }
}

/// Decides whether a request may use a server that is open without keys. Returns the origin for the CORS header,
/// if one is needed.
fn admit(shared: &MiddlewareState, request: &Request) -> Result<Option<HeaderValue>, EngineError> {
    let host = host(request.headers(), request.uri());
    // A page can let its own domain resolve to this machine (DNS rebinding); the `Host` header then has that domain.
    // Requests through a proxy have the proxy's name and never count as local.
    let is_forwarded = is_forwarded(request.headers());
    let is_local_only = matches!(shared.auth.exposure, NetworkExposure::Loopback | NetworkExposure::OpenLoopback);
    if is_local_only && !is_forwarded && !host.is_some_and(is_loopback_name) {
        let advice = advice(shared.auth.exposure);
        let message = format!("this server is open to this machine only: use http://localhost, or {advice}");
        return Err(EngineError::new(ErrorCode::HostRefused, message));
    }
    let origin = request.headers().get(header::ORIGIN);
    if let Some(origin) = origin.filter(|origin| origin.to_str().is_ok_and(|text| shared.cross_origin.lists(text))) {
        return Ok(Some(origin.clone()));
    }
    match sender(request.headers(), host) {
        RequestOrigin::OwnPage | RequestOrigin::NoBrowser => Ok(None),
        // Opening a page or a public document changes nothing.
        RequestOrigin::OtherSite if is_navigation(shared, request) => Ok(None),
        RequestOrigin::OtherSite => {
            let advice = advice(shared.auth.exposure);
            let message = format!(
                "a page on another origin may not use a server that is open without a key; list the origin in nuncio.toml ([cors] origins), or {advice}"
            );
            Err(EngineError::new(ErrorCode::CrossOriginRefused, message))
        }
    }
}

/// Advice on how to make the server require a credential.
fn advice(exposure: NetworkExposure) -> &'static str {
    match exposure {
        NetworkExposure::OpenLoopback => {
            "remove `loopback = \"open\"` below [access] from nuncio.toml, so that every request needs a key"
        }
        NetworkExposure::Open => "start without --open, so that every request needs a key",
        NetworkExposure::Loopback | NetworkExposure::ClosedLoopback | NetworkExposure::Network => {
            "create a key with `nuncio key create`"
        }
    }
}

/// Whether the request follows a link to a page or document, which changes nothing.
fn is_navigation(shared: &MiddlewareState, request: &Request) -> bool {
    let (method, path) = (request.method(), request.uri().path());
    let mode = request.headers().get("sec-fetch-mode");
    mode.is_some_and(|mode| mode == "navigate") && shared.owners.owner(path).rules.may_be_navigated_to(method, path)
}

fn is_loopback_name(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, port)) => (name, port),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    if !port.is_empty() && port.strip_prefix(':').is_none_or(|port| port.parse::<u16>().is_err()) {
        return false;
    }
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight(request: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
    // `*` would not cover Authorization, so the requested headers are named.
    let names = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned().unwrap_or(ALLOWED_HEADERS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_that_only_looks_like_a_loopback_name_is_not_recognised_as_one() {
        for good in ["localhost", "LOCALHOST:7400", "127.0.0.1:7400", "127.9.9.9", "[::1]:7400", "[::ffff:127.0.0.1]"] {
            assert!(is_loopback_name(good), "{good}");
        }
        for bad in [
            "",
            "localhost.example",
            "127.0.0.1.nip.io:7400",
            "example:7400",
            "10.0.0.1",
            "[::2]",
            "localhost@evil",
            "2130706433",
        ] {
            assert!(!is_loopback_name(bad), "{bad}");
        }
    }
}
