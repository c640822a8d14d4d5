//! Streams on the sockets: `stream.start`, `stream.delta`, `stream.done`, `stream.abort` and `stream.error`.
//!
//! A piece's place is `stream_seq`: `seq` is an event's, which is kept and acknowledged, and nothing of a stream is.

use nuncio_core::Code;
use nuncio_core::conversation::{SenderType, StreamId};
use nuncio_core::ids::{ClientMessageId, ConversationId};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::WireError;
use super::message::Sealed;

/// An agent begins a stream.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamStart {
    /// Where: a person and an agent, alone.
    pub conversation_id: ConversationId,
    /// Its name, new for each.
    pub stream_id: StreamId,
    /// The sealed letter with its key.
    pub encrypted_payload: Sealed,
}

/// A piece of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamDelta {
    /// Which stream.
    pub stream_id: StreamId,
    /// Its place, from one, without gaps.
    pub stream_seq: u64,
    /// The sealed piece.
    pub encrypted_payload: Sealed,
}

/// Its end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamDone {
    /// Which stream.
    pub stream_id: StreamId,
    /// The place of its last piece.
    pub stream_seq: u64,
    /// The message that says all of it.
    pub client_message_id: ClientMessageId,
    /// The sealed last piece, which names that message.
    pub encrypted_payload: Sealed,
}

/// Its sender gives it up.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamAbort {
    /// Which stream.
    pub stream_id: StreamId,
}

/// What an agent sends of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamFrame {
    /// It begins.
    Start(StreamStart),
    /// A piece.
    Delta(StreamDelta),
    /// It is done.
    Done(StreamDone),
    /// It is given up.
    Abort(StreamAbort),
}

impl StreamFrame {
    /// Which stream it is about.
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

/// What those who listen are told of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "type")]
pub enum StreamNews {
    /// It began.
    #[serde(rename = "stream.start")]
    Start {
        /// Where.
        conversation_id: ConversationId,
        /// Which.
        stream_id: StreamId,
        /// Who streams.
        sender_id: String,
        /// Of which kind they are.
        sender_type: SenderType,
        /// The sealed letter with its key.
        encrypted_payload: Sealed,
        /// When it began.
        created_at: Timestamp,
    },
    /// A piece came.
    #[serde(rename = "stream.delta")]
    Delta {
        /// Where.
        conversation_id: ConversationId,
        /// Which.
        stream_id: StreamId,
        /// Its place.
        stream_seq: u64,
        /// The sealed piece.
        encrypted_payload: Sealed,
    },
    /// It is done; the message comes by itself.
    #[serde(rename = "stream.done")]
    Done {
        /// Where.
        conversation_id: ConversationId,
        /// Which.
        stream_id: StreamId,
        /// The place of its last piece.
        stream_seq: u64,
        /// The message that says all of it.
        client_message_id: ClientMessageId,
        /// The sealed last piece.
        encrypted_payload: Sealed,
    },
    /// It was given up: what was shown of it counts for nothing.
    #[serde(rename = "stream.abort")]
    Abort {
        /// Where.
        conversation_id: ConversationId,
        /// Which.
        stream_id: StreamId,
        /// Why: `sender`, `gone`, `silent`, `too_long`, `too_fast`, `refused` or `slow`.
        reason: String,
    },
    /// To its sender: it is over, or that frame of it was not taken.
    #[serde(rename = "stream.error")]
    Error {
        /// Which.
        stream_id: StreamId,
        /// For programs.
        code: String,
        /// For people.
        message: String,
        /// Where a client's bundle has the message in other languages.
        i18n_key: String,
        /// What a program needs to do better.
        params: Value,
    },
}

impl StreamNews {
    /// A stream is over, for its sender.
    #[must_use]
    pub fn ended(stream_id: StreamId, why: &str) -> Self {
        let message = format!("the stream was ended: {why}; the message says it all");
        Self::error(stream_id, WireError::new(Code::StreamNotFound, message))
    }

    /// What is wrong with a stream, for its sender.
    #[must_use]
    pub fn error(stream_id: StreamId, error: WireError) -> Self {
        let WireError { code, message, i18n_key, params } = error;
        Self::Error { stream_id, code, message, i18n_key, params }
    }
}
