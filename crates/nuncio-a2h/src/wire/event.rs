//! What people's devices and agents are told (§2.5): flat, each with its place among all they are told.

use nuncio_core::digest::Digest;
use nuncio_core::happening::{Happening, MailedEvent, Recipient};
use nuncio_core::ids::{AgentId, PersonName, RelationId, ScopeId};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// An event with its place. It may come more than once; `event_id` tells.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Event {
    /// What happened.
    #[serde(flatten)]
    pub what: What,
    /// Its number among those of its recipient, from one, without gaps.
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
    /// What a recipient was told, as it is sent.
    #[must_use]
    pub fn of(recipient: &Recipient, mailed: MailedEvent) -> Self {
        let MailedEvent { seq, at, happening } = mailed;
        Self { what: What::of(happening), seq, event_id: event_id(recipient, seq), created_at: at }
    }
}

/// Names an event by whom it is for and its number.
fn event_id(recipient: &Recipient, seq: u64) -> String {
    let digest = Digest::of_bytes(format!("{recipient}\n{seq}").as_bytes()).to_string();
    format!("evt_{}", &digest[..32])
}

impl What {
    fn of(happening: Happening) -> Self {
        match happening {
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
        }
    }
}

#[cfg(test)]
mod tests {
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
        let event = serde_json::to_value(Event::of(&recipient, mailed.clone())).unwrap();
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
        assert_eq!(serde_json::from_value::<Event>(event.clone()).unwrap(), Event::of(&recipient, mailed));
        let other = Recipient::Agent(AgentId::parse("agt_1").unwrap());
        assert_ne!(event["event_id"], event_id(&other, 7));
        assert_ne!(event["event_id"], event_id(&recipient, 8));
    }
}
