//! Conversations between the person and agents. A sealed message can be opened only once, so each opened message is
//! stored in the key store, per agent and in order, before it is acknowledged to the relay.
//!
//! | module | content |
//! |---|---|
//! | `chat_store` | records: positions, counts, deletion of the oldest |
//! | `sending` | outgoing messages, each sent once |
//! | `incoming` | incoming messages, including unreadable and refused ones |
//! | `live` | replies while they are streamed |

use std::fmt;
use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::bundle::SealMode;
use nuncio_core::ids::{ClientMessageId, DeviceId};
use nuncio_core::text::is_unprintable;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::consent::AgentConsentService;
use crate::context::DeviceContext;

mod chat_store;
mod incoming;
mod live;
mod sending;

pub(crate) use live::StreamedReplies;
pub use live::{StreamedReply, StreamedReplyEvent, StreamedReplyProgress};

/// Limit of stored messages per agent; beyond it the oldest are deleted.
pub const MAX_MESSAGES: u64 = 2000;

/// Limit of stored text per agent, in bytes; beyond it the oldest messages are deleted.
pub const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Limit of a message text, in bytes, well below the relay's limit for sealed messages. A longer incoming text is cut.
pub const MAX_TEXT: usize = 64 * 1024;

/// Limit of unsent or failed messages to one agent.
pub const MAX_UNSENT: usize = 100;

/// Position of a message among all messages with its agent, in order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessagePosition {
    /// Index of the conversation with the agent, from zero; a relay that lost its data starts another conversation.
    pub part: u32,
    /// Number of the message in its conversation, given by the relay.
    pub seq: u64,
}

impl fmt::Display for MessagePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:016}", self.part, self.seq)
    }
}

impl MessagePosition {
    /// Parses a position in the form that `Display` writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (part, seq) = text.split_once('-')?;
        Some(Self { part: part.parse().ok()?, seq: seq.parse().ok()? })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Position of the message; `None` while it is being sent.
    pub position: Option<MessagePosition>,
    pub state: MessageDeliveryState,
    pub record: StoredChatMessage,
}

/// Stored form of a chat message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredChatMessage {
    /// Whether the person sent the message, from this device or another.
    pub mine: bool,
    /// Client message id; set only for messages sent from this device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<ClientMessageId>,
    /// Device that sealed the message; `None` if the message was not opened or not sent yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceId>,
    #[serde(rename = "said")]
    pub content: ChatContent,
    /// Time at which the relay received the message; for an unsent message, time of its submission.
    pub at: Timestamp,
    /// Whether the message was sealed with forward secrecy; `None` if it was not opened or was sent from this device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SealMode>,
    /// Whether the agent's previous message was sealed with other keys.
    #[serde(default)]
    pub new_keys: bool,
}

impl StoredChatMessage {
    fn new(mine: bool, content: ChatContent, at: Timestamp) -> Self {
        Self { mine, client_id: None, device: None, content, at, mode: None, new_keys: false }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ChatContent {
    /// Text of the message, without unprintable characters.
    Text {
        text: String,
        /// Whether the text was cut at [`MAX_TEXT`].
        #[serde(default)]
        cut: bool,
    },
    /// A message whose content is not text.
    Other,
    /// A message that could not be opened.
    Refused { why: MessageOpenFailure, because: String },
    /// A message of an agent without a relation, whose content is not stored.
    Stranger,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageOpenFailure {
    /// The sender's keys are neither pinned nor accepted by the person.
    Untrusted,
    /// The message was changed in transit, relabelled or forged.
    Changed,
    NotForUs,
    /// The message was sealed in a weaker mode than both sides support.
    Weaker,
    /// The sealing session of the message is lost; the next message starts a new one.
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum MessageDeliveryState {
    Sent,
    /// Sending is tried, also after a restart, for up to a day.
    Sending,
    /// Sending failed; only the person can start it again.
    Failed {
        code: ErrorCode,
        why: String,
    },
}

/// Page of chat messages, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChatMessageBatch {
    pub messages: Vec<ChatMessage>,
    /// Whether older messages exist.
    pub more: bool,
}

pub struct AgentMessageService {
    pub(crate) context: Arc<DeviceContext>,
    pub(crate) consents: Arc<AgentConsentService>,
    pub(crate) writing: StreamedReplies,
}

/// Sanitises a message text: keeps line breaks, replaces unprintable characters, and cuts at [`MAX_TEXT`]. Returns
/// whether the text was cut.
fn sanitise(text: &str) -> (String, bool) {
    let mut clean = String::with_capacity(text.len().min(MAX_TEXT));
    for c in text.replace("\r\n", "\n").chars() {
        if clean.len() + c.len_utf8() > MAX_TEXT {
            return (clean, true);
        }
        match c {
            '\n' | '\t' => clean.push(c),
            '\r' => clean.push('\n'),
            c if is_unprintable(c) => clean.push(' '),
            c => clean.push(c),
        }
    }
    (clean, false)
}

#[cfg(test)]
mod tests;
