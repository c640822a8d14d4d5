//! Storage quota per caller.

use nuncio_core::Code;
use nuncio_core::principal::Principal;

use crate::Engine;
use crate::access::Caller;
use crate::error::EngineError;

impl Engine {
    /// Refuses a caller whose quota is used up. Checked before something is stored: one request may exceed the quota by
    /// its own size.
    pub(crate) async fn check_quota(&self, caller: &Caller) -> Result<(), EngineError> {
        match &caller.principal {
            Principal::Local | Principal::Operator => return Ok(()),
            // Agents that are served here are the operator's own.
            Principal::Agent(agent) if agent.as_name().is_some() => return Ok(()),
            _ => {}
        }
        let quota = self.limits().bytes_per_caller;
        let stored = self.store().bytes_stored(&caller.principal).await?;
        if stored < quota {
            return Ok(());
        }
        let message = format!(
            "you have stored {stored} bytes, and one caller may store {quota}; delete conversations, or wait until \
             finished executions are forgotten"
        );
        Err(EngineError::new(Code::QuotaExceeded, message))
    }
}
