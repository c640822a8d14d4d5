//! Responses: one JSON object, or a stream of events if the result takes long.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::{HeaderValue, StatusCode, header};
use nuncio_core::ErrorCode;
use nuncio_engine::ports::Clock;
use nuncio_engine::{Engine, EngineError};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::AdmittedRequest;
use super::ask::TurnProgress;
use super::headers::accepts_stream;
use super::refuse::McpFailure;
use crate::wire::{error_message, result_message};

/// Time after which a stream begins, so that intermediaries see that the request is alive.
const STREAM_AFTER: Duration = Duration::from_secs(2);
/// Interval of comments that keep a silent connection open.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

pub(super) type McpOutcome = Result<Value, McpFailure>;

/// A result that is being computed.
pub(super) struct PendingResult {
    pub(super) outcome: BoxFuture<'static, McpOutcome>,
    /// What is reported meanwhile, if the client asked for it.
    pub(super) progress: Option<TurnProgress>,
    /// Requests to the client that come before the result.
    pub(super) requests: Option<mpsc::Receiver<Value>>,
    /// Ends the computation.
    pub(super) cancel: CancellationToken,
}

impl PendingResult {
    pub(super) fn ready(outcome: McpOutcome, cancel: CancellationToken) -> Self {
        Self { outcome: Box::pin(std::future::ready(outcome)), progress: None, requests: None, cancel }
    }
}

impl AdmittedRequest {
    /// Responds in the revision without sessions, where a client that disconnects cancels its request.
    pub(super) async fn respond(&self, id: Value, pending: PendingResult) -> Response {
        let hung_up = pending.cancel.drop_guard();
        let interim = InterimMessages { progress: pending.progress, requests: pending.requests };
        self.respond_when_ready(id, pending.outcome, interim, Some(hung_up)).await
    }

    /// Responds in a session, where only a notification cancels a request.
    pub(super) async fn respond_in_session(&self, id: Value, pending: PendingResult) -> Result<Response, McpFailure> {
        let Some(session) = &self.session else { return Ok(self.respond(id, pending).await) };
        let running = self.mcp.running.begin(session, &id, pending.cancel)?;
        let (sender, receiver) = oneshot::channel();
        self.mcp.engine.spawn(async move {
            let outcome = pending.outcome.await;
            drop(running);
            // The client may have disconnected.
            let _ = sender.send(outcome);
        });
        let outcome = async move {
            let interrupted = || EngineError::new(ErrorCode::Internal, "the request was interrupted");
            receiver.await.unwrap_or_else(|_| Err(interrupted().into()))
        };
        let interim = InterimMessages { progress: pending.progress, requests: pending.requests };
        Ok(self.respond_when_ready(id, Box::pin(outcome), interim, None).await)
    }

    async fn respond_when_ready(
        &self,
        id: Value,
        mut outcome: BoxFuture<'static, McpOutcome>,
        mut interim: InterimMessages,
        hung_up: Option<DropGuard>,
    ) -> Response {
        let engine = &self.mcp.engine;
        if accepts_stream(&self.headers) {
            let clock = engine.clock();
            let first = tokio::select! {
                // The result comes first, so that an instant one needs no timer.
                biased;
                outcome = &mut outcome => return json(&id, outcome),
                message = interim.next() => Some(message),
                () = async { clock.sleep_until(clock.now().after(STREAM_AFTER)).await } => None,
            };
            let outcome = Some(outcome);
            let clock = Arc::clone(clock);
            return EventStream { id, first, outcome, interim, clock, hung_up }.response(engine);
        }
        let outcome = outcome.await;
        json(&id, outcome)
    }
}

pub(super) fn json(id: &Value, outcome: McpOutcome) -> Response {
    match outcome {
        Ok(result) => json_response(StatusCode::OK, &result_message(id, &result)),
        Err(failure) => failure.response(Some(id)),
    }
}

pub(super) fn json_response(status: StatusCode, body: &Value) -> Response {
    let body = serde_json::to_vec(body).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

/// Messages that come before the result.
struct InterimMessages {
    progress: Option<TurnProgress>,
    requests: Option<mpsc::Receiver<Value>>,
}

impl InterimMessages {
    /// The next message; never returns after the last.
    async fn next(&mut self) -> Value {
        if let Some(requests) = &mut self.requests {
            if let Some(request) = requests.recv().await {
                return request;
            }
            self.requests = None;
        }
        match &mut self.progress {
            Some(progress) => progress.next().await,
            None => std::future::pending().await,
        }
    }
}

struct EventStream {
    id: Value,
    /// First message, which was the reason to begin the stream.
    first: Option<Value>,
    /// `None` when the result was sent.
    outcome: Option<BoxFuture<'static, McpOutcome>>,
    interim: InterimMessages,
    clock: Arc<dyn Clock>,
    hung_up: Option<DropGuard>,
}

impl EventStream {
    fn response(self, engine: &Engine) -> Response {
        let open = engine.open_stream();
        let body = Body::from_stream(stream::unfold((self, open), |(mut reader, open)| async move {
            let piece = reader.next().await?;
            Some((Ok::<_, Infallible>(piece), (reader, open)))
        }));
        let mut response = body.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Tells reverse proxies not to buffer, because buffering would delay events.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(event(&first));
        }
        let outcome = self.outcome.as_mut()?;
        tokio::select! {
            biased;
            outcome = outcome => {
                self.outcome = None;
                self.hung_up.take().map(DropGuard::disarm);
                Some(event(&match outcome {
                    Ok(result) => result_message(&self.id, &result),
                    Err(failure) => error_message(Some(&self.id), &failure.error),
                }))
            }
            message = self.interim.next() => Some(event(&message)),
            () = self.clock.sleep_until(self.clock.now().after(HEARTBEAT_INTERVAL)) => {
                Some(Bytes::from_static(b": still here\n\n"))
            }
        }
    }
}

fn event(message: &Value) -> Bytes {
    Bytes::from(format!("event: message\ndata: {message}\n\n"))
}
