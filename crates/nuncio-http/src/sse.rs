//! Parser for server-sent events that accepts input in chunks of any size.
//!
//! Follows the [WHATWG
//! specification](https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream). Every byte
//! is examined once and copied at most twice, and the memory that a peer can make the parser use is limited. Text is
//! decoded line by line, so that a character split across network packets is decoded correctly.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
mod tests;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Event type; `message` if the stream gives none.
    pub event: String,
    /// The event's data lines, joined by line feeds.
    pub data: String,
    /// The last id of the stream, for `Last-Event-ID` when resuming after this event.
    pub id: Option<Arc<str>>,
}

/// Limits on the data that [`SseDecoder`] buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseLimits {
    /// Largest number of bytes of one line.
    pub line: usize,
    /// Largest number of bytes of one event's data and name.
    pub event: usize,
}

impl Default for SseLimits {
    /// Limits of 8 MiB each.
    fn default() -> Self {
        Self { line: 8 * 1024 * 1024, event: 8 * 1024 * 1024 }
    }
}

/// The stream exceeds a limit; the value is the limit in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseTooLarge {
    #[error("a line of the event stream is longer than {0} bytes")]
    Line(usize),
    #[error("an event of the stream is larger than {0} bytes")]
    Event(usize),
}

/// Parses a stream of events. Pass it the received bytes, then take the complete events:
///
/// ```
/// use nuncio_http::sse::{SseDecoder, SseLimits};
///
/// let mut decoder = SseDecoder::new(SseLimits::default());
/// decoder.feed(b"event: greeting\ndata: hel")?;
/// assert!(decoder.next_event().is_none());
/// decoder.feed(b"lo\n\n")?;
/// assert_eq!(decoder.next_event().map(|event| event.data).as_deref(), Some("hello"));
/// # Ok::<(), nuncio_http::sse::SseTooLarge>(())
/// ```
#[derive(Debug, Default)]
pub struct SseDecoder {
    limits: SseLimits,
    /// Bytes of the line that has not ended yet.
    line: Vec<u8>,
    /// Whether a line has ended; only the first line may begin with a byte order mark.
    has_read_line: bool,
    /// Whether the last line ended with a carriage return; a line feed after it belongs to the same line end.
    after_return: bool,
    name: String,
    data: String,
    /// Whether the unfinished event has a `data` field, even an empty one.
    has_data: bool,
    id: Option<Arc<str>>,
    retry: Option<Duration>,
    ready: VecDeque<SseEvent>,
    failed: Option<SseTooLarge>,
}

impl SseDecoder {
    #[must_use]
    pub fn new(limits: SseLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Parses the next bytes. Events before an error can still be taken.
    ///
    /// # Errors
    ///
    /// The stream exceeds the limits; nothing more is parsed.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), SseTooLarge> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (part, rest) = bytes.split_at(end);
            self.end_line(part)?;
            bytes = match rest {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.check_line(bytes)?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// The next complete event.
    pub fn next_event(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    /// Ends the stream and returns a last event that lacks only its blank line. The specification drops such an event,
    /// since it may be truncated; a caller that can tell (its data is complete JSON) may still use it.
    #[must_use]
    pub fn finish(mut self) -> Option<SseEvent> {
        if self.failed.is_none() && !self.line.is_empty() {
            self.end_line(&[]).ok()?;
        }
        self.ready.clear();
        self.dispatch();
        self.ready.pop_back()
    }

    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Reconnection delay requested by the stream.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Ends a line; `part` is the end of the line that is not in the buffer.
    fn end_line(&mut self, part: &[u8]) -> Result<(), SseTooLarge> {
        self.check_line(part)?;
        if self.line.is_empty() {
            return self.read_line(part);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(part);
        let read = self.read_line(&line);
        line.clear();
        self.line = line;
        read
    }

    fn check_line(&mut self, part: &[u8]) -> Result<(), SseTooLarge> {
        if self.line.len().saturating_add(part.len()) > self.limits.line {
            return self.fail(SseTooLarge::Line(self.limits.line));
        }
        Ok(())
    }

    fn fail(&mut self, fault: SseTooLarge) -> Result<(), SseTooLarge> {
        self.failed = Some(fault);
        self.line = Vec::new();
        self.name = String::new();
        self.data = String::new();
        self.has_data = false;
        Err(fault)
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), SseTooLarge> {
        let is_first = !std::mem::replace(&mut self.has_read_line, true);
        let line = if is_first { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) } else { line };
        if line.is_empty() {
            self.dispatch();
            return Ok(());
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(&String::from_utf8_lossy(value));
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => {
                self.id = (!value.is_empty()).then(|| String::from_utf8_lossy(value).into());
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let millis = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                self.retry = millis.map(Duration::from_millis).or(self.retry);
            }
            // A comment line has an empty field name.
            _ => {}
        }
        if self.name.len().saturating_add(self.data.len()) > self.limits.event {
            return self.fail(SseTooLarge::Event(self.limits.event));
        }
        Ok(())
    }

    fn dispatch(&mut self) {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) {
            let event = if name.is_empty() { "message".to_owned() } else { name };
            self.ready.push_back(SseEvent { event, data, id: self.id.clone() });
        }
    }
}
