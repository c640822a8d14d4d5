//! Conversations between the person and agents. A sealed message can be opened only once, so the opened message is
//! stored here, per agent and in order, sealed at rest, before it is acknowledged.
//!
//! | module | content |
//! |---|---|
//! | `chat_store` | records: positions, counts, deletion of the oldest |
//! | `sending` | outgoing messages, each sent once |
//! | `incoming` | incoming messages, including unreadable and refused ones |
//! | `live` | replies while they are streamed |

use std::fmt;
use std::sync::Arc;

use nuncio_core::Code;
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

pub(crate) use live::ReplyStreams;
pub use live::{ReplyEvent, ReplyProgress, StreamedReply};

/// Messages stored per agent; the oldest are deleted.
pub const MAX_MESSAGES: u64 = 2000;

/// Bytes of text stored per agent; the oldest messages are deleted.
pub const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Limit of a message text, in bytes, well below the relay's limit once sealed. A longer incoming text is cut.
pub const MAX_TEXT: usize = 64 * 1024;

/// Limit of unsent or failed messages to one agent.
pub const MAX_UNSENT: usize = 100;

/// Position of a message among all messages with its agent; ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessagePosition {
    /// Index of the conversation with that agent, from zero: a relay that lost its data starts a new conversation.
    pub part: u32,
    /// Sequence number in that conversation, given by the relay.
    pub seq: u64,
}

impl fmt::Display for MessagePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:016}", self.part, self.seq)
    }
}

impl MessagePosition {
    /// Parses the form that `Display` writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (part, seq) = text.split_once('-')?;
        Some(Self { part: part.parse().ok()?, seq: seq.parse().ok()? })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Position of the message; `None` while it is being sent.
    pub position: Option<MessagePosition>,
    pub state: DeliveryState,
    pub record: ChatRecord,
}

/// Stored form of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatRecord {
    /// Whether the person sent the message, from this device or another.
    pub mine: bool,
    /// Client message id, for messages sent from this device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<ClientMessageId>,
    /// Device that sealed the message; unknown for messages that were not opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceId>,
    #[serde(rename = "said")]
    pub content: ChatContent,
    /// Time of the message's arrival at the relay; while it is being sent, of its submission.
    pub at: Timestamp,
    /// Whether the sender's keys give forward secrecy; unknown for messages that were not opened or are being sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SealMode>,
    /// Whether the agent's previous message was sealed with other keys.
    #[serde(default)]
    pub new_keys: bool,
}

impl ChatRecord {
    fn new(mine: bool, content: ChatContent, at: Timestamp) -> Self {
        Self { mine, client_id: None, device: None, content, at, mode: None, new_keys: false }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ChatContent {
    /// Text without unprintable characters.
    Text {
        text: String,
        /// Whether the text was longer and cut.
        #[serde(default)]
        cut: bool,
    },
    /// A message whose content is not text.
    Other,
    /// A message that could not be opened.
    Refused { why: OpenFailure, because: String },
    /// An agent without a relation wrote; the content is not stored.
    Stranger,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenFailure {
    /// Keys are neither pinned nor accepted by the person.
    Untrusted,
    /// Changed in transit, relabelled or forged.
    Changed,
    NotForUs,
    /// Sealed in a weaker mode than both sides support.
    Weaker,
    /// The sealing session of the message is lost; the next message starts a new one.
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DeliveryState {
    Sent,
    /// Being sent, also after a restart, for up to a day.
    Sending,
    /// Sending failed and is not retried automatically.
    Failed {
        code: Code,
        why: String,
    },
}

/// Page of messages, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChatPage {
    pub messages: Vec<ChatMessage>,
    /// Whether older messages exist.
    pub more: bool,
}

pub struct AgentMessageService {
    pub(crate) context: Arc<DeviceContext>,
    pub(crate) consents: Arc<AgentConsentService>,
    pub(crate) writing: ReplyStreams,
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
