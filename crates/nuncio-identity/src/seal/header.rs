//! What an envelope says in clear, and what it must agree with.

use nuncio_core::conversation::{ContentType, ConversationType, MsgSubtype, SenderType};
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{ClientMessageId, ConversationId, DeviceId, MessageId};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The version every header names.
pub const VERSION: &str = "a2h-envelope-v1";

/// The `event` of a system message that says: what we shared is lost, use the session this came with.
pub const REKEY: &str = "rekey";

/// What an envelope says in clear. Its fields stand in the order of the canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Its sender's name for it.
    pub client_message_id: ClientMessageId,
    /// What it holds.
    pub content_type: ContentType,
    /// Where it belongs.
    pub conversation_id: ConversationId,
    /// Who takes part there.
    pub conversation_type: ConversationType,
    /// When it was sealed.
    pub created_at: Timestamp,
    /// What it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<MessageId>,
    /// Which artifact it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_subtype: Option<MsgSubtype>,
    /// The device that sealed it.
    pub sender_device_id: DeviceId,
    /// Whose it is, without its kind.
    pub sender_id: String,
    /// What it is.
    pub sender_type: SenderType,
    /// [`VERSION`].
    pub v: String,
}

/// What somebody writes.
#[derive(Debug, Clone, PartialEq)]
pub struct Letter {
    /// Where it belongs.
    pub conversation: ConversationId,
    /// Who takes part there.
    pub conversation_type: ConversationType,
    /// Its sender's name for it, new for each letter.
    pub client_id: ClientMessageId,
    /// What it holds.
    pub content_type: ContentType,
    /// Which artifact it is.
    pub subtype: Option<MsgSubtype>,
    /// What it answers.
    pub in_reply_to: Option<MessageId>,
    /// When it is sealed.
    pub created_at: Timestamp,
    /// What is said: an object whose `type` is the content type.
    pub payload: Value,
}

impl Letter {
    /// The letter that says to a device: I lost our session, use the one this comes with. Call
    /// [`Party::rekey`](super::Party::rekey) first.
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

    pub(super) fn header(&self, sender: &Recipient, device: &DeviceId) -> Header {
        Header {
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

/// What the relay said of a message in clear. The header must say the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Where it came.
    pub conversation: ConversationId,
    /// Who takes part there.
    pub conversation_type: ConversationType,
    /// Who sent it.
    pub sender: Recipient,
    /// On which device, where the relay says so.
    pub sender_device: Option<DeviceId>,
    /// Its sender's name for it.
    pub client_id: ClientMessageId,
    /// What it holds.
    pub content_type: ContentType,
    /// Which artifact it is.
    pub subtype: Option<MsgSubtype>,
}

impl Header {
    /// The bytes that are hashed: RFC 8785, since the fields are in order and nothing in them needs escaping.
    pub(super) fn canonical(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(512);
        serde_json::to_writer(&mut text, self).expect("a header can be written");
        text
    }

    /// The first thing the relay said that the header does not say.
    pub(super) fn differs(&self, told: &Told) -> Option<&'static str> {
        let same = [
            ("conversation_id", self.conversation_id == told.conversation),
            ("conversation_type", self.conversation_type == told.conversation_type),
            ("sender_type", self.sender_type == told.sender.sender_type()),
            ("sender_id", self.sender_id == told.sender.id()),
            ("sender_device_id", told.sender_device.as_ref().is_none_or(|device| self.sender_device_id == *device)),
            ("client_message_id", self.client_message_id == told.client_id),
            ("content_type", self.content_type == told.content_type),
            ("msg_subtype", self.msg_subtype == told.subtype),
        ];
        same.into_iter().find(|(_, same)| !same).map(|(field, _)| field)
    }

    /// Whether what is said is what the header says it is. The relay limits calls by the header, so a call that hides
    /// behind another header is refused.
    pub(super) fn agrees(&self, payload: &Value) -> Result<(), &'static str> {
        if payload["type"] != json!(self.content_type) {
            return Err("the payload must be an object whose \"type\" is the content_type");
        }
        let said = match payload["artifact"]["subtype"].as_str() {
            Some("tool_call") => Some(MsgSubtype::ArtifactToolCall),
            Some("tool_response") => Some(MsgSubtype::ArtifactResponse),
            _ => None,
        };
        if said != self.msg_subtype {
            return Err(
                "artifact.subtype \"tool_call\" goes with msg_subtype artifact_tool_call, \"tool_response\" with \
                        artifact_response, and nothing else with either",
            );
        }
        match (self.msg_subtype, self.content_type, self.sender_type) {
            (None, ..)
            | (Some(MsgSubtype::ArtifactToolCall), ContentType::Artifact, SenderType::Agent)
            | (Some(MsgSubtype::ArtifactResponse), ContentType::Artifact, SenderType::Human) => {}
            _ => return Err("agents call with artifact_tool_call and people answer with artifact_response"),
        }
        match (self.conversation_type, self.sender_type) {
            (ConversationType::H2h, SenderType::Agent) => Err("no agent takes part between two people"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
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
    fn a_header_is_written_in_its_canonical_form() {
        let mut header = header();
        assert_eq!(header.canonical(), nuncio_core::digest::canonical(&header));
        (header.in_reply_to, header.msg_subtype) = (None, None);
        assert_eq!(header.canonical(), nuncio_core::digest::canonical(&header));
        assert!(!String::from_utf8(header.canonical()).unwrap().contains("null"));
    }

    #[test]
    fn calls_do_not_hide_behind_another_header() {
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
            let header = Header { sender_type, msg_subtype, ..header() };
            assert_eq!(header.agrees(payload).is_ok(), fits, "{sender_type:?} {msg_subtype:?} {payload}");
        }
        let words = Header { content_type: ContentType::Text, msg_subtype: None, ..header() };
        assert!(words.agrees(&json!({"type": "text", "text": "hi"})).is_ok());
        assert!(words.agrees(&json!({"type": "text", "artifact": {"subtype": "tool_call"}})).is_err());
        let stray = Header { conversation_type: ConversationType::H2h, ..words };
        assert!(stray.agrees(&json!({"type": "text"})).is_err());
    }
}
