//! Stream frames on the sockets: `stream.start`, `stream.delta`, `stream.done`, `stream.abort` and `stream.error`.
//!
//! Pieces are numbered by `stream_seq`; `seq` numbers stored events, and stream frames are not stored.

use nuncio_core::Code;
use nuncio_core::conversation::{SenderType, StreamId};
use nuncio_core::ids::{ClientMessageId, ConversationId};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::error::WireError;
use super::message::SealedBytes;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamStart {
    /// Two-party conversation of a person and an agent.
    pub conversation_id: ConversationId,
    pub stream_id: StreamId,
    /// Encryption key of the stream, sealed to the receivers.
    pub encrypted_payload: SealedBytes,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamDelta {
    pub stream_id: StreamId,
    /// Number of the stream piece, from 1, without gaps.
    pub stream_seq: u64,
    pub encrypted_payload: SealedBytes,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamDone {
    pub stream_id: StreamId,
    /// Number of the stream's last piece.
    pub stream_seq: u64,
    /// Client message id of the message with the complete text.
    pub client_message_id: ClientMessageId,
    /// Sealed last piece, which names that message.
    pub encrypted_payload: SealedBytes,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamAbort {
    pub stream_id: StreamId,
}

/// Stream frame sent by an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamFrame {
    Start(StreamStart),
    Delta(StreamDelta),
    Done(StreamDone),
    Abort(StreamAbort),
}

impl StreamFrame {
    #[must_use]
    pub const fn stream(&self) -> &StreamId {
        match self {
            Self::Start(start) => &start.stream_id,
            Self::Delta(delta) => &delta.stream_id,
            Self::Done(done) => &done.stream_id,
            Self::Abort(abort) => &abort.stream_id,
        }
    }
}

/// Stream frame sent to the receiving side, and errors sent back to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "type")]
pub enum StreamNotice {
    #[serde(rename = "stream.start")]
    Start {
        conversation_id: ConversationId,
        stream_id: StreamId,
        sender_id: String,
        sender_type: SenderType,
        /// Encryption key of the stream, sealed to the receivers.
        encrypted_payload: SealedBytes,
        created_at: Timestamp,
    },
    #[serde(rename = "stream.delta")]
    Delta { conversation_id: ConversationId, stream_id: StreamId, stream_seq: u64, encrypted_payload: SealedBytes },
    /// The stream is complete; the message is delivered separately.
    #[serde(rename = "stream.done")]
    Done {
        conversation_id: ConversationId,
        stream_id: StreamId,
        /// Number of the stream's last piece.
        stream_seq: u64,
        /// Client message id of the message with the complete text.
        client_message_id: ClientMessageId,
        encrypted_payload: SealedBytes,
    },
    /// The stream was cancelled; the text so far is void.
    #[serde(rename = "stream.abort")]
    Abort {
        conversation_id: ConversationId,
        stream_id: StreamId,
        /// One of `sender`, `gone`, `silent`, `too_long`, `too_fast`, `refused` and `slow`.
        reason: String,
    },
    /// To the sender: the stream ended, or a frame was refused.
    #[serde(rename = "stream.error")]
    Error {
        stream_id: StreamId,
        #[serde(flatten)]
        error: WireError,
    },
}

impl StreamNotice {
    /// Frame by which the sender learns that the stream ended.
    #[must_use]
    pub fn ended(stream_id: StreamId, why: &str) -> Self {
        let message = format!("the stream was ended: {why}; the complete message is still delivered");
        Self::Error { stream_id, error: WireError::new(Code::StreamNotFound, message) }
    }
}
