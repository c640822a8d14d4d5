//! Every request has an id: the sender's if it is sensible, else ours. It is in the logs, in audit
//! records and in the answer.

use std::time::Instant;

use ::http::HeaderValue;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use nuncio_core::Code;
use nuncio_engine::EngineError;
use tracing::Instrument as _;

use super::Shared;

const HEADER: &str = "x-request-id";

/// The id of a request.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) String);

pub(super) async fn layer(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let sent = request.headers().get(HEADER).and_then(|value| value.to_str().ok()).filter(|id| is_sensible(id));
    let id = sent.map_or_else(|| shared.engine.new_request_id(), str::to_owned);
    request.extensions_mut().insert(RequestId(id.clone()));
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    // The path is the peer's text: no query, a bounded length, quoted by the logger.
    let shown = path.get(..256).unwrap_or(&path).to_owned();
    let span = tracing::debug_span!("request", %id, %method, path = shown);
    let began = Instant::now();
    let mut response = async {
        // Too many headers never get here; a path this long never means anything.
        let response = if path.len() > 4096 {
            shared.refuse(&path, &EngineError::new(Code::NotFound, "the address is too long"))
        } else {
            next.run(request).await
        };
        tracing::debug!(status = response.status().as_u16(), ms = began.elapsed().as_millis(), "answered");
        response
    }
    .instrument(span)
    .await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

fn is_sensible(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
}
