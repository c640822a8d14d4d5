//! Conversations written down, and held again.

use nuncio_core::ids::CallId;
use nuncio_core::message::{Block, Message, ToolCall};

use super::{Reply, Subject};

/// Holds the conversation and compares every word. Lines beginning `guest:` are said and `gets:`
/// are what tools answer; `calls:` and `says:` are what must come of it. A line without such a
/// beginning goes on with the one before.
pub(super) fn check(subject: &Subject, transcript: &str) {
    let expected = transcript.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(hold(subject, &expected), expected);
}

/// The conversation that the guest's and the tools' lines of a transcript lead to.
fn hold(subject: &Subject, transcript: &str) -> String {
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
            Reply::Say(text) => {
                held.push(format!("says: {text}"));
                history.push(Message::assistant(vec![Block::text(text)]));
            }
            Reply::Call { name, input } => {
                held.push(format!("calls: {name} {}", serde_json::to_string(&input).unwrap()));
                let id = CallId::parse(&format!("c{}", history.len())).unwrap();
                history.push(Message::assistant(vec![Block::tool_use(ToolCall { id, name, input })]));
            }
        }
    }
    held.join("\n")
}
