//! What a principal may do with an agent: scopes, for once, for a time, or until revoked.

use serde::{Deserialize, Serialize};

use crate::ids::{AgentName, GrantId, ScopeId};
use crate::principal::Principal;
use crate::time::Timestamp;

/// Scopes given to a principal for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Names it, so that it can be revoked.
    pub id: GrantId,
    /// To whom.
    pub principal: Principal,
    /// For which agent.
    pub agent: AgentName,
    /// What.
    pub scopes: Vec<ScopeId>,
    /// For how long.
    pub term: Term,
    /// By whom.
    pub given_by: Principal,
    /// Since when.
    pub given_at: Timestamp,
}

/// How long a grant holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// For one call.
    Once,
    /// Until this moment.
    Until(Timestamp),
    /// Until someone takes it back.
    UntilRevoked,
}

impl Grant {
    /// Whether it gives `scope` at that moment.
    #[must_use]
    pub fn gives(&self, scope: &ScopeId, now: Timestamp) -> bool {
        let in_time = match self.term {
            Term::Until(end) => now < end,
            Term::Once | Term::UntilRevoked => true,
        };
        in_time && self.scopes.contains(scope)
    }
}

/// The scopes an API key was created with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyScopes {
    /// All of every agent served here.
    All,
    /// These.
    Only(Vec<ScopeId>),
}

impl KeyScopes {
    /// Whether the key has this scope.
    #[must_use]
    pub fn gives(&self, scope: &ScopeId) -> bool {
        match self {
            Self::All => true,
            Self::Only(scopes) => scopes.contains(scope),
        }
    }
}
