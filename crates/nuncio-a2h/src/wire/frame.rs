//! Frames of `/a2h/ws/human` and `/a2h/ws/agent`: JSON texts with a `type`.

use std::collections::BTreeMap;

use nuncio_core::ids::{AgentId, ConversationId};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::error::WireError;
use super::stream::{StreamAbort, StreamDelta, StreamDone, StreamFrame, StreamStart};

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "type", deny_unknown_fields)]
pub enum ClientFrame {
    /// First frame of a connection: authenticates the client.
    #[serde(rename = "auth")]
    Auth {
        /// Access token of a device, or token of an agent.
        token: String,
        /// The connecting agent; required on `/a2h/ws/agent`, unless the URL names the agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_id: Option<AgentId>,
        /// Number of the event after which delivery starts; the acknowledged position by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// Replaces the connection's token before it expires.
    #[serde(rename = "auth.renew")]
    Renew { access_token: String },
    /// Restarts the delivery of events after a given one, and replays messages of conversations.
    #[serde(rename = "resume")]
    Resume {
        /// Number of the event after which delivery restarts; the acknowledged position by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
        /// Conversations to replay before other events, each with the message number after which replay starts.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        conversations: BTreeMap<ConversationId, u64>,
    },
    /// Acknowledges all events up to number `seq`.
    #[serde(rename = "ack")]
    Ack { seq: u64 },
    #[serde(rename = "stream.start")]
    StreamStart(StreamStart),
    #[serde(rename = "stream.delta")]
    StreamDelta(StreamDelta),
    #[serde(rename = "stream.done")]
    StreamDone(StreamDone),
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

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "type")]
pub enum ServerFrame {
    #[serde(rename = "auth.ok")]
    AuthOk {
        /// Expiry of the connection's token, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
        /// Number of the event after which delivery on this connection starts.
        after: u64,
        /// Number of the recipient's latest event.
        last_seq: u64,
        /// Whether the client may send streams on this connection.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        streams: bool,
    },
    /// Authentication failed or the token expired; the connection closes.
    #[serde(rename = "auth.error")]
    AuthError(AuthRefusal),
    /// The token expires soon and should be renewed.
    #[serde(rename = "auth.expiring")]
    AuthExpiring { expires_at: Timestamp },
    /// The device or token was revoked, or the agent switched to webhooks; the connection closes.
    #[serde(rename = "session.invalidated")]
    Invalidated { reason: String },
    /// Answer to a `resume` frame, after the requested replay.
    #[serde(rename = "resume.ok")]
    ResumeOk {
        after: u64,
        /// Number of the recipient's latest event.
        last_seq: u64,
    },
    /// A frame was invalid; the connection stays open.
    #[serde(rename = "error")]
    Error(WireError),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct AuthRefusal {
    /// Reason for programs: `invalid_token`, `expired`, `wrong_agent`, `connection_mode` or `malformed`.
    pub reason: String,
    pub message: String,
    /// Key under which a client looks up a translation of the message.
    pub i18n_key: String,
}

impl AuthRefusal {
    #[must_use]
    pub fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into(), i18n_key: format!("errors.auth.{reason}") }
    }
}

/// WebSocket close codes (RFC 6455 §7.4); codes from 4000 are defined by this server.
pub mod close {
    pub const GOING_AWAY: u16 = 1001;
    pub const UNSUPPORTED: u16 = 1003;
    pub const TOO_LARGE: u16 = 1009;
    pub const INTERNAL: u16 = 1011;
    /// Close code: authentication failed, expired or was revoked.
    pub const AUTH: u16 = 4401;
    /// Close code: no authentication in time, or no pong.
    pub const TIMEOUT: u16 = 4408;
    /// Close code: a newer connection of the same device or agent replaced this one.
    pub const REPLACED: u16 = 4409;
    pub const TOO_MANY: u16 = 4429;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_client_frames_round_trip_and_invalid_ones_are_refused() {
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
        let refused = ServerFrame::AuthError(AuthRefusal::new("invalid_token", "no"));
        assert_eq!(
            serde_json::to_string(&refused).unwrap(),
            r#"{"type":"auth.error","reason":"invalid_token","message":"no","i18n_key":"errors.auth.invalid_token"}"#
        );
    }
}
