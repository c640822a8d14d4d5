//! `GET /a2h/agents/{id}/messages/poll`: events for agents that hold no WebSocket open.

use std::time::Duration;

use axum::extract::{Request, State};
use http::StatusCode;
use nuncio_core::notification::{QueuedNotification, RelayParty};
use nuncio_engine::EngineError;

use super::keys::itself;
use super::messages::MAX_SEALED;
use super::socket::AGENT;
use super::{A2hResult, A2hServerState, PagedListQuery, PathParam, answer, socket};
use crate::lift;
use crate::wire::Page;
use crate::wire::event::{Event, EventKind};

const DEFAULT_WAIT_SECONDS: u64 = 25;
const MAX_WAIT_SECONDS: u64 = 60;

/// Returns events numbered above `after` and acknowledges those up to it. Waits at most `wait` seconds for an event.
pub(super) async fn poll(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let (to, _) = itself(&request, &id)?;
    let wanted = PagedListQuery::of(&request)?;
    let wait = wanted.number("wait")?.unwrap_or(DEFAULT_WAIT_SECONDS);
    if wait > MAX_WAIT_SECONDS {
        return Err(lift::wrong(format!("wait must be a whole number of seconds from 0 to {MAX_WAIT_SECONDS}")).into());
    }
    let after = wanted.number("after")?;
    // A waiting poll counts towards the limit of open connections.
    let Some(_permit) = a2h.sockets.open() else { return Ok(socket::full()) };
    let engine = &a2h.engine;
    let known = engine.mailbox().mail_read(&to, AGENT).await?;
    let mut cursor = match after {
        None => known,
        Some(after) => after.min(engine.mailbox().mail_head(&to).await?),
    };
    if cursor > known {
        engine.mailbox().mark_mail_read(&to, AGENT, cursor).await?;
    }
    let late = engine.clock().sleep_until(engine.now().after(Duration::from_secs(wait)));
    tokio::pin!(late);
    loop {
        // Existing events are returned without waiting.
        let mut found = engine.mailbox().mail(&to, cursor, wanted.limit).await?;
        if found.is_empty() {
            found = tokio::select! {
                biased;
                found = engine.mailbox().next_mail(&to, cursor, wanted.limit) => found?,
                () = &mut late => Vec::new(),
            };
        }
        let is_over = found.is_empty();
        let events = a2h.wire_events(&to, found, &mut cursor).await?;
        // A batch of only deleted messages is skipped, because later events may follow.
        if is_over || !events.is_empty() {
            return Ok(answer(StatusCode::OK, &Page { data: events, next_cursor: Some(cursor.to_string()) }));
        }
    }
}

impl A2hServerState {
    /// Wire form of as many events as one response may hold; sets `cursor` to the number of the last.
    async fn wire_events(
        &self,
        to: &RelayParty,
        found: Vec<QueuedNotification>,
        cursor: &mut u64,
    ) -> Result<Vec<Event>, EngineError> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        for mailed in found {
            let seq = mailed.seq;
            let event = self.event(to, mailed).await?;
            if let Some(EventKind::MessageNew(message)) = event.as_ref().map(|event| &event.what) {
                bytes += message.encrypted_payload.0.len();
                if bytes > MAX_SEALED && !events.is_empty() {
                    break;
                }
            }
            *cursor = seq;
            events.extend(event);
        }
        Ok(events)
    }
}
