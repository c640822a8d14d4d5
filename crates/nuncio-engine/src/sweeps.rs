//! Sweeps: jobs that delete old data again and again. Of several nodes on one store, one runs each sweep.

use std::fmt::Display;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::{JobHandler, JobHandlers, JobLimits};
use crate::ports::store::{ClaimedJob, Job, JobKind};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Each sweep is its own receiver, so that a long one does not delay the others.
const LIMITS: JobLimits = JobLimits { total: 4, per_receiver: 1 };

struct Sweep {
    name: &'static str,
    interval: Duration,
    run: Box<dyn Fn(Engine) -> BoxFuture<'static, Result<(), String>> + Send + Sync>,
}

/// The sweeps of a process.
pub struct Sweeps {
    engine: Engine,
    sweeps: Vec<Sweep>,
}

impl Sweeps {
    /// The sweeps of what the engine stores.
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        let sweeps = Self { engine: engine.clone(), sweeps: Vec::new() };
        sweeps
            .with(
                "executions",
                MINUTE,
                |engine| async move { engine.executions().forget_executions(engine.now()).await },
            )
            .with("notifications", HOUR, |engine| async move { engine.mailbox().forget_old_mail().await })
            .with("messages", HOUR, |engine| async move { engine.relay().forget_old_messages().await })
            .with("direct_messages", HOUR, |engine| async move { engine.direct_messages().forget_old_messages().await })
            .with("drafts", HOUR, |engine| async move { engine.drafts().forget_expired_drafts().await })
    }

    /// Adds a sweep. Its name is the key of its job.
    #[must_use]
    pub fn with<F, E>(
        mut self,
        name: &'static str,
        interval: Duration,
        run: impl Fn(Engine) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        let run = move |engine| run(engine).map(|done| done.map_err(|error| error.to_string())).boxed();
        self.sweeps.push(Sweep { name, interval, run: Box::new(run) });
        self
    }

    /// Makes every sweep due, and adds their handler.
    pub async fn start(self, handlers: &mut JobHandlers) -> Result<(), EngineError> {
        let due = self.engine.now();
        let job = |name: &'static str| {
            let (key, receiver) = (name.to_owned(), name.to_owned());
            Job { kind: JobKind::Sweep, key, receiver, lane: None, due, attempts: 0 }
        };
        self.engine.jobs().schedule(self.sweeps.iter().map(|sweep| job(sweep.name))).await?;
        handlers.add(JobKind::Sweep, LIMITS, self);
        Ok(())
    }
}

#[async_trait]
impl JobHandler for Sweeps {
    async fn run(&self, job: &ClaimedJob) -> Result<(), EngineError> {
        let jobs = self.engine.jobs();
        let Some(sweep) = self.sweeps.iter().find(|sweep| sweep.name == job.job.key) else {
            // A sweep of another version, or of a setting that is no longer set.
            return jobs.end(job).await;
        };
        if let Err(error) = (sweep.run)(self.engine.clone()).await {
            tracing::error!(error, sweep = sweep.name, "old data could not be deleted; the next sweep tries again");
        }
        jobs.repeat_at(job, self.engine.now().after(sweep.interval)).await
    }
}
