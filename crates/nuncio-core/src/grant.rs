//! Grants: scopes of a principal for an agent, for one call, until a time, or until revoked.

use serde::{Deserialize, Serialize};

use crate::ids::{AgentName, GrantId, ScopeId};
use crate::principal::Principal;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub id: GrantId,
    pub principal: Principal,
    pub agent: AgentName,
    pub scopes: Vec<ScopeId>,
    pub term: GrantTerm,
    pub given_by: Principal,
    pub given_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantTerm {
    Once,
    Until(Timestamp),
    UntilRevoked,
}

impl Grant {
    /// Whether the grant includes `scope` and has not expired at `now`.
    #[must_use]
    pub fn gives(&self, scope: &ScopeId, now: Timestamp) -> bool {
        let in_time = match self.term {
            GrantTerm::Until(end) => now < end,
            GrantTerm::Once | GrantTerm::UntilRevoked => true,
        };
        in_time && self.scopes.contains(scope)
    }
}

/// The scopes an API key was created with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyScopes {
    /// The key has all scopes of every agent on this server.
    All,
    Only(Vec<ScopeId>),
}

impl KeyScopes {
    #[must_use]
    pub fn gives(&self, scope: &ScopeId) -> bool {
        match self {
            Self::All => true,
            Self::Only(scopes) => scopes.contains(scope),
        }
    }
}
