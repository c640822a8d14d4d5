//! Conversations and their members: `/a2h/conversations`.

use nuncio_core::conversation::ConversationType;
use nuncio_core::ids::{AgentId, ConversationId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::given;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ConversationMember {
    Human { id: PersonName },
    Agent { id: AgentId },
}

impl From<RelayParty> for ConversationMember {
    fn from(recipient: RelayParty) -> Self {
        match recipient {
            RelayParty::Person(id) => Self::Human { id },
            RelayParty::Agent(id) => Self::Agent { id },
        }
    }
}

impl From<ConversationMember> for RelayParty {
    fn from(member: ConversationMember) -> Self {
        match member {
            ConversationMember::Human { id } => Self::Person(id),
            ConversationMember::Agent { id } => Self::Agent(id),
        }
    }
}

/// Body of `POST /a2h/conversations`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OpenConversationRequest {
    #[serde(rename = "type")]
    pub kind: ConversationType,
    /// Other members of the new conversation; the caller is added.
    pub with: Vec<ConversationMember>,
}

/// Body of `PATCH /a2h/conversations/{id}`: sets the read position, or changes the members.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConversationPatch {
    /// Read position: all messages up to this number were read.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub read_seq: Option<u64>,
    /// Members to add to the group.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub add: Option<Vec<ConversationMember>>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub remove: Option<Vec<ConversationMember>>,
}

/// A conversation as seen by one of its members.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ConversationView {
    pub id: ConversationId,
    #[serde(rename = "type")]
    pub kind: ConversationType,
    pub members: Vec<ConversationMember>,
    pub created_by: ConversationMember,
    pub created_at: Timestamp,
    /// Number of the conversation's last message; zero without messages.
    pub last_seq: u64,
    /// Number of the last message that the caller has read.
    pub read_seq: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct LeftConversationView {
    pub id: ConversationId,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conversation_member_json_has_a_type_and_invalid_members_are_refused() {
        let ada = ConversationMember::Human { id: PersonName::parse("ada").unwrap() };
        assert_eq!(json!(ada), json!({"type": "human", "id": "ada"}));
        assert_eq!(ConversationMember::from(RelayParty::from(ada.clone())), ada);
        let agent: ConversationMember = serde_json::from_value(json!({"type": "agent", "id": "agt_1"})).unwrap();
        assert_eq!(RelayParty::from(agent), RelayParty::Agent(AgentId::parse("agt_1").unwrap()));
        for wrong in [
            json!({"type": "human", "id": "A B"}),
            json!({"type": "system", "id": "ada"}),
            json!({"id": "ada"}),
            json!({"type": "human", "id": "ada", "role": "owner"}),
            json!("ada"),
        ] {
            assert!(serde_json::from_value::<ConversationMember>(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
