//! A turn's event log as server-sent events.
//!
//! Each event is `id: TURN.NUMBER`, `event: NAME`, `data: JSON` and a blank line. What is waiting is
//! written in one piece; nothing waits for more. A stream can be taken up again behind any event and
//! goes on with the same bytes.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::{HeaderValue, header};
use nuncio_core::event::{Event, Voice};
use nuncio_core::turn::StreamMode;
use nuncio_engine::converse::LiveTurn;
use nuncio_engine::ports::Clock;

/// How often a silent stream shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// About how much is written in one piece.
const PIECE: usize = 16 * 1024;

/// An event's id: the turn's number and the event's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventId {
    pub(super) turn: u64,
    pub(super) event: usize,
}

impl EventId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (turn, event) = text.trim().split_once('.')?;
        Some(Self { turn: turn.parse().ok()?, event: event.parse().ok()? })
    }
}

/// The events of a turn from number `from` on, until it is over.
pub(super) fn response(turn: Arc<LiveTurn>, mode: StreamMode, from: usize, clock: Arc<dyn Clock>) -> Response {
    let body = Body::from_stream(stream::unfold(Reader::new(turn, mode, from, clock), |mut reader| async move {
        let piece = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), reader))
    }));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that gather a response before passing it on would hold the stream back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Reader {
    turn: Arc<LiveTurn>,
    mode: StreamMode,
    next: usize,
    clock: Arc<dyn Clock>,
    heartbeat: BoxFuture<'static, ()>,
}

impl Reader {
    fn new(turn: Arc<LiveTurn>, mode: StreamMode, from: usize, clock: Arc<dyn Clock>) -> Self {
        // An id from before a crash may lie behind what could be restored: the end is told in any case.
        let last = turn.read(|log| if log.is_finished() { log.len() - 1 } else { usize::MAX });
        let next = if from > last + usize::from(last != usize::MAX) { last } else { from };
        let heartbeat = clock.sleep_until(clock.now().after(HEARTBEAT));
        Self { turn, mode, next, clock, heartbeat }
    }

    /// What is there to send, or nothing when all has been sent.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let mut piece = BytesMut::new();
            let over = self.turn.read(|log| {
                for (number, event) in log.from(self.next) {
                    encode(&mut piece, self.mode, self.turn.number, number, event);
                    self.next = number + 1;
                    if piece.len() >= PIECE {
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
                    self.heartbeat = self.clock.sleep_until(self.clock.now().after(HEARTBEAT));
                    return Some(Bytes::from_static(b": still here\n\n"));
                }
            }
        }
    }
}

/// Writes one event; nothing if it is not for that mode.
fn encode(out: &mut BytesMut, mode: StreamMode, turn: u64, number: usize, event: Event<'_>) {
    let by_piece = mode != StreamMode::Message;
    let (name, data) = match event {
        Event::Started => ("turn_start", Data::Json("{}")),
        Event::Delta(Voice::Text, text) if by_piece => ("text_delta", Data::Text("delta", text)),
        Event::Delta(Voice::Thinking, text) if by_piece => ("thinking_delta", Data::Text("delta", text)),
        Event::Block(Voice::Text, text) if !by_piece => ("text", Data::Text("text", text)),
        Event::Block(Voice::Thinking, text) if !by_piece => ("thinking", Data::Text("thinking", text)),
        Event::Delta(..) | Event::Block(..) => return,
        Event::ToolCall(json) => ("tool_call", Data::Json(json)),
        Event::ToolResult(json) => ("tool_result", Data::Json(json)),
        Event::Stopped(json) => ("turn_stop", Data::Json(json)),
    };
    write!(out, "id: {turn}.{number}\nevent: {name}\ndata: ").expect("writing to memory");
    match data {
        Data::Json(json) => out.put_slice(json.as_bytes()),
        Data::Text(key, text) => {
            write!(out, "{{\"{key}\":").expect("writing to memory");
            serde_json::to_writer(out.writer(), text).expect("a text is always JSON");
            out.put_u8(b'}');
        }
    }
    out.put_slice(b"\n\n");
}

enum Data<'a> {
    Json(&'a str),
    Text(&'static str, &'a str),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(mode: StreamMode, event: Event<'_>) -> String {
        let mut out = BytesMut::new();
        encode(&mut out, mode, 2, 7, event);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn an_event_is_four_lines_and_its_data_one() {
        assert_eq!(
            encoded(StreamMode::Delta, Event::Delta(Voice::Text, "a\n\"ü\"")),
            "id: 2.7\nevent: text_delta\ndata: {\"delta\":\"a\\n\\\"ü\\\"\"}\n\n"
        );
        assert_eq!(
            encoded(StreamMode::Message, Event::Block(Voice::Thinking, "hm")),
            "id: 2.7\nevent: thinking\ndata: {\"thinking\":\"hm\"}\n\n"
        );
        assert_eq!(encoded(StreamMode::Message, Event::Started), "id: 2.7\nevent: turn_start\ndata: {}\n\n");
    }

    #[test]
    fn each_mode_leaves_out_what_is_for_the_other() {
        assert_eq!(encoded(StreamMode::Message, Event::Delta(Voice::Text, "a")), "");
        assert_eq!(encoded(StreamMode::Delta, Event::Block(Voice::Text, "a")), "");
    }

    #[test]
    fn event_ids_are_read_back() {
        assert_eq!(EventId::parse("2.7"), Some(EventId { turn: 2, event: 7 }));
        for bad in ["", "2", "2.", ".7", "2.7.1", "-1.0", "a.b", "99999999999999999999.1"] {
            assert_eq!(EventId::parse(bad), None, "{bad}");
        }
    }
}
