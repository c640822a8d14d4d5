//! Every request has an id: the `X-Request-Id` that was sent, if valid, else a new one. It appears in logs,
//! audit records and the response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::{HeaderName, HeaderValue, Method};
use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use nuncio_core::opaque_debug;
use nuncio_http::RequestId;
use tracing::Span;

use super::MiddlewareState;
use crate::telemetry;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// An answered request, for a [`RequestObserver`].
#[derive(Debug)]
pub struct AnsweredRequest<'a> {
    pub method: &'a str,
    /// Path as the client sent it, without the query, which may contain secrets.
    pub path: &'a str,
    pub status: u16,
    /// Time until the response began.
    pub took: Duration,
}

/// Called after every answered request.
#[derive(Clone)]
pub struct RequestObserver(pub Arc<dyn Fn(&AnsweredRequest<'_>) + Send + Sync>);

opaque_debug!(RequestObserver);

pub(super) struct RequestLogEntry {
    id: HeaderValue,
    pub(super) span: Span,
    method: Method,
    /// The path, if somebody observes the requests.
    path: Option<String>,
    route: Option<MatchedPath>,
    started: Instant,
}

impl RequestLogEntry {
    pub(super) fn open(shared: &MiddlewareState, request: &mut Request) -> Self {
        let sent = request.headers().get(&HEADER).and_then(|value| value.to_str().ok()).filter(|id| is_valid_id(id));
        let id = sent.map_or_else(|| shared.engine.new_request_id(), str::to_owned);
        let method = request.method().clone();
        // The path comes from the client: it is logged without query, shortened, and quoted by the logger.
        let path = request.uri().path();
        let span = tracing::debug_span!("request", %id, %method, path = path.get(..256).unwrap_or(path));
        let observed = shared.observer.as_ref().map(|_| path.to_owned());
        telemetry::continue_trace(&span, request.headers());
        let route = request.extensions().get::<MatchedPath>().cloned();
        let value = HeaderValue::from_str(&id).expect("an id is visible ASCII");
        request.extensions_mut().insert(RequestId(id));
        Self { id: value, span, method, path: observed, route, started: Instant::now() }
    }

    pub(super) fn close(self, shared: &MiddlewareState, mut response: Response) -> Response {
        let (status, took) = (response.status().as_u16(), self.started.elapsed());
        self.span.in_scope(|| tracing::debug!(status, ms = took.as_millis(), "answered"));
        if let (Some(RequestObserver(observe)), Some(path)) = (&shared.observer, &self.path) {
            observe(&AnsweredRequest { method: self.method.as_str(), path, status, took });
        }
        shared.metrics.answered(self.route.as_ref().map(MatchedPath::as_str), &self.method, status, took);
        response.headers_mut().insert(HEADER, self.id);
        response
    }
}

fn is_valid_id(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
}
