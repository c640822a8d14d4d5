//! Compares conversations with the rules brain to written transcripts.

use nuncio_core::ids::CallId;
use nuncio_core::message::{Block, Message, ToolCall};

use super::{RulesBrainAction, RulesTestAgent};

/// Replays a transcript and compares the whole text. `guest:` lines are user messages and `gets:` lines tool results;
/// `calls:` and `says:` lines are the expected output. A line without a prefix continues the previous one.
pub(super) fn check(subject: &RulesTestAgent, transcript: &str) {
    let expected = transcript.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(replay(subject, &expected), expected);
}

/// Transcript that the agent produces from the `guest:` and `gets:` lines.
fn replay(subject: &RulesTestAgent, transcript: &str) -> String {
    let mut history = Vec::new();
    let mut held = Vec::new();
    for line in transcript.lines() {
        if let Some(said) = line.strip_prefix("guest: ") {
            history.push(Message::user(said));
        } else if let Some(result) = line.strip_prefix("gets: ") {
            let call = CallId::parse(&format!("c{}", history.len() - 1)).unwrap();
            history.push(Message::tool(call, result.into()));
        } else {
            continue;
        }
        held.push(line.to_owned());
        match subject.reply(&history) {
            RulesBrainAction::Say(text) => {
                held.push(format!("says: {text}"));
                history.push(Message::assistant(vec![Block::text(text)]));
            }
            RulesBrainAction::Call { name, input } => {
                held.push(format!("calls: {name} {}", serde_json::to_string(&input).unwrap()));
                let id = CallId::parse(&format!("c{}", history.len())).unwrap();
                history.push(Message::assistant(vec![Block::tool_use(ToolCall { id, name, input })]));
            }
        }
    }
    held.join("\n")
}
