//! What is said in a conversation, by whom, in which pieces.
//!
//! The serialised form is also the stored form. Fields this version does not know are kept, so
//! that a history comes back as it was given.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{CallId, ToolName};

/// Fields beside the known ones, kept as they came.
pub type Extra = Map<String, Value>;

/// One message of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions to the agent.
    System {
        /// The instructions.
        content: String,
        /// Unknown fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// What the person (or the app for them) said.
    User {
        /// Text or blocks.
        content: Content,
        /// Unknown fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// What the agent said and which tools it called.
    Assistant {
        /// Text or blocks.
        content: Content,
        /// Unknown fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// What a tool call came to.
    Tool {
        /// The call answered.
        #[serde(rename = "toolCallId")]
        tool_call_id: CallId,
        /// Text or blocks.
        content: Content,
        /// Unknown fields.
        #[serde(flatten)]
        extra: Extra,
    },
}

impl Message {
    /// A user's plain text.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { content: Content::Text(text.into()), extra: Extra::new() }
    }

    /// The agent's message, in blocks.
    #[must_use]
    pub fn assistant(blocks: Vec<Block>) -> Self {
        Self::Assistant { content: Content::Blocks(blocks), extra: Extra::new() }
    }

    /// A tool's result.
    #[must_use]
    pub fn tool(tool_call_id: CallId, content: Content) -> Self {
        Self::Tool { tool_call_id, content, extra: Extra::new() }
    }

    /// `system`, `user`, `assistant` or `tool`.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self {
            Self::System { .. } => "system",
            Self::User { .. } => "user",
            Self::Assistant { .. } => "assistant",
            Self::Tool { .. } => "tool",
        }
    }

    /// All text of the message, in order, without thinking.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::System { content, .. } => content.clone(),
            Self::User { content, .. } | Self::Assistant { content, .. } | Self::Tool { content, .. } => content.text(),
        }
    }

    /// The tool calls in an agent's message.
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

/// Plain text, or blocks. Kept apart because an exact history must return what was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// One text.
    Text(String),
    /// A list of blocks.
    Blocks(Vec<Block>),
}

impl Content {
    /// The text in it, without thinking.
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

    /// Its blocks; none when it is plain text.
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

/// One piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text for people.
    Text {
        /// The text.
        text: String,
        /// Unknown fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// The agent's thinking, shown apart.
    Thinking {
        /// The thinking.
        thinking: String,
        /// Unknown fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A call of a tool.
    ToolUse {
        /// The call.
        #[serde(flatten)]
        call: ToolCall,
        /// Unknown fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A picture, by `https:` or `data:` address.
    Image {
        /// Where it is.
        url: String,
        /// Unknown fields.
        #[serde(flatten)]
        extra: Extra,
    },
}

impl Block {
    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), extra: Extra::new() }
    }

    /// A thinking block.
    #[must_use]
    pub fn thinking(thinking: impl Into<String>) -> Self {
        Self::Thinking { thinking: thinking.into(), extra: Extra::new() }
    }

    /// A tool call as a block.
    #[must_use]
    pub fn tool_use(call: ToolCall) -> Self {
        Self::ToolUse { call, extra: Extra::new() }
    }

    /// A picture.
    #[must_use]
    pub fn image(url: impl Into<String>) -> Self {
        Self::Image { url: url.into(), extra: Extra::new() }
    }
}

/// A brain's wish to have a tool run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names this call; the result carries it back.
    #[serde(rename = "toolCallId")]
    pub id: CallId,
    /// The tool.
    pub name: ToolName,
    /// Its arguments.
    pub input: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_survive_a_round_trip() {
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
