//! A history as every model server takes it: one instruction, roles in turn, each call with its
//! result.

use nuncio_core::agent::Provider;
use nuncio_core::ids::CallId;
use nuncio_core::message::{Block, Content, Extra, Message};
use serde_json::{Map, Value};

use super::names::{CallIds, ToolNames};

/// Where the signature of a thought is kept in its block.
pub(super) const SIGNATURE: &str = "signature";
/// What a call without a result is answered with: the servers take none unanswered.
const NO_RESULT: &str = "The call was not finished; there is no result.";
/// What stands for a message with nothing in it, which the servers do not take.
const NOTHING: &str = "…";

/// A conversation to go on with.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// What the model is told beforehand.
    pub(super) system: String,
    /// Never two answers, nor two times of the user's speaking, in a row.
    pub(super) turns: Vec<Turn>,
}

#[derive(Debug)]
pub(super) enum Turn {
    User(Vec<Part>),
    Answer(Answer),
    /// One for each call of the answer before.
    Results(Vec<ToolResult>),
}

#[derive(Debug)]
pub(super) enum Part {
    Text(String),
    /// By `https:` or `data:` address.
    Image(String),
}

/// What the model said.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) thoughts: Vec<Thought>,
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
}

#[derive(Debug)]
pub(super) struct Thought {
    pub(super) text: String,
    pub(super) signature: Option<String>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: Map<String, Value>,
    /// What came with it and is to go back with it.
    pub(super) extra: Extra,
}

#[derive(Debug)]
pub(super) struct ToolResult {
    pub(super) id: String,
    pub(super) parts: Vec<Part>,
}

impl Conversation {
    /// The history, behind the agent's own instructions.
    pub(super) fn new(provider: Provider, instructions: Option<&str>, history: &[Message], names: &ToolNames) -> Self {
        let mut building =
            Building { conversation: Self::default(), ids: CallIds::new(provider), open: Vec::new(), names };
        let mut system: Vec<&str> = instructions.into_iter().collect();
        for message in history {
            match message {
                // Few servers take instructions in the middle; they hold for the whole conversation.
                Message::System { content, .. } => system.push(content),
                Message::User { content, .. } => building.user(parts(content)),
                Message::Assistant { content, .. } => building.answer(content),
                Message::Tool { tool_call_id, content, .. } => building.result(tool_call_id, content),
            }
        }
        building.close_calls();
        let system: Vec<&str> = system.into_iter().filter(|text| !text.trim().is_empty()).collect();
        Self { system: system.join("\n\n"), ..building.conversation }
    }
}

struct Building<'a> {
    conversation: Conversation,
    ids: CallIds,
    /// Calls without a result: our id, and the one in the request.
    open: Vec<(CallId, String)>,
    names: &'a ToolNames,
}

impl Building<'_> {
    fn user(&mut self, mut parts: Vec<Part>) {
        self.close_calls();
        if parts.is_empty() {
            parts.push(Part::Text(NOTHING.to_owned()));
        }
        match self.conversation.turns.last_mut() {
            Some(Turn::User(before)) => before.append(&mut parts),
            _ => self.conversation.turns.push(Turn::User(parts)),
        }
    }

    fn answer(&mut self, content: &Content) {
        self.close_calls();
        if !matches!(self.conversation.turns.last(), Some(Turn::Answer(_))) {
            self.conversation.turns.push(Turn::Answer(Answer::default()));
        }
        let Some(Turn::Answer(answer)) = self.conversation.turns.last_mut() else { return };
        match content {
            Content::Text(text) => answer.text.push_str(text),
            Content::Blocks(blocks) => {
                for block in blocks {
                    match block {
                        Block::Text { text, .. } => answer.text.push_str(text),
                        Block::Thinking { thinking, extra } => {
                            let signature = extra.get(SIGNATURE).and_then(Value::as_str).map(str::to_owned);
                            answer.thoughts.push(Thought { text: thinking.clone(), signature });
                        }
                        Block::ToolUse { call, extra } => {
                            let id = self.ids.next(call.id.as_str());
                            self.open.push((call.id.clone(), id.clone()));
                            answer.calls.push(Call {
                                id,
                                name: self.names.theirs(&call.name),
                                input: call.input.clone(),
                                extra: extra.clone(),
                            });
                        }
                        // No server takes pictures from the model itself.
                        Block::Image { .. } => {}
                    }
                }
            }
        }
        if answer.text.trim().is_empty() && answer.calls.is_empty() {
            self.conversation.turns.pop();
        }
    }

    fn result(&mut self, call: &CallId, content: &Content) {
        let Some(place) = self.open.iter().position(|(id, _)| id == call) else {
            // A result of a call that is not there can only be told.
            let mut told = vec![Part::Text(format!("Result of the call {call}:"))];
            told.extend(parts(content));
            return self.user(told);
        };
        let (_, id) = self.open.remove(place);
        self.push_result(ToolResult { id, parts: parts(content) });
    }

    fn close_calls(&mut self) {
        for (_, id) in std::mem::take(&mut self.open) {
            self.push_result(ToolResult { id, parts: vec![Part::Text(NO_RESULT.to_owned())] });
        }
    }

    fn push_result(&mut self, result: ToolResult) {
        match self.conversation.turns.last_mut() {
            Some(Turn::Results(results)) => results.push(result),
            _ => self.conversation.turns.push(Turn::Results(vec![result])),
        }
    }
}

/// What there is to read and see.
fn parts(content: &Content) -> Vec<Part> {
    let text = |text: &str| (!text.trim().is_empty()).then(|| Part::Text(text.to_owned()));
    match content {
        Content::Text(plain) => text(plain).into_iter().collect(),
        Content::Blocks(blocks) => blocks
            .iter()
            .filter_map(|block| match block {
                Block::Text { text: plain, .. } => text(plain),
                Block::Image { url, .. } => Some(Part::Image(url.clone())),
                Block::Thinking { .. } | Block::ToolUse { .. } => None,
            })
            .collect(),
    }
}
