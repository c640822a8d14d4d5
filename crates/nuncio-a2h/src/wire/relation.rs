//! A person's grants to an agent: `/a2h/h2a/relations` (A2H §2.4).

use nuncio_core::agent::Sensitivity;
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, DeviceId, PersonName, RelationId, ScopeId};
use nuncio_core::ledger::{ChainHead, LedgerEntry};
use nuncio_core::relation::{Relation, RelationState, ScopeGrant, ScopeToGrant};
use nuncio_core::signature::PublicKey;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Body of `POST /a2h/h2a/relations`, with `agent_id`, and of `PATCH /a2h/h2a/relations/{id}`, without.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConsentRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    pub granted_scopes: Vec<ScopeGrantRequest>,
    /// Hash of the manifest that the person saw when consenting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_hash: Option<Digest>,
    /// Ledger entry of the consent, signed by the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<LedgerEntry>,
}

/// Body of `DELETE /a2h/h2a/relations/{id}`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeRelationRequest {
    /// Ledger entry of the revocation, signed by the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<LedgerEntry>,
}

/// A scope to grant: a plain scope id is granted until revoked; an object also has a mode.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "a scope, or {\"scope\", \"mode\": \"once\" | \"until\" | \"until_revoked\", \"until\"?}"
)]
pub enum ScopeGrantRequest {
    Plain(ScopeId),
    For(ScopeWithTerm),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ScopeWithTerm {
    pub scope: ScopeId,
    #[serde(default)]
    pub mode: GrantMode,
    /// End of the grant; required with the mode `until`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantMode {
    Once,
    Until,
    #[default]
    UntilRevoked,
}

impl GrantMode {
    /// Mode of a grant's term, with its end time if it has one.
    #[must_use]
    pub const fn of(term: GrantTerm) -> (Self, Option<Timestamp>) {
        match term {
            GrantTerm::Once => (Self::Once, None),
            GrantTerm::Until(end) => (Self::Until, Some(end)),
            GrantTerm::UntilRevoked => (Self::UntilRevoked, None),
        }
    }
}

impl ScopeGrantRequest {
    /// The requested grant; fails if `until` is missing for the mode `until`, or given for another mode.
    pub fn to_scope_request(&self) -> Result<ScopeToGrant, String> {
        let (scope, term) = match self {
            Self::Plain(scope) => (scope, GrantTerm::UntilRevoked),
            Self::For(ScopeWithTerm { scope, mode, until }) => match (mode, until) {
                (GrantMode::Until, Some(end)) => (scope, GrantTerm::Until(*end)),
                (GrantMode::Once, None) => (scope, GrantTerm::Once),
                (GrantMode::UntilRevoked, None) => (scope, GrantTerm::UntilRevoked),
                (GrantMode::Until, None) => {
                    return Err(format!("{scope}: the mode \"until\" needs a time in `until`"));
                }
                (GrantMode::Once | GrantMode::UntilRevoked, Some(_)) => {
                    return Err(format!("{scope}: `until` is allowed only with the mode \"until\""));
                }
            },
        };
        Ok(ScopeToGrant { scope: scope.clone(), term })
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct RelationView {
    pub id: RelationId,
    pub agent_id: AgentId,
    pub user_id: PersonName,
    pub status: RelationStatus,
    /// Scopes usable now: granted, not suspended, not expired.
    pub granted_scopes: Vec<ScopeId>,
    /// Scopes suspended until new consent.
    pub suspended_scopes: Vec<ScopeId>,
    /// All grants, including suspended and expired ones.
    pub grants: Vec<GrantView>,
    /// Manifest version that the person consented to.
    pub manifest_version: u64,
    pub manifest_hash: Option<Digest>,
    pub pending_reauth: Option<PendingConsentView>,
    /// Position and hash of the ledger's last entry.
    pub ledger_head: ChainHead,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RelationStatus {
    Active,
    /// The relation is active, but some scopes need new consent.
    PendingReauth,
    Revoked,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrantView {
    pub scope: ScopeId,
    pub mode: GrantMode,
    /// End of the grant; set with the mode `until`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Sensitivity of the scope at the time of the grant.
    pub sensitivity: Sensitivity,
    pub granted_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct PendingConsentView {
    pub scopes: Vec<ScopeId>,
    pub manifest_version: u64,
    pub manifest_hash: Option<Digest>,
    pub since: Timestamp,
}

/// Response of `GET /a2h/h2a/relations/{id}/ledger`: ledger entries, and the device keys that verify them.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct LedgerPage {
    pub data: Vec<LedgerEntry>,
    /// Number of the ledger entry after which the next page starts; `None` on the last page.
    pub next_cursor: Option<String>,
    /// The person's devices, including revoked ones.
    pub devices: Vec<LedgerDevice>,
}

/// Device with the fields needed to verify a ledger.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct LedgerDevice {
    pub id: DeviceId,
    pub user_id: PersonName,
    pub public_key: PublicKey,
    pub enrolled_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

impl RelationView {
    /// View of a relation; `granted_scopes` has the grants in effect at `now`.
    #[must_use]
    pub fn of(relation: &Relation, now: Timestamp) -> Self {
        let (status, revoked_at) = match relation.state {
            RelationState::Revoked { at } => (RelationStatus::Revoked, Some(at)),
            RelationState::Active if relation.pending.is_some() => (RelationStatus::PendingReauth, None),
            RelationState::Active => (RelationStatus::Active, None),
        };
        Self {
            id: relation.id.clone(),
            agent_id: relation.agent.clone(),
            user_id: relation.person.clone(),
            status,
            granted_scopes: relation.effective(now).map(|grant| grant.scope.clone()).collect(),
            suspended_scopes: relation.suspended().cloned().collect(),
            grants: relation.grants.iter().map(GrantView::of).collect(),
            manifest_version: relation.accepted.version,
            manifest_hash: relation.accepted.hash,
            pending_reauth: relation.pending.as_ref().map(|pending| PendingConsentView {
                scopes: pending.scopes.clone(),
                manifest_version: pending.version,
                manifest_hash: pending.hash,
                since: pending.since,
            }),
            ledger_head: relation.ledger,
            created_at: relation.created_at,
            updated_at: relation.updated_at,
            revoked_at,
        }
    }
}

impl GrantView {
    fn of(grant: &ScopeGrant) -> Self {
        let (mode, until) = GrantMode::of(grant.term);
        Self { scope: grant.scope.clone(), mode, until, sensitivity: grant.sensitivity, granted_at: grant.given_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_without_mode_is_requested_until_revoked_and_invalid_modes_are_refused() {
        let read = |text: &str| serde_json::from_str::<ScopeGrantRequest>(text).map(|wish| wish.to_scope_request());
        let term = |text: &str| read(text).unwrap().unwrap().term;
        assert_eq!(term(r#""filesystem:read""#), GrantTerm::UntilRevoked);
        assert_eq!(term(r#"{"scope": "filesystem:read"}"#), GrantTerm::UntilRevoked);
        assert_eq!(term(r#"{"scope": "filesystem:read", "mode": "once"}"#), GrantTerm::Once);
        let until = term(r#"{"scope": "a", "mode": "until", "until": "2027-01-01T00:00:00Z"}"#);
        assert!(matches!(until, GrantTerm::Until(_)));
        assert!(read(r#"{"scope": "a", "mode": "until"}"#).unwrap().is_err());
        assert!(read(r#"{"scope": "a", "mode": "once", "until": "2027-01-01T00:00:00Z"}"#).unwrap().is_err());
        for wrong in [r#""""#, r#"{"scope": "a", "mode": "forever"}"#, r#"{"scope": "a", "for": 1}"#, "1", "null"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
