//! Test client of server-sent events, with their raw bytes.

use reqwest::Response;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedSseEvent {
    pub id: String,
    pub event: String,
    pub data: Value,
    /// Raw bytes of the event, including the blank line after it.
    pub raw: String,
}

impl ReceivedSseEvent {
    /// All events in the bytes of a stream, without comments.
    #[must_use]
    pub fn parse(bytes: &str) -> Vec<Self> {
        bytes.split_inclusive("\n\n").filter_map(Self::read).collect()
    }

    /// The event of one block; `None` for a comment.
    fn read(raw: &str) -> Option<Self> {
        if raw.starts_with(':') {
            return None;
        }
        let field = |name: &str| raw.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
        let data = serde_json::from_str(&field("data: ")).unwrap();
        Some(Self { id: field("id: "), event: field("event: "), data, raw: raw.to_owned() })
    }
}

#[derive(Debug)]
pub struct EventStream {
    response: Response,
    unread: Vec<u8>,
}

impl EventStream {
    #[must_use]
    pub fn new(response: Response) -> Self {
        Self { response, unread: Vec::new() }
    }

    /// The next block of the stream, event or comment, as received; `None` at the end.
    pub async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
                let block = self.unread.drain(..end + 2).collect();
                return Some(String::from_utf8(block).unwrap());
            }
            match self.response.chunk().await.unwrap() {
                Some(chunk) => self.unread.extend_from_slice(&chunk),
                None => {
                    assert!(self.unread.is_empty(), "the stream ended within an event");
                    return None;
                }
            }
        }
    }

    /// The next event of the stream; `None` at the end.
    pub async fn event(&mut self) -> Option<ReceivedSseEvent> {
        loop {
            if let Some(event) = ReceivedSseEvent::read(&self.block().await?) {
                return Some(event);
            }
        }
    }

    /// Events of the stream up to and including the first with `name`; panics if the stream ends before.
    pub async fn up_to(&mut self, name: &str) -> Vec<ReceivedSseEvent> {
        let mut events = Vec::new();
        loop {
            let event = self.event().await.unwrap_or_else(|| panic!("the stream ended without {name}"));
            events.push(event);
            if events.last().is_some_and(|event| event.event == name) {
                return events;
            }
        }
    }

    pub async fn rest(mut self) -> Vec<ReceivedSseEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.event().await {
            events.push(event);
        }
        events
    }

    /// Raw bytes of the stream until its end, without comments.
    pub async fn rest_raw(self) -> String {
        self.rest().await.into_iter().map(|event| event.raw).collect()
    }
}
