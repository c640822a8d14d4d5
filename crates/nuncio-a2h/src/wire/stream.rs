//! Stream frames on the sockets: `stream.start`, `stream.delta`, `stream.done`, `stream.abort` and `stream.error`.
//!
//! Stream frames are not stored, so they have no event number `seq`; `stream_seq` numbers the pieces of a stream.

use nuncio_core::ErrorCode;
use nuncio_core::conversation::{SenderType, StreamId};
use nuncio_core::ids::{ClientMessageId, ConversationId};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::error::WireError;
use super::message::SealedBytes;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamStart {
    /// Conversation of the stream, which must be between one person and one agent.
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
    /// Sealed last piece of the stream, which contains the same client message id.
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

/// Stream frame that the relay sends: to a receiver, or as an error to the sending agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "type")]
pub enum RelayStreamFrame {
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
    /// The stream is complete; the message with the whole text is delivered separately.
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
    /// The stream was cancelled; its text so far must be discarded.
    #[serde(rename = "stream.abort")]
    Abort {
        conversation_id: ConversationId,
        stream_id: StreamId,
        /// Why the stream ended: `sender`, `gone`, `silent`, `too_long`, `too_fast`, `refused` or `slow`.
        reason: String,
    },
    /// Notice to the sending agent: the relay ended the stream or refused a frame.
    #[serde(rename = "stream.error")]
    Error {
        stream_id: StreamId,
        #[serde(flatten)]
        error: WireError,
    },
}

impl RelayStreamFrame {
    /// Notice to the sending agent that the relay ended the stream.
    #[must_use]
    pub fn ended(stream_id: StreamId, why: &str) -> Self {
        let message = format!("the stream was ended: {why}; the complete message is still delivered");
        Self::Error { stream_id, error: WireError::new(ErrorCode::StreamNotFound, message) }
    }
}
