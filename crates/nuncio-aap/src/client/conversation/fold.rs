//! Builds the messages of a turn from its events.

use std::collections::HashSet;

use nuncio_core::ids::CallId;
use nuncio_core::message::{Block, Message, ToolCall};

use super::TurnUpdate;
use crate::client::event::TurnEvent;

/// Messages of a turn, built from its events so far.
#[derive(Debug, Default)]
pub(super) struct TurnMessageBuilder {
    messages: Vec<Message>,
    /// Blocks of the unfinished message.
    blocks: Vec<Block>,
    /// Whether the last block consists of deltas and may grow.
    open: bool,
    calls: Vec<AnnouncedCall>,
    answered: HashSet<CallId>,
    /// All text of the turn, concatenated.
    pub(super) text: String,
    pub(super) thinking: String,
}

#[derive(Debug)]
struct AnnouncedCall {
    call: ToolCall,
    /// Whether the agent produced output after the call, which implies that the call has a result.
    passed: bool,
}

impl TurnMessageBuilder {
    /// Applies a turn event and returns the update to report, if any.
    pub(super) fn take(&mut self, event: TurnEvent) -> Option<TurnUpdate> {
        match event {
            TurnEvent::TextDelta(piece) => self.add_block(Block::text(piece), true),
            TurnEvent::ThinkingDelta(piece) => self.add_block(Block::thinking(piece), true),
            TurnEvent::Text(text) => self.add_block(Block::text(text), false),
            TurnEvent::Thinking(thinking) => self.add_block(Block::thinking(thinking), false),
            TurnEvent::ToolCall(call) => {
                if self.knows(&call.id) {
                    return None;
                }
                self.open = false;
                self.blocks.push(Block::tool_use(call.clone()));
                self.calls.push(AnnouncedCall { call: call.clone(), passed: false });
                Some(TurnUpdate::Call(call))
            }
            TurnEvent::ToolResult { call, content } => {
                if !self.answered.insert(call.clone()) {
                    return None;
                }
                self.flush();
                self.messages.push(Message::tool(call.clone(), content.clone()));
                Some(TurnUpdate::Result { call, content })
            }
            TurnEvent::Unknown { event, data } => Some(TurnUpdate::Unknown { event, data }),
            TurnEvent::TurnStart | TurnEvent::TurnStop(_) => None,
        }
    }

    /// Adds a block or, if `piece`, a delta. A complete block that repeats its deltas causes no update.
    fn add_block(&mut self, block: Block, piece: bool) -> Option<TurnUpdate> {
        let was_open = std::mem::replace(&mut self.open, piece);
        if !piece && was_open && self.blocks.last() == Some(&block) {
            return None;
        }
        let update = match &block {
            Block::Thinking { thinking, .. } => {
                self.thinking.push_str(thinking);
                TurnUpdate::Thinking(thinking.clone())
            }
            Block::Text { text, .. } => {
                self.text.push_str(text);
                TurnUpdate::Text(text.clone())
            }
            _ => return None,
        };
        if matches!(&update, TurnUpdate::Text(piece) | TurnUpdate::Thinking(piece) if piece.is_empty()) {
            self.open = was_open;
            return None;
        }
        self.calls.iter_mut().for_each(|called| called.passed = true);
        match (self.blocks.last_mut(), block) {
            (Some(Block::Text { text, .. }), Block::Text { text: more, .. }) if was_open && piece => {
                text.push_str(&more);
            }
            (Some(Block::Thinking { thinking, .. }), Block::Thinking { thinking: more, .. }) if was_open && piece => {
                thinking.push_str(&more);
            }
            (_, block) => self.blocks.push(block),
        }
        Some(update)
    }

    /// Whether a tool call was announced in this turn.
    pub(super) fn knows(&self, call: &CallId) -> bool {
        self.calls.iter().any(|called| called.call.id == *call)
    }

    /// Whether a tool call was answered in this turn.
    pub(super) fn has_answer(&self, call: &CallId) -> bool {
        self.answered.contains(call)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.blocks.is_empty()
    }

    /// Unanswered tool calls, each with whether the agent produced output after the call.
    pub(super) fn open_calls(&self) -> impl Iterator<Item = (&ToolCall, bool)> {
        let open = self.calls.iter().filter(|called| !self.answered.contains(&called.call.id));
        open.map(|called| (&called.call, called.passed))
    }

    pub(super) fn finish(mut self) -> Vec<Message> {
        self.flush();
        self.messages
    }

    fn flush(&mut self) {
        self.open = false;
        if !self.blocks.is_empty() {
            self.messages.push(Message::assistant(std::mem::take(&mut self.blocks)));
        }
    }
}
