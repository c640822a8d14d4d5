//! Agents and their manifests: `/a2h/agents` (§2.1, §2.2).

use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, PersonName};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::given;
use super::webhook::Secret;

/// `POST /a2h/agents` and `PATCH /a2h/agents/{id}`. What is not there stays as it is.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AgentRequest {
    /// What people see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What it is for; `null` takes it away.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub description: Option<Option<String>>,
    /// Whether anyone may find it by searching.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public: Option<bool>,
    /// How it is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_mode: Option<ConnectionMode>,
    /// Where it is called, with `webhook`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// Where its health can be asked for; `null` takes it away.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub health_check_url: Option<Option<String>>,
    /// What it may do with people's devices, byte for byte; `null` clears it.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub capability_manifest: Option<Box<RawValue>>,
    /// What its owner says to people about the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_note: Option<String>,
}

/// `POST /a2h/agents/{id}/manifest:diff`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DiffRequest {
    /// The manifest that might be published; `null` for none.
    pub capability_manifest: Box<RawValue>,
}

/// How an agent is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionMode {
    /// It holds a connection open.
    Websocket,
    /// It is called.
    Webhook,
}

/// An agent as others see it, and as its owner does.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct AgentView {
    /// Names it.
    pub id: AgentId,
    /// What people see.
    pub display_name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Whether anyone may find it by searching.
    pub public: bool,
    /// Who may change it.
    pub owner: OwnerView,
    /// How it is reached.
    pub connection_mode: ConnectionMode,
    /// Where it is called; for its owner and itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// Where its health can be asked for; for its owner and itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check_url: Option<String>,
    /// How its token begins; for its owner and itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_prefix: Option<String>,
    /// Its token: once, when it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// What its calls are signed with: once, when it begins to be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_secret: Option<Secret>,
    /// Since when.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// What it may do with people's devices; not in lists.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub capability_manifest: Option<Value>,
    /// How often that was published.
    pub capability_manifest_version: u64,
    /// SHA-256 over its RFC 8785 form; `null` where there is none.
    pub capability_manifest_hash: Option<Digest>,
    /// What publishing did, after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_change: Option<Box<ChangeView>>,
}

/// Who may change an agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OwnerView {
    /// Whoever runs this server.
    Operator,
    /// A person.
    User {
        /// Their name here.
        user_id: PersonName,
    },
}

/// What publishing a manifest did.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ChangeView {
    /// Whether it differs from the one before; if not, nothing was written.
    pub changed: bool,
    /// Whether those who said yes to the one before are asked again.
    pub breaking: bool,
    /// The scopes that need new consent, sorted.
    pub scopes_requiring_reauth: Vec<String>,
    /// Why.
    pub findings: Value,
    /// What changed besides.
    pub notices: Value,
    /// What is allowed, and probably not meant.
    pub warnings: Vec<WarningView>,
    /// How many people have to say yes again.
    pub affected_users: usize,
}

/// Something that is allowed, and probably not meant.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct WarningView {
    /// Where.
    pub pointer: String,
    /// Which kind.
    pub rule: String,
    /// What.
    pub message: String,
}

/// One version of a manifest.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ManifestView {
    /// Its number, from one, without gaps.
    pub version: u64,
    /// Its hash; `null` when it was cleared.
    pub hash: Option<Digest>,
    /// Who published it.
    pub published_by: Principal,
    /// When.
    pub published_at: Timestamp,
    /// What its owner said to people about it.
    pub change_note: Option<String>,
    /// How it differs from the one before: the judge's four fields.
    pub change: Value,
    /// Itself; not in lists.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub capability_manifest: Option<Value>,
}
