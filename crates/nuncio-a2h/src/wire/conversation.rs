//! Who talks with whom: `/a2h/conversations`.

use nuncio_core::conversation::ConversationType;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, ConversationId, PersonName};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::given;

/// Someone who takes part.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Member {
    /// A person.
    Human {
        /// Their name here.
        id: PersonName,
    },
    /// An agent.
    Agent {
        /// Names it.
        id: AgentId,
    },
}

impl From<Recipient> for Member {
    fn from(recipient: Recipient) -> Self {
        match recipient {
            Recipient::Person(id) => Self::Human { id },
            Recipient::Agent(id) => Self::Agent { id },
        }
    }
}

impl From<Member> for Recipient {
    fn from(member: Member) -> Self {
        match member {
            Member::Human { id } => Self::Person(id),
            Member::Agent { id } => Self::Agent(id),
        }
    }
}

/// `POST /a2h/conversations`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OpenRequest {
    /// Of which type.
    #[serde(rename = "type")]
    pub kind: ConversationType,
    /// With whom; whoever asks takes part as well.
    pub with: Vec<Member>,
}

/// `PATCH /a2h/conversations/{id}`: how far was read, or who takes part from now on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConversationPatch {
    /// Everything up to that message was read.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub read_seq: Option<u64>,
    /// Who comes into the group.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub add: Option<Vec<Member>>,
    /// Who leaves it.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub remove: Option<Vec<Member>>,
}

/// A conversation as one of its members sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ConversationView {
    /// Names it.
    pub id: ConversationId,
    /// Of which type.
    #[serde(rename = "type")]
    pub kind: ConversationType,
    /// Who takes part, sorted.
    pub members: Vec<Member>,
    /// Who began it.
    pub created_by: Member,
    /// When.
    pub created_at: Timestamp,
    /// The number of its last message; zero for none.
    pub last_seq: u64,
    /// Up to which number whoever asks has read it.
    pub read_seq: u64,
}

/// A group that was left.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct LeftView {
    /// Which.
    pub id: ConversationId,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_is_written_with_its_kind_and_is_nobody_else() {
        let ada = Member::Human { id: PersonName::parse("ada").unwrap() };
        assert_eq!(json!(ada), json!({"type": "human", "id": "ada"}));
        assert_eq!(Member::from(Recipient::from(ada.clone())), ada);
        let agent: Member = serde_json::from_value(json!({"type": "agent", "id": "agt_1"})).unwrap();
        assert_eq!(Recipient::from(agent), Recipient::Agent(AgentId::parse("agt_1").unwrap()));
        for wrong in [
            json!({"type": "human", "id": "A B"}),
            json!({"type": "system", "id": "ada"}),
            json!({"id": "ada"}),
            json!({"type": "human", "id": "ada", "role": "owner"}),
            json!("ada"),
        ] {
            assert!(serde_json::from_value::<Member>(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
