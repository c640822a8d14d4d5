//! Server-sent events, with the very bytes they came in.

use reqwest::Response;
use serde_json::Value;

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub struct Sse {
    /// Its id.
    pub id: String,
    /// Its name.
    pub event: String,
    /// Its data.
    pub data: Value,
    /// Its bytes, the blank line included.
    pub raw: String,
}

impl Sse {
    /// The events in the bytes of a stream; comments are passed over.
    #[must_use]
    pub fn parse(bytes: &str) -> Vec<Self> {
        bytes.split_inclusive("\n\n").filter_map(Self::read).collect()
    }

    /// The event in one block of a stream; nothing if it is a comment.
    fn read(raw: &str) -> Option<Self> {
        if raw.starts_with(':') {
            return None;
        }
        let field = |name: &str| raw.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
        let data = serde_json::from_str(&field("data: ")).unwrap();
        Some(Self { id: field("id: "), event: field("event: "), data, raw: raw.to_owned() })
    }
}

/// A stream that is being read.
#[derive(Debug)]
pub struct EventStream {
    response: Response,
    unread: Vec<u8>,
}

impl EventStream {
    /// Reads an open response.
    #[must_use]
    pub fn new(response: Response) -> Self {
        Self { response, unread: Vec::new() }
    }

    /// The next block, event or comment, as it came; nothing at the end.
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

    /// The next event; nothing at the end.
    pub async fn event(&mut self) -> Option<Sse> {
        loop {
            if let Some(event) = Sse::read(&self.block().await?) {
                return Some(event);
            }
        }
    }

    /// The events up to one of that name, which must come.
    pub async fn up_to(&mut self, name: &str) -> Vec<Sse> {
        let mut events = Vec::new();
        loop {
            let event = self.event().await.unwrap_or_else(|| panic!("the stream ended without {name}"));
            events.push(event);
            if events.last().is_some_and(|event| event.event == name) {
                return events;
            }
        }
    }

    /// The events up to the end.
    pub async fn rest(mut self) -> Vec<Sse> {
        let mut events = Vec::new();
        while let Some(event) = self.event().await {
            events.push(event);
        }
        events
    }

    /// The bytes up to the end, comments left out.
    pub async fn rest_raw(self) -> String {
        self.rest().await.into_iter().map(|event| event.raw).collect()
    }
}
