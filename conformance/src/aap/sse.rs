//! Strict parser of server-sent events (AAP v3, wire format of a turn).
//!
//! Some clients accept only one `event:` line, one `data:` line with a JSON object and a blank line. An `id:` line and
//! comments are harmless and allowed.

use serde_json::{Map, Value};

/// A server-sent event with its raw bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RawSseEvent {
    /// Value of the `id:` line.
    pub(super) id: Option<String>,
    /// Value of the `event:` line.
    pub(super) name: String,
    /// JSON object of the `data:` line.
    pub(super) data: Map<String, Value>,
    /// Bytes of the event's lines with the final blank line, without comment lines.
    pub(super) raw: Vec<u8>,
}

impl RawSseEvent {
    /// String field of the data; `None` if it is absent or of another type.
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.data.get(field)?.as_str()
    }
}

/// Strict incremental decoder of an event stream.
#[derive(Debug, Default)]
pub(super) struct SseStreamDecoder {
    buffer: Vec<u8>,
    /// Offset in the buffer before which there is no blank line.
    searched: usize,
    /// Number of comment lines in the stream.
    pub(super) comments: usize,
}

impl SseStreamDecoder {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete event; an error describes why the event is malformed.
    pub(super) fn next(&mut self) -> Result<Option<RawSseEvent>, String> {
        loop {
            let Some(at) = self.buffer[self.searched..].windows(2).position(|two| two == b"\n\n") else {
                self.searched = self.buffer.len().saturating_sub(1);
                return Ok(None);
            };
            let end = self.searched + at + 2;
            self.searched = 0;
            let block: Vec<u8> = self.buffer.drain(..end).collect();
            if let Some(event) = self.event(&block)? {
                return Ok(Some(event));
            }
        }
    }

    /// Must be called at the end of the stream; fails if bytes are left.
    pub(super) fn finish(&self) -> Result<(), String> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let rest = String::from_utf8_lossy(&self.buffer);
        Err(format!("expected a blank line after the last event, the stream ended after {rest:?}"))
    }

    /// Parses one block of lines; `None` if the block has only comments.
    fn event(&mut self, block: &[u8]) -> Result<Option<RawSseEvent>, String> {
        let text = std::str::from_utf8(block).map_err(|_| "the stream is not UTF-8".to_owned())?;
        let (mut id, mut name, mut data) = (None, None, None);
        let mut raw = Vec::with_capacity(block.len());
        for line in text.trim_end_matches('\n').split('\n') {
            if line.starts_with(':') {
                self.comments += 1;
                continue;
            }
            let slot = match line.split_once(": ") {
                Some(("id", value)) => (&mut id, value),
                Some(("event", value)) => (&mut name, value),
                Some(("data", value)) => (&mut data, value),
                _ => return Err(format!("expected `event: x`, `data: {{…}}` or `id: x`, got line {line:?}")),
            };
            if line.contains('\r') {
                return Err(format!("expected lines that end in LF, got {line:?}"));
            }
            if slot.0.replace(slot.1.to_owned()).is_some() {
                return Err(format!("expected each field once per event, got a second line {line:?}"));
            }
            raw.extend_from_slice(line.as_bytes());
            raw.push(b'\n');
        }
        if raw.is_empty() {
            return Ok(None);
        }
        raw.push(b'\n');
        let (Some(name), Some(data)) = (name, data) else {
            return Err(format!("expected an event with `event:` and `data:` lines, got {text:?}"));
        };
        Ok(Some(RawSseEvent { id, data: object(&name, &data)?, name, raw }))
    }
}

fn object(name: &str, data: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(data) {
        Ok(Value::Object(object)) if object.contains_key("event") => {
            Err(format!("{name}: expected data without the key `event`, got {data}"))
        }
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(format!("{name}: expected data to be a JSON object, got {data}")),
        Err(error) => Err(format!("{name}: expected data to be JSON, got {data:?}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::SseStreamDecoder;

    fn decode(bytes: &[u8]) -> Result<Vec<String>, String> {
        let mut decoder = SseStreamDecoder::default();
        let mut names = Vec::new();
        // The stream is pushed byte by byte, because an event may be split anywhere.
        for byte in bytes {
            decoder.push(&[*byte]);
            while let Some(event) = decoder.next()? {
                names.push(event.name);
            }
        }
        decoder.finish()?;
        Ok(names)
    }

    #[test]
    fn well_formed_event_stream_is_parsed_byte_by_byte() {
        let stream = b": hello\n\nid: 1\nevent: turn_start\ndata: {}\n\n: still here\nevent: text\ndata: {\"text\":\"\xc3\xa9\"}\n\n";
        assert_eq!(decode(stream), Ok(vec!["turn_start".to_owned(), "text".to_owned()]));
    }

    #[test]
    fn raw_bytes_of_event_exclude_sse_comments() {
        let mut decoder = SseStreamDecoder::default();
        decoder.push(b": beat\nid: 7\nevent: turn_start\ndata: {}\n\n");
        let event = decoder.next().expect("it is well formed").expect("it is complete");
        assert_eq!(event.raw, b"id: 7\nevent: turn_start\ndata: {}\n\n");
        assert_eq!((event.id.as_deref(), decoder.comments), (Some("7"), 1));
    }

    #[test]
    fn event_stream_that_simple_clients_cannot_parse_is_refused() {
        for bad in [
            "event: text\r\ndata: {}\r\n\r\n",
            "event: text\ndata: {}\n",
            "event: text\ndata: plain\n\n",
            "event: text\ndata: []\n\n",
            "event: text\ndata: {\"event\":\"text\"}\n\n",
            "event: text\ndata: {\ndata: }\n\n",
            "event:text\ndata:{}\n\n",
            "event: text\n\n",
            "data: {}\n\n",
            "data: [DONE]\n\n",
        ] {
            assert!(decode(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
