//! The jobs that run on this node.

use std::sync::Arc;

use nuncio_core::time::Timestamp;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use crate::ports::store::{ClaimedJob, JobClaim, JobKind};

pub(super) struct RunningJob {
    job: Arc<ClaimedJob>,
    pub(super) claimed_until: Timestamp,
    task: AbortHandle,
}

impl RunningJob {
    pub(super) fn claim(&self) -> &JobClaim {
        &self.job.claim
    }

    pub(super) fn stop(&self) {
        self.task.abort();
    }
}

/// Dropping this stops all of them.
#[derive(Default)]
pub(super) struct RunningJobs {
    tasks: JoinSet<()>,
    jobs: Vec<RunningJob>,
}

impl RunningJobs {
    pub(super) fn start(
        &mut self,
        job: Arc<ClaimedJob>,
        claimed_until: Timestamp,
        run: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = self.tasks.spawn(run);
        self.jobs.push(RunningJob { job, claimed_until, task });
    }

    /// Waits until a job ended; never returns if none runs.
    pub(super) async fn one_ended(&mut self) {
        match self.tasks.join_next_with_id().await {
            Some(ended) => self.remove(ended),
            None => std::future::pending().await,
        }
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.remove(ended);
        }
    }

    pub(super) async fn all_ended(&mut self) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.remove(ended);
        }
    }

    pub(super) fn count(&self, kind: JobKind) -> usize {
        self.jobs.iter().filter(|running| running.job.job.kind == kind).count()
    }

    /// Key and receiver of the jobs of a kind.
    pub(super) fn receivers(&self, kind: JobKind) -> Vec<(String, String)> {
        let of_kind = self.jobs.iter().map(|running| &running.job.job).filter(|job| job.kind == kind);
        of_kind.map(|job| (job.key.clone(), job.receiver.clone())).collect()
    }

    /// Jobs whose claims expire at this time or earlier.
    pub(super) fn claimed_until(&mut self, time: Timestamp) -> impl Iterator<Item = &mut RunningJob> {
        self.jobs.iter_mut().filter(move |running| running.claimed_until <= time)
    }

    fn remove(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                if error.is_panic() {
                    tracing::error!(%error, "a job panicked; it runs again when its claim expires");
                }
                error.id()
            }
        };
        self.jobs.retain(|running| running.task.id() != id);
    }
}
