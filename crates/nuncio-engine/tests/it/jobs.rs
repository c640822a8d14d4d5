//! Jobs are run when they are due, within their limits, and again if their outcome was not stored.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::ErrorCode;
use nuncio_engine::jobs::{JobHandler, JobHandlers, JobLimits};
use nuncio_engine::ports::store::{ClaimedJob, Job, JobKind};
use nuncio_engine::{Engine, EngineError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::TestEngine;

const KIND: JobKind = JobKind::Visit;

/// A started job: its key, and the sender with which the test ends it.
type StartedJob = (String, oneshot::Sender<Result<(), EngineError>>);

/// Runs each job until the test ends it.
struct TestHandler {
    engine: Engine,
    started: mpsc::UnboundedSender<StartedJob>,
}

#[async_trait]
impl JobHandler for TestHandler {
    async fn run(&self, job: &ClaimedJob) -> Result<(), EngineError> {
        let (end, ended) = oneshot::channel();
        self.started.send((job.job.key.clone(), end)).unwrap();
        match ended.await {
            Ok(end) => end?,
            // The test does not end this job.
            Err(_) => std::future::pending().await,
        }
        self.engine.jobs().end(job).await
    }
}

/// An engine that runs jobs: four at once, one for each receiver.
struct RunningWorld {
    world: TestEngine,
    started: mpsc::UnboundedReceiver<StartedJob>,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl RunningWorld {
    async fn with_jobs(keys: &[&str]) -> Self {
        let world = TestEngine::new().await;
        for key in keys {
            schedule(&world, key).await;
        }
        let (sender, started) = mpsc::unbounded_channel();
        let mut handlers = JobHandlers::default();
        handlers.add(KIND, JobLimits::HOSTS, TestHandler { engine: world.engine.clone(), started: sender });
        let stop = CancellationToken::new();
        let jobs = Arc::clone(world.engine.jobs());
        let running = tokio::spawn(jobs.run(handlers, stop.clone(), CancellationToken::new()));
        Self { world, started, stop, running }
    }

    async fn next(&mut self) -> StartedJob {
        self.started.recv().await.unwrap()
    }

    /// Lets everything run that can run, and checks that no job was started.
    async fn assert_idle(&mut self) {
        // A job that begins now is started before one that is due later.
        tokio::task::yield_now().await;
        assert!(self.started.try_recv().is_err());
    }

    async fn waiting(&self) -> Vec<String> {
        let jobs = self.world.engine.jobs().next_jobs(KIND, 9).await.unwrap();
        jobs.into_iter().map(|job| job.key).collect()
    }
}

/// Stores a job that is due now; its receiver is the part of the key before the slash.
async fn schedule(world: &TestEngine, key: &str) {
    let receiver = key.split_once('/').unwrap().0.to_owned();
    let due = world.engine.now();
    let job = Job { kind: KIND, key: key.to_owned(), receiver, lane: None, due, attempts: 0 };
    world.engine.jobs().schedule([job]).await.unwrap();
}

#[tokio::test]
async fn each_receiver_has_no_more_running_jobs_than_its_limit() {
    let mut world = RunningWorld::with_jobs(&["a/1", "a/2", "b/1"]).await;
    let mut open = [world.next().await, world.next().await];
    open.sort_by(|one, other| one.0.cmp(&other.0));
    let [(first, end_first), (other, _end_other)] = open;
    assert_eq!((first.as_str(), other.as_str()), ("a/1", "b/1"));
    schedule(&world.world, "c/1").await;
    assert_eq!(world.next().await.0, "c/1", "the second job of the first receiver waits");
    end_first.send(Ok(())).unwrap();
    assert_eq!(world.next().await.0, "a/2");
    assert_eq!(world.waiting().await, ["a/2", "b/1", "c/1"]);
}

#[tokio::test]
async fn scheduled_job_runs_at_once() {
    let mut world = RunningWorld::with_jobs(&[]).await;
    world.assert_idle().await;
    schedule(&world.world, "a/1").await;
    assert_eq!(world.next().await.0, "a/1");
}

#[tokio::test]
async fn job_whose_outcome_is_not_stored_runs_again_after_a_pause() {
    let mut world = RunningWorld::with_jobs(&["a/1"]).await;
    world.next().await.1.send(Err(EngineError::new(ErrorCode::StoreUnavailable, "no space"))).unwrap();
    schedule(&world.world, "b/1").await;
    assert_eq!(world.next().await.0, "b/1", "the first waits");
    world.world.clock.advance(Duration::from_secs(10));
    let (again, end) = world.next().await;
    assert_eq!(again, "a/1");
    end.send(Ok(())).unwrap();
    schedule(&world.world, "c/1").await;
    assert_eq!(world.next().await.0, "c/1");
}

#[tokio::test]
async fn job_that_runs_longer_than_its_claim_is_not_started_twice() {
    let mut world = RunningWorld::with_jobs(&["a/1"]).await;
    let (_, end) = world.next().await;
    world.world.clock.advance(Duration::from_secs(3600));
    schedule(&world.world, "b/1").await;
    assert_eq!(world.next().await.0, "b/1");
    world.assert_idle().await;
    end.send(Ok(())).unwrap();
    schedule(&world.world, "c/1").await;
    assert_eq!(world.next().await.0, "c/1");
}

#[tokio::test]
async fn running_job_finishes_after_stop_and_no_other_starts() {
    let mut world = RunningWorld::with_jobs(&["a/1"]).await;
    let (_, end) = world.next().await;
    world.stop.cancel();
    schedule(&world.world, "b/1").await;
    end.send(Ok(())).unwrap();
    world.running.await.unwrap();
    assert!(world.started.try_recv().is_err());
    let left = world.world.engine.jobs().next_jobs(KIND, 9).await.unwrap();
    assert_eq!(left.into_iter().map(|job| job.key).collect::<Vec<_>>(), ["b/1"]);
}
