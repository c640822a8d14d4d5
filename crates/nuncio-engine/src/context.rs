//! Parts that all services share: clock, randomness, limits, background tasks and shutdown.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use futures_util::future::BoxFuture;
use nuncio_core::ErrorCode;
use nuncio_core::audit::{AuditEvent, AuditEventRecord};
use nuncio_core::backoff::Backoff;
use nuncio_core::caller::Caller;
use nuncio_core::ids::{AgentId, Incarnation};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::background::BackgroundTasks;
use crate::compute::ComputePool;
use crate::error::EngineError;
use crate::limits::EngineLimits;
use crate::ports::entropy::{random_name, timed_name};
use crate::ports::store::{AuditChange, Change, ClaimedJob, Conflict, JobClaimRequest, StoreError};
use crate::ports::{Bus, Clock, Entropy, Meter, Store};
use crate::secret_cipher::SecretCipher;

/// Interval at which waiting tasks read the store without a notice, because notices can be lost.
const NOTICE_POLL_INTERVAL: Duration = Duration::from_secs(15);

/// Delays before a store access is repeated while the store is unavailable.
const STORE_RETRIES: Backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(5));

pub(crate) struct EngineContext {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) cipher: SecretCipher,
    pub(crate) meter: Arc<dyn Meter>,
    pub(crate) limits: EngineLimits,
    pub(crate) compute: ComputePool,
    /// This start of the process, as the owner of the work that it runs.
    pub(crate) incarnation: Incarnation,
    pub(crate) tasks: BackgroundTasks,
    /// Time in milliseconds before which signatures are refused, because the store was restored and does not know the
    /// nonces that were used until then.
    pub(crate) signatures_since: AtomicI64,
    /// Notified when jobs may be due earlier than before.
    pub(crate) jobs_changed: Notify,
    /// Cancelled when the server stops; no new turns begin.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the grace period of running turns ends.
    pub(crate) closed: CancellationToken,
}

impl EngineContext {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Encrypts a secret so that it can be decrypted only for the same `place`.
    pub(crate) fn seal(&self, place: &str, secret: &str) -> String {
        self.cipher.seal(&*self.entropy, place, secret)
    }

    pub(crate) fn check_not_closing(&self) -> Result<(), EngineError> {
        if self.is_closing() {
            return Err(EngineError::new(ErrorCode::ShuttingDown, "the server is stopping; try again in a moment"));
        }
        Ok(())
    }

    pub(crate) fn random_name(&self, prefix: &str) -> String {
        random_name(&*self.entropy, prefix)
    }

    /// A random name that sorts by its creation time.
    pub(crate) fn timed_name(&self, prefix: &str) -> String {
        timed_name(&*self.entropy, prefix, self.now())
    }

    /// Applies the changes in order, all or none; they are on disk when this returns. If this incarnation was declared
    /// dead, everything that it runs is cancelled.
    pub(crate) async fn commit(&self, mut changes: Vec<Change>) -> Result<(), StoreError> {
        if self.cipher.is_replaced() {
            changes.iter_mut().for_each(|change| self.reseal_change(change));
        }
        let may_be_due = changes.iter().any(|change| matches!(change, Change::Job(job) if job.may_be_due()));
        let committed = self.store.commit(changes).await;
        self.stop_if_fenced(&committed);
        if may_be_due && committed.is_ok() {
            self.jobs_changed.notify_one();
        }
        committed
    }

    /// Claims jobs, as [`JobStore::claim_jobs`](crate::ports::store::JobStore::claim_jobs) says.
    pub(crate) async fn claim_jobs(&self, request: JobClaimRequest) -> Result<Vec<ClaimedJob>, StoreError> {
        let claimed = self.store.claim_jobs(request).await;
        self.stop_if_fenced(&claimed);
        claimed
    }

    fn stop_if_fenced<T>(&self, written: &Result<T, StoreError>) {
        if matches!(written, Err(StoreError::Fenced)) && !self.closed.is_cancelled() {
            tracing::error!(incarnation = %self.incarnation, "this node was declared dead; it stops its work");
            self.closing.cancel();
            self.closed.cancel();
        }
    }

    pub(crate) async fn commit_one(&self, change: impl Into<Change>) -> Result<(), StoreError> {
        self.commit(vec![change.into()]).await
    }

    /// Repeats a store access until the store is available. When the server stops first, the last error is returned.
    pub(crate) async fn until_available<T, F>(&self, mut access: impl FnMut() -> F) -> Result<T, EngineError>
    where
        F: Future<Output = Result<T, EngineError>>,
    {
        let mut failures = STORE_RETRIES.start();
        loop {
            match access().await {
                Err(error) if error.code == ErrorCode::StoreUnavailable => {
                    tracing::warn!(%error, "the store is unavailable; the access is repeated");
                    let pause = self.clock.sleep_until(self.now().after(failures.next_delay()));
                    if self.closing.run_until_cancelled(pause).await.is_none() {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
    }

    /// Waits until it is time to read the store even without a notice.
    pub(crate) fn until_next_poll(&self) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(self.now().after(NOTICE_POLL_INTERVAL))
    }

    /// Creates an audit record of an event that happens now.
    pub(crate) fn event_record(&self, event: AuditEvent, by: &Caller) -> AuditEventRecord {
        AuditEventRecord {
            request: by.request.clone(),
            ..AuditEventRecord::new(event, by.principal.clone(), self.now())
        }
    }

    /// Change that adds an audit record of an event about an agent, at the current time.
    pub(crate) fn agent_event(&self, event: AuditEvent, by: &Caller, agent: &AgentId) -> Change {
        let record = AuditEventRecord { agent: Some(agent.clone()), ..self.event_record(event, by) };
        AuditChange::AppendEvent(record).into()
    }

    /// Refuses a caller whose storage quota is used up. `local`, operators and agents that this server runs have none.
    /// Checked before something is stored: one request may exceed the quota by its own size.
    pub(crate) async fn check_quota(&self, caller: &Caller) -> Result<(), EngineError> {
        match &caller.principal {
            Principal::Local | Principal::Operator => return Ok(()),
            // Agents that this server runs belong to the operator and have no quota.
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
             finished executions are deleted"
        );
        Err(EngineError::new(ErrorCode::QuotaExceeded, message))
    }
}

/// Result of a commit for which one kind of conflict is an expected outcome.
pub(crate) trait CommitResultExt {
    /// True if the changes were stored, false if `conflict` prevented that; other failures stay errors.
    fn made_unless(self, conflict: Conflict) -> Result<bool, StoreError>;
}

impl CommitResultExt for Result<(), StoreError> {
    fn made_unless(self, conflict: Conflict) -> Result<bool, StoreError> {
        match self {
            Err(StoreError::Conflict(found)) if found == conflict => Ok(false),
            other => other.map(|()| true),
        }
    }
}
