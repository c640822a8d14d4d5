//! `/a2h/ws/human` and `/a2h/ws/agent`: events for connected devices and agents; missed events are sent after a
//! reconnection.

use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use nuncio_core::ErrorCode;
use nuncio_core::ids::AgentId;
use nuncio_core::principal::Principal;
use nuncio_http::{CallerReporter, QueryParameters};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::agents::agent_id;
use super::{A2hResult, A2hServerState};
use crate::error::A2hError;
use crate::wire::frame::close;

mod entry;
mod replay;
mod session;
mod socket_connection;
mod socket_slots;
mod streams;
mod upgrade;

pub(super) use session::AGENT;
use socket_connection::{SocketCloseReason, SocketConnection};
use socket_slots::{SocketOwner, SocketSlots};
use upgrade::{WebSocket, WebSocketUpgrade};

pub trait SocketMetrics: fmt::Debug + Send + Sync {
    fn socket_opened(&self);
    fn socket_closed(&self);
    fn events_sent(&self, count: usize);
}

#[derive(Debug)]
pub(super) struct SocketLimiter {
    permits: Arc<Semaphore>,
    slots: SocketSlots,
    metrics: Arc<dyn SocketMetrics>,
}

impl SocketLimiter {
    /// Allows at most `most` open connections.
    pub(super) fn new(most: usize, metrics: Arc<dyn SocketMetrics>) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            slots: SocketSlots::default(),
            metrics,
        }
    }

    /// Reserves a connection slot, unless all are in use.
    pub(super) fn open(&self) -> Option<ConnectionPermit> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        self.metrics.socket_opened();
        Some(ConnectionPermit { _permit: permit, metrics: Arc::clone(&self.metrics) })
    }

    /// Closes the WebSocket of an agent that switched to webhook delivery.
    pub(super) fn dismiss(&self, agent: &AgentId) {
        // Taking the slot makes the agent's session check its validity, send the reason and close.
        drop(self.slots.take(SocketOwner::Agent(agent.clone())));
    }
}

/// Slot of an open connection, released on drop.
pub(super) struct ConnectionPermit {
    _permit: OwnedSemaphorePermit,
    metrics: Arc<dyn SocketMetrics>,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.metrics.socket_closed();
    }
}

#[derive(Debug, Clone)]
enum SocketEndpointKind {
    Human,
    /// WebSocket for agents; with an id, only the agent that the URL names may connect.
    Agent(Option<AgentId>),
}

/// `GET /a2h/ws/human`: WebSocket for a person's device.
pub(super) async fn human(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    open(a2h, SocketEndpointKind::Human, request)
}

/// `GET /a2h/ws/agent?agent_id=`: WebSocket for an agent.
pub(super) async fn agent(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let asked = QueryParameters::of(request.uri());
    let named = asked.pairs().find(|(name, _)| *name == "agent_id").map(|(_, id)| agent_id(id)).transpose()?;
    open(a2h, SocketEndpointKind::Agent(named), request)
}

fn open(a2h: A2hServerState, endpoint: SocketEndpointKind, mut request: Request) -> A2hResult {
    let upgrade = WebSocketUpgrade::of(&mut request).map_err(|why| {
        let message = format!("this address accepts only WebSocket connections (version 13, over HTTP/1.1): {why}");
        A2hError::new(ErrorCode::BadRequest, message)
    })?;
    let Some(permit) = a2h.sockets.open() else { return Ok(full()) };
    let report = request.extensions().get::<CallerReporter>().cloned();
    let engine = a2h.engine.clone();
    Ok(upgrade.accept(&engine, move |socket| serve(a2h, endpoint, socket, permit, report)))
}

pub(super) fn full() -> Response {
    let message = "the limit of open connections is reached; try again later";
    A2hError { retry_after: Some(30), ..A2hError::new(ErrorCode::QueueFull, message) }.into_response()
}

/// Serves one WebSocket connection from authentication to close.
async fn serve(
    a2h: A2hServerState,
    endpoint: SocketEndpointKind,
    socket: WebSocket,
    permit: ConnectionPermit,
    report: Option<CallerReporter>,
) {
    let mut connection = SocketConnection::new(socket, Arc::clone(a2h.engine.clock()));
    // Boxed, so that an idle connection does not reserve memory for authentication.
    let admitted = Box::pin(entry::admit(&a2h, &endpoint, &mut connection)).await;
    let admitted = admitted.and_then(|admitted| {
        let caller = Principal::from(admitted.recipient.clone());
        let counted = report.map_or(Ok(()), |CallerReporter(observer)| observer.identified(&caller));
        counted.map(|()| admitted).map_err(|_| SocketCloseReason::closed(close::TOO_MANY, "too many requests"))
    });
    match admitted {
        Ok(admitted) => {
            let end = session::SocketSession::run(&a2h, admitted, &mut connection).await;
            connection.close(end).await;
        }
        Err(end) => connection.close(end).await,
    }
    drop(permit);
}
