//! Messages of a conversation and their content blocks.
//!
//! The serialised form is also the stored form. Unknown fields are preserved, so that a history is returned as it was
//! sent.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{CallId, ToolName};

/// Unknown fields of a message, preserved as sent.
pub type UnknownMessageFields = Map<String, Value>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    System {
        content: String,
        #[serde(flatten)]
        extra: UnknownMessageFields,
    },
    /// A message of the person, or of the application on their behalf.
    User {
        content: Content,
        #[serde(flatten)]
        extra: UnknownMessageFields,
    },
    /// A message of the agent: text and tool calls.
    Assistant {
        content: Content,
        #[serde(flatten)]
        extra: UnknownMessageFields,
    },
    /// A message with the result of a tool call.
    Tool {
        #[serde(rename = "toolCallId")]
        tool_call_id: CallId,
        content: Content,
        #[serde(flatten)]
        extra: UnknownMessageFields,
    },
}

impl Message {
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { content: Content::Text(text.into()), extra: UnknownMessageFields::new() }
    }

    #[must_use]
    pub fn assistant(blocks: Vec<Block>) -> Self {
        Self::Assistant { content: Content::Blocks(blocks), extra: UnknownMessageFields::new() }
    }

    #[must_use]
    pub fn tool(tool_call_id: CallId, content: Content) -> Self {
        Self::Tool { tool_call_id, content, extra: UnknownMessageFields::new() }
    }

    /// Role of the message's sender: `system`, `user`, `assistant` or `tool`.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self {
            Self::System { .. } => "system",
            Self::User { .. } => "user",
            Self::Assistant { .. } => "assistant",
            Self::Tool { .. } => "tool",
        }
    }

    /// All text of the message in order, without thinking.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::System { content, .. } => content.clone(),
            Self::User { content, .. } | Self::Assistant { content, .. } | Self::Tool { content, .. } => content.text(),
        }
    }

    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        let blocks: &[Block] = match self {
            Self::Assistant { content: Content::Blocks(blocks), .. } => blocks,
            _ => &[],
        };
        blocks.iter().filter_map(|block| match block {
            Block::ToolUse { call, .. } => Some(call),
            _ => None,
        })
    }
}

/// Content of a message: plain text or blocks. Both forms are kept, because an exact history returns what was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    Text(String),
    Blocks(Vec<Block>),
}

impl Content {
    /// All text of the content, without thinking.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => blocks
                .iter()
                .filter_map(|block| match block {
                    Block::Text { text, .. } => Some(text.as_str()),
                    _ => None,
                })
                .collect(),
        }
    }

    /// The content blocks; empty for plain text.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        match self {
            Self::Text(_) => &[],
            Self::Blocks(blocks) => blocks,
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
        #[serde(flatten)]
        extra: UnknownMessageFields,
    },
    /// The model's reasoning, which is shown separately from its text.
    Thinking {
        thinking: String,
        #[serde(flatten)]
        extra: UnknownMessageFields,
    },
    ToolUse {
        #[serde(flatten)]
        call: ToolCall,
        #[serde(flatten)]
        extra: UnknownMessageFields,
    },
    /// An image block, by `https:` or `data:` URL.
    Image {
        url: String,
        #[serde(flatten)]
        extra: UnknownMessageFields,
    },
}

impl Block {
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), extra: UnknownMessageFields::new() }
    }

    #[must_use]
    pub fn thinking(thinking: impl Into<String>) -> Self {
        Self::Thinking { thinking: thinking.into(), extra: UnknownMessageFields::new() }
    }

    #[must_use]
    pub fn tool_use(call: ToolCall) -> Self {
        Self::ToolUse { call, extra: UnknownMessageFields::new() }
    }

    #[must_use]
    pub fn image(url: impl Into<String>) -> Self {
        Self::Image { url: url.into(), extra: UnknownMessageFields::new() }
    }
}

/// Key under which a text or image block of a tool's result keeps the content that it describes, in the form of MCP: a
/// sound, a resource or a link. Only a direct result of a call has it; messages have the text or the image alone.
pub const DESCRIBED_CONTENT_KEY: &str = "mcp_content";

/// Key under which a brain passes on the text of arguments that are not a JSON object, instead of the arguments. No tool
/// runs with them: the call is refused, and the brain gets the reason.
pub const UNREADABLE_ARGUMENTS_KEY: &str = "unreadable_arguments";

/// A tool-call request of a brain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id of the call, which its result repeats.
    #[serde(rename = "toolCallId")]
    pub id: CallId,
    pub name: ToolName,
    pub input: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_message_fields_survive_a_json_round_trip() {
        let wire = json!([
            {"role": "system", "content": "be kind", "x": 1},
            {"role": "user", "content": "plain"},
            {"role": "user", "content": [{"type": "text", "text": "a", "cache": {"ttl": 5}}, {"type": "image", "url": "https://a/b.png"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"},
                {"type": "tool_use", "toolCallId": "c1", "name": "add", "input": {"a": 1}, "sig": "s"}], "id": "m1"},
            {"role": "tool", "toolCallId": "c1", "content": "2"},
        ]);
        let messages: Vec<Message> = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(serde_json::to_value(&messages).unwrap(), wire);
        assert_eq!(messages[3].tool_calls().count(), 1);
    }
}
