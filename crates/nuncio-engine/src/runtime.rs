//! What every service needs: clock, randomness, limits, background tasks and shutdown.

use std::sync::Arc;

use nuncio_core::Code;
use nuncio_core::audit::{AuditEvent, AuditEventRecord};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::access::Caller;
use crate::background::BackgroundTasks;
use crate::compute::ComputePool;
use crate::engine::Limits;
use crate::error::EngineError;
use crate::ports::store::{Change, StoreError};
use crate::ports::{Bus, Clock, Entropy, Meter, Store};
use crate::vault::Vault;

pub(crate) struct Runtime {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) vault: Vault,
    pub(crate) meter: Arc<dyn Meter>,
    pub(crate) limits: Limits,
    pub(crate) compute: ComputePool,
    /// Random name of this process, as owner of execution leases.
    pub(crate) process: String,
    pub(crate) tasks: BackgroundTasks,
    /// Cancelled when the server stops; no new turns begin.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the grace period of running turns ends.
    pub(crate) closed: CancellationToken,
}

impl Runtime {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn bus(&self) -> &dyn Bus {
        &*self.bus
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.entropy
    }

    pub(crate) fn vault(&self) -> &Vault {
        &self.vault
    }

    pub(crate) fn meter(&self) -> &dyn Meter {
        &*self.meter
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn compute(&self) -> &ComputePool {
        &self.compute
    }

    pub(crate) fn process(&self) -> &str {
        &self.process
    }

    pub(crate) fn tasks(&self) -> &BackgroundTasks {
        &self.tasks
    }

    /// Spawns a task that the server waits for before it stops.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Applies the changes in order, all or none; they are on disk when this returns.
    pub(crate) async fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.store.commit(changes).await
    }

    pub(crate) async fn commit_one(&self, change: impl Into<Change>) -> Result<(), StoreError> {
        self.store.commit(vec![change.into()]).await
    }

    /// Creates an audit record of an event that happens now.
    pub(crate) fn event_record(&self, event: AuditEvent, by: &Caller) -> AuditEventRecord {
        AuditEventRecord {
            request: by.request.clone(),
            ..AuditEventRecord::new(event, by.principal.clone(), self.now())
        }
    }

    /// Refuses a caller whose storage quota is used up. Checked before something is stored: one request may exceed the
    /// quota by its own size.
    pub(crate) async fn check_quota(&self, caller: &Caller) -> Result<(), EngineError> {
        match &caller.principal {
            Principal::Local | Principal::Operator => return Ok(()),
            // Agents that are served here are the operator's own.
            Principal::Agent(agent) if agent.as_name().is_some() => return Ok(()),
            _ => {}
        }
        let quota = self.limits.bytes_per_caller;
        let stored = self.store.bytes_stored(&caller.principal).await?;
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
