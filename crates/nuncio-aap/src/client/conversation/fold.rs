//! A turn's events folded into messages, in the order they came.

use std::collections::HashSet;

use nuncio_core::ids::CallId;
use nuncio_core::message::{Block, Message, ToolCall};

use super::Update;
use crate::client::event::TurnEvent;

/// What a turn has brought so far.
#[derive(Debug, Default)]
pub(super) struct Fold {
    messages: Vec<Message>,
    /// The message that is being said.
    said: Vec<Block>,
    /// Whether the last block is made of pieces and may get more.
    open: bool,
    calls: Vec<Called>,
    answered: HashSet<CallId>,
    /// All text, and all thinking, in one.
    pub(super) text: String,
    pub(super) thinking: String,
}

#[derive(Debug)]
struct Called {
    call: ToolCall,
    /// Whether the agent has spoken since, so that it must have had an answer.
    passed: bool,
}

impl Fold {
    /// Takes an event in; what is new about it.
    pub(super) fn take(&mut self, event: TurnEvent) -> Option<Update> {
        match event {
            TurnEvent::TextDelta(piece) => self.speak(Block::text(piece), true),
            TurnEvent::ThinkingDelta(piece) => self.speak(Block::thinking(piece), true),
            TurnEvent::Text(text) => self.speak(Block::text(text), false),
            TurnEvent::Thinking(thinking) => self.speak(Block::thinking(thinking), false),
            TurnEvent::ToolCall(call) => {
                if self.knows(&call.id) {
                    return None;
                }
                self.open = false;
                self.said.push(Block::tool_use(call.clone()));
                self.calls.push(Called { call: call.clone(), passed: false });
                Some(Update::Call(call))
            }
            TurnEvent::ToolResult { call, content } => {
                if !self.answered.insert(call.clone()) {
                    return None;
                }
                self.flush();
                self.messages.push(Message::tool(call.clone(), content.clone()));
                Some(Update::Result { call, content })
            }
            TurnEvent::Unknown { event, data } => Some(Update::Unknown { event, data }),
            TurnEvent::TurnStart | TurnEvent::TurnStop(_) => None,
        }
    }

    /// A block, or a piece of one. A server that tells a block both in pieces and whole says nothing
    /// new the second time.
    fn speak(&mut self, block: Block, piece: bool) -> Option<Update> {
        let was_open = std::mem::replace(&mut self.open, piece);
        if !piece && was_open && self.said.last() == Some(&block) {
            return None;
        }
        let update = match &block {
            Block::Thinking { thinking, .. } => {
                self.thinking.push_str(thinking);
                Update::Thinking(thinking.clone())
            }
            Block::Text { text, .. } => {
                self.text.push_str(text);
                Update::Text(text.clone())
            }
            _ => return None,
        };
        if matches!(&update, Update::Text(piece) | Update::Thinking(piece) if piece.is_empty()) {
            self.open = was_open;
            return None;
        }
        self.calls.iter_mut().for_each(|called| called.passed = true);
        match (self.said.last_mut(), block) {
            (Some(Block::Text { text, .. }), Block::Text { text: more, .. }) if was_open && piece => {
                text.push_str(&more);
            }
            (Some(Block::Thinking { thinking, .. }), Block::Thinking { thinking: more, .. }) if was_open && piece => {
                thinking.push_str(&more);
            }
            (_, block) => self.said.push(block),
        }
        Some(update)
    }

    /// Whether a call was announced already.
    pub(super) fn knows(&self, call: &CallId) -> bool {
        self.calls.iter().any(|called| called.call.id == *call)
    }

    /// Whether a call's answer has come.
    pub(super) fn has_answer(&self, call: &CallId) -> bool {
        self.answered.contains(call)
    }

    /// Whether anything has come at all.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.said.is_empty()
    }

    /// The calls without an answer, each with whether the agent has spoken since.
    pub(super) fn open_calls(&self) -> impl Iterator<Item = (&ToolCall, bool)> {
        let open = self.calls.iter().filter(|called| !self.answered.contains(&called.call.id));
        open.map(|called| (&called.call, called.passed))
    }

    /// The messages.
    pub(super) fn finish(mut self) -> Vec<Message> {
        self.flush();
        self.messages
    }

    fn flush(&mut self) {
        self.open = false;
        if !self.said.is_empty() {
            self.messages.push(Message::assistant(std::mem::take(&mut self.said)));
        }
    }
}
