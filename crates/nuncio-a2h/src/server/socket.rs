//! `/a2h/ws/human` and `/a2h/ws/agent`: events for connected devices and agents; missed events are sent after a
//! reconnection.

use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use nuncio_core::Code;
use nuncio_core::ids::AgentId;
use nuncio_core::principal::Principal;
use nuncio_http::{Asked, CallerReport};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::A2h;
use super::agents::agent_id;
use crate::error::Refused;
use crate::wire::frame::close;

mod entry;
mod line;
mod replay;
mod seats;
mod session;
mod streams;
mod upgrade;

use line::{End, Line};
use seats::{Seats, Sitter};
pub(super) use session::AGENT;
use upgrade::{Upgrade, WebSocket};

/// Metrics of the sockets.
pub trait Watch: fmt::Debug + Send + Sync {
    fn socket_opened(&self);
    fn socket_closed(&self);
    fn events_sent(&self, count: usize);
}

#[derive(Debug)]
pub(super) struct Sockets {
    places: Arc<Semaphore>,
    seats: Seats,
    watch: Arc<dyn Watch>,
}

impl Sockets {
    /// Limits the number of open connections; `watch` counts them.
    pub(super) fn new(most: usize, watch: Arc<dyn Watch>) -> Self {
        Self { places: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))), seats: Seats::default(), watch }
    }

    /// Reserves a connection slot, unless all are in use.
    pub(super) fn open(&self) -> Option<Place> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        self.watch.socket_opened();
        Some(Place { _permit: permit, watch: Arc::clone(&self.watch) })
    }

    /// Closes the WebSocket of an agent that switched to webhook delivery.
    pub(super) fn dismiss(&self, agent: &AgentId) {
        // Taking the seat notifies the connected agent, which then learns the reason.
        drop(self.seats.take(Sitter::Agent(agent.clone())));
    }
}

/// Slot of an open connection, released on drop.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    watch: Arc<dyn Watch>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.watch.socket_closed();
    }
}

#[derive(Debug, Clone)]
enum Door {
    Human,
    /// For any agent, or the one that the URL names.
    Agent(Option<AgentId>),
}

/// `GET /a2h/ws/human`
pub(super) async fn human(State(a2h): State<A2h>, request: Request) -> Result<Response, Refused> {
    open(a2h, Door::Human, request)
}

/// `GET /a2h/ws/agent?agent_id=`
pub(super) async fn agent(State(a2h): State<A2h>, request: Request) -> Result<Response, Refused> {
    let asked = Asked::of(request.uri());
    let named = asked.pairs().find(|(name, _)| *name == "agent_id").map(|(_, id)| agent_id(id)).transpose()?;
    open(a2h, Door::Agent(named), request)
}

fn open(a2h: A2h, door: Door, mut request: Request) -> Result<Response, Refused> {
    let upgrade = Upgrade::of(&mut request).map_err(|why| {
        let message = format!("this address speaks WebSocket (version 13, over HTTP/1.1): {why}");
        Refused::new(Code::BadRequest, message)
    })?;
    let Some(place) = a2h.sockets.open() else { return Ok(full()) };
    let report = request.extensions().get::<CallerReport>().cloned();
    let engine = a2h.engine.clone();
    Ok(upgrade.accept(&engine, move |socket| serve(a2h, door, socket, place, report)))
}

pub(super) fn full() -> Response {
    let message = "there are as many connections as this server holds; try again later";
    Refused { retry_after: Some(30), ..Refused::new(Code::QueueFull, message) }.into_response()
}

/// Serves a connection from the first frame to the last.
async fn serve(a2h: A2h, door: Door, socket: WebSocket, place: Place, report: Option<CallerReport>) {
    let mut line = Line::new(socket, Arc::clone(a2h.engine.clock()));
    // Boxed, so that an idle connection does not reserve memory for authentication.
    let admitted = Box::pin(entry::admit(&a2h, &door, &mut line)).await;
    let admitted = admitted.and_then(|admitted| {
        let caller = Principal::from(admitted.recipient.clone());
        let counted = report.map_or(Ok(()), |CallerReport(observer)| observer.identified(&caller));
        counted.map(|()| admitted).map_err(|_| End::closed(close::TOO_MANY, "too many requests"))
    });
    match admitted {
        Ok(admitted) => {
            let end = session::Session::run(&a2h, admitted, &mut line).await;
            line.close(end).await;
        }
        Err(end) => line.close(end).await,
    }
    drop(place);
}
