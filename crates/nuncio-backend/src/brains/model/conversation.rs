//! Normalises a history for model servers: one system prompt, alternating roles, a result for each call.

use nuncio_core::agent::ModelProvider;
use nuncio_core::ids::CallId;
use nuncio_core::message::{Block, Content, Message, UnknownMessageFields};
use serde_json::{Map, Value};

use super::names::{CallIdGenerator, ToolNameMapping};

/// Key of the provider's signature in the extra data of a thinking block.
pub(super) const SIGNATURE_KEY: &str = "signature";
/// Placeholder for a missing tool result, because servers require a result for each call.
const NO_RESULT: &str = "The call was not finished; there is no result.";
/// Placeholder text for an empty message, which servers refuse.
const EMPTY_MESSAGE_TEXT: &str = "…";

/// Conversation in the form of a model request.
#[derive(Debug, Default)]
pub(super) struct ModelConversation {
    /// System prompt: the agent's instructions and all system messages of the history.
    pub(super) system: String,
    /// Turns in order; consecutive turns of the same kind are merged.
    pub(super) turns: Vec<ModelTurn>,
}

#[derive(Debug)]
pub(super) enum ModelTurn {
    User(Vec<MessagePart>),
    AssistantMessage(AssistantMessage),
    /// One result per call of the previous assistant message.
    Results(Vec<ToolResult>),
}

#[derive(Debug)]
pub(super) enum MessagePart {
    Text(String),
    /// An image, by `https:` or `data:` URL.
    Image(String),
}

#[derive(Debug, Default)]
pub(super) struct AssistantMessage {
    pub(super) thoughts: Vec<ThinkingBlock>,
    pub(super) text: String,
    pub(super) calls: Vec<AssistantCall>,
}

#[derive(Debug)]
pub(super) struct ThinkingBlock {
    pub(super) text: String,
    pub(super) signature: Option<String>,
}

#[derive(Debug)]
pub(super) struct AssistantCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: Map<String, Value>,
    /// Data of the provider that later requests must send back with the call.
    pub(super) extra: UnknownMessageFields,
}

#[derive(Debug)]
pub(super) struct ToolResult {
    pub(super) id: String,
    pub(super) parts: Vec<MessagePart>,
}

impl ModelConversation {
    /// Converts a history and the agent's instructions to the form of a model request.
    pub(super) fn new(
        provider: ModelProvider,
        instructions: Option<&str>,
        history: &[Message],
        names: &ToolNameMapping,
    ) -> Self {
        let mut building = ConversationBuilder {
            conversation: Self::default(),
            ids: CallIdGenerator::new(provider),
            open: Vec::new(),
            names,
        };
        let mut system: Vec<&str> = instructions.into_iter().collect();
        for message in history {
            match message {
                // Few servers accept system messages after the start, so they are moved to the front.
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

struct ConversationBuilder<'a> {
    conversation: ModelConversation,
    ids: CallIdGenerator,
    /// Calls that have no result yet: local call id and call id in the request.
    open: Vec<(CallId, String)>,
    names: &'a ToolNameMapping,
}

impl ConversationBuilder<'_> {
    fn user(&mut self, mut parts: Vec<MessagePart>) {
        self.close_calls();
        if parts.is_empty() {
            parts.push(MessagePart::Text(EMPTY_MESSAGE_TEXT.to_owned()));
        }
        match self.conversation.turns.last_mut() {
            Some(ModelTurn::User(before)) => before.append(&mut parts),
            _ => self.conversation.turns.push(ModelTurn::User(parts)),
        }
    }

    fn answer(&mut self, content: &Content) {
        self.close_calls();
        if !matches!(self.conversation.turns.last(), Some(ModelTurn::AssistantMessage(_))) {
            self.conversation.turns.push(ModelTurn::AssistantMessage(AssistantMessage::default()));
        }
        let Some(ModelTurn::AssistantMessage(answer)) = self.conversation.turns.last_mut() else { return };
        match content {
            Content::Text(text) => answer.text.push_str(text),
            Content::Blocks(blocks) => {
                for block in blocks {
                    match block {
                        Block::Text { text, .. } => answer.text.push_str(text),
                        Block::Thinking { thinking, extra } => {
                            let signature = extra.get(SIGNATURE_KEY).and_then(Value::as_str).map(str::to_owned);
                            answer.thoughts.push(ThinkingBlock { text: thinking.clone(), signature });
                        }
                        Block::ToolUse { call, extra } => {
                            let id = self.ids.next(call.id.as_str());
                            self.open.push((call.id.clone(), id.clone()));
                            answer.calls.push(AssistantCall {
                                id,
                                name: self.names.wire_name(&call.name),
                                input: call.input.clone(),
                                extra: extra.clone(),
                            });
                        }
                        // No server accepts images in assistant messages.
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
            // A result without its call is added as text.
            let mut message = vec![MessagePart::Text(format!("Result of the call {call}:"))];
            message.extend(parts(content));
            return self.user(message);
        };
        let (_, id) = self.open.remove(place);
        self.push_result(ToolResult { id, parts: parts(content) });
    }

    fn close_calls(&mut self) {
        for (_, id) in std::mem::take(&mut self.open) {
            self.push_result(ToolResult { id, parts: vec![MessagePart::Text(NO_RESULT.to_owned())] });
        }
    }

    fn push_result(&mut self, result: ToolResult) {
        match self.conversation.turns.last_mut() {
            Some(ModelTurn::Results(results)) => results.push(result),
            _ => self.conversation.turns.push(ModelTurn::Results(vec![result])),
        }
    }
}

/// Text and images of a message.
fn parts(content: &Content) -> Vec<MessagePart> {
    let text = |text: &str| (!text.trim().is_empty()).then(|| MessagePart::Text(text.to_owned()));
    match content {
        Content::Text(plain) => text(plain).into_iter().collect(),
        Content::Blocks(blocks) => blocks
            .iter()
            .filter_map(|block| match block {
                Block::Text { text: plain, .. } => text(plain),
                Block::Image { url, .. } => Some(MessagePart::Image(url.clone())),
                Block::Thinking { .. } | Block::ToolUse { .. } => None,
            })
            .collect(),
    }
}
