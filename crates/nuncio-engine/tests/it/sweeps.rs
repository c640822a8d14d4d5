//! Sweeps are repeated, each by one of the nodes on a store.

use std::sync::Arc;
use std::time::Duration;

use nuncio_engine::jobs::JobHandlers;
use nuncio_engine::ports::store::JobKind;
use nuncio_engine::sweeps::Sweeps;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::world::{SilentBackend, TestEngine};

const INTERVAL: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn sweep_runs_once_in_each_interval_although_two_nodes_have_it() {
    let world = TestEngine::new().await;
    let other = world.with_runner(Arc::new(SilentBackend)).await;
    let (sender, mut runs) = mpsc::unbounded_channel();
    let mut nodes = Vec::new();
    for engine in [world.engine.clone(), other] {
        let (mut handlers, sender) = (JobHandlers::default(), sender.clone());
        let sweeps = Sweeps::new(&engine).with("counted", INTERVAL, move |_| std::future::ready(sender.send(())));
        sweeps.start(&mut handlers).await.unwrap();
        nodes.push((engine, handlers));
    }
    for (engine, handlers) in nodes {
        let jobs = Arc::clone(engine.jobs());
        tokio::spawn(jobs.run(handlers, CancellationToken::new(), CancellationToken::new()));
    }
    for _ in 0..3 {
        runs.recv().await.unwrap();
        let is_due = async || {
            let jobs = world.engine.jobs().next_jobs(JobKind::Sweep, 9).await.unwrap();
            assert!(jobs.iter().any(|job| job.key == "counted"));
            jobs.iter().any(|job| job.due <= world.engine.now())
        };
        while is_due().await {
            tokio::task::yield_now().await;
        }
        assert!(runs.try_recv().is_err());
        world.clock.advance(INTERVAL);
    }
}

#[tokio::test]
async fn failed_sweep_is_repeated_and_an_unknown_one_is_removed() {
    let world = TestEngine::new().await;
    let (sender, mut runs) = mpsc::unbounded_channel();
    let mut handlers = JobHandlers::default();
    let removed = Sweeps::new(&world.engine).with("removed", INTERVAL, |_| std::future::ready(Ok::<_, String>(())));
    removed.start(&mut JobHandlers::default()).await.unwrap();
    let failing = move |_| {
        sender.send(()).unwrap();
        std::future::ready(Err::<(), _>("no space"))
    };
    Sweeps::new(&world.engine).with("failing", INTERVAL, failing).start(&mut handlers).await.unwrap();
    let jobs = Arc::clone(world.engine.jobs());
    tokio::spawn(jobs.run(handlers, CancellationToken::new(), CancellationToken::new()));
    runs.recv().await.unwrap();
    let keys = async || {
        let jobs = world.engine.jobs().next_jobs(JobKind::Sweep, 9).await.unwrap();
        let is_over = jobs.iter().all(|job| job.due > world.engine.now());
        is_over.then(|| jobs.into_iter().map(|job| job.key).collect::<Vec<_>>())
    };
    let keys = loop {
        match keys().await {
            Some(keys) => break keys,
            None => tokio::task::yield_now().await,
        }
    };
    assert!(keys.contains(&"failing".to_owned()) && !keys.contains(&"removed".to_owned()), "{keys:?}");
    world.clock.advance(INTERVAL);
    runs.recv().await.unwrap();
}
