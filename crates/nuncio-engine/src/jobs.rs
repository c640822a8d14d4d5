//! Deferred work. A job is stored together with its cause; when it is due, one incarnation claims it, and the handler of
//! its kind runs it and stores the outcome.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::select_all;
use nuncio_core::backoff::Backoff;
use nuncio_core::time::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::context::{CommitResultExt as _, EngineContext};
use crate::error::EngineError;
use crate::ports::store::{
    Change, ClaimedJob, Conflict, Job, JobChange, JobClaimRequest, JobKind, JobStore, StoreError,
};

mod running;

use running::RunningJobs;

/// Interval at which jobs are searched for without a notice. Claims are renewed then, so it is below
/// [`CLAIM_TIME`] - [`RENEWAL_AGE`].
const POLL_INTERVAL: Duration = Duration::from_secs(12);

/// Time after which other nodes may claim a job again.
const CLAIM_TIME: Duration = Duration::from_secs(60);

/// Age at which a claim is renewed.
const RENEWAL_AGE: Duration = Duration::from_secs(20);

/// Pause after a job failed without an outcome, because the store did.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);

/// Runs the jobs of one kind.
#[async_trait]
pub trait JobHandler: Send + Sync + 'static {
    /// Runs a job and stores its outcome, which ends or delays it.
    ///
    /// # Errors
    /// The job could not run, or its outcome could not be stored. It runs again after a pause.
    async fn run(&self, job: &ClaimedJob) -> Result<(), EngineError>;
}

/// Number of jobs of a kind that run at once on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    pub total: usize,
    pub per_receiver: usize,
}

impl JobLimits {
    /// Limits for requests to addresses that others chose: a slow receiver does not delay the others.
    pub const WEB_REQUESTS: Self = Self { total: 64, per_receiver: 4 };
    /// Limits for reading documents of other hosts: a host is read by one job at a time.
    pub const HOSTS: Self = Self { total: 4, per_receiver: 1 };
}

struct RegisteredHandler {
    kind: JobKind,
    limits: JobLimits,
    handler: Arc<dyn JobHandler>,
}

/// The handlers of all kinds of jobs that a process runs.
#[derive(Default)]
pub struct JobHandlers(Vec<RegisteredHandler>);

impl JobHandlers {
    pub fn add(&mut self, kind: JobKind, limits: JobLimits, handler: impl JobHandler) {
        self.0.push(RegisteredHandler { kind, limits, handler: Arc::new(handler) });
    }

    pub fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }
}

/// How often a failed job is tried again, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobRetries {
    /// Maximum number of attempts.
    pub attempts: u32,
    pub backoff: Backoff,
}

/// Service that runs jobs when they are due.
pub struct JobService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn JobStore>,
}

