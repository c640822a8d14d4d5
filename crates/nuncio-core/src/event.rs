//! The event log of one turn: all events in order, readable from any position.
//!
//! Text is stored in one growing buffer that entries point into, so that appending a delta allocates nothing and a
//! finished block is read without copying. The stored form has the same layout.

mod messages;

use serde::Serialize;

use crate::message::{Content, ToolCall};
use crate::turn::Stop;

/// Whether a piece of model output is text for people or thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    Text,
    Thinking,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    Started,
    Delta(OutputKind, &'a str),
    /// A complete block of text or thinking.
    Block(OutputKind, &'a str),
    /// A tool call, as JSON of a [`ToolCall`].
    ToolCall(&'a str),
    /// Result of one of the agent's tools: JSON with `toolCallId` and `content`.
    ToolResult(&'a str),
    /// The end of the turn, as JSON of a [`Stop`].
    Stopped(&'a str),
}

/// The event log of a turn. Events are numbered from 0; in a log rebuilt from the history, from [`RETOLD`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventLog {
    text: String,
    entries: Vec<Entry>,
    /// Kind of the unfinished block and the offset at which it begins.
    open: Option<(OutputKind, u32)>,
    /// Whether the log was rebuilt from the history, after a crash lost the original events.
    retold: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    kind: Kind,
    start: u32,
    end: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Started,
    Delta(OutputKind),
    Block(OutputKind),
    ToolCall,
    ToolResult,
    Stopped,
}

/// The log has reached the size limit of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the turn produced more than {MAX_BYTES} bytes")]
pub struct LogFull;

/// Size limit of the text of one turn.
pub const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Number of the first event of a rebuilt log: larger than any number that a reader can have seen in the original.
pub const RETOLD: usize = 10_000_000;
const _: () = assert!(RETOLD > MAX_BYTES / size_of::<Entry>());
/// Bytes reserved for the events that end a turn.
const RESERVE: usize = 1024 * 1024;

#[derive(Serialize)]
struct ToolResult<'a> {
    #[serde(rename = "toolCallId")]
    tool_call_id: &'a str,
    content: &'a Content,
}

impl EventLog {
    #[must_use]
    pub fn started() -> Self {
        let mut log = Self::default();
        log.entry(Kind::Started, 0);
        log
    }

    /// A new event log that is rebuilt because the original was lost.
    #[must_use]
    pub fn retold() -> Self {
        Self { retold: true, ..Self::started() }
    }

    /// The number of the event at an index of the log.
    #[must_use]
    pub const fn number(&self, place: usize) -> usize {
        if self.retold { RETOLD + place } else { place }
    }

    /// The index at which a reader continues that has seen all events before `number`. A reader that saw part of a
    /// lost log gets only the end: it finds the rest in the history.
    #[must_use]
    pub fn place(&self, number: usize) -> usize {
        match number {
            _ if !self.retold => number,
            RETOLD.. => number - RETOLD,
            0 | 1 => number,
            _ => self.len() - 1,
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.entries.last().is_some_and(|entry| entry.kind == Kind::Stopped)
    }

    #[must_use]
    pub fn event(&self, place: usize) -> Option<Event<'_>> {
        self.entries.get(place).map(|entry| self.view(*entry))
    }

    /// The events from an index on, each with its index.
    pub fn from(&self, place: usize) -> impl Iterator<Item = (usize, Event<'_>)> {
        let entries = self.entries.get(place..).unwrap_or(&[]);
        entries.iter().enumerate().map(move |(offset, entry)| (place + offset, self.view(*entry)))
    }

    /// Appends a piece of text or thinking. A change between the two completes the previous block.
    pub fn delta(&mut self, output: OutputKind, piece: &str) -> Result<(), LogFull> {
        self.room_for(piece.len())?;
        if piece.is_empty() {
            return Ok(());
        }
        if self.open.is_some_and(|(open, _)| open != output) {
            self.close_block();
        }
        let start = self.position();
        self.open.get_or_insert((output, start));
        self.text.push_str(piece);
        self.entry(Kind::Delta(output), start);
        Ok(())
    }

    /// Completes the unfinished block, if there is one.
    pub fn close_block(&mut self) {
        if let Some((output, start)) = self.open.take() {
            self.entry(Kind::Block(output), start);
        }
    }

    pub fn tool_call(&mut self, call: &ToolCall) -> Result<(), LogFull> {
        self.json(Kind::ToolCall, call)
    }

    /// Appends the result of one of the agent's tools.
    pub fn tool_result(&mut self, call: &str, content: &Content) -> Result<(), LogFull> {
        self.json(Kind::ToolResult, &ToolResult { tool_call_id: call, content })
    }

    /// Appends the end of the turn; space is reserved for it.
    pub fn stopped(&mut self, stop: &Stop) {
        self.close_block();
        let json = json_of(stop);
        let start = self.position();
        self.text.push_str(&json);
        self.entry(Kind::Stopped, start);
    }

    fn json(&mut self, kind: Kind, value: &impl Serialize) -> Result<(), LogFull> {
        let json = serde_json::to_string(value).expect("an event is always JSON");
        self.room_for(json.len())?;
        self.close_block();
        let start = self.position();
        self.text.push_str(&json);
        self.entry(kind, start);
        Ok(())
    }

    fn entry(&mut self, kind: Kind, start: u32) {
        let end = self.position();
        self.entries.push(Entry { kind, start, end });
    }

    fn position(&self) -> u32 {
        position(self.text.len())
    }

    fn room_for(&self, bytes: usize) -> Result<(), LogFull> {
        let entries = self.entries.len() * size_of::<Entry>();
        if self.text.len() + entries + bytes > MAX_BYTES - RESERVE { Err(LogFull) } else { Ok(()) }
    }

    fn view(&self, entry: Entry) -> Event<'_> {
        let text = &self.text[entry.start as usize..entry.end as usize];
        match entry.kind {
            Kind::Started => Event::Started,
            Kind::Delta(output) => Event::Delta(output, text),
            Kind::Block(output) => Event::Block(output, text),
            Kind::ToolCall => Event::ToolCall(text),
            Kind::ToolResult => Event::ToolResult(text),
            Kind::Stopped => Event::Stopped(text),
        }
    }
}

fn position(length: usize) -> u32 {
    u32::try_from(length).expect("the log is bounded far below 4 GiB")
}

fn json_of(stop: &Stop) -> String {
    serde_json::to_string(stop).expect("a stop is always JSON")
}

/// The stored form of an event log: version, number of entries, kind and length of each entry, then the text. An entry
/// begins where the previous one ends; a block spans its deltas.
mod stored {
    use super::{Entry, EventLog, Kind, OutputKind, Stop, json_of, position};

    const VERSION: u8 = 1;
    /// Version byte of a rebuilt event log; the rest of the format is the same.
    const VERSION_RETOLD: u8 = 2;

    impl EventLog {
        #[must_use]
        pub fn to_bytes(&self) -> Vec<u8> {
            self.written(&[], "")
        }

        /// The stored form that the event log will have after [`Self::stopped`] with this stop.
        #[must_use]
        pub fn to_bytes_stopped(&self, stop: &Stop) -> Vec<u8> {
            let (start, json) = (self.position(), json_of(stop));
            let stopped = Entry { kind: Kind::Stopped, start, end: position(self.text.len() + json.len()) };
            match self.open {
                Some((output, begun)) => {
                    let block = Entry { kind: Kind::Block(output), start: begun, end: start };
                    self.written(&[block, stopped], &json)
                }
                None => self.written(&[stopped], &json),
            }
        }

        fn written(&self, entries: &[Entry], text: &str) -> Vec<u8> {
            let count = self.entries.len() + entries.len();
            let mut out = Vec::with_capacity(16 + count * 3 + self.text.len() + text.len());
            out.push(if self.retold { VERSION_RETOLD } else { VERSION });
            put(&mut out, u32::try_from(count).expect("the log is bounded"));
            for entry in self.entries.iter().chain(entries) {
                out.push(tag(entry.kind));
                put(&mut out, entry.end - entry.start);
            }
            out.extend_from_slice(self.text.as_bytes());
            out.extend_from_slice(text.as_bytes());
            out
        }

        /// Parses the stored form of a finished event log; `None` if the bytes are damaged.
        #[must_use]
        pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
            let (&version, mut rest) = bytes.split_first()?;
            let count = take(&mut rest)? as usize;
            let retold = version == VERSION_RETOLD;
            if (version != VERSION && !retold) || count > rest.len() {
                return None;
            }
            let mut entries = Vec::with_capacity(count);
            let mut position: u32 = 0;
            for _ in 0..count {
                let (&tag, after) = rest.split_first()?;
                rest = after;
                let (kind, length) = (kind_of(tag)?, take(&mut rest)?);
                let entry = match kind {
                    Kind::Block(_) => Entry { kind, start: position.checked_sub(length)?, end: position },
                    _ => Entry { kind, start: position, end: position.checked_add(length)? },
                };
                position = entry.end;
                entries.push(entry);
            }
            let text = std::str::from_utf8(rest).ok()?.to_owned();
            let fits = entries.iter().all(|entry| text.get(entry.start as usize..entry.end as usize).is_some());
            (fits && text.len() == position as usize).then_some(Self { text, entries, open: None, retold })
        }
    }

    /// LEB128: seven bits per byte, lowest first; the last byte has its high bit clear.
    fn put(out: &mut Vec<u8>, mut number: u32) {
        while number >= 0x80 {
            out.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        out.push(number.to_le_bytes()[0]);
    }

    fn take(bytes: &mut &[u8]) -> Option<u32> {
        let mut number: u32 = 0;
        for shift in (0..32).step_by(7) {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            number |= u32::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn tag(kind: Kind) -> u8 {
        match kind {
            Kind::Started => 0,
            Kind::Delta(OutputKind::Text) => 1,
            Kind::Delta(OutputKind::Thinking) => 2,
            Kind::Block(OutputKind::Text) => 3,
            Kind::Block(OutputKind::Thinking) => 4,
            Kind::ToolCall => 5,
            Kind::ToolResult => 6,
            Kind::Stopped => 7,
        }
    }

    fn kind_of(tag: u8) -> Option<Kind> {
        Some(match tag {
            0 => Kind::Started,
            1 => Kind::Delta(OutputKind::Text),
            2 => Kind::Delta(OutputKind::Thinking),
            3 => Kind::Block(OutputKind::Text),
            4 => Kind::Block(OutputKind::Thinking),
            5 => Kind::ToolCall,
            6 => Kind::ToolResult,
            7 => Kind::Stopped,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CallId, ToolName};
    use crate::turn::StopReason;

    fn sample() -> EventLog {
        let mut log = EventLog::started();
        log.delta(OutputKind::Thinking, "hm ").unwrap();
        log.delta(OutputKind::Text, "Grüß ").unwrap();
        log.delta(OutputKind::Text, "dich").unwrap();
        let call = ToolCall {
            id: CallId::parse("c1").unwrap(),
            name: ToolName::parse("add").unwrap(),
            input: serde_json::Map::new(),
        };
        log.tool_call(&call).unwrap();
        log.tool_result("c1", &Content::from("3")).unwrap();
        log.stopped(&stop());
        log
    }

    fn stop() -> Stop {
        Stop { stop_reason: StopReason::EndTurn, turn_id: "s.1".into(), cancelled: false, usage: None, error: None }
    }

    #[test]
    fn to_bytes_stopped_equals_to_bytes_of_a_stopped_log() {
        let mut log = EventLog::started();
        for output in [None, Some(OutputKind::Text), Some(OutputKind::Thinking)] {
            if let Some(output) = output {
                log.delta(output, "Grüß").unwrap();
            }
            let mut stopped = log.clone();
            stopped.stopped(&stop());
            assert_eq!(log.to_bytes_stopped(&stop()), stopped.to_bytes(), "{output:?}");
        }
    }

    #[test]
    fn client_of_a_lost_event_log_gets_only_the_end_of_the_rebuilt_log() {
        let mut log = EventLog::retold();
        log.delta(OutputKind::Text, "one two").unwrap();
        log.stopped(&stop());
        let read = EventLog::from_bytes(&log.to_bytes()).unwrap();
        assert_eq!(read, log);
        let told = |number| read.from(read.place(number)).map(|(place, _)| read.number(place) - RETOLD).collect();
        let all: Vec<usize> = told(0);
        assert_eq!(all, [0, 1, 2, 3], "whoever is new");
        let rest: Vec<usize> = told(1);
        assert_eq!(rest, [1, 2, 3], "whoever saw it begin");
        for seen in [2, 3, 4, 5, 4000] {
            let end: Vec<usize> = told(seen);
            assert_eq!(end, [3], "whoever saw {seen} events of the first log");
        }
        for seen in 0..5 {
            let on: Vec<usize> = told(RETOLD + seen);
            assert_eq!(on, (seen..4).collect::<Vec<_>>(), "whoever saw {seen} events of this one");
        }
        assert_eq!(sample().place(3), 3);
        assert_eq!(sample().number(3), 3);
    }

    #[test]
    fn text_deltas_are_followed_by_the_whole_block_before_the_next_event() {
        let log = sample();
        let events: Vec<_> = log.from(0).map(|(_, event)| event).collect();
        assert_eq!(
            events,
            [
                Event::Started,
                Event::Delta(OutputKind::Thinking, "hm "),
                Event::Block(OutputKind::Thinking, "hm "),
                Event::Delta(OutputKind::Text, "Grüß "),
                Event::Delta(OutputKind::Text, "dich"),
                Event::Block(OutputKind::Text, "Grüß dich"),
                Event::ToolCall(r#"{"toolCallId":"c1","name":"add","input":{}}"#),
                Event::ToolResult(r#"{"toolCallId":"c1","content":"3"}"#),
                Event::Stopped(r#"{"stopReason":"end_turn","turnId":"s.1"}"#),
            ]
        );
        assert!(log.is_finished());
    }

    #[test]
    fn stored_log_round_trips_and_damage_is_detected() {
        let log = sample();
        let bytes = log.to_bytes();
        assert_eq!(EventLog::from_bytes(&bytes), Some(log));
        assert_eq!(EventLog::from_bytes(&[]), None);
        for cut in 0..bytes.len() {
            // A truncated text would leave entries that point past its end.
            assert_eq!(EventLog::from_bytes(&bytes[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn log_refuses_deltas_beyond_size_limit() {
        let mut log = EventLog::started();
        let piece = "x".repeat(8 * 1024 * 1024);
        let full = (0..8).find_map(|_| log.delta(OutputKind::Text, &piece).err());
        assert_eq!(full, Some(LogFull));
        log.stopped(&Stop {
            stop_reason: StopReason::Error,
            turn_id: "s.1".into(),
            cancelled: false,
            usage: None,
            error: None,
        });
        assert!(log.is_finished());
    }
}
