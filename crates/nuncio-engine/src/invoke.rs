//! Invoking a skill: accepted, on disk, answered; then run by one owner at a time until it is over.
//!
//! `submit` takes a request in, `queue` says which runs next, `run` runs it through the call chain,
//! `keep` renews leases, ends what is late, forgets what was kept long enough, and takes up what a
//! process that is gone left behind.

use nuncio_core::Code;
use nuncio_core::execution::Execution;
use nuncio_core::ids::ExecutionId;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;

use crate::Engine;
use crate::access::Caller;
use crate::error::EngineError;

mod agent;
mod entry;
mod keep;
mod queue;
mod run;
mod submit;

pub use entry::Entry;
use queue::Live;
pub(crate) use queue::Queue;
pub use queue::{ExecutionLimits, Full};
pub(crate) use run::ending;
pub use submit::{Refusal, Submission, Submitted};

impl Engine {
    /// An execution the caller may read: their own, or, where nobody was known, whoever holds its id.
    ///
    /// # Errors
    /// There is none of that id for them.
    pub async fn execution(&self, caller: &Caller, id: &str) -> Result<Execution, EngineError> {
        let found = match ExecutionId::parse(id) {
            Ok(id) => match self.queue().find(&id) {
                Some(live) => Some(live.now()),
                None => self.store().execution(&id).await?,
            },
            Err(_) => None,
        };
        self.readable(caller, id, found)
    }

    /// The same, once it is over or that time has come.
    ///
    /// # Errors
    /// There is none of that id for the caller.
    pub async fn execution_until(&self, caller: &Caller, id: &str, until: Timestamp) -> Result<Execution, EngineError> {
        let live = ExecutionId::parse(id).ok().and_then(|id| self.queue().find(&id));
        let Some(live) = live.filter(|live| reads(caller, live.caller())) else {
            return self.execution(caller, id).await;
        };
        if live.is_over() {
            return self.readable(caller, id, Some(live.now()));
        }
        self.until_over(&live, until).await;
        Ok(live.now())
    }

    fn readable(&self, caller: &Caller, id: &str, found: Option<Execution>) -> Result<Execution, EngineError> {
        found
            .filter(|execution| reads(caller, &execution.order.caller))
            .filter(|execution| execution.kept_until().is_none_or(|until| until > self.now()))
            .ok_or_else(|| {
                let id: String = id.chars().take(64).collect();
                EngineError::new(Code::ExecutionNotFound, format!("there is no execution {id:?}"))
            })
    }

    /// Waits until it is over or that time has come.
    async fn until_over(&self, live: &Live, until: Timestamp) {
        tokio::select! {
            // In this order what is over needs no timer.
            biased;
            () = live.over() => {}
            () = self.no_longer(until) => {}
        }
    }

    /// Ends when nobody waits any longer: at that time, or when the server stops.
    async fn no_longer(&self, until: Timestamp) {
        tokio::select! {
            () = self.clock().sleep_until(until) => {}
            () = self.closing().cancelled() => {}
        }
    }

    /// Stops an execution. What is over stays as it is; what runs is told to stop.
    ///
    /// # Errors
    /// There is none of that id for the caller.
    pub async fn cancel_execution(&self, caller: &Caller, id: &str) -> Result<Execution, EngineError> {
        let execution = self.execution(caller, id).await?;
        let Some(live) = self.queue().find(&execution.id) else { return self.execution(caller, id).await };
        if self.queue().withdraw(&live) {
            let begun = execution.attempt > 0;
            let failure = if begun { crate::call::cancelled() } else { crate::call::cancelled_unbegun() };
            self.end_unbegun(&live, failure).await?;
        } else {
            live.cancel.cancel();
        }
        Ok(live.now())
    }
}

/// Whoever asked for it. Of those who said nothing about themselves, holding the id is enough: it is
/// random and was told to one.
fn reads(caller: &Caller, owner: &Principal) -> bool {
    *owner == caller.principal
        || matches!(owner, Principal::Anonymous | Principal::Local)
        || matches!(caller.principal, Principal::Local | Principal::Operator)
}
