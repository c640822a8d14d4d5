//! The history of a session, full or compacted.
//!
//! Compaction keeps system messages and drops the oldest exchanges (a user message and everything until the next one)
//! until the rest takes at most three quarters of the brain's window. The newest exchange always stays. If the brain
//! can summarise what is dropped, the summary takes its place.

use std::io;

use nuncio_core::message::{Message, UnknownMessageFields};
use nuncio_core::session::HistorySummary;
use serde::Serialize;

use crate::ports::store::StoredMessage;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryKind {
    Compacted,
    Full,
}

/// A history reduced to a brain's window.
#[derive(Debug, PartialEq)]
pub(crate) struct CompactedHistory {
    system: Vec<Message>,
    newest: Vec<Message>,
    /// Number of the first kept message that is not a system message.
    pub(crate) first_kept: u64,
    /// Whether messages before that one were dropped.
    pub(crate) leaves_out: bool,
}

impl CompactedHistory {
    /// History for the brain: system messages, summary, newest exchanges.
    pub(crate) fn with(self, summary: Option<&HistorySummary>) -> Vec<Message> {
        let mut history = self.system;
        history.extend(summary.map(summary_message));
        history.extend(self.newest);
        history
    }
}

/// Reduces a history to a brain's window, in bytes of JSON. `summary` replaces the messages before its `until`.
pub(crate) fn compact(messages: &[StoredMessage], summary: Option<&HistorySummary>, window: usize) -> CompactedHistory {
    let (system, mut rest): (Vec<_>, Vec<_>) =
        messages.iter().partition(|stored| matches!(stored.message, Message::System { .. }));
    let system: Vec<Message> = system.into_iter().map(|stored| stored.message.clone()).collect();
    let summarised = summary.map_or(0, |summary| summary.until);
    rest.retain(|stored| stored.number >= summarised);
    let sizes: Vec<usize> = rest.iter().map(|stored| json_size(&stored.message)).collect();
    let mut total = system.iter().map(json_size).sum::<usize>()
        + summary.map_or(0, |summary| summary.text.len())
        + sizes.iter().sum::<usize>();

    let mut first_kept = 0;
    if total > window {
        // Drops more than necessary, so that not every turn compacts again.
        while total > window / 4 * 3 {
            let is_user = |index: &usize| matches!(rest[*index].message, Message::User { .. });
            // The next exchange begins at the next user message; without one, the current exchange is the newest.
            let Some(next) = (first_kept + 1..rest.len()).find(is_user) else { break };
            total -= sizes[first_kept..next].iter().sum::<usize>();
            first_kept = next;
        }
    }
    let newest = rest.split_off(first_kept);
    CompactedHistory {
        system,
        first_kept: newest.first().map_or(summarised, |stored| stored.number),
        leaves_out: !rest.is_empty(),
        newest: newest.into_iter().map(|stored| stored.message.clone()).collect(),
    }
}

pub(crate) fn summary_message(summary: &HistorySummary) -> Message {
    let content = format!("Summary of the conversation so far:\n{}", summary.text);
    Message::System { content, extra: UnknownMessageFields::new() }
}

/// Size of a value serialised as JSON, in bytes.
fn json_size(value: &impl Serialize) -> usize {
    struct ByteCounter(usize);

    impl io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = ByteCounter(0);
    serde_json::to_writer(&mut count, value).map_or(0, |()| count.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nuncio_core::message::Block;

    fn talk(exchanges: u64) -> Vec<StoredMessage> {
        let mut messages = vec![Message::System { content: "be kind".into(), extra: UnknownMessageFields::new() }];
        for n in 0..exchanges {
            messages.push(Message::user(format!("question {n}")));
            messages.push(Message::assistant(vec![Block::text(format!("answer {n}"))]));
        }
        (0..).zip(messages).map(|(number, message)| StoredMessage { number, turn: 1, message }).collect()
    }

    fn texts(messages: &[Message]) -> Vec<String> {
        messages.iter().map(Message::text).collect()
    }

    #[test]
    fn history_that_fits_the_context_window_is_not_compacted() {
        let compacted = compact(&talk(3), None, 100_000);
        assert!(!compacted.leaves_out);
        assert_eq!(compacted.with(None).len(), 7);
    }

    #[test]
    fn compaction_drops_oldest_exchanges_and_keeps_system_message_and_newest() {
        let compacted = compact(&talk(10), None, 600);
        assert!(compacted.leaves_out);
        let first_kept = compacted.first_kept;
        let seen = texts(&compacted.with(None));
        assert_eq!(seen.first().map(String::as_str), Some("be kind"));
        assert_eq!(seen.last().map(String::as_str), Some("answer 9"));
        assert!(seen[1].starts_with("question"), "an exchange begins with its question: {seen:?}");
        assert_eq!(first_kept + seen.len() as u64, 22, "every message from the first kept one on is kept");
        assert_eq!(texts(&compact(&talk(10), None, 1).with(None)), ["be kind", "question 9", "answer 9"]);
    }

    #[test]
    fn history_summary_replaces_the_messages_it_covers() {
        let summary = HistorySummary { until: 5, text: "two questions were answered".into() };
        let compacted = compact(&talk(4), Some(&summary), 100_000);
        let seen = texts(&compacted.with(Some(&summary)));
        assert_eq!(seen[0], "be kind");
        assert!(seen[1].ends_with("two questions were answered"));
        assert_eq!(seen[2..], ["question 2", "answer 2", "question 3", "answer 3"]);
    }
}
