//! Event stream of an open page: the pending prompts, and notifications that something else changed.

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
use super::notices::AgentNotice;
use super::{Pages, calls};
use crate::device_events::DeviceEvent;
use crate::talk::ReplyEvent;

/// Interval of empty lines that keep the connection alive.
const BEAT: Duration = Duration::from_secs(15);

struct EventFeed {
    pages: Pages,
    visit: SignedInRequest,
    questions: watch::Receiver<u64>,
    news: broadcast::Receiver<DeviceEvent>,
    live: broadcast::Receiver<ReplyEvent>,
    notices: broadcast::Receiver<AgentNotice>,
}

/// `GET /events`
pub(super) async fn listen(State(pages): State<Pages>, visit: SignedInRequest) -> Response {
    if is_from_elsewhere(&visit.headers) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let mut questions = pages.desk.changes();
    questions.mark_changed();
    let news = pages.device.events();
    let (live, _) = pages.device.live();
    let notices = pages.board.listen();
    let told = EventFeed { pages, visit, questions, news, live, notices };
    let lines = stream::unfold(told, |mut told| async move {
        let line = told.next().await?;
        Some((Ok::<_, Infallible>(line), told))
    });
    let kind = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (kind, Body::from_stream(lines)).into_response()
}

impl EventFeed {
    async fn next(&mut self) -> Option<String> {
        let stop = self.pages.stop.clone();
        tokio::select! {
            () = stop.cancelled() => None,
            changed = self.questions.changed() => {
                changed.ok()?;
                Some(line("calls", &calls::waiting(&self.pages, &self.visit)))
            }
            news = self.news.recv() => match news {
                Ok(news) => Some(line("news", &news)),
                // After missed events the page reloads everything.
                Err(RecvError::Lagged(_)) => Some(line("news", &DeviceEvent::AuditChanged)),
                Err(RecvError::Closed) => None,
            },
            live = self.live.recv() => match live {
                Ok(live) => Some(line("talk", &live)),
                Err(RecvError::Lagged(_)) => Some(line("news", &DeviceEvent::AuditChanged)),
                Err(RecvError::Closed) => None,
            },
            notice = self.notices.recv() => match notice {
                Ok(notice) => Some(line("notice", &notice)),
                Err(RecvError::Lagged(_)) => Some(":\n\n".to_owned()),
                Err(RecvError::Closed) => None,
            },
            () = tokio::time::sleep(BEAT) => Some(":\n\n".to_owned()),
        }
    }
}

fn line(name: &str, value: &impl Serialize) -> String {
    format!("event: {name}\ndata: {}\n\n", serde_json::to_string(value).unwrap_or_default())
}
