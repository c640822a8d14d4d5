//! A simulator of several nodes on one store.
//!
//! The engines are real, and so is the store. Between any two calls of a port, the scheduler decides who continues; it
//! also crashes and suspends nodes, declares them dead, lets commits fail before or after they are stored, and loses or
//! repeats notices. A seed decides everything, so that a failure can be repeated.

mod cluster;
mod deliveries;
mod observer;
mod ports;
mod promises;
mod random;
mod sabotage;
mod scheduler;
mod store;
mod workload;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use nuncio_store::SqliteStore;
use tempfile::TempDir;

pub use sabotage::StoreSabotage;

use cluster::Cluster;
use scheduler::Scheduler;

/// Time for which the nodes go on after the last client is done: longer than the interval between adoptions.
const SETTLING_TIME: Duration = Duration::from_secs(30);

/// A run that broke promises.
#[derive(Debug, Clone)]
pub struct FailedRun {
    pub seed: u64,
    pub violations: Vec<String>,
    /// What happened, in order.
    pub history: Vec<String>,
}

impl fmt::Display for FailedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for event in &self.history {
            writeln!(f, "{event}")?;
        }
        writeln!(f, "seed {} broke:", self.seed)?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}

/// A run that kept all promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuccessfulRun {
    /// What happened, in order.
    pub history: Vec<String>,
}

/// Runs the simulation of a seed.
///
/// # Errors
/// A promise was broken, or the run did not come to an end.
pub fn simulate(seed: u64, sabotage: Option<StoreSabotage>) -> Result<SuccessfulRun, Box<FailedRun>> {
    let scheduler = Scheduler::new(seed);
    let idle = scheduler.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_park(move || idle.step())
        .build()
        .expect("a runtime without drivers starts");
    let folder = store_folder();
    let file = folder.path().join("nuncio.db");
    std::fs::write(&file, empty_store()).expect("the folder is writable");
    let size = 1 + scheduler.random_below(3);
    let cluster = Arc::new(Cluster::new(seed, file.clone(), scheduler.clone(), size, sabotage));
    let finished = runtime.block_on(async {
        tokio::select! {
            biased;
            () = run(&cluster) => true,
            () = scheduler.given_up() => false,
        }
    });
    // All tasks end here, and with them every use of the store.
    drop(runtime);
    let observer = Arc::clone(&cluster.observer);
    drop(cluster);
    if finished {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
        runtime.block_on(promises::check(&file, &observer)).expect("the store can be read after the run");
    } else {
        observer.violation(5, "the clients did not come to an end");
    }
    let violations = observer.violations();
    let history = scheduler.history();
    if violations.is_empty() {
        Ok(SuccessfulRun { history })
    } else {
        Err(Box::new(FailedRun { seed, violations, history }))
    }
}

/// A folder in memory where the system has one, because a run syncs hundreds of commits.
fn store_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(parent).expect("a temporary folder can be created")
}

/// The file of a store without data. Copying it is faster than creating it for each run.
fn empty_store() -> &'static [u8] {
    static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
    EMPTY.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let file = folder.path().join("nuncio.db");
        drop(SqliteStore::open(&file).expect("a new store opens"));
        std::fs::read(&file).expect("the store was just created")
    })
}

async fn run(cluster: &Arc<Cluster>) {
    for slot in 0..cluster.size() {
        let cluster = Arc::clone(cluster);
        tokio::spawn(async move { cluster.supervise(slot).await });
    }
    tokio::spawn({
        let cluster = Arc::clone(cluster);
        async move { workload::operate(&cluster).await }
    });
    let faults = tokio::spawn({
        let cluster = Arc::clone(cluster);
        async move {
            cluster.cause_faults().await;
            cluster.scheduler.end_faults();
        }
    });
    let executions = (0..cluster.scheduler.random_below(6)).map(|number| {
        let cluster = Arc::clone(cluster);
        tokio::spawn(async move { workload::execute(&cluster, number).await })
    });
    let sessions = (0..=cluster.scheduler.random_below(3)).map(|number| {
        let cluster = Arc::clone(cluster);
        tokio::spawn(async move { workload::converse(&cluster, number).await })
    });
    let lanes = (0..cluster.scheduler.random_below(3)).map(|number| {
        let cluster = Arc::clone(cluster);
        tokio::spawn(async move { workload::fill_lane(&cluster, number).await })
    });
    let clients: Vec<_> = executions.chain(sessions).chain(lanes).collect();
    for ended in join_all(clients).await {
        if let Err(error) = ended {
            cluster.observer.violation(1, format!("a client failed: {error}"));
        }
    }
    let _ = faults.await;
    cluster.scheduler.sleep(SETTLING_TIME).await;
}
