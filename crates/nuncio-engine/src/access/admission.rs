//! Which callers the app protocols (AAP, MCP) serve for an agent. Protocols between agents decide by the tool's scope
//! alone.

use nuncio_core::ErrorCode;
use nuncio_core::agent::Agent;
use nuncio_core::principal::Principal;

use super::{AccessControl, Caller};
use crate::error::EngineError;

impl AccessControl {
    /// Checks that an app protocol serves this caller for this agent. `local`, keys and people are always served, and
    /// `anonymous` where the server allows it; other OAuth subjects need a scope of the agent from their token or a
    /// grant; DIDs and agents need a grant.
    ///
    /// # Errors
    /// [`ErrorCode::NotAdmitted`], or [`ErrorCode::Unauthorized`] for a kind of principal that app protocols never serve.
    pub fn admit_app(&self, caller: &Caller, agent: &Agent) -> Result<(), EngineError> {
        match Self::admits_by_kind(caller)? {
            true => Ok(()),
            false if self.holds_any_scope(caller, agent) => Ok(()),
            false => Err(not_admitted(caller, Some(agent))),
        }
    }

    /// Like [`AccessControl::admit_app`] where the request names no agent: one agent that serves the caller is enough.
    pub fn admit_app_for_any_agent(&self, caller: &Caller) -> Result<(), EngineError> {
        if Self::admits_by_kind(caller)? || self.agents.list().iter().any(|agent| self.holds_any_scope(caller, agent)) {
            return Ok(());
        }
        Err(not_admitted(caller, None))
    }

    /// Whether this caller needs a scope or grant, so that it sees only some agents.
    #[must_use]
    pub fn needs_scope(caller: &Caller) -> bool {
        !matches!(Self::admits_by_kind(caller), Ok(true))
    }

    fn admits_by_kind(caller: &Caller) -> Result<bool, EngineError> {
        match &caller.principal {
            Principal::Local | Principal::Operator | Principal::Key(_) | Principal::Anonymous => Ok(true),
            Principal::OAuth { .. } => Ok(caller.speaks_for_person()),
            Principal::Did(_) | Principal::Agent(_) => Ok(false),
            Principal::Person(_) => {
                let message = "a device's token is valid only for A2H; send an API key or an access token";
                Err(EngineError::new(ErrorCode::Unauthorized, message))
            }
        }
    }

    fn holds_any_scope(&self, caller: &Caller, agent: &Agent) -> bool {
        agent.scopes.iter().any(|scope| self.has_scope(caller, &agent.name, &scope.id))
    }
}

fn not_admitted(caller: &Caller, agent: Option<&Agent>) -> EngineError {
    let of = agent.map_or_else(|| "any agent of this server".to_owned(), |agent| format!("the agent {}", agent.name));
    let principal = &caller.principal;
    let message = match principal {
        Principal::OAuth { .. } => format!(
            "the access token of {principal} contains no scope of {of}; ask its issuer for one, or the operator for a \
             grant (`nuncio grant create`) or `people = true` below its [[issuer]]"
        ),
        _ => format!("{principal} has no grant for {of}; the operator can create one with `nuncio grant create`"),
    };
    EngineError::new(ErrorCode::NotAdmitted, message)
}