impl JobService {
    /// Runs due jobs. Starts none after `stop`; running ones may finish until `closed`. What they leave is run by
    /// the incarnation that adopts the claims of this one.
    pub async fn run(self: Arc<Self>, handlers: JobHandlers, stop: CancellationToken, closed: CancellationToken) {
        let mut running = RunningJobs::default();
        while !stop.is_cancelled() && !self.context.is_closing() {
            let next = self.start_due_jobs(&handlers, &mut running).await;
            let poll = self.context.now().after(POLL_INTERVAL);
            let moments = next.into_iter().chain([poll]);
            let sleeps = moments.map(|moment| self.context.clock.sleep_until(moment)).collect::<Vec<_>>();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.context.closing.cancelled() => {}
                () = running.one_ended() => {}
                () = self.context.jobs_changed.notified() => {}
                _ = select_all(sleeps) => {}
            }
        }
        tokio::select! {
            biased;
            () = running.all_ended() => {}
            () = closed.cancelled() => {}
            () = self.context.closed.cancelled() => {}
        }
    }

    /// At most `limit` jobs of a kind, claimed or not, earliest first. Of each lane only the first job is listed.
    pub async fn next_jobs(&self, kind: JobKind, limit: usize) -> Result<Vec<Job>, EngineError> {
        Ok(self.store.next_jobs(kind, limit).await?)
    }

    /// Stores jobs that have no other cause to be stored with. One with the same key gets the new time and attempts.
    pub async fn schedule(&self, jobs: impl IntoIterator<Item = Job>) -> Result<(), EngineError> {
        let changes: Vec<_> = jobs.into_iter().map(|job| JobChange::Put(job).into()).collect();
        if !changes.is_empty() {
            self.context.commit(changes).await?;
        }
        Ok(())
    }

    /// Removes a job that is done or given up.
    pub async fn end(&self, job: &ClaimedJob) -> Result<(), EngineError> {
        self.end_with(job, Vec::new()).await
    }

    /// Removes a job that is done or given up, and makes other changes with it.
    pub(crate) async fn end_with(&self, job: &ClaimedJob, mut changes: Vec<Change>) -> Result<(), EngineError> {
        changes.push(job.end().into());
        self.store_outcome(changes).await
    }

    /// Postpones a job that cannot run now. Its number of attempts stays.
    pub async fn postpone(&self, job: &ClaimedJob, due: Timestamp) -> Result<(), EngineError> {
        self.store_outcome(vec![job.delay(due, job.job.attempts).into()]).await
    }

    /// Ends this run of a job that is done again at `due`.
    pub async fn repeat_at(&self, job: &ClaimedJob, due: Timestamp) -> Result<(), EngineError> {
        self.store_outcome(vec![job.delay(due, 0).into()]).await
    }

    /// Schedules the next attempt of a failed job and returns its time. After the last attempt the job is removed, and
    /// the result is `None`.
    pub async fn retry(&self, job: &ClaimedJob, retries: JobRetries) -> Result<Option<Timestamp>, EngineError> {
        self.retry_or_end_with(job, retries, Vec::new()).await
    }

    /// Like [`JobService::retry`]; makes other changes when the job is removed.
    pub(crate) async fn retry_or_end_with(
        &self,
        job: &ClaimedJob,
        retries: JobRetries,
        at_end: Vec<Change>,
    ) -> Result<Option<Timestamp>, EngineError> {
        let attempts = job.job.attempts.saturating_add(1);
        if attempts >= retries.attempts {
            self.end_with(job, at_end).await?;
            return Ok(None);
        }
        let due = self.context.now().after(retries.backoff.after(attempts));
        self.store_outcome(vec![job.delay(due, attempts).into()]).await?;
        Ok(Some(due))
    }

    /// Commits the outcome of a job, repeatedly while the store is unavailable, because the job would run again
    /// without it. Nothing is stored if another node has the job.
    async fn store_outcome(&self, changes: Vec<Change>) -> Result<(), EngineError> {
        let commit = || async { Ok(self.context.commit(changes.clone()).await.made_unless(Conflict::Moved)?) };
        if !self.context.until_available(commit).await? {
            tracing::warn!(?changes, "another node took over a job before its outcome was stored");
        }
        Ok(())
    }

    /// Starts due jobs as far as the limits allow. Returns when the next job of each kind is due.
    async fn start_due_jobs(self: &Arc<Self>, handlers: &JobHandlers, running: &mut RunningJobs) -> Vec<Timestamp> {
        self.renew_claims(running).await;
        let now = self.context.now();
        let free =
            |registered: &RegisteredHandler| registered.limits.total.saturating_sub(running.count(registered.kind));
        let kinds: Vec<_> = handlers.0.iter().filter(|one| free(one) > 0).map(|one| one.kind).collect();
        let times = match self.store.job_times(&kinds, now).await {
            Ok(times) => times,
            Err(error) => {
                tracing::error!(%error, "jobs cannot be read now");
                return Vec::new();
            }
        };
        for kind in times.iter().filter(|times| times.is_due).map(|times| times.kind) {
            let Some(registered) = handlers.0.iter().find(|registered| registered.kind == kind) else { continue };
            let request = JobClaimRequest {
                kind,
                by: self.context.incarnation.clone(),
                now,
                lasts: CLAIM_TIME,
                limit: registered.limits.total.saturating_sub(running.count(kind)),
                per_receiver: registered.limits.per_receiver,
                running: running.receivers(kind),
            };
            match self.context.claim_jobs(request).await {
                Ok(claimed) => {
                    for job in claimed {
                        let job = Arc::new(job);
                        let run = Arc::clone(self).run_job(Arc::clone(&job), Arc::clone(&registered.handler));
                        running.start(job, now.after(CLAIM_TIME), run);
                    }
                }
                Err(error) => tracing::error!(%error, %kind, "jobs cannot be claimed now"),
            }
        }
        times.iter().filter_map(|times| times.next).collect()
    }

    async fn run_job(self: Arc<Self>, job: Arc<ClaimedJob>, handler: Arc<dyn JobHandler>) {
        let Err(error) = handler.run(&job).await else { return };
        let (kind, key) = (job.job.kind, &job.job.key);
        tracing::error!(%error, %kind, key, "a job failed without an outcome; it runs again");
        if let Err(error) = self.postpone(&job, self.context.now().after(FAILURE_PAUSE)).await {
            tracing::error!(%error, %kind, key, "a job could not be postponed; it runs again when its claim expires");
        }
    }

    async fn renew_claims(&self, running: &mut RunningJobs) {
        let now = self.context.now();
        let (renewed_before, until) = (now.after(CLAIM_TIME - RENEWAL_AGE), now.after(CLAIM_TIME));
        for job in running.claimed_until(renewed_before) {
            let renewal = JobChange::Renew { claim: job.claim().clone(), now, lasts: CLAIM_TIME };
            match self.context.commit_one(renewal).await {
                Ok(()) => job.claimed_until = until,
                // Another node has the job.
                Err(StoreError::Conflict(Conflict::Moved)) => job.stop(),
                Err(error) => tracing::error!(%error, "the claim of a job could not be renewed; it is retried"),
            }
        }
    }
}
