//! What people's devices and agents are told (§2.5): flat, each with its place among all they are told.

use nuncio_core::conversation::{MessagePlace, Posted, SenderType};
use nuncio_core::digest::Digest;
use nuncio_core::happening::{Happening, MailedEvent, Recipient, WebhookState};
use nuncio_core::ids::{AgentId, ConversationId, DeviceId, MessageId, PersonName, RelationId, ScopeId};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::message::{Message, MessageView};

/// An event with its place. It may come more than once; `event_id` tells.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Event {
    /// What happened.
    #[serde(flatten)]
    pub what: What,
    /// Its number among those of its recipient, from one, without gaps; zero for a message that was asked
    /// for again by its conversation.
    pub seq: u64,
    /// The same each time it is sent, and no other's.
    pub event_id: String,
    /// When.
    pub created_at: Timestamp,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "type")]
pub enum What {
    /// The agent changed: these scopes need a new yes, and are suspended until then.
    #[serde(rename = "h2a.reauth_required")]
    ReauthRequired {
        /// Which agent.
        agent_id: AgentId,
        /// The version that changed it.
        new_manifest_version: u64,
        /// Its hash.
        new_manifest_hash: Digest,
        /// Which scopes, sorted.
        scopes_requiring_reauth: Vec<ScopeId>,
        /// Between it and the person; not where the agent itself is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        relation_id: Option<RelationId>,
    },
    /// A later version brought back what the person had agreed to.
    #[serde(rename = "relation.restored")]
    Restored {
        /// Which agent.
        agent_id: AgentId,
        /// Between it and the person.
        relation_id: RelationId,
        /// The version that did.
        manifest_version: u64,
        /// Which scopes work again.
        scopes: Vec<ScopeId>,
    },
    /// A person began to deal with an agent.
    #[serde(rename = "relation.established")]
    Established {
        /// Which agent.
        agent_id: AgentId,
        /// Between them.
        relation_id: RelationId,
        /// What they allow.
        granted_scopes: Vec<ScopeId>,
        /// Who.
        payload: Payload,
    },
    /// A person allows an agent something else than before, after a change or of themselves.
    #[serde(rename = "agent.capability_changed")]
    CapabilityChanged {
        /// Which agent.
        agent_id: AgentId,
        /// Between them.
        relation_id: RelationId,
        /// Who.
        user_id: PersonName,
        /// What they allow now.
        granted_scopes: Vec<ScopeId>,
        /// The version they said yes to.
        manifest_version: u64,
    },
    /// It is over between a person and an agent.
    #[serde(rename = "relation.revoked")]
    Revoked {
        /// Which agent.
        agent_id: AgentId,
        /// Between them.
        relation_id: RelationId,
        /// Who.
        user_id: PersonName,
    },
    /// A device came to the person, or was taken away.
    #[serde(rename = "user.devices_changed")]
    DevicesChanged {
        /// Whose.
        user_id: PersonName,
    },
    /// A message came.
    #[serde(rename = "message.new")]
    MessageNew(Box<Message>),
    /// Someone has read a conversation up to a message.
    #[serde(rename = "message.read")]
    MessageRead {
        /// Which conversation.
        conversation_id: ConversationId,
        /// Who.
        reader_id: String,
        /// Of which kind they are.
        reader_type: SenderType,
        /// Up to which number.
        conversation_seq: u64,
    },
    /// A device took a tool call upon itself.
    #[serde(rename = "message.claimed")]
    MessageClaimed {
        /// In which conversation.
        conversation_id: ConversationId,
        /// Which message.
        message_id: MessageId,
        /// Which device.
        device_id: DeviceId,
    },
    /// A conversation began, or others take part in it.
    #[serde(rename = "conversation.updated")]
    ConversationUpdated {
        /// Which.
        conversation_id: ConversationId,
    },
    /// Someone seals with other keys from now on.
    #[serde(rename = "keys.changed")]
    KeysChanged {
        /// Who.
        owner_id: String,
        /// Of which kind they are.
        owner_type: SenderType,
    },
    /// An agent's webhook can be reached no more, or again.
    #[serde(rename = "agent.governance")]
    Governance {
        /// Which agent.
        agent_id: AgentId,
        /// How its webhook is now.
        state: WebhookState,
    },
}

/// Who began to deal with an agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Payload {
    /// Their name here.
    pub user_id: PersonName,
    /// What to call them.
    pub display_name: String,
}

impl Event {
    /// What a recipient was told, as it is sent, with the message it is about. None when that is forgotten.
    #[must_use]
    pub fn of(recipient: &Recipient, mailed: MailedEvent, message: Option<Posted>) -> Option<Self> {
        let MailedEvent { seq, at, happening } = mailed;
        let what = What::of(happening, message)?;
        Some(Self { what, seq, event_id: event_id(recipient, seq), created_at: at })
    }

