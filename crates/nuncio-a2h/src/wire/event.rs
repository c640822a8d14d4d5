//! Events for people's devices and agents (A2H §2.5): flat JSON with a sequence number.

use nuncio_core::conversation::{ConversationMessage, MessageRef, SenderType};
use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, ConversationId, DeviceId, MessageId, PersonName, RelationId, ScopeId};
use nuncio_core::notification::{Notification, QueuedNotification, RelayParty, WebhookState};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::message::{MessageView, WireMessage};

/// Numbered event. An event may be delivered more than once, with the same `event_id`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Event {
    #[serde(flatten)]
    pub what: EventKind,
    /// Number of the event among the recipient's events, from 1, without gaps; zero for a replayed message.
    pub seq: u64,
    /// Unique id of the event, equal in every delivery.
    pub event_id: String,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "type")]
pub enum EventKind {
    /// The agent's manifest changed: these scopes are suspended until new consent.
    #[serde(rename = "h2a.reauth_required")]
    ReauthRequired {
        agent_id: AgentId,
        /// Manifest version that made the change.
        new_manifest_version: u64,
        new_manifest_hash: Digest,
        scopes_requiring_reauth: Vec<ScopeId>,
        /// The person's relation with the agent; absent in the event that the agent gets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        relation_id: Option<RelationId>,
    },
    /// A later manifest version restored suspended scopes to the form that the person had consented to.
    #[serde(rename = "relation.restored")]
    Restored { agent_id: AgentId, relation_id: RelationId, manifest_version: u64, scopes: Vec<ScopeId> },
    /// A person consented to an agent for the first time.
    #[serde(rename = "relation.established")]
    Established {
        agent_id: AgentId,
        relation_id: RelationId,
        granted_scopes: Vec<ScopeId>,
        payload: RelationEstablishedPayload,
    },
    /// A person changed the grants of an agent, after a manifest change or unprompted.
    #[serde(rename = "agent.capability_changed")]
    CapabilityChanged {
        agent_id: AgentId,
        relation_id: RelationId,
        user_id: PersonName,
        granted_scopes: Vec<ScopeId>,
        /// Manifest version that the person consented to.
        manifest_version: u64,
    },
    /// A person revoked all grants of an agent.
    #[serde(rename = "relation.revoked")]
    Revoked { agent_id: AgentId, relation_id: RelationId, user_id: PersonName },
    /// A device of a person was enrolled or revoked.
    #[serde(rename = "user.devices_changed")]
    DevicesChanged { user_id: PersonName },
    #[serde(rename = "message.new")]
    MessageNew(Box<WireMessage>),
    /// A member has read a conversation up to a message.
    #[serde(rename = "message.read")]
    MessageRead { conversation_id: ConversationId, reader_id: String, reader_type: SenderType, conversation_seq: u64 },
    /// A device of the person claimed a tool call.
    #[serde(rename = "message.claimed")]
    MessageClaimed { conversation_id: ConversationId, message_id: MessageId, device_id: DeviceId },
    /// A conversation was created, or its members changed.
    #[serde(rename = "conversation.updated")]
    ConversationUpdated { conversation_id: ConversationId },
    /// An agent or person published new keys.
    #[serde(rename = "keys.changed")]
    KeysChanged { owner_id: String, owner_type: SenderType },
    /// An agent's webhook became unreachable or reachable again.
    #[serde(rename = "agent.governance")]
    Governance { agent_id: AgentId, state: WebhookState },
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct RelationEstablishedPayload {
    pub user_id: PersonName,
    pub display_name: String,
}

impl Event {
    /// Wire form of a notification; `message` is the message that it reports. `None` if that was deleted.
    #[must_use]
    pub fn of(
        recipient: &RelayParty,
        mailed: QueuedNotification,
        message: Option<ConversationMessage>,
    ) -> Option<Self> {
        let QueuedNotification { seq, at, notification } = mailed;
        let what = EventKind::of(notification, message)?;
        Some(Self { what, seq, event_id: event_id(recipient, seq), created_at: at })
    }

