//! Whom an app protocol (AAP, MCP) serves for an agent. Protocols between agents decide by the tool's scope alone.

use nuncio_core::Code;
use nuncio_core::agent::Agent;
use nuncio_core::principal::Principal;

use super::{Caller, Hold};
use crate::Engine;
use crate::error::EngineError;

impl Engine {
    /// Checks that an app protocol serves this caller for this agent: `local`, keys and people always (`anonymous` only
    /// reaches this where the server was opened on purpose), other OAuth subjects with a scope of the agent by their
    /// token or by a grant, DIDs and agents with a grant for the agent.
    ///
    /// # Errors
    /// [`Code::NotAdmitted`], or [`Code::Unauthorized`] for a kind of caller that is never served.
    pub fn admit_app(&self, caller: &Caller, agent: &Agent) -> Result<(), EngineError> {
        match Self::admits_by_kind(caller)? {
            true => Ok(()),
            false if self.holds_any_scope(caller, agent) => Ok(()),
            false => Err(not_admitted(caller, Some(agent))),
        }
    }

    /// The same where no agent is named yet: one agent that serves the caller is enough.
    ///
    /// # Errors
    /// As [`Engine::admit_app`].
    pub fn admit_app_for_any_agent(&self, caller: &Caller) -> Result<(), EngineError> {
        if Self::admits_by_kind(caller)? || self.agents().iter().any(|agent| self.holds_any_scope(caller, agent)) {
            return Ok(());
        }
        Err(not_admitted(caller, None))
    }

    /// Whether an app protocol serves this caller for some agents only.
    #[must_use]
    pub fn needs_scope(caller: &Caller) -> bool {
        !matches!(Self::admits_by_kind(caller), Ok(true))
    }

    /// Whether this kind of caller needs no scope.
    fn admits_by_kind(caller: &Caller) -> Result<bool, EngineError> {
        match &caller.principal {
            Principal::Local | Principal::Operator | Principal::Key(_) | Principal::Anonymous => Ok(true),
            Principal::OAuth { .. } => Ok(caller.speaks_for_person()),
            Principal::Did(_) | Principal::Agent(_) => Ok(false),
            Principal::Person(_) => {
                let message = "a device's token opens A2H only; an app sends an API key or an access token";
                Err(EngineError::new(Code::Unauthorized, message))
            }
        }
    }

    fn holds_any_scope(&self, caller: &Caller, agent: &Agent) -> bool {
        let (table, now) = (self.access_table(), self.now());
        agent.scopes.iter().any(|scope| table.hold(caller, &agent.name, &scope.id, now) != Hold::No)
    }
}

fn not_admitted(caller: &Caller, agent: Option<&Agent>) -> EngineError {
    let of = agent.map_or_else(|| "any agent here".to_owned(), |agent| format!("the agent {}", agent.name));
    let principal = &caller.principal;
    let message = match principal {
        Principal::OAuth { .. } => format!(
            "the access token of {principal} gives no scope of {of}; ask its issuer for one, or the operator for a grant (`nuncio grant create`) or `people = true` below its [[issuer]]"
        ),
        _ => format!("{principal} has no grant for {of}; the operator gives one with `nuncio grant create`"),
    };
    EngineError::new(Code::NotAdmitted, message)
}
