//! The frames of `/a2h/ws/human` and `/a2h/ws/agent`: JSON texts with a `type`.

use std::collections::BTreeMap;

use nuncio_core::Code;
use nuncio_core::ids::{AgentId, ConversationId};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error;
use super::stream::{StreamAbort, StreamDelta, StreamDone, StreamFrame, StreamStart};

/// What a client sends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "type", deny_unknown_fields)]
pub enum ClientFrame {
    /// Who it is: the first frame.
    #[serde(rename = "auth")]
    Auth {
        /// An access token of a device, or an agent's token.
        token: String,
        /// Which agent; on `/a2h/ws/agent`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_id: Option<AgentId>,
        /// After which event to begin; where this reader stopped, when it is not there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// A new token for the one that runs out.
    #[serde(rename = "auth.renew")]
    Renew {
        /// The token.
        access_token: String,
    },
    /// Begin again after an event, and after messages of conversations.
    #[serde(rename = "resume")]
    Resume {
        /// Which event; where this reader stopped, when it is not there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
        /// After which message of each conversation all of its messages come again, before anything else.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        conversations: BTreeMap<ConversationId, u64>,
    },
    /// Everything up to an event is dealt with.
    #[serde(rename = "ack")]
    Ack {
        /// Which.
        seq: u64,
    },
    /// An agent begins a stream.
    #[serde(rename = "stream.start")]
    StreamStart(StreamStart),
    /// A piece of it.
    #[serde(rename = "stream.delta")]
    StreamDelta(StreamDelta),
    /// Its end.
    #[serde(rename = "stream.done")]
    StreamDone(StreamDone),
    /// It is given up.
    #[serde(rename = "stream.abort")]
    StreamAbort(StreamAbort),
}

impl From<StreamFrame> for ClientFrame {
    fn from(frame: StreamFrame) -> Self {
        match frame {
            StreamFrame::Start(start) => Self::StreamStart(start),
            StreamFrame::Delta(delta) => Self::StreamDelta(delta),
            StreamFrame::Done(done) => Self::StreamDone(done),
            StreamFrame::Abort(abort) => Self::StreamAbort(abort),
        }
    }
}

/// What a server sends beside events.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "type")]
pub enum ServerFrame {
    /// The client is who it says.
    #[serde(rename = "auth.ok")]
    AuthOk {
        /// Until when, if it ends by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
        /// After which event this connection begins.
        after: u64,
        /// The number of the last event there is.
        last_seq: u64,
        /// Whether streams may be sent on this connection: an agent's, where the server takes them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        streams: bool,
    },
    /// It is not, or not any more; the connection ends.
    #[serde(rename = "auth.error")]
    AuthError(Refusal),
    /// The token runs out soon: renew it.
    #[serde(rename = "auth.expiring")]
    AuthExpiring {
        /// When.
        expires_at: Timestamp,
    },
    /// The device or the token was taken away; the connection ends.
    #[serde(rename = "session.invalidated")]
    Invalidated {
        /// Why.
        reason: String,
    },
    /// Events come from there on.
    #[serde(rename = "resume.ok")]
    ResumeOk {
        /// After which.
        after: u64,
        /// The number of the last event there is.
        last_seq: u64,
    },
    /// A frame was not understood; the connection stays.
    #[serde(rename = "error")]
    Error {
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

/// Why somebody is not let in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Refusal {
    /// For programs: `invalid_token`, `expired`, `wrong_agent` or `malformed`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Where a client's bundle has the message in other languages.
    pub i18n_key: String,
}

impl Refusal {
    /// A refusal.
    #[must_use]
    pub fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into(), i18n_key: format!("errors.auth.{reason}") }
    }
}

impl ServerFrame {
    /// A frame that says what was wrong with another.
    #[must_use]
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self::Error {
            code: error::name(code),
            message: message.into(),
            i18n_key: error::i18n_key(code),
            params: Value::Object(serde_json::Map::new()),
        }
    }
}

/// Why a server closes a connection.
pub mod close {
    /// The server stops.
    pub const GOING_AWAY: u16 = 1001;
    /// A frame was not text.
    pub const UNSUPPORTED: u16 = 1003;
    /// A frame was too large.
    pub const TOO_LARGE: u16 = 1009;
    /// A fault of ours.
    pub const INTERNAL: u16 = 1011;
    /// Who it is was not shown, or does not hold any more.
    pub const AUTH: u16 = 4401;
    /// Who it is was not shown in time, or nothing is heard of it any more.
    pub const TIMEOUT: u16 = 4408;
    /// The same device or agent has a newer connection.
    pub const REPLACED: u16 = 4409;
    /// Too many frames.
    pub const TOO_MANY: u16 = 4429;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_written_as_the_digest_has_them() {
        for text in [
            r#"{"type":"auth","token":"t"}"#,
            r#"{"type":"auth","token":"hsk_t","agent_id":"agt_1"}"#,
            r#"{"type":"auth.renew","access_token":"t"}"#,
            r#"{"type":"resume","after":7}"#,
            r#"{"type":"resume"}"#,
            r#"{"type":"resume","conversations":{"cnv_1":4,"cnv_2":0}}"#,
            r#"{"type":"ack","seq":7}"#,
            r#"{"type":"stream.start","conversation_id":"cnv_1","stream_id":"s_1","encrypted_payload":"e30="}"#,
            r#"{"type":"stream.delta","stream_id":"s_1","stream_seq":1,"encrypted_payload":"YWI="}"#,
            r#"{"type":"stream.done","stream_id":"s_1","stream_seq":2,"client_message_id":"m_1","encrypted_payload":"YWI="}"#,
            r#"{"type":"stream.abort","stream_id":"s_1"}"#,
        ] {
            let frame: ClientFrame = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&frame).unwrap(), text);
        }
        for wrong in [
            r#"{"type":"hello"}"#,
            r#"{"type":"ack"}"#,
            r#"{"type":"ack","seq":-1}"#,
            "[]",
            "{}",
            r#"{"type":"stream.abort"}"#,
            r#"{"type":"stream.abort","stream_id":"a b"}"#,
            r#"{"type":"stream.delta","stream_id":"s_1","seq":1,"encrypted_payload":"YWI="}"#,
            r#"{"type":"stream.delta","stream_id":"s_1","stream_seq":1,"encrypted_payload":"%"}"#,
        ] {
            assert!(serde_json::from_str::<ClientFrame>(wrong).is_err(), "{wrong}");
        }
        let refused = ServerFrame::AuthError(Refusal::new("invalid_token", "no"));
        assert_eq!(
            serde_json::to_string(&refused).unwrap(),
            r#"{"type":"auth.error","reason":"invalid_token","message":"no","i18n_key":"errors.auth.invalid_token"}"#
        );
    }
}
