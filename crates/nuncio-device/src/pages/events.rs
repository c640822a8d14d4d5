//! Server-sent events for open pages: pending prompts, changes on the device, streamed replies and agents' notices.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::{StatusCode, header};
use nuncio_http::pages::sender::is_from_elsewhere;
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::frame::SignedInRequest;
use super::notices::NotificationFromAgent;
use super::{DevicePages, calls};
use crate::device_events::DeviceEvent;
use crate::server_connection::ServerConnectionState;
use crate::talk::StreamedReplyEvent;

/// Comment line of the event stream that keeps the connection alive.
const KEEP_ALIVE: &str = ":\n\n";
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

struct PageEventFeed {
    pages: DevicePages,
    visit: SignedInRequest,
    prompts: watch::Receiver<u64>,
    events: broadcast::Receiver<DeviceEvent>,
    replies: broadcast::Receiver<StreamedReplyEvent>,
    notices: broadcast::Receiver<NotificationFromAgent>,
    connection: watch::Receiver<ServerConnectionState>,
}

/// State of the connection to the server, with its text if the person must know about it.
#[derive(Serialize)]
struct ConnectionView {
    state: ServerConnectionState,
    text: Option<&'static str>,
}

/// `GET /events`: server-sent events for an open page.
pub(super) async fn listen(State(pages): State<DevicePages>, visit: SignedInRequest) -> Response {
    if is_from_elsewhere(&visit.headers) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let mut prompts = pages.shared.prompts.changes();
    prompts.mark_changed();
    let events = pages.device.events();
    let (replies, _) = pages.device.messages().live();
    let notices = pages.shared.notices.listen();
    let mut connection = pages.device.connection();
    connection.mark_changed();
    let feed = PageEventFeed { pages, visit, prompts, events, replies, notices, connection };
    let lines = stream::unfold(feed, |mut feed| async move {
        let line = feed.next().await?;
        Some((Ok::<_, Infallible>(line), feed))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(lines)).into_response()
}

impl PageEventFeed {
    async fn next(&mut self) -> Option<String> {
        let stop = self.pages.stop.clone();
        tokio::select! {
            () = stop.cancelled() => None,
            changed = self.prompts.changed() => {
                changed.ok()?;
                Some(line("calls", &calls::waiting(&self.pages, &self.visit)))
            }
            changed = self.connection.changed() => {
                changed.ok()?;
                let state = *self.connection.borrow_and_update();
                Some(line("server", &ConnectionView { state, text: self.visit.text.connection(state) }))
            }
            // If events were missed, the page is made to reload everything.
            event = self.events.recv() => line_of("news", event, || line("news", &DeviceEvent::AuditChanged)),
            reply = self.replies.recv() => line_of("talk", reply, || line("news", &DeviceEvent::AuditChanged)),
            notice = self.notices.recv() => line_of("notice", notice, || KEEP_ALIVE.to_owned()),
            () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => Some(KEEP_ALIVE.to_owned()),
        }
    }
}

/// Line for a received event; `missed` gives the line to send if events were missed. `None` ends the stream.
fn line_of<T: Serialize>(name: &str, event: Result<T, RecvError>, missed: impl Fn() -> String) -> Option<String> {
    match event {
        Ok(event) => Some(line(name, &event)),
        Err(RecvError::Lagged(_)) => Some(missed()),
        Err(RecvError::Closed) => None,
    }
}

fn line(name: &str, value: &impl Serialize) -> String {
    format!("event: {name}\ndata: {}\n\n", serde_json::to_string(value).unwrap_or_default())
}
