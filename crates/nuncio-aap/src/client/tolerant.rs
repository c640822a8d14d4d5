//! Lenient parsing of messages from other AAP servers, without duplicate tool results.

use std::collections::HashSet;

use nuncio_core::ids::CallId;
use nuncio_core::message::{Block, Message};
use serde::Deserialize as _;
use serde_json::Value;

/// Parses messages; skips unreadable messages, blocks of unknown types and duplicate tool results.
pub(super) fn messages(values: Vec<Value>) -> Vec<Message> {
    let mut answered = HashSet::new();
    let read = values.into_iter().filter_map(message);
    read.filter(|message| match message {
        Message::Tool { tool_call_id, .. } => answered.insert(tool_call_id.clone()),
        // Tool call ids may repeat after a user message.
        Message::User { .. } => {
            answered.clear();
            true
        }
        _ => true,
    })
    .collect()
}

pub(super) fn answered(messages: &[Message]) -> HashSet<&CallId> {
    let answered = messages.iter().filter_map(|message| match message {
        Message::Tool { tool_call_id, .. } => Some(tool_call_id),
        _ => None,
    });
    answered.collect()
}

fn message(mut value: Value) -> Option<Message> {
    if let Ok(message) = Message::deserialize(&value) {
        return Some(message);
    }
    value.get_mut("content")?.as_array_mut()?.retain(|block| Block::deserialize(block).is_ok());
    Message::deserialize(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_blocks_unknown_roles_and_duplicate_tool_results_are_skipped() {
        let read = messages(vec![
            json!({"role": "user", "content": "hi"}),
            json!({"role": "narrator", "content": "meanwhile"}),
            json!({"role": "assistant", "content": [{"type": "audio", "url": "x"}, {"type": "text", "text": "a"}]}),
            json!({"role": "tool", "toolCallId": "c1", "content": "3"}),
            json!({"role": "tool", "toolCallId": "c1", "content": "3"}),
            json!("noise"),
            json!({"role": "user", "content": "again"}),
            json!({"role": "tool", "toolCallId": "c1", "content": "4"}),
        ]);
        let roles: Vec<_> = read.iter().map(Message::role).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "user", "tool"]);
        assert_eq!(read[1], Message::assistant(vec![Block::text("a")]));
    }
}
