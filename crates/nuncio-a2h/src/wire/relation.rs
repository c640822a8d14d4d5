//! What a person allows an agent: `/a2h/h2a/relations` (§2.4).

use nuncio_core::agent::Sensitivity;
use nuncio_core::digest::Digest;
use nuncio_core::grant::Term;
use nuncio_core::ids::{AgentId, DeviceId, PersonName, RelationId, ScopeId};
use nuncio_core::ledger::{Entry, Head};
use nuncio_core::relation::{Relation, RelationState, ScopeGrant, Wish};
use nuncio_core::signature::PublicKey;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// `POST /a2h/h2a/relations` with the agent, `PATCH /a2h/h2a/relations/{id}` without.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConsentRequest {
    /// With which agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Exactly what is allowed.
    pub granted_scopes: Vec<ScopeWish>,
    /// The hash of the manifest the person saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_hash: Option<Digest>,
    /// The ledger's entry that says so, signed by the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<Entry>,
}

/// `DELETE /a2h/h2a/relations/{id}`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    /// The ledger's entry that says so, signed by the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<Entry>,
}

/// A scope to be allowed: its id alone until revoked, or with a mode.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "a scope, or {\"scope\", \"mode\": \"once\" | \"until\" | \"until_revoked\", \"until\"?}"
)]
pub enum ScopeWish {
    /// Until revoked.
    Plain(ScopeId),
    /// As it says.
    For(TermedScope),
}

/// A scope and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TermedScope {
    /// Which.
    pub scope: ScopeId,
    /// For how long.
    #[serde(default)]
    pub mode: Mode,
    /// Until when, with `until`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// For how long something is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// For one call.
    Once,
    /// Until a moment.
    Until,
    /// Until the person takes it back.
    #[default]
    UntilRevoked,
}

impl ScopeWish {
    /// What is wished for.
    ///
    /// # Errors
    /// The mode and the moment do not go together; the sentence says how they would.
    pub fn wish(&self) -> Result<Wish, String> {
        let (scope, term) = match self {
            Self::Plain(scope) => (scope, Term::UntilRevoked),
            Self::For(TermedScope { scope, mode, until }) => match (mode, until) {
                (Mode::Until, Some(end)) => (scope, Term::Until(*end)),
                (Mode::Once, None) => (scope, Term::Once),
                (Mode::UntilRevoked, None) => (scope, Term::UntilRevoked),
                (Mode::Until, None) => return Err(format!("{scope}: the mode \"until\" needs a moment in `until`")),
                (Mode::Once | Mode::UntilRevoked, Some(_)) => {
                    return Err(format!("{scope}: `until` goes with the mode \"until\" alone"));
                }
            },
        };
        Ok(Wish { scope: scope.clone(), term })
    }
}

/// A relation.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct RelationView {
    /// Names it.
    pub id: RelationId,
    /// The agent.
    pub agent_id: AgentId,
    /// The person.
    pub user_id: PersonName,
    /// Whether it goes on.
    pub status: Status,
    /// What may be used now: allowed, not suspended, not over.
    pub granted_scopes: Vec<ScopeId>,
    /// What was allowed and is suspended until the person says yes again.
    pub suspended_scopes: Vec<ScopeId>,
    /// Everything that was allowed.
    pub grants: Vec<GrantView>,
    /// The version the person said yes to.
    pub manifest_version: u64,
    /// Its hash.
    pub manifest_hash: Option<Digest>,
    /// What waits for a new yes.
    pub pending_reauth: Option<PendingView>,
    /// Where the ledger has got to.
    pub ledger_head: Head,
    /// Since when.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// Whether a relation goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It does.
    Active,
    /// It does, but something waits for a new yes.
    PendingReauth,
    /// It is over.
    Revoked,
}

/// One thing that is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct GrantView {
    /// Which scope.
    pub scope: ScopeId,
    /// For how long.
    pub mode: Mode,
    /// Until when, with `until`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// How much was at stake when it was allowed.
    pub sensitivity: Sensitivity,
    /// Since when.
    pub granted_at: Timestamp,
}

/// What waits for a new yes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct PendingView {
    /// Which scopes.
    pub scopes: Vec<ScopeId>,
    /// The version that asks.
    pub manifest_version: u64,
    /// Its hash.
    pub manifest_hash: Option<Digest>,
    /// Since when something waits.
    pub since: Timestamp,
}

/// `GET /a2h/h2a/relations/{id}/ledger`: entries, and the keys that verify them.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct LedgerPage {
    /// The entries, in order.
    pub data: Vec<Entry>,
    /// After which entry the next page begins; none on the last.
    pub next_cursor: Option<String>,
    /// The person's devices, those taken away too.
    pub devices: Vec<LedgerDevice>,
}

/// A device as whoever verifies a ledger must know it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct LedgerDevice {
    /// Names it.
    pub id: DeviceId,
    /// Whose it is.
    pub user_id: PersonName,
    /// Its public key.
    pub public_key: PublicKey,
    /// Since when.
    pub enrolled_at: Timestamp,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

impl RelationView {
    /// A relation as it stands at that moment.
    #[must_use]
    pub fn of(relation: &Relation, now: Timestamp) -> Self {
        let (status, revoked_at) = match relation.state {
            RelationState::Revoked { at } => (Status::Revoked, Some(at)),
            RelationState::Active if relation.pending.is_some() => (Status::PendingReauth, None),
            RelationState::Active => (Status::Active, None),
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
            pending_reauth: relation.pending.as_ref().map(|pending| PendingView {
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
        let (mode, until) = match grant.term {
            Term::Once => (Mode::Once, None),
            Term::Until(end) => (Mode::Until, Some(end)),
            Term::UntilRevoked => (Mode::UntilRevoked, None),
        };
        Self { scope: grant.scope.clone(), mode, until, sensitivity: grant.sensitivity, granted_at: grant.given_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_allowed_until_revoked_unless_it_says_otherwise() {
        let read = |text: &str| serde_json::from_str::<ScopeWish>(text).map(|wish| wish.wish());
        let term = |text: &str| read(text).unwrap().unwrap().term;
        assert_eq!(term(r#""filesystem:read""#), Term::UntilRevoked);
        assert_eq!(term(r#"{"scope": "filesystem:read"}"#), Term::UntilRevoked);
        assert_eq!(term(r#"{"scope": "filesystem:read", "mode": "once"}"#), Term::Once);
        let until = term(r#"{"scope": "a", "mode": "until", "until": "2027-01-01T00:00:00Z"}"#);
        assert!(matches!(until, Term::Until(_)));
        assert!(read(r#"{"scope": "a", "mode": "until"}"#).unwrap().is_err());
        assert!(read(r#"{"scope": "a", "mode": "once", "until": "2027-01-01T00:00:00Z"}"#).unwrap().is_err());
        for wrong in [r#""""#, r#"{"scope": "a", "mode": "forever"}"#, r#"{"scope": "a", "for": 1}"#, "1", "null"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
