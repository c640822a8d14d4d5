//! A turn's event log as server-sent events.
//!
//! Each event is `id: TURN.NUMBER`, `event: NAME`, `data: JSON` and a blank line. What is waiting is
//! written in one piece; nothing waits for more. A stream can be taken up again behind any event and
//! goes on with the same bytes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::{HeaderValue, header};
use nuncio_core::event::{Event, OutputKind};
use nuncio_core::turn::StreamMode;
use nuncio_engine::Engine;
use nuncio_engine::converse::LiveTurn;
use nuncio_engine::ports::Clock;

/// How often a silent stream shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// About how much is written in one piece.
const PIECE: usize = 16 * 1024;

/// About how many bytes an event takes.
const TYPICAL: usize = 64;

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

/// The events of a turn for one who has seen all before number `from`, until it is over.
pub(super) fn response(turn: Arc<LiveTurn>, mode: StreamMode, from: usize, engine: &Engine) -> Response {
    let (reader, open) = (Reader::new(turn, mode, from, engine.clock().clone()), engine.open_stream());
    let body = Body::from_stream(stream::unfold((reader, open), |(mut reader, open)| async move {
        let piece = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), (reader, open)))
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
    /// The place of the next event in the log.
    next: usize,
    clock: Arc<dyn Clock>,
    heartbeat: BoxFuture<'static, ()>,
}

impl Reader {
    fn new(turn: Arc<LiveTurn>, mode: StreamMode, from: usize, clock: Arc<dyn Clock>) -> Self {
        let heartbeat = clock.sleep_until(clock.now().after(HEARTBEAT));
        let next = turn.read(|log| log.place(from));
        Self { turn, mode, next, clock, heartbeat }
    }

    /// What is there to send, or nothing when all has been sent.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let mut piece = BytesMut::new();
            let over = self.turn.read(|log| {
                // Whoever claims to have seen more than there is gets the end.
                if log.is_finished() && self.next > log.len() {
                    self.next = log.len() - 1;
                }
                let waiting = log.len().saturating_sub(self.next);
                piece.reserve((waiting * TYPICAL).min(PIECE + PIECE / 4));
                for (place, event) in log.from(self.next) {
                    encode(&mut piece, self.mode, self.turn.number, log.number(place), event);
                    self.next = place + 1;
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

/// Writes one event; nothing if it is not for that mode. This is the hot place of a stream: constants
/// are copied, numbers written by hand, and text is scanned once.
fn encode(out: &mut BytesMut, mode: StreamMode, turn: u64, number: usize, event: Event<'_>) {
    let by_piece = mode != StreamMode::Message;
    let (head, data, tail): (&[u8], _, &[u8]) = match event {
        Event::Started => (b"\nevent: turn_start\ndata: ", Data::Json("{}"), END),
        Event::Delta(OutputKind::Text, text) if by_piece => {
            (b"\nevent: text_delta\ndata: {\"delta\":", Data::Text(text), END_OF_OBJECT)
        }
        Event::Delta(OutputKind::Thinking, text) if by_piece => {
            (b"\nevent: thinking_delta\ndata: {\"delta\":", Data::Text(text), END_OF_OBJECT)
        }
        Event::Block(OutputKind::Text, text) if !by_piece => {
            (b"\nevent: text\ndata: {\"text\":", Data::Text(text), END_OF_OBJECT)
        }
        Event::Block(OutputKind::Thinking, text) if !by_piece => {
            (b"\nevent: thinking\ndata: {\"thinking\":", Data::Text(text), END_OF_OBJECT)
        }
        Event::Delta(..) | Event::Block(..) => return,
        Event::ToolCall(json) => (b"\nevent: tool_call\ndata: ", Data::Json(json), END),
        Event::ToolResult(json) => (b"\nevent: tool_result\ndata: ", Data::Json(json), END),
        Event::Stopped(json) => (b"\nevent: turn_stop\ndata: ", Data::Json(json), END),
    };
    out.put_slice(b"id: ");
    put_number(out, turn);
    out.put_u8(b'.');
    put_number(out, number as u64);
    out.put_slice(head);
    match data {
        Data::Json(json) => out.put_slice(json.as_bytes()),
        Data::Text(text) => serde_json::to_writer(out.writer(), text).expect("a text is always JSON"),
    }
    out.put_slice(tail);
}

const END: &[u8] = b"\n\n";
const END_OF_OBJECT: &[u8] = b"}\n\n";

enum Data<'a> {
    Json(&'a str),
    Text(&'a str),
}

fn put_number(out: &mut BytesMut, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.put_slice(&digits[start..]);
}

#[cfg(test)]
mod resume;

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
            encoded(StreamMode::Delta, Event::Delta(OutputKind::Text, "a\n\"ü\"")),
            "id: 2.7\nevent: text_delta\ndata: {\"delta\":\"a\\n\\\"ü\\\"\"}\n\n"
        );
        assert_eq!(
            encoded(StreamMode::Message, Event::Block(OutputKind::Thinking, "hm")),
            "id: 2.7\nevent: thinking\ndata: {\"thinking\":\"hm\"}\n\n"
        );
        assert_eq!(encoded(StreamMode::Message, Event::Started), "id: 2.7\nevent: turn_start\ndata: {}\n\n");
    }

    #[test]
    fn each_mode_leaves_out_what_is_for_the_other() {
        assert_eq!(encoded(StreamMode::Message, Event::Delta(OutputKind::Text, "a")), "");
        assert_eq!(encoded(StreamMode::Delta, Event::Block(OutputKind::Text, "a")), "");
    }

    #[test]
    fn event_ids_are_read_back() {
        assert_eq!(EventId::parse("2.7"), Some(EventId { turn: 2, event: 7 }));
        for bad in ["", "2", "2.", ".7", "2.7.1", "-1.0", "a.b", "99999999999999999999.1"] {
            assert_eq!(EventId::parse(bad), None, "{bad}");
        }
    }
}
