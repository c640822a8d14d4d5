//! Routes for operators and their tools: probes, metrics, the OpenAPI document and public keys.

use std::sync::Arc;

use ::http::{HeaderValue, StatusCode, header};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use nuncio_auth::TrustedIssuers;
use nuncio_core::ErrorCode;
use nuncio_engine::access::key_expired;
use nuncio_engine::{CallerCheckResult, Engine, EngineError};
use nuncio_http::refuse;

use super::resource;
use crate::metrics::{CONTENT_TYPE, Metrics};

#[derive(Clone)]
pub(super) struct OperatorRoutes {
    pub(super) engine: Engine,
    pub(super) issuers: Arc<TrustedIssuers>,
    pub(super) metrics: Arc<Metrics>,
    /// Whether anyone may read the metrics.
    pub(super) metrics_open: bool,
    /// The OpenAPI document as JSON text.
    pub(super) openapi: Bytes,
    pub(super) base: Arc<str>,
    /// The JWK set of the keys that this server signs with, as JSON text.
    pub(super) jwks: Bytes,
}

/// The routes as data; a test compares them with the OpenAPI document.
pub(super) fn table() -> Vec<(&'static str, MethodRouter<OperatorRoutes>)> {
    vec![
        ("/healthz", get(healthz)),
        ("/readyz", get(readyz)),
        ("/metrics", get(metrics)),
        ("/openapi.json", get(openapi)),
        ("/.well-known/jwks.json", get(jwks)),
        (resource::PATH, get(resource::describe)),
        (resource::ONLY_AGENT_PATH, get(resource::describe_only_agent)),
        (resource::AGENT_PATH, get(resource::describe_agent)),
    ]
}

/// The public keys of the signatures that this server makes.
async fn jwks(State(operators): State<OperatorRoutes>) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/jwk-set+json"))], operators.jwks).into_response()
}

async fn healthz() -> &'static str {
    "ok\n"
}

/// Readiness: the store can be read and written, and the process is not stopping.
async fn readyz(State(operators): State<OperatorRoutes>) -> Response {
    if operators.engine.is_closing() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
    }
    if operators.engine.records().audit_heads().await.is_err() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n").into_response();
    }
    match operators.engine.check_writable().await {
        Ok(()) => "ready\n".into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store does not accept writes\n").into_response(),
    }
}

/// Metrics for Prometheus. They name agents and tools and show the load of the server, so they need an operator's key
/// unless the settings open them.
async fn metrics(State(operators): State<OperatorRoutes>, request: Request) -> Response {
    let identity = request.extensions().get::<CallerCheckResult>();
    let may_read = matches!(identity, Some(CallerCheckResult::Known(caller)) if operators.engine.access().may_read_metrics(caller));
    if let Some(CallerCheckResult::Expired(at)) = identity.filter(|_| !operators.metrics_open) {
        return refuse(&key_expired(*at));
    }
    if !may_read && !operators.metrics_open {
        let message = "an operator's key is needed: make one with `nuncio key create --operator` (or `--scope metrics:read`, for the metrics alone) and send `Authorization: Bearer KEY`, or set `open = true` below [metrics] in nuncio.toml to let anyone read this";
        return refuse(&EngineError::new(ErrorCode::Unauthorized, message));
    }
    let pending = operators.engine.approvals().pending_approvals().await.ok().map(|pending| pending.len());
    let text = operators.metrics.render(operators.engine.load(), pending);
    ([(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE))], text).into_response()
}

async fn openapi(State(operators): State<OperatorRoutes>) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], operators.openapi).into_response()
}
