//! What people and agents' owners did to what is allowed, beside the calls of tools.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{AgentId, DeviceId, PersonName, RelationId, ScopeId};
use crate::principal::Principal;
use crate::time::Timestamp;

/// One change of what is allowed, in the same chain as the calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HappenedRecord {
    /// What happened.
    pub happened: Happened,
    /// Who did it.
    pub by: Principal,
    /// Under which account of the system, where an operator did it on this machine.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub account: Option<String>,
    /// What an operator ordered, such as `key_create`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub action: Option<String>,
    /// What the order was about: the id or name of a key, a grant, an approval, a task, a domain or a DID.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subject: Option<String>,
    /// To which person.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub person: Option<PersonName>,
    /// On or to which device.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device: Option<DeviceId>,
    /// With which agent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<AgentId>,
    /// Between them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub relation: Option<RelationId>,
    /// Which permissions: those held from now on, or those that were taken.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub scopes: Vec<ScopeId>,
    /// The manifest it was about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub manifest_version: Option<u64>,
    /// Its hash.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub manifest_hash: Option<Digest>,
    /// The number of records or sessions that were deleted or redacted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<u64>,
    /// The time before which they ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before: Option<Timestamp>,
    /// The request that brought it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request: Option<String>,
    /// When.
    pub at: Timestamp,
}

impl HappenedRecord {
    /// A record of which nothing else is known yet.
    #[must_use]
    pub fn new(happened: Happened, by: Principal, at: Timestamp) -> Self {
        Self {
            happened,
            by,
            account: None,
            action: None,
            subject: None,
            person: None,
            device: None,
            agent: None,
            relation: None,
            scopes: Vec::new(),
            manifest_version: None,
            manifest_hash: None,
            count: None,
            before: None,
            request: None,
            at,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happened {
    /// Someone was invited.
    PersonInvited,
    /// A device was added.
    DeviceEnrolled,
    /// A device was taken away.
    DeviceRevoked,
    /// An agent got an account.
    AgentCreated,
    /// An agent's token was made anew.
    TokenRotated,
    /// An agent's token was taken back.
    TokenRevoked,
    /// The secret an agent's webhook calls are signed with was made anew.
    WebhookSecretRotated,
    /// An agent said anew what it can do.
    ManifestPublished,
    /// A person allowed something for the first time.
    ConsentGiven,
    /// A person allowed something else than before.
    ConsentChanged,
    /// A person took everything back.
    ConsentRevoked,
    /// A change of the agent suspended what was allowed, until the person says yes again.
    ConsentSuspended,
    /// A later change brought back what had been agreed to.
    ConsentRestored,
    /// What was allowed is gone, since the agent no longer asks for it.
    ConsentPruned,
    /// Old audit records were deleted; a signed line beside the store says up to which one.
    AuditPruned,
    /// Sessions that nobody used any more were deleted.
    SessionsPruned,
    /// An operator ordered something; it is about to be done.
    OperatorOrdered,
    /// What an operator ordered was done.
    OperatorOrderDone,
    /// What an operator ordered could not be done.
    OperatorOrderFailed,
    /// A person's data was erased; `person` is what stands for them from then on.
    PersonForgotten,
}
