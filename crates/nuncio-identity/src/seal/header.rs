//! The plaintext header of an envelope, and the checks against relay metadata and payload.

use nuncio_core::conversation::{ContentType, ConversationType, MsgSubtype, SenderType};
use nuncio_core::ids::{ClientMessageId, ConversationId, DeviceId, MessageId};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Format version: the value of `v` in every envelope header.
pub const VERSION: &str = "a2h-envelope-v1";

/// `event` of the system message that announces a lost session. Its recipient then uses the session it arrived in.
pub const REKEY: &str = "rekey";

/// The signed plaintext header of an envelope. The fields are declared in canonical order, and serialisation relies on
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvelopeHeader {
    /// Message id chosen by the sender.
    pub client_message_id: ClientMessageId,
    pub content_type: ContentType,
    pub conversation_id: ConversationId,
    pub conversation_type: ConversationType,
    /// When the message was sealed.
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<MessageId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_subtype: Option<MsgSubtype>,
    pub sender_device_id: DeviceId,
    /// Id of the sender without the prefix `person:` or `agent:`.
    pub sender_id: String,
    pub sender_type: SenderType,
    /// Format version, always [`VERSION`].
    pub v: String,
}

/// A message to be sealed: its metadata and its payload.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaintextMessage {
    pub conversation: ConversationId,
    pub conversation_type: ConversationType,
    /// Id chosen by the sender; must be new for each message.
    pub client_id: ClientMessageId,
    pub content_type: ContentType,
    pub subtype: Option<MsgSubtype>,
    pub in_reply_to: Option<MessageId>,
    pub created_at: Timestamp,
    /// A JSON object whose `type` equals the content type.
    pub payload: Value,
}

impl PlaintextMessage {
    /// The system message that announces a lost session to a device. Call
    /// [`SealIdentity::rekey`](super::SealIdentity::rekey) first.
    #[must_use]
    pub fn rekey(
        conversation: ConversationId,
        conversation_type: ConversationType,
        client_id: ClientMessageId,
        created_at: Timestamp,
    ) -> Self {
        let payload = json!({"type": "system", "event": REKEY});
        let (content_type, subtype, in_reply_to) = (ContentType::System, None, None);
        Self { conversation, conversation_type, client_id, content_type, subtype, in_reply_to, created_at, payload }
    }

    pub(super) fn header(&self, sender: &RelayParty, device: &DeviceId) -> EnvelopeHeader {
        EnvelopeHeader {
            client_message_id: self.client_id.clone(),
            content_type: self.content_type,
            conversation_id: self.conversation.clone(),
            conversation_type: self.conversation_type,
            created_at: self.created_at,
            in_reply_to: self.in_reply_to.clone(),
            msg_subtype: self.subtype,
            sender_device_id: device.clone(),
            sender_id: sender.id().to_owned(),
            sender_type: sender.sender_type(),
            v: VERSION.to_owned(),
        }
    }
}

/// Metadata that the relay delivers with an envelope. It must match the signed header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayMetadata {
    pub conversation: ConversationId,
    pub conversation_type: ConversationType,
    pub sender: RelayParty,
    pub sender_device: Option<DeviceId>,
    /// Message id chosen by the sender.
    pub client_id: ClientMessageId,
    pub content_type: ContentType,
    pub subtype: Option<MsgSubtype>,
}

impl EnvelopeHeader {
    /// Canonical JSON (RFC 8785): the fields are in order and need no escaping.
    pub(super) fn canonical(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(512);
        serde_json::to_writer(&mut text, self).expect("a header can be written");
        text
    }

