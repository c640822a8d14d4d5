//! What people and agents are told when it happens, or when they are back.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{AgentId, ConversationId, DeviceId, PersonName, RelationId, ScopeId};
use crate::principal::Principal;
use crate::time::Timestamp;

/// Who is told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "Principal", try_from = "Principal")]
pub enum Recipient {
    /// A person, on each of their devices.
    Person(PersonName),
    /// An agent.
    Agent(AgentId),
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Principal::from(self.clone()).fmt(f)
    }
}

impl From<Recipient> for Principal {
    fn from(recipient: Recipient) -> Self {
        match recipient {
            Recipient::Person(name) => Self::Person(name),
            Recipient::Agent(id) => Self::Agent(id),
        }
    }
}

impl TryFrom<Principal> for Recipient {
    type Error = String;

    fn try_from(principal: Principal) -> Result<Self, String> {
        match principal {
            Principal::Person(name) => Ok(Self::Person(name)),
            Principal::Agent(id) => Ok(Self::Agent(id)),
            other => Err(format!("{other} has no mailbox; people and agents have")),
        }
    }
}

/// Something a recipient is told, in its place among all they are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailedEvent {
    /// Its number among those of its recipient, from one, without gaps.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    pub happening: Happening,
}

/// Something worth telling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "happening", rename_all = "snake_case")]
pub enum Happening {
    /// The agent changed, and these scopes need a new yes; they are suspended until then.
    ReauthRequired {
        /// Which agent.
        agent: AgentId,
        /// Between it and the person; none when the agent itself is told.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        relation: Option<RelationId>,
        /// The version that changed it.
        version: u64,
        /// Its hash.
        hash: Digest,
        /// Which scopes, sorted.
        scopes: Vec<ScopeId>,
    },
    /// A later version brought back what the person had agreed to.
    Restored {
        /// Which agent.
        agent: AgentId,
        /// Between it and the person.
        relation: RelationId,
        /// The version that did.
        version: u64,
        /// Which scopes work again, sorted.
        scopes: Vec<ScopeId>,
    },
    /// A person began to deal with an agent.
    RelationEstablished {
        /// Which agent.
        agent: AgentId,
        /// Between them.
        relation: RelationId,
        /// Who.
        person: PersonName,
        /// What they allow, sorted.
        scopes: Vec<ScopeId>,
    },
    /// A person allows something else than before.
    ConsentChanged {
        /// Which agent.
        agent: AgentId,
        /// Between them.
        relation: RelationId,
        /// Who.
        person: PersonName,
        /// What they allow now, sorted.
        scopes: Vec<ScopeId>,
        /// The version they said yes to.
        version: u64,
    },
    /// A person or the server ended it.
    RelationRevoked {
        /// Which agent.
        agent: AgentId,
        /// Between them.
        relation: RelationId,
        /// Who.
        person: PersonName,
    },
    /// A device came to a person, or was taken away.
    DevicesChanged {
        /// Whose.
        person: PersonName,
    },
    /// A message came.
    Message {
        /// In which conversation.
        conversation: ConversationId,
        /// Its number there.
        seq: u64,
    },
    /// Someone has read a conversation up to a message.
    Read {
        /// Which conversation.
        conversation: ConversationId,
        /// Who.
        reader: Recipient,
        /// Up to which number.
        seq: u64,
    },
    /// A device took a tool call upon itself.
    Claimed {
        /// In which conversation.
        conversation: ConversationId,
        /// Its number there.
        seq: u64,
        /// Which device.
        device: DeviceId,
    },
    /// A conversation began, or others take part in it.
    ConversationChanged {
        /// Which.
        conversation: ConversationId,
    },
    /// Someone seals with other keys from now on.
    KeysChanged {
        /// Who.
        owner: Recipient,
    },
    /// An agent's webhook can be reached no more, or again.
    WebhookMoved {
        /// Which agent.
        agent: AgentId,
        /// How it is now.
        state: WebhookState,
    },
}

/// Whether an agent's webhook can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookState {
    /// As far as is known.
    Reachable,
    /// Not for days; it is asked now and then whether it is back.
    Unreachable,
    /// It said that it is gone; its owner must say where it is.
    Disabled,
}
