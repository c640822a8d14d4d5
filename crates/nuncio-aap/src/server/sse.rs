//! Writes the event log of a turn as server-sent events.
//!
//! Each event has the lines `id: TURN.NUMBER`, `event: NAME` and `data: JSON`. Pending events are written in one chunk
//! without waiting for more. A stream resumed after any event continues with the same bytes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::{HeaderValue, header};
use nuncio_core::event::{ModelOutputKind, TurnLogEvent};
use nuncio_core::turn::StreamMode;
use nuncio_engine::Engine;
use nuncio_engine::converse::LiveTurn;
use nuncio_engine::ports::Clock;

/// Interval of SSE comments that keep a silent connection open.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// Approximate size limit of one chunk of the event stream, in bytes.
const CHUNK_BYTES: usize = 16 * 1024;

/// Typical size of an encoded event, in bytes, for preallocation.
const TYPICAL_EVENT_BYTES: usize = 64;

/// Streams the events of a turn from number `from` until the turn ends.
pub(super) fn response(turn: Arc<LiveTurn>, mode: StreamMode, from: usize, engine: &Engine) -> Response {
    let (reader, open) = (TurnEventReader::new(turn, mode, from, engine.clock().clone()), engine.open_stream());
    let body = Body::from_stream(stream::unfold((reader, open), |(mut reader, open)| async move {
        let piece = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), (reader, open)))
    }));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Tells reverse proxies not to buffer, because buffering would delay events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct TurnEventReader {
    turn: Arc<LiveTurn>,
    mode: StreamMode,
    /// Index of the next event in the log.
    next: usize,
    clock: Arc<dyn Clock>,
    heartbeat: BoxFuture<'static, ()>,
}

impl TurnEventReader {
    fn new(turn: Arc<LiveTurn>, mode: StreamMode, from: usize, clock: Arc<dyn Clock>) -> Self {
        let heartbeat = clock.sleep_until(clock.now().after(HEARTBEAT_INTERVAL));
        let next = turn.read(|log| log.index_of(from));
        Self { turn, mode, next, clock, heartbeat }
    }

    /// Next chunk of the event stream; `None` when the turn has ended and all events were sent.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let mut piece = BytesMut::new();
            let over = self.turn.read(|log| {
                // A client that claims a later event than the last one gets the end of the stream.
                if log.is_finished() && self.next > log.len() {
                    self.next = log.len() - 1;
                }
                let waiting = log.len().saturating_sub(self.next);
                piece.reserve((waiting * TYPICAL_EVENT_BYTES).min(CHUNK_BYTES + CHUNK_BYTES / 4));
                for (index, event) in log.from(self.next) {
                    encode(&mut piece, self.mode, self.turn.number, log.number(index), event);
                    self.next = index + 1;
                    if piece.len() >= CHUNK_BYTES {
                        break;
                    }
                }
                log.is_finished() && self.next >= log.len()
            });
            if !piece.is_empty() {
                return Some(piece.freeze());
            }
            if over {
                return None;
            }
            tokio::select! {
                () = self.turn.wait_for(self.next) => {}
                () = &mut self.heartbeat => {
                    self.heartbeat = self.clock.sleep_until(self.clock.now().after(HEARTBEAT_INTERVAL));
                    return Some(Bytes::from_static(b": still here\n\n"));
                }
            }
        }
    }
}

/// Writes one event, or nothing if the stream mode excludes it. The function is a hot path: it copies constants,
/// formats numbers without allocation and scans text once.
fn encode(out: &mut BytesMut, mode: StreamMode, turn: u64, number: usize, event: TurnLogEvent<'_>) {
    let by_piece = mode != StreamMode::Message;
    let (head, data, tail): (&[u8], _, &[u8]) = match event {
        TurnLogEvent::Started => (b"\nevent: turn_start\ndata: ", SseEventData::Json("{}"), EVENT_END),
        TurnLogEvent::Delta(ModelOutputKind::Text, text) if by_piece => {
            (b"\nevent: text_delta\ndata: {\"delta\":", SseEventData::Text(text), END_OF_OBJECT)
        }
        TurnLogEvent::Delta(ModelOutputKind::Thinking, text) if by_piece => {
            (b"\nevent: thinking_delta\ndata: {\"delta\":", SseEventData::Text(text), END_OF_OBJECT)
        }
        TurnLogEvent::Block(ModelOutputKind::Text, text) if !by_piece => {
            (b"\nevent: text\ndata: {\"text\":", SseEventData::Text(text), END_OF_OBJECT)
        }
        TurnLogEvent::Block(ModelOutputKind::Thinking, text) if !by_piece => {
            (b"\nevent: thinking\ndata: {\"thinking\":", SseEventData::Text(text), END_OF_OBJECT)
        }
        TurnLogEvent::Delta(..) | TurnLogEvent::Block(..) => return,
        TurnLogEvent::ToolCall(json) => (b"\nevent: tool_call\ndata: ", SseEventData::Json(json), EVENT_END),
        TurnLogEvent::ToolResult(json) => (b"\nevent: tool_result\ndata: ", SseEventData::Json(json), EVENT_END),
        TurnLogEvent::Stopped(json) => (b"\nevent: turn_stop\ndata: ", SseEventData::Json(json), EVENT_END),
    };
    out.put_slice(b"id: ");
    out.put_slice(itoa::Buffer::new().format(turn).as_bytes());
    out.put_u8(b'.');
    out.put_slice(itoa::Buffer::new().format(number).as_bytes());
    out.put_slice(head);
    match data {
        SseEventData::Json(json) => out.put_slice(json.as_bytes()),
        SseEventData::Text(text) => serde_json::to_writer(out.writer(), text).expect("a text is always JSON"),
    }
    out.put_slice(tail);
}

const EVENT_END: &[u8] = b"\n\n";
const END_OF_OBJECT: &[u8] = b"}\n\n";

enum SseEventData<'a> {
    Json(&'a str),
    Text(&'a str),
}

#[cfg(test)]
mod tests;