    /// A replayed message as an event without number; `None` if its conversation id gives no valid message id.
    #[must_use]
    pub fn again(recipient: &RelayParty, message: ConversationMessage) -> Option<Self> {
        let MessageView { message, created_at } = MessageView::of(message).ok()?;
        let event_id = event_id(recipient, &message.message_id);
        Some(Self { what: EventKind::MessageNew(Box::new(message)), seq: 0, event_id, created_at })
    }
}

/// Event id, derived from the recipient and an event number or message id.
fn event_id(recipient: &RelayParty, which: impl std::fmt::Display) -> String {
    let digest = Digest::of_bytes(format!("{recipient}\n{which}").as_bytes()).to_string();
    format!("evt_{}", &digest[..32])
}

impl EventKind {
    fn of(notification: Notification, message: Option<ConversationMessage>) -> Option<Self> {
        Some(match notification {
            Notification::ReauthRequired { agent, relation, version, hash, scopes } => Self::ReauthRequired {
                agent_id: agent,
                new_manifest_version: version,
                new_manifest_hash: hash,
                scopes_requiring_reauth: scopes,
                relation_id: relation,
            },
            Notification::Restored { agent, relation, version, scopes } => {
                Self::Restored { agent_id: agent, relation_id: relation, manifest_version: version, scopes }
            }
            Notification::RelationEstablished { agent, relation, person, scopes } => Self::Established {
                agent_id: agent,
                relation_id: relation,
                granted_scopes: scopes,
                payload: RelationEstablishedPayload { display_name: person.to_string(), user_id: person },
            },
            Notification::ConsentChanged { agent, relation, person, scopes, version } => Self::CapabilityChanged {
                agent_id: agent,
                relation_id: relation,
                user_id: person,
                granted_scopes: scopes,
                manifest_version: version,
            },
            Notification::RelationRevoked { agent, relation, person } => {
                Self::Revoked { agent_id: agent, relation_id: relation, user_id: person }
            }
            Notification::DevicesChanged { person } => Self::DevicesChanged { user_id: person },
            Notification::Message { .. } => Self::MessageNew(Box::new(MessageView::of(message?).ok()?.message)),
            Notification::Read { conversation, reader, seq } => Self::MessageRead {
                conversation_id: conversation,
                reader_id: reader.id().to_owned(),
                reader_type: reader.sender_type(),
                conversation_seq: seq,
            },
            Notification::Claimed { conversation, seq, device } => Self::MessageClaimed {
                message_id: MessageRef { conversation: conversation.clone(), seq }.id().ok()?,
                conversation_id: conversation,
                device_id: device,
            },
            Notification::ConversationChanged { conversation } => {
                Self::ConversationUpdated { conversation_id: conversation }
            }
            Notification::KeysChanged { owner } => {
                Self::KeysChanged { owner_id: owner.id().to_owned(), owner_type: owner.sender_type() }
            }
            Notification::WebhookMoved { agent, state } => Self::Governance { agent_id: agent, state },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nuncio_core::conversation::{ContentType, MsgSubtype, SubmittedMessage};
    use nuncio_core::ids::ClientMessageId;
    use serde_json::json;

    use super::*;

    /// A2H §2.5 defines four fields of this event.
    #[test]
    fn reauth_event_has_the_fields_of_the_specification_and_round_trips() {
        let recipient = RelayParty::Person(PersonName::parse("ada").unwrap());
        let notification = Notification::ReauthRequired {
            agent: AgentId::parse("agt_1").unwrap(),
            relation: None,
            version: 3,
            hash: Digest::ZERO,
            scopes: vec![ScopeId::parse("filesystem:read").unwrap()],
        };
        let mailed = QueuedNotification { seq: 7, at: Timestamp::from_millis(0), notification };
        let event = serde_json::to_value(Event::of(&recipient, mailed.clone(), None).unwrap()).unwrap();
        let mut expected = json!({
            "type": "h2a.reauth_required",
            "agent_id": "agt_1",
            "new_manifest_version": 3,
            "new_manifest_hash": "0".repeat(64),
            "scopes_requiring_reauth": ["filesystem:read"],
            "seq": 7,
            "created_at": "1970-01-01T00:00:00Z",
        });
        expected["event_id"] = event["event_id"].clone();
        expected["created_at"] = event["created_at"].clone();
        assert_eq!(event, expected);
        let read = serde_json::from_value::<Event>(event.clone()).unwrap();
        assert_eq!(Some(read), Event::of(&recipient, mailed, None));
        let other = RelayParty::Agent(AgentId::parse("agt_1").unwrap());
        assert_ne!(event["event_id"], event_id(&other, 7));
        assert_ne!(event["event_id"], event_id(&recipient, 8));
    }

    #[test]
    fn message_event_is_flat_json_round_trips_and_can_be_replayed() {
        let recipient = RelayParty::Person(PersonName::parse("ada").unwrap());
        let conversation = ConversationId::parse("cnv_1").unwrap();
        let posted = ConversationMessage {
            conversation: conversation.clone(),
            seq: 3,
            at: Timestamp::from_millis(0),
            post: SubmittedMessage {
                client_id: ClientMessageId::parse("m1").unwrap(),
                sender: RelayParty::Agent(AgentId::parse("agt_1").unwrap()),
                device: None,
                content_type: ContentType::Artifact,
                subtype: Some(MsgSubtype::ArtifactToolCall),
                envelope: Arc::from(*b"??>"),
            },
        };
        let mailed =
            QueuedNotification { seq: 9, at: posted.at, notification: Notification::Message { conversation, seq: 3 } };
        let event = Event::of(&recipient, mailed.clone(), Some(posted.clone())).unwrap();
        let written = json!({
            "type": "message.new",
            "conversation_id": "cnv_1",
            "message_id": "msg_1-3",
            "client_message_id": "m1",
            "sender_id": "agt_1",
            "sender_type": "agent",
            "content_type": "artifact",
            "msg_subtype": "artifact_tool_call",
            "encrypted_payload": "Pz8+",
            "conversation_seq": 3,
            "seq": 9,
            "event_id": event_id(&recipient, 9),
            "created_at": posted.at,
        });
        assert_eq!(json!(event), written);
        assert_eq!(serde_json::from_value::<Event>(written).unwrap(), event);
        let again = Event::again(&recipient, posted).unwrap();
        assert_eq!((again.seq, &again.what), (0, &event.what));
        assert_ne!(again.event_id, event.event_id);
        assert_eq!(Event::of(&recipient, mailed, None), None, "it is forgotten");
    }
}