    /// A message that a recipient asked for again by its conversation: it has no number among what they are
    /// told. None when its conversation has a name that was not made here.
    #[must_use]
    pub fn again(recipient: &Recipient, message: Posted) -> Option<Self> {
        let MessageView { message, created_at } = MessageView::of(message).ok()?;
        let event_id = event_id(recipient, &message.message_id);
        Some(Self { what: What::MessageNew(Box::new(message)), seq: 0, event_id, created_at })
    }
}

/// Names an event by whom it is for and its number, or what it is about.
fn event_id(recipient: &Recipient, which: impl std::fmt::Display) -> String {
    let digest = Digest::of_bytes(format!("{recipient}\n{which}").as_bytes()).to_string();
    format!("evt_{}", &digest[..32])
}

impl What {
    fn of(happening: Happening, message: Option<Posted>) -> Option<Self> {
        Some(match happening {
            Happening::ReauthRequired { agent, relation, version, hash, scopes } => Self::ReauthRequired {
                agent_id: agent,
                new_manifest_version: version,
                new_manifest_hash: hash,
                scopes_requiring_reauth: scopes,
                relation_id: relation,
            },
            Happening::Restored { agent, relation, version, scopes } => {
                Self::Restored { agent_id: agent, relation_id: relation, manifest_version: version, scopes }
            }
            Happening::RelationEstablished { agent, relation, person, scopes } => Self::Established {
                agent_id: agent,
                relation_id: relation,
                granted_scopes: scopes,
                payload: Payload { display_name: person.to_string(), user_id: person },
            },
            Happening::ConsentChanged { agent, relation, person, scopes, version } => Self::CapabilityChanged {
                agent_id: agent,
                relation_id: relation,
                user_id: person,
                granted_scopes: scopes,
                manifest_version: version,
            },
            Happening::RelationRevoked { agent, relation, person } => {
                Self::Revoked { agent_id: agent, relation_id: relation, user_id: person }
            }
            Happening::DevicesChanged { person } => Self::DevicesChanged { user_id: person },
            Happening::Message { .. } => Self::MessageNew(Box::new(MessageView::of(message?).ok()?.message)),
            Happening::Read { conversation, reader, seq } => Self::MessageRead {
                conversation_id: conversation,
                reader_id: reader.id().to_owned(),
                reader_type: reader.sender_type(),
                conversation_seq: seq,
            },
            Happening::Claimed { conversation, seq, device } => Self::MessageClaimed {
                message_id: MessagePlace { conversation: conversation.clone(), seq }.id().ok()?,
                conversation_id: conversation,
                device_id: device,
            },
            Happening::ConversationChanged { conversation } => {
                Self::ConversationUpdated { conversation_id: conversation }
            }
            Happening::KeysChanged { owner } => {
                Self::KeysChanged { owner_id: owner.id().to_owned(), owner_type: owner.sender_type() }
            }
            Happening::WebhookMoved { agent, state } => Self::Governance { agent_id: agent, state },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nuncio_core::conversation::{ContentType, MsgSubtype, Post};
    use nuncio_core::ids::ClientMessageId;
    use serde_json::json;

    use super::*;

    /// The seed's §2.5: the event's four fields, flat.
    #[test]
    fn a_change_that_needs_a_new_yes_is_told_with_the_seeds_four_fields() {
        let recipient = Recipient::Person(PersonName::parse("ada").unwrap());
        let happening = Happening::ReauthRequired {
            agent: AgentId::parse("agt_1").unwrap(),
            relation: None,
            version: 3,
            hash: Digest::ZERO,
            scopes: vec![ScopeId::parse("filesystem:read").unwrap()],
        };
        let mailed = MailedEvent { seq: 7, at: Timestamp::from_millis(0), happening };
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
        let other = Recipient::Agent(AgentId::parse("agt_1").unwrap());
        assert_ne!(event["event_id"], event_id(&other, 7));
        assert_ne!(event["event_id"], event_id(&recipient, 8));
    }

    /// The digest's §3, with what tells one message from another.
    #[test]
    fn a_message_is_told_flat_and_read_back() {
        let recipient = Recipient::Person(PersonName::parse("ada").unwrap());
        let conversation = ConversationId::parse("cnv_1").unwrap();
        let posted = Posted {
            conversation: conversation.clone(),
            seq: 3,
            at: Timestamp::from_millis(0),
            post: Post {
                client_id: ClientMessageId::parse("m1").unwrap(),
                sender: Recipient::Agent(AgentId::parse("agt_1").unwrap()),
                device: None,
                content_type: ContentType::Artifact,
                subtype: Some(MsgSubtype::ArtifactToolCall),
                envelope: Arc::from(*b"??>"),
            },
        };
        let mailed = MailedEvent { seq: 9, at: posted.at, happening: Happening::Message { conversation, seq: 3 } };
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
