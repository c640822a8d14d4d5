//! The event log of one turn: all events in order, readable from any position.
//!
//! Text is stored in one growing buffer that entries point into, so that appending a delta allocates nothing and a
//! finished block is read without copying. The stored form has the same layout.

mod messages;

use serde::Serialize;

use crate::message::{Content, ToolCall};
use crate::turn::TurnOutcome;

/// Whether a piece of model output is text for people or thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelOutputKind {
    Text,
    Thinking,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnLogEvent<'a> {
    Started,
    Delta(ModelOutputKind, &'a str),
    /// A complete block of text or thinking.
    Block(ModelOutputKind, &'a str),
    /// A tool call, as JSON of a [`ToolCall`].
    ToolCall(&'a str),
    /// Result of one of the agent's tools: JSON with `toolCallId` and `content`.
    ToolResult(&'a str),
    /// The end of the turn, as JSON of a [`TurnOutcome`].
    Stopped(&'a str),
}

/// The event log of a turn. Events are numbered from 0; in a log rebuilt from the history, from [`FIRST_REBUILT`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnEventLog {
    text: String,
    entries: Vec<TurnEventLogEntry>,
    /// Kind of the unfinished block and the offset at which it begins.
    open: Option<(ModelOutputKind, u32)>,
    /// Whether the log was rebuilt from the history, after a crash lost the original events.
    rebuilt: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TurnEventLogEntry {
    kind: TurnEventLogEntryKind,
    start: u32,
    end: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnEventLogEntryKind {
    Started,
    Delta(ModelOutputKind),
    Block(ModelOutputKind),
    ToolCall,
    ToolResult,
    Stopped,
}

/// The event log has reached the size limit of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the turn produced more than {MAX_BYTES} bytes")]
pub struct TurnEventLogFullError;

/// Size limit of one turn's event log in memory, text and entries, in bytes. The last MiB is reserved for the end of
/// the turn.
pub const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Number of the first event of a rebuilt log, larger than any event number that a reader can have seen before.
pub const FIRST_REBUILT: usize = 10_000_000;
const _: () = assert!(FIRST_REBUILT > MAX_BYTES / size_of::<TurnEventLogEntry>());
/// Bytes reserved in the log for the events that end a turn.
const RESERVED_BYTES: usize = 1024 * 1024;

#[derive(Serialize)]
struct ToolResultEvent<'a> {
    #[serde(rename = "toolCallId")]
    tool_call_id: &'a str,
    content: &'a Content,
}

impl TurnEventLog {
    #[must_use]
    pub fn started() -> Self {
        let mut log = Self::default();
        log.entry(TurnEventLogEntryKind::Started, 0);
        log
    }

    /// A new event log for a turn whose original log was lost.
    #[must_use]
    pub fn rebuilt() -> Self {
        Self { rebuilt: true, ..Self::started() }
    }

    /// The event number of an index of the log.
    #[must_use]
    pub const fn number(&self, index: usize) -> usize {
        if self.rebuilt { FIRST_REBUILT + index } else { index }
    }

    /// The log index at which a reader continues that has seen all events before `number`. A reader that saw part of a
    /// lost log gets only the last event, because the rest is in the history.
    #[must_use]
    pub fn index_of(&self, number: usize) -> usize {
        match number {
            _ if !self.rebuilt => number,
            FIRST_REBUILT.. => number - FIRST_REBUILT,
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
        self.entries.last().is_some_and(|entry| entry.kind == TurnEventLogEntryKind::Stopped)
    }

    #[must_use]
    pub fn event(&self, index: usize) -> Option<TurnLogEvent<'_>> {
        self.entries.get(index).map(|entry| self.view(*entry))
    }

    /// The events from an index on, each with its index.
    pub fn from(&self, index: usize) -> impl Iterator<Item = (usize, TurnLogEvent<'_>)> {
        let entries = self.entries.get(index..).unwrap_or(&[]);
        entries.iter().enumerate().map(move |(offset, entry)| (index + offset, self.view(*entry)))
    }

    /// Appends a piece of text or thinking; an empty piece has no event. A change from one to the other completes the
    /// previous block.
    pub fn delta(&mut self, output: ModelOutputKind, piece: &str) -> Result<(), TurnEventLogFullError> {
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
        self.entry(TurnEventLogEntryKind::Delta(output), start);
        Ok(())
    }

    /// Completes the unfinished block, if there is one.
    pub fn close_block(&mut self) {
        if let Some((output, start)) = self.open.take() {
            self.entry(TurnEventLogEntryKind::Block(output), start);
        }
    }

    pub fn tool_call(&mut self, call: &ToolCall) -> Result<(), TurnEventLogFullError> {
        self.json(TurnEventLogEntryKind::ToolCall, call)
    }

    /// Appends the result of one of the agent's tools.
    pub fn tool_result(&mut self, call: &str, content: &Content) -> Result<(), TurnEventLogFullError> {
        self.json(TurnEventLogEntryKind::ToolResult, &ToolResultEvent { tool_call_id: call, content })
    }

    /// Appends the end of the turn, for which space is reserved.
    pub fn stopped(&mut self, stop: &TurnOutcome) {
        self.close_block();
        let json = json_of(stop);
        let start = self.position();
        self.text.push_str(&json);
        self.entry(TurnEventLogEntryKind::Stopped, start);
    }

    fn json(&mut self, kind: TurnEventLogEntryKind, value: &impl Serialize) -> Result<(), TurnEventLogFullError> {
        let json = serde_json::to_string(value).expect("an event is always JSON");
        self.room_for(json.len())?;
        self.close_block();
        let start = self.position();
        self.text.push_str(&json);
        self.entry(kind, start);
        Ok(())
    }

    fn entry(&mut self, kind: TurnEventLogEntryKind, start: u32) {
        let end = self.position();
        self.entries.push(TurnEventLogEntry { kind, start, end });
    }

    fn position(&self) -> u32 {
        position(self.text.len())
    }

    fn room_for(&self, bytes: usize) -> Result<(), TurnEventLogFullError> {
        let entries = self.entries.len() * size_of::<TurnEventLogEntry>();
        if self.text.len() + entries + bytes > MAX_BYTES - RESERVED_BYTES { Err(TurnEventLogFullError) } else { Ok(()) }
    }

    fn view(&self, entry: TurnEventLogEntry) -> TurnLogEvent<'_> {
        let text = &self.text[entry.start as usize..entry.end as usize];
        match entry.kind {
            TurnEventLogEntryKind::Started => TurnLogEvent::Started,
            TurnEventLogEntryKind::Delta(output) => TurnLogEvent::Delta(output, text),
            TurnEventLogEntryKind::Block(output) => TurnLogEvent::Block(output, text),
            TurnEventLogEntryKind::ToolCall => TurnLogEvent::ToolCall(text),
            TurnEventLogEntryKind::ToolResult => TurnLogEvent::ToolResult(text),
            TurnEventLogEntryKind::Stopped => TurnLogEvent::Stopped(text),
        }
    }
}

fn position(length: usize) -> u32 {
    u32::try_from(length).expect("the log is bounded far below 4 GiB")
}

fn json_of(stop: &TurnOutcome) -> String {
    serde_json::to_string(stop).expect("a stop is always JSON")
}

/// The stored form of an event log: version, number of entries, kind and length of each entry, then the text. An entry
/// begins where the previous one ends; a block spans its deltas.
mod stored {
    use super::{
        ModelOutputKind, TurnEventLog, TurnEventLogEntry, TurnEventLogEntryKind, TurnOutcome, json_of, position,
    };

    const VERSION: u8 = 1;
    /// Version byte of an event log that was rebuilt from the history after a crash, whose events are numbered
    /// differently; the rest of the format is the same.
    const VERSION_REBUILT: u8 = 2;

    impl TurnEventLog {
        #[must_use]
        pub fn to_bytes(&self) -> Vec<u8> {
            self.written(&[], "")
        }

        /// The stored form that the event log will have after [`Self::stopped`] with the same outcome.
        #[must_use]
        pub fn to_bytes_stopped(&self, stop: &TurnOutcome) -> Vec<u8> {
            let (start, json) = (self.position(), json_of(stop));
            let stopped = TurnEventLogEntry {
                kind: TurnEventLogEntryKind::Stopped,
                start,
                end: position(self.text.len() + json.len()),
            };
            match self.open {
                Some((output, begun)) => {
                    let block =
                        TurnEventLogEntry { kind: TurnEventLogEntryKind::Block(output), start: begun, end: start };
                    self.written(&[block, stopped], &json)
                }
                None => self.written(&[stopped], &json),
            }
        }

        fn written(&self, entries: &[TurnEventLogEntry], text: &str) -> Vec<u8> {
            let count = self.entries.len() + entries.len();
            let mut out = Vec::with_capacity(16 + count * 3 + self.text.len() + text.len());
            out.push(if self.rebuilt { VERSION_REBUILT } else { VERSION });
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
            let rebuilt = version == VERSION_REBUILT;
            if (version != VERSION && !rebuilt) || count > rest.len() {
                return None;
            }
            let mut entries = Vec::with_capacity(count);
            let mut position: u32 = 0;
            for _ in 0..count {
                let (&tag, after) = rest.split_first()?;
                rest = after;
                let (kind, length) = (kind_of(tag)?, take(&mut rest)?);
                let entry = match kind {
                    TurnEventLogEntryKind::Block(_) => {
                        TurnEventLogEntry { kind, start: position.checked_sub(length)?, end: position }
                    }
                    _ => TurnEventLogEntry { kind, start: position, end: position.checked_add(length)? },
                };
                position = entry.end;
                entries.push(entry);
            }
            let text = std::str::from_utf8(rest).ok()?.to_owned();
            let fits = entries.iter().all(|entry| text.get(entry.start as usize..entry.end as usize).is_some());
            (fits && text.len() == position as usize).then_some(Self { text, entries, open: None, rebuilt })
        }
    }

    /// Writes a number in LEB128: seven bits per byte, lowest first; the last byte has its high bit clear.
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

    /// Kinds of log entries; the stored tag of a kind is its index.
    const ENTRY_KINDS: [TurnEventLogEntryKind; 8] = [
        TurnEventLogEntryKind::Started,
        TurnEventLogEntryKind::Delta(ModelOutputKind::Text),
        TurnEventLogEntryKind::Delta(ModelOutputKind::Thinking),
        TurnEventLogEntryKind::Block(ModelOutputKind::Text),
        TurnEventLogEntryKind::Block(ModelOutputKind::Thinking),
        TurnEventLogEntryKind::ToolCall,
        TurnEventLogEntryKind::ToolResult,
        TurnEventLogEntryKind::Stopped,
    ];

    fn tag(kind: TurnEventLogEntryKind) -> u8 {
        let index = ENTRY_KINDS.iter().position(|tagged| *tagged == kind);
        index.and_then(|index| u8::try_from(index).ok()).expect("every kind has a tag")
    }

    fn kind_of(tag: u8) -> Option<TurnEventLogEntryKind> {
        ENTRY_KINDS.get(usize::from(tag)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CallId, ToolName};
    use crate::turn::StopReason;

    fn sample() -> TurnEventLog {
        let mut log = TurnEventLog::started();
        log.delta(ModelOutputKind::Thinking, "hm ").unwrap();
        log.delta(ModelOutputKind::Text, "Grüß ").unwrap();
        log.delta(ModelOutputKind::Text, "dich").unwrap();
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

    fn stop() -> TurnOutcome {
        TurnOutcome {
            stop_reason: StopReason::EndTurn,
            turn_id: "s.1".into(),
            cancelled: false,
            usage: None,
            error: None,
        }
    }

    #[test]
    fn to_bytes_stopped_gives_the_bytes_of_the_log_after_stopping_it() {
        let mut log = TurnEventLog::started();
        for output in [None, Some(ModelOutputKind::Text), Some(ModelOutputKind::Thinking)] {
            if let Some(output) = output {
                log.delta(output, "Grüß").unwrap();
            }
            let mut stopped = log.clone();
            stopped.stopped(&stop());
            assert_eq!(log.to_bytes_stopped(&stop()), stopped.to_bytes(), "{output:?}");
        }
    }

    #[test]
    fn client_of_a_lost_event_log_gets_only_the_last_event_of_the_rebuilt_log() {
        let mut log = TurnEventLog::rebuilt();
        log.delta(ModelOutputKind::Text, "one two").unwrap();
        log.stopped(&stop());
        let read = TurnEventLog::from_bytes(&log.to_bytes()).unwrap();
        assert_eq!(read, log);
        let told =
            |number| read.from(read.index_of(number)).map(|(index, _)| read.number(index) - FIRST_REBUILT).collect();
        let all: Vec<usize> = told(0);
        assert_eq!(all, [0, 1, 2, 3], "a new reader gets all events");
        let rest: Vec<usize> = told(1);
        assert_eq!(rest, [1, 2, 3], "a reader after the first event gets the rest");
        for seen in [2, 3, 4, 5, 4000] {
            let end: Vec<usize> = told(seen);
            assert_eq!(end, [3], "a reader of {seen} events of the first log gets the end");
        }
        for seen in 0..5 {
            let on: Vec<usize> = told(FIRST_REBUILT + seen);
            assert_eq!(on, (seen..4).collect::<Vec<_>>(), "a reader of {seen} events of this log gets the rest");
        }
        assert_eq!(sample().index_of(3), 3);
        assert_eq!(sample().number(3), 3);
    }

    #[test]
    fn text_deltas_are_followed_by_the_whole_block_before_the_next_event() {
        let log = sample();
        let events: Vec<_> = log.from(0).map(|(_, event)| event).collect();
        assert_eq!(
            events,
            [
                TurnLogEvent::Started,
                TurnLogEvent::Delta(ModelOutputKind::Thinking, "hm "),
                TurnLogEvent::Block(ModelOutputKind::Thinking, "hm "),
                TurnLogEvent::Delta(ModelOutputKind::Text, "Grüß "),
                TurnLogEvent::Delta(ModelOutputKind::Text, "dich"),
                TurnLogEvent::Block(ModelOutputKind::Text, "Grüß dich"),
                TurnLogEvent::ToolCall(r#"{"toolCallId":"c1","name":"add","input":{}}"#),
                TurnLogEvent::ToolResult(r#"{"toolCallId":"c1","content":"3"}"#),
                TurnLogEvent::Stopped(r#"{"stopReason":"end_turn","turnId":"s.1"}"#),
            ]
        );
        assert!(log.is_finished());
    }

    #[test]
    fn stored_event_log_round_trips_and_truncation_is_detected() {
        let log = sample();
        let bytes = log.to_bytes();
        assert_eq!(TurnEventLog::from_bytes(&bytes), Some(log));
        assert_eq!(TurnEventLog::from_bytes(&[]), None);
        for cut in 0..bytes.len() {
            // A truncated text would leave entries that point past its end.
            assert_eq!(TurnEventLog::from_bytes(&bytes[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn full_event_log_refuses_deltas_but_can_still_be_stopped() {
        let mut log = TurnEventLog::started();
        let piece = "x".repeat(8 * 1024 * 1024);
        let full = (0..8).find_map(|_| log.delta(ModelOutputKind::Text, &piece).err());
        assert_eq!(full, Some(TurnEventLogFullError));
        log.stopped(&TurnOutcome {
            stop_reason: StopReason::Error,
            turn_id: "s.1".into(),
            cancelled: false,
            usage: None,
            error: None,
        });
        assert!(log.is_finished());
    }
}
