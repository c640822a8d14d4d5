//! The simulated nodes: started, crashed, suspended, declared dead and started again.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nuncio_core::ids::Incarnation;
use nuncio_engine::jobs::{JobHandlers, JobLimits};
use nuncio_engine::nodes::StoreSharing;
use nuncio_engine::ports::meter::NoopMeter;
use nuncio_engine::ports::store::JobKind;
use nuncio_engine::secret_cipher::SecretCipher;
use nuncio_engine::sweeps::Sweeps;
use nuncio_engine::{Engine, EngineError, EngineLimits, EnginePorts};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::deliveries::SimulatedReceiver;
use crate::observer::Observer;
use crate::ports::{
    SimulatedBrain, SimulatedBus, SimulatedBusNetwork, SimulatedClock, SimulatedEntropy, SimulatedRunner,
};
use crate::sabotage::StoreSabotage;
use crate::scheduler::Scheduler;
use crate::store::SimulatedStore;

const AGENT: &str = include_str!("agent.toml");

/// A started engine.
#[derive(Clone)]
struct RunningNode {
    number: usize,
    engine: Engine,
    /// Notified when the store lost the outcome of a commit.
    lost: Arc<Notify>,
}

struct ClusterState {
    /// Number of starts so far.
    starts: usize,
    /// The node in each slot; `None` while it is down.
    slots: Vec<Option<RunningNode>>,
    /// Stopped engines. They are kept, because dropping one would let its tasks notice that it ended.
    stopped: Vec<Engine>,
}

pub(crate) struct Cluster {
    pub(crate) scheduler: Scheduler,
    pub(crate) observer: Arc<Observer>,
    seed: u64,
    file: PathBuf,
    network: SimulatedBusNetwork,
    sabotage: Option<StoreSabotage>,
    state: Mutex<ClusterState>,
    /// Notified to crash the node of a slot.
    crashes: Vec<Notify>,
}

