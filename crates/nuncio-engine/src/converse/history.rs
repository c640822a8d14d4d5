//! The history, whole or compacted.
//!
//! The rule of compaction: system messages stay; then the oldest exchanges (a user message and all
//! that follows it until the next) are left out, whole, until the rest fits the brain's window. The
//! newest exchange always stays.

use nuncio_core::message::Message;

/// Which history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryKind {
    /// What the brain sees.
    Compacted,
    /// Everything, exactly.
    Full,
}

/// The history as a brain with that window sees it.
pub(crate) fn compact(messages: Vec<Message>, window: Option<usize>) -> Vec<Message> {
    let Some(window) = window else { return messages };
    let sizes: Vec<usize> = messages.iter().map(size).collect();
    let is_system = |message: &Message| matches!(message, Message::System { .. });
    let is_user = |message: &Message| matches!(message, Message::User { .. });
    let mut total: usize = sizes.iter().sum();
    let mut first_kept = 0;
    while total > window {
        // The next exchange begins at the next user message; without one, this is the newest.
        let Some(next) = (first_kept + 1..messages.len()).find(|index| is_user(&messages[*index])) else { break };
        let dropped = first_kept..next;
        total -= dropped.clone().filter(|index| !is_system(&messages[*index])).map(|index| sizes[index]).sum::<usize>();
        first_kept = next;
    }
    let keep = |(index, message): (usize, Message)| (index >= first_kept || is_system(&message)).then_some(message);
    messages.into_iter().enumerate().filter_map(keep).collect()
}

fn size(message: &Message) -> usize {
    serde_json::to_string(message).map_or(0, |json| json.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nuncio_core::message::Block;

    fn talk(exchanges: usize) -> Vec<Message> {
        let mut messages = vec![Message::System { content: "be kind".into(), extra: Default::default() }];
        for n in 0..exchanges {
            messages.push(Message::user(format!("question {n}")));
            messages.push(Message::assistant(vec![Block::text(format!("answer {n}"))]));
        }
        messages
    }

    #[test]
    fn what_fits_stays_whole() {
        assert_eq!(compact(talk(3), None), talk(3));
        assert_eq!(compact(talk(3), Some(100_000)), talk(3));
    }

    #[test]
    fn the_oldest_exchanges_go_first_and_the_newest_always_stays() {
        let compacted = compact(talk(10), Some(400));
        let texts: Vec<_> = compacted.iter().map(Message::text).collect();
        assert_eq!(texts.first().map(String::as_str), Some("be kind"));
        assert_eq!(texts.last().map(String::as_str), Some("answer 9"));
        assert!(texts[1].starts_with("question"), "an exchange begins with its question: {texts:?}");
        assert!(compacted.len() < talk(10).len());
        let tiny: Vec<_> = compact(talk(10), Some(1)).iter().map(Message::text).collect();
        assert_eq!(tiny, ["be kind", "question 9", "answer 9"]);
    }
}
