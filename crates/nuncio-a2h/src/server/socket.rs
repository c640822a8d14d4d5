//! `/a2h/ws/human` and `/a2h/ws/agent`: what happens, told at once to whoever is connected and to the
//! others when they are back.

use std::fmt;
use std::sync::Arc;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use nuncio_core::Code;
use nuncio_core::ids::AgentId;
use nuncio_http::Asked;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::A2h;
use super::agents::agent_id;
use crate::error::Refused;

mod entry;
mod line;
mod seats;
mod session;

use line::Line;
use seats::Seats;

/// How large a frame of a client may be: a token, and a little.
const MAX_FRAME: usize = 8 * 1024;
/// How much is kept for a connection while nothing happens. Thousands of them are idle.
const READ_BUFFER: usize = 1024;
/// How much may wait to be sent before a sender waits too.
const WRITE_BUFFER: usize = 64 * 1024;

/// Counts what the sockets do.
pub trait Watch: fmt::Debug + Send + Sync {
    /// A socket was opened.
    fn socket_opened(&self);
    /// And is closed.
    fn socket_closed(&self);
    /// So many events were sent.
    fn events_sent(&self, count: usize);
}

/// The sockets that are open.
#[derive(Debug)]
pub(super) struct Sockets {
    places: Arc<Semaphore>,
    seats: Seats,
    watch: Arc<dyn Watch>,
}

impl Sockets {
    /// At most so many, counted by `watch`.
    pub(super) fn new(most: usize, watch: Arc<dyn Watch>) -> Self {
        Self { places: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))), seats: Seats::default(), watch }
    }

    fn open(&self) -> Option<Place> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        self.watch.socket_opened();
        Some(Place { _permit: permit, watch: Arc::clone(&self.watch) })
    }
}

/// A place among the sockets, given back when it is dropped.
struct Place {
    _permit: OwnedSemaphorePermit,
    watch: Arc<dyn Watch>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.watch.socket_closed();
    }
}

/// For whom a socket is.
#[derive(Debug, Clone)]
enum Door {
    /// People's devices.
    Human,
    /// Agents; one of them, where the address names it.
    Agent(Option<AgentId>),
}

/// `GET /a2h/ws/human`
pub(super) async fn human(
    State(a2h): State<A2h>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refused> {
    open(a2h, Door::Human, upgrade)
}

/// `GET /a2h/ws/agent?agent_id=`
pub(super) async fn agent(
    State(a2h): State<A2h>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    request: Request,
) -> Result<Response, Refused> {
    let asked = Asked::of(request.uri());
    let named = asked.pairs().find(|(name, _)| *name == "agent_id").map(|(_, id)| agent_id(id)).transpose()?;
    open(a2h, Door::Agent(named), upgrade)
}

fn open(
    a2h: A2h,
    door: Door,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refused> {
    let upgrade = upgrade.map_err(|why| {
        let message = format!("this address speaks WebSocket (version 13, over HTTP/1.1): {}", why.body_text());
        Refused::new(Code::BadRequest, message)
    })?;
    let Some(place) = a2h.sockets.open() else {
        let mut response =
            Refused::new(Code::QueueFull, "there are as many connections as this server holds; try again later")
                .into_response();
        response.headers_mut().insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("30"));
        return Ok(response);
    };
    let upgrade = upgrade
        .max_message_size(MAX_FRAME)
        .max_frame_size(MAX_FRAME)
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BUFFER);
    Ok(upgrade.on_upgrade(move |socket| serve(a2h, door, socket, place)))
}

/// From the first frame to the last.
async fn serve(a2h: A2h, door: Door, socket: WebSocket, place: Place) {
    let mut line = Line::new(socket, Arc::clone(a2h.engine.clock()));
    // Boxed, so that a connection that waits takes no room for what it does while it does not.
    let admitted = Box::pin(entry::admit(&a2h, &door, &mut line)).await;
    match admitted {
        Ok(admitted) => {
            let end = session::Session::run(&a2h, admitted, &mut line).await;
            line.close(end).await;
        }
        Err(end) => line.close(end).await,
    }
    drop(place);
}
