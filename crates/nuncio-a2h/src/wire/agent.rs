//! Agents and their manifests: `/a2h/agents` (A2H §2.1, §2.2).

use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, PersonName};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::given;
use super::webhook::SecretText;

/// Body of `POST /a2h/agents` and `PATCH /a2h/agents/{id}`. Absent fields stay unchanged.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AgentAccountRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// New description; `null` removes the current one.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub description: Option<Option<String>>,
    /// Whether searches list the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_mode: Option<ConnectionMode>,
    /// Webhook URL; required with connection mode `webhook`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// New health-check URL; `null` removes the current one.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub health_check_url: Option<Option<String>>,
    /// Capability manifest, kept byte for byte; `null` removes the current one.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub capability_manifest: Option<Box<RawValue>>,
    /// Note of the agent's owner about the manifest change, shown to people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_note: Option<String>,
}

/// Body of `POST /a2h/agents/{id}/manifest:diff`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestDiffRequest {
    /// Manifest to compare with the current one; `null` stands for no manifest.
    pub capability_manifest: Box<RawValue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionMode {
    /// The agent holds a WebSocket connection open.
    Websocket,
    Webhook,
}

/// An agent account in responses; only its owner and the agent itself see some fields.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct AgentAccountView {
    pub id: AgentId,
    pub display_name: String,
    pub description: Option<String>,
    /// Whether searches list the agent.
    pub public: bool,
    pub owner: AgentOwnerView,
    pub connection_mode: ConnectionMode,
    /// Webhook URL, visible to the agent's owner and the agent itself only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// Health-check URL, visible to the agent's owner and the agent itself only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check_url: Option<String>,
    /// First characters of the agent's token; visible to its owner and itself only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_prefix: Option<String>,
    /// Token of the agent, present only in the response that created or rotated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Signing secret of webhook calls, present only in the response that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_secret: Option<SecretText>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The agent's current manifest; absent in lists.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub capability_manifest: Option<Value>,
    /// Number of manifest versions published so far.
    pub capability_manifest_version: u64,
    /// SHA-256 of the manifest's RFC 8785 form; `null` without a manifest.
    pub capability_manifest_hash: Option<Digest>,
    /// Verdict on the manifest change; present in the response to publishing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_change: Option<Box<ManifestChangeView>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentOwnerView {
    Operator,
    User { user_id: PersonName },
}

/// Verdict on a published manifest compared with the previous one.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ManifestChangeView {
    /// Whether the manifest differs from the previous one; if not, no version was stored.
    pub changed: bool,
    /// Whether people who consented to the previous manifest must consent again.
    pub breaking: bool,
    /// Scopes that need new consent, sorted.
    pub scopes_requiring_reauth: Vec<String>,
    pub findings: Value,
    pub notices: Value,
    /// Findings that are permitted but probably not intended.
    pub warnings: Vec<ManifestWarningView>,
    /// Number of people who must consent again.
    pub affected_users: usize,
}

/// A warning about a manifest: permitted, but probably not intended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ManifestWarningView {
    pub pointer: String,
    pub rule: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ManifestView {
    /// Number of the manifest version, from 1, without gaps.
    pub version: u64,
    /// Hash of the manifest; `null` if this version removed it.
    pub hash: Option<Digest>,
    pub published_by: Principal,
    pub published_at: Timestamp,
    /// Note of the agent's owner about the manifest change.
    pub change_note: Option<String>,
    /// Verdict on the change from the previous manifest version.
    pub change: Value,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub capability_manifest: Option<Value>,
}