    /// Name of the first field in which the relay's metadata differs from the header.
    pub(super) fn first_difference(&self, relay: &RelayMetadata) -> Option<&'static str> {
        let same = [
            ("conversation_id", self.conversation_id == relay.conversation),
            ("conversation_type", self.conversation_type == relay.conversation_type),
            ("sender_type", self.sender_type == relay.sender.sender_type()),
            ("sender_id", self.sender_id == relay.sender.id()),
            ("sender_device_id", relay.sender_device.as_ref().is_none_or(|device| self.sender_device_id == *device)),
            ("client_message_id", self.client_message_id == relay.client_id),
            ("content_type", self.content_type == relay.content_type),
            ("msg_subtype", self.msg_subtype == relay.subtype),
        ];
        same.into_iter().find(|(_, same)| !same).map(|(field, _)| field)
    }

    /// Checks that the payload matches the header. The relay limits the rate of tool calls by the header, so a call
    /// must not hide under another subtype.
    pub(super) fn check_payload(&self, payload: &Value) -> Result<(), &'static str> {
        if payload["type"] != json!(self.content_type) {
            return Err("the payload must be an object whose \"type\" is the content_type");
        }
        let subtype = match payload["artifact"]["subtype"].as_str() {
            Some("tool_call") => Some(MsgSubtype::ArtifactToolCall),
            Some("tool_response") => Some(MsgSubtype::ArtifactResponse),
            _ => None,
        };
        if subtype != self.msg_subtype {
            return Err(
                "artifact.subtype \"tool_call\" requires msg_subtype artifact_tool_call, \"tool_response\" requires \
                 artifact_response, and both only occur together",
            );
        }
        match (self.msg_subtype, self.content_type, self.sender_type) {
            (None, ..)
            | (Some(MsgSubtype::ArtifactToolCall), ContentType::Artifact, SenderType::Agent)
            | (Some(MsgSubtype::ArtifactResponse), ContentType::Artifact, SenderType::Human) => {}
            _ => return Err("only agents send artifact_tool_call, and only people send artifact_response"),
        }
        match (self.conversation_type, self.sender_type) {
            (ConversationType::H2h, SenderType::Agent) => Err("a conversation of two people has no agent"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> EnvelopeHeader {
        EnvelopeHeader {
            client_message_id: ClientMessageId::parse("m1").unwrap(),
            content_type: ContentType::Artifact,
            conversation_id: ConversationId::parse("c1").unwrap(),
            conversation_type: ConversationType::H2a,
            created_at: Timestamp::from_millis(1_794_740_400_007),
            in_reply_to: Some(MessageId::parse("msg_0").unwrap()),
            msg_subtype: Some(MsgSubtype::ArtifactToolCall),
            sender_device_id: DeviceId::parse("main").unwrap(),
            sender_id: "hotel".to_owned(),
            sender_type: SenderType::Agent,
            v: VERSION.to_owned(),
        }
    }

    #[test]
    fn envelope_header_serializes_as_canonical_json() {
        let mut header = header();
        assert_eq!(header.canonical(), nuncio_core::digest::canonical(&header));
        (header.in_reply_to, header.msg_subtype) = (None, None);
        assert_eq!(header.canonical(), nuncio_core::digest::canonical(&header));
        assert!(!String::from_utf8(header.canonical()).unwrap().contains("null"));
    }

    #[test]
    fn payload_must_match_the_subtype_and_type_in_the_envelope_header() {
        let call = json!({"type": "artifact", "artifact": {"subtype": "tool_call"}});
        let answer = json!({"type": "artifact", "artifact": {"subtype": "tool_response"}});
        let form = json!({"type": "artifact", "artifact": {"subtype": "form"}});
        let (agent, human) = (SenderType::Agent, SenderType::Human);
        let (calls, answers) = (Some(MsgSubtype::ArtifactToolCall), Some(MsgSubtype::ArtifactResponse));
        for (sender_type, msg_subtype, payload, fits) in [
            (agent, calls, &call, true),
            (human, answers, &answer, true),
            (agent, None, &form, true),
            (agent, None, &call, false),
            (agent, calls, &form, false),
            (agent, calls, &answer, false),
            (human, answers, &call, false),
            (human, calls, &call, false),
            (agent, answers, &answer, false),
            (agent, None, &json!({"type": "text", "artifact": {"subtype": "tool_call"}}), false),
            (agent, None, &json!({"artifact": {"subtype": "form"}}), false),
            (agent, None, &json!(["artifact"]), false),
        ] {
            let header = EnvelopeHeader { sender_type, msg_subtype, ..header() };
            assert_eq!(header.check_payload(payload).is_ok(), fits, "{sender_type:?} {msg_subtype:?} {payload}");
        }
        let words = EnvelopeHeader { content_type: ContentType::Text, msg_subtype: None, ..header() };
        assert!(words.check_payload(&json!({"type": "text", "text": "hi"})).is_ok());
        assert!(words.check_payload(&json!({"type": "text", "artifact": {"subtype": "tool_call"}})).is_err());
        let stray = EnvelopeHeader { conversation_type: ConversationType::H2h, ..words };
        assert!(stray.check_payload(&json!({"type": "text"})).is_err());
    }
}
