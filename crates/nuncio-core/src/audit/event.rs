//! Audit records of changes to permissions, accounts and data, beside those of tool calls.

use serde::{Deserialize, Serialize};

use super::AuditChainHead;
use crate::digest::Digest;
use crate::ids::{AgentId, DeviceId, PersonName, RelationId, ScopeId};
use crate::principal::Principal;
use crate::time::Timestamp;

/// Audit record of one change to permissions, accounts or data, in the same chain as the records of calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEventRecord {
    #[serde(rename = "happened")]
    pub event: AuditEvent,
    pub by: Principal,
    /// The operating-system account, if an operator acted on this machine.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub account: Option<String>,
    /// An operator's command, such as `key_create`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub action: Option<String>,
    /// Object of the command: id or name of a key, a grant, an approval, a task, a domain or a DID.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub person: Option<PersonName>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device: Option<DeviceId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub relation: Option<RelationId>,
    /// Permissions held after the change, or those that were withdrawn.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub scopes: Vec<ScopeId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub manifest_version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub manifest_hash: Option<Digest>,
    /// Number of records or sessions that were deleted or redacted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<u64>,
    /// Records or sessions that ended before this time were deleted or redacted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before: Option<Timestamp>,
    /// Id of the HTTP request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request: Option<String>,
    pub at: Timestamp,
    /// Heads of the audit chains, in a round.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub heads: Vec<AuditChainHead>,
    /// Signature of a round by the node that wrote it, in hex.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signature: Option<String>,
}

impl AuditEventRecord {
    /// An audit event record with all optional fields empty.
    #[must_use]
    pub fn new(event: AuditEvent, by: Principal, at: Timestamp) -> Self {
        Self {
            event,
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
            heads: Vec::new(),
            signature: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditEvent {
    PersonInvited,
    DeviceEnrolled,
    DeviceRevoked,
    AgentCreated,
    TokenRotated,
    TokenRevoked,
    WebhookSecretRotated,
    ManifestPublished,
    /// A person gave an agent its first permissions.
    ConsentGiven,
    /// A person changed the permissions of an agent.
    ConsentChanged,
    /// A person withdrew all permissions of an agent.
    ConsentRevoked,
    /// A changed manifest suspended permissions until the person consents again.
    ConsentSuspended,
    /// A later manifest went back to the form that the person had consented to, which restored the permissions.
    ConsentRestored,
    /// Permissions were removed because the manifest no longer requests them.
    ConsentPruned,
    /// Old audit records were deleted; a signed line beside the store states the last deleted number.
    AuditPruned,
    /// Unused sessions were deleted.
    SessionsPruned,
    /// An operator's command was accepted and is about to run.
    OperatorOrdered,
    /// An operator's command succeeded.
    OperatorOrderDone,
    /// An operator's command failed.
    OperatorOrderFailed,
    /// A person's data was erased; `person` is their pseudonym from then on.
    PersonForgotten,
    /// The store was restored from a backup; what happened after the backup is missing.
    StoreRewound,
    /// A node signed the heads of all audit chains.
    AuditRound,
}
