//! The history, whole or compacted.
//!
//! The rule of compaction: system messages stay; then the oldest exchanges (a user message and all
//! that follows it until the next) are left out, whole, until the rest takes no more than three
//! quarters of the brain's window. The newest exchange always stays. Where the brain can write a
//! summary of what is left out, that summary stands in its place, and is carried on.

use std::io;

use nuncio_core::message::{Extra, Message};
use nuncio_core::session::HistorySummary;
use serde::Serialize;

use crate::ports::store::StoredMessage;

/// Which history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryKind {
    /// What the brain sees.
    Compacted,
    /// Everything, exactly.
    Full,
}

/// A history cut to fit a brain.
#[derive(Debug, PartialEq)]
pub(crate) struct Compacted {
    system: Vec<Message>,
    newest: Vec<Message>,
    /// What had to be left out this time, and up to which number; nothing when all fits.
    pub(crate) left_out: Option<(u64, Vec<Message>)>,
}

impl Compacted {
    /// What the brain sees: system messages, the summary, the newest exchanges.
    pub(crate) fn with(self, summary: Option<&HistorySummary>) -> Vec<Message> {
        let mut history = self.system;
        history.extend(summary.map(told));
        history.extend(self.newest);
        history
    }
}

/// Cuts a history to a brain's window. A summary stands for what came before it.
pub(crate) fn compact(
    messages: &[StoredMessage],
    summary: Option<&HistorySummary>,
    window: Option<usize>,
) -> Compacted {
    let Some(window) = window else {
        let newest = messages.iter().map(|stored| stored.message.clone()).collect();
        return Compacted { system: Vec::new(), newest, left_out: None };
    };
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
        // Some room is made at once, so that it does not have to be made again in every turn.
        while total > window / 4 * 3 {
            let is_user = |index: &usize| matches!(rest[*index].message, Message::User { .. });
            // The next exchange begins at the next user message; without one, this is the newest.
            let Some(next) = (first_kept + 1..rest.len()).find(is_user) else { break };
            total -= sizes[first_kept..next].iter().sum::<usize>();
            first_kept = next;
        }
    }
    let newest = rest.split_off(first_kept);
    let until = newest.first().map_or(summarised, |stored| stored.number);
    let plain = |messages: &[&StoredMessage]| messages.iter().map(|stored| stored.message.clone()).collect();
    let left_out = (!rest.is_empty()).then(|| (until, plain(&rest)));
    Compacted { system, newest: plain(&newest), left_out }
}

/// The summary as the brain sees it.
pub(crate) fn told(summary: &HistorySummary) -> Message {
    let content = format!("Summary of the conversation so far:\n{}", summary.text);
    Message::System { content, extra: Extra::new() }
}

/// How many bytes something takes, as JSON.
pub(super) fn json_size(value: &impl Serialize) -> usize {
    struct Count(usize);

    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_or(0, |()| count.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nuncio_core::message::Block;

    fn talk(exchanges: u64) -> Vec<StoredMessage> {
        let mut messages = vec![Message::System { content: "be kind".into(), extra: Extra::new() }];
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
    fn what_fits_stays_whole() {
        for window in [None, Some(100_000)] {
            let compacted = compact(&talk(3), None, window);
            assert_eq!(compacted.left_out, None);
            assert_eq!(compacted.with(None).len(), 7);
        }
    }

    #[test]
    fn the_oldest_exchanges_go_first_and_the_newest_always_stays() {
        let mut compacted = compact(&talk(10), None, Some(600));
        let (until, left_out) = compacted.left_out.take().unwrap();
        let seen = texts(&compacted.with(None));
        assert_eq!(seen.first().map(String::as_str), Some("be kind"));
        assert_eq!(seen.last().map(String::as_str), Some("answer 9"));
        assert!(seen[1].starts_with("question"), "an exchange begins with its question: {seen:?}");
        assert_eq!(left_out.len() + seen.len(), 21, "nothing is lost between the two");
        assert_eq!(until, 1 + left_out.len() as u64);
        assert_eq!(texts(&compact(&talk(10), None, Some(1)).with(None)), ["be kind", "question 9", "answer 9"]);
    }

    #[test]
    fn a_summary_stands_for_what_came_before_it() {
        let summary = HistorySummary { until: 5, text: "two questions were answered".into() };
        let compacted = compact(&talk(4), Some(&summary), Some(100_000));
        let seen = texts(&compacted.with(Some(&summary)));
        assert_eq!(seen[0], "be kind");
        assert!(seen[1].ends_with("two questions were answered"));
        assert_eq!(seen[2..], ["question 2", "answer 2", "question 3", "answer 3"]);
    }
}
