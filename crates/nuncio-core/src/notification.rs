//! Notifications to people and agents, stored so that they are delivered after a reconnect.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{AgentId, ConversationId, DeviceId, PersonName, RelationId, ScopeId};
use crate::principal::Principal;
use crate::string_enum;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "Principal", try_from = "Principal")]
pub enum RelayParty {
    /// A person, notified on all their devices.
    Person(PersonName),
    Agent(AgentId),
}

impl fmt::Display for RelayParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Principal::from(self.clone()).fmt(f)
    }
}

impl From<RelayParty> for Principal {
    fn from(recipient: RelayParty) -> Self {
        match recipient {
            RelayParty::Person(name) => Self::Person(name),
            RelayParty::Agent(id) => Self::Agent(id),
        }
    }
}

impl TryFrom<Principal> for RelayParty {
    type Error = String;

    fn try_from(principal: Principal) -> Result<Self, String> {
        match principal {
            Principal::Person(name) => Ok(Self::Person(name)),
            Principal::Agent(id) => Ok(Self::Agent(id)),
            other => Err(format!("{other} has no mailbox; only people and agents have one")),
        }
    }
}

/// A notification with its position in the recipient's queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedNotification {
    /// Number of the notification in the recipient's queue; starts at 1, without gaps.
    pub seq: u64,
    pub at: Timestamp,
    #[serde(rename = "happening")]
    pub notification: Notification,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "happening", rename_all = "snake_case")]
pub enum Notification {
    /// A changed manifest suspended these scopes until the person consents again.
    ReauthRequired {
        agent: AgentId,
        /// The relation with the person; `None` when the agent itself is notified.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        relation: Option<RelationId>,
        /// Version of the changed manifest.
        version: u64,
        hash: Digest,
        /// Suspended scopes, sorted.
        scopes: Vec<ScopeId>,
    },
    /// A later manifest restored suspended scopes to the form that the person had consented to.
    Restored {
        agent: AgentId,
        relation: RelationId,
        version: u64,
        /// Scopes that are usable again, sorted.
        scopes: Vec<ScopeId>,
    },
    RelationEstablished {
        agent: AgentId,
        relation: RelationId,
        person: PersonName,
        /// Granted scopes, sorted.
        scopes: Vec<ScopeId>,
    },
    /// A person changed the permissions of an agent.
    ConsentChanged {
        agent: AgentId,
        relation: RelationId,
        person: PersonName,
        /// All permissions of the agent from now on, sorted.
        scopes: Vec<ScopeId>,
        /// Version of the manifest that the person consented to.
        version: u64,
    },
    /// The person or the server ended the relation.
    RelationRevoked {
        agent: AgentId,
        relation: RelationId,
        person: PersonName,
    },
    /// A device was enrolled or revoked.
    DevicesChanged {
        person: PersonName,
    },
    Message {
        conversation: ConversationId,
        seq: u64,
    },
    /// A member has read a conversation up to a message.
    Read {
        conversation: ConversationId,
        reader: RelayParty,
        seq: u64,
    },
    /// A device claimed a tool call.
    Claimed {
        conversation: ConversationId,
        seq: u64,
        device: DeviceId,
    },
    /// A conversation was created, or its members changed.
    ConversationChanged {
        conversation: ConversationId,
    },
    /// A person or agent published new encryption keys.
    KeysChanged {
        owner: RelayParty,
    },
    /// An agent's webhook became unreachable, or reachable again.
    WebhookMoved {
        agent: AgentId,
        state: WebhookState,
    },
}

string_enum! {
    pub enum WebhookState {
        /// Initial state of a webhook: no failure is known.
        Reachable = "reachable",
        /// The webhook has been unreachable for days; it is probed from time to time.
        Unreachable = "unreachable",
        /// The webhook endpoint answered 410 Gone; its owner must set a new URL.
        Disabled = "disabled",
    }
}