impl Cluster {
    pub(crate) fn new(
        seed: u64,
        file: PathBuf,
        scheduler: Scheduler,
        size: usize,
        sabotage: Option<StoreSabotage>,
    ) -> Self {
        Self {
            observer: Arc::new(Observer::new(scheduler.clone())),
            scheduler,
            seed,
            file,
            network: SimulatedBusNetwork::default(),
            sabotage,
            state: Mutex::new(ClusterState { starts: 0, slots: vec![None; size], stopped: Vec::new() }),
            crashes: (0..size).map(|_| Notify::new()).collect(),
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.crashes.len()
    }

    /// The engine of the node at a random place in the cluster; `None` if that node is down.
    pub(crate) fn any_engine(&self) -> Option<Engine> {
        let slot = self.scheduler.random_below(self.size());
        self.engine(slot)
    }

    pub(crate) fn engine(&self, slot: usize) -> Option<Engine> {
        self.lock().slots[slot].as_ref().map(|node| node.engine.clone())
    }

    /// Keeps a node running in a slot: whenever it ends, another one is started.
    pub(crate) async fn supervise(&self, slot: usize) {
        // Earlier nodes of the slot that may not have been declared dead yet.
        let mut ended: Vec<Incarnation> = Vec::new();
        loop {
            let node = self.create_node();
            let joined = self.join(&node, &ended).await;
            if joined.is_ok() {
                ended.clear();
            }
            ended.push(node.engine.nodes().incarnation().clone());
            if let Err(error) = joined {
                self.scheduler.note(format!("node {} did not start: {error}", node.number));
                self.stop(slot, &node);
                self.pause().await;
                continue;
            }
            self.lock().slots[slot] = Some(node.clone());
            tokio::select! {
                biased;
                () = self.crashes[slot].notified() => self.scheduler.note(format!("node {} crashes", node.number)),
                () = node.lost.notified() => self.scheduler.note(format!("node {} lost an outcome", node.number)),
                () = node.engine.until_closing() => self.scheduler.note(format!("node {} ends", node.number)),
            }
            self.stop(slot, &node);
            self.pause().await;
        }
    }

    /// Waits before a node is started again.
    async fn pause(&self) {
        let pause = self.scheduler.random_below(8000) as u64;
        self.scheduler.sleep(Duration::from_millis(pause)).await;
    }

    fn stop(&self, slot: usize, node: &RunningNode) {
        self.scheduler.halt(node.number);
        let mut state = self.lock();
        state.slots[slot] = None;
        state.stopped.push(node.engine.clone());
    }

    fn create_node(&self) -> RunningNode {
        let number = {
            let mut state = self.lock();
            state.starts += 1;
            state.starts
        };
        let lost = Arc::new(Notify::new());
        let scheduler = self.scheduler.clone();
        let store = SimulatedStore::open(
            &self.file,
            &scheduler,
            number,
            Arc::clone(&self.observer),
            Arc::clone(&lost),
            self.sabotage,
        );
        let ports = EnginePorts {
            store: Arc::new(store.expect("the simulated store opens")),
            bus: Arc::new(SimulatedBus { network: self.network.clone(), scheduler: scheduler.clone(), node: number }),
            brains: Arc::new(SimulatedBrain { scheduler: scheduler.clone(), node: number }),
            runner: Arc::new(SimulatedRunner {
                scheduler: scheduler.clone(),
                node: number,
                observer: Arc::clone(&self.observer),
            }),
            clock: Arc::new(SimulatedClock(scheduler)),
            entropy: Arc::new(SimulatedEntropy::new(self.seed.wrapping_mul(1009).wrapping_add(number as u64))),
            cipher: SecretCipher::new(&[7; 32]),
            meter: Arc::new(NoopMeter),
        };
        RunningNode { number, engine: Engine::new(ports, EngineLimits::default(), Vec::new()), lost }
    }

    /// Starts as a server does that finds the work of its earlier starts.
    async fn join(&self, node: &RunningNode, ended: &[Incarnation]) -> Result<(), EngineError> {
        let engine = &node.engine;
        engine.nodes().join("host", "1", StoreSharing::Shared, None).await?;
        for incarnation in ended {
            engine.nodes().declare_dead(incarnation).await?;
        }
        engine.access().load().await?;
        let agent = nuncio_agent_file::parse("agent.toml", AGENT).expect("the agent file is valid").agent;
        engine.agents().publish(agent).await?;
        engine.nodes().adopt_orphans().await?;
        engine.nodes().start();
        let mut handlers = JobHandlers::default();
        let receiver = SimulatedReceiver {
            scheduler: self.scheduler.clone(),
            node: node.number,
            observer: Arc::clone(&self.observer),
            engine: engine.clone(),
        };
        handlers.add(JobKind::Callback, JobLimits::WEB_REQUESTS, receiver.clone());
        handlers.add(JobKind::Delivery, JobLimits::WEB_REQUESTS, receiver);
        Sweeps::new(engine).start(&mut handlers).await?;
        let never = CancellationToken::new;
        tokio::spawn(Arc::clone(engine.jobs()).run(handlers, never(), never()));
        Ok(())
    }

    /// Crashes, suspends and declares dead, a few times.
    pub(crate) async fn cause_faults(&self) {
        for _ in 0..self.scheduler.random_below(6) {
            let pause = self.scheduler.random_below(600) as u64;
            self.scheduler.sleep(Duration::from_millis(pause)).await;
            let slot = self.scheduler.random_below(self.size());
            match self.scheduler.random_below(3) {
                0 => self.crashes[slot].notify_one(),
                1 => self.suspend(slot).await,
                _ => self.declare_dead(slot).await,
            }
        }
    }

    async fn suspend(&self, slot: usize) {
        let Some(number) = self.lock().slots[slot].as_ref().map(|node| node.number) else { return };
        self.scheduler.note(format!("node {number} is suspended"));
        self.scheduler.halt(number);
        let pause = self.scheduler.random_below(20_000) as u64;
        self.scheduler.sleep(Duration::from_millis(pause)).await;
        if self.scheduler.random_below(2) == 0 {
            self.declare_dead(slot).await;
        }
        let runs_still = self.lock().slots[slot].as_ref().is_some_and(|node| node.number == number);
        if runs_still {
            self.scheduler.note(format!("node {number} continues"));
            self.scheduler.resume(number);
        }
    }

    /// Lets another node declare a node dead.
    async fn declare_dead(&self, slot: usize) {
        let judge = (slot + 1) % self.size();
        if let (Some(dead), Some(judge)) = (self.engine(slot), self.engine(judge)) {
            let declaration = async { judge.nodes().declare_dead(dead.nodes().incarnation()).await };
            let _ = self.within(Duration::from_secs(5), declaration).await;
        }
    }

    /// The result of a future, or `None` if that takes longer than the span.
    pub(crate) async fn within<T>(&self, span: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            result = future => Some(result),
            () = self.scheduler.sleep(span) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
