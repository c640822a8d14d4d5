//! An engine that crashes repeatedly at random times, on one database: every accepted execution ends once, and no two
//! attempts at it run at once. A crash loses everything in memory: every task stops at an await point, and writes in
//! progress may or may not reach the disk.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_bus::LocalBus;
use nuncio_core::agent::Agent;
use nuncio_core::audit::{AuditOutcome, AuditRecord};
use nuncio_core::digest::Digest;
use nuncio_core::execution::{Execution, ExecutionState};
use nuncio_core::ids::{AgentName, ExecutionId};
use nuncio_core::principal::Principal;
use nuncio_core::turn::{StopReason, TurnOutcome};
use nuncio_engine::nodes::StoreSharing;
use nuncio_engine::ports::Meter;
use nuncio_engine::ports::brain::{Brain, BrainError, BrainFactory, BrainStepInput, BrainStepStop, BrainWriter};
use nuncio_engine::ports::runner::{AuthorizedToolCall, Runner, ToolOutput, ToolRunError};
use nuncio_engine::ports::store::{AuditStore as _, ExecutionStore as _, NodeStore as _};
use nuncio_engine::secret_cipher::SecretCipher;
use nuncio_engine::tasks::TaskCommand;
use nuncio_engine::{Caller, Engine, EngineLimits, EnginePorts};
use nuncio_server::SystemEntropy;
use nuncio_store::SqliteStore;
use nuncio_testkit::ManualClock;
use proptest::prelude::*;
use serde_json::json;
use tokio::sync::Notify;

use crate::executions::{Invocation, submit_as};

const AGENT: &str = r#"
[agent]
name = "mortal"
version = "1.0.0"
[brain]
kind = "script"

[[tool]]
name = "steady"
description = "Does it."
input = { type = "object" }
run = { command = ["true"] }
timeout_ms = 600000
skill = { type = "task", concurrency = 2 }

[[tool]]
name = "broken"
description = "Fails."
input = { type = "object" }
run = { command = ["false"] }
timeout_ms = 600000
skill = { type = "task" }

[[tool]]
name = "flaky"
description = "Cannot be reached at first."
input = { type = "object" }
run = { command = ["true"] }
timeout_ms = 600000
skill = { type = "task", retry = { max_attempts = 6, backoff_ms = 1 } }

[[tool]]
name = "human"
description = "A person does it."
input = { type = "object" }
run = { human = true }
skill = { type = "task" }
"#;

const TOOLS: [&str; 4] = ["steady", "broken", "flaky", "human"];

#[derive(Debug, Default)]
struct ExecutionRecorder {
    clock: ManualClock,
    running: Mutex<BTreeSet<String>>,
    /// Attempts that ran, by execution.
    runs: Mutex<HashMap<String, Vec<u32>>>,
    overlaps: AtomicUsize,
    told: Mutex<BTreeMap<usize, ExecutionId>>,
    seen_over: Mutex<BTreeMap<ExecutionId, Execution>>,
}

struct AttemptGuard {
    world: Arc<ExecutionRecorder>,
    execution: String,
}

impl AttemptGuard {
    fn begin(world: &Arc<ExecutionRecorder>, execution: &str, attempt: u32) -> Self {
        if !world.running.lock().unwrap().insert(execution.to_owned()) {
            world.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        world.runs.lock().unwrap().entry(execution.to_owned()).or_default().push(attempt);
        Self { world: Arc::clone(world), execution: execution.to_owned() }
    }
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        self.world.running.lock().unwrap().remove(&self.execution);
    }
}

/// Runner that records the attempts at each execution.
#[derive(Debug)]
struct CountingRunner(Arc<ExecutionRecorder>);

#[async_trait]
impl Runner for CountingRunner {
    async fn run(&self, call: AuthorizedToolCall) -> Result<ToolOutput, ToolRunError> {
        if let Some(inbox) = &call.inbox {
            return inbox.run_by_person(&call, "Do it.".to_owned()).await;
        }
        let attempt: u32 = call.trace["attempt"].parse().unwrap();
        let _run = AttemptGuard::begin(&self.0, &call.trace["execution_id"], attempt);
        call.program_start.report();
        for _ in 0..Digest::of_bytes(call.id.as_str().as_bytes()).to_string().len() / 2 {
            tokio::task::yield_now().await;
        }
        match call.tool.name.as_str() {
            "broken" => Err(ToolRunError::Failed("it broke".to_owned())),
            "flaky" if attempt < 3 => Err(ToolRunError::Unavailable("nobody there".to_owned())),
            _ => Ok(ToolOutput::json(json!({"attempt": attempt}))),
        }
    }

    async fn resolve(&self, agent: Agent) -> Result<Agent, String> {
        Ok(agent)
    }

    async fn release(&self, _agent: &Agent) {}
}

#[derive(Debug)]
struct SilentBrain;

#[async_trait]
impl Brain for SilentBrain {
    async fn think(&self, _prompt: BrainStepInput, _voice: &mut BrainWriter) -> Result<BrainStepStop, BrainError> {
        Ok(BrainStepStop::ended(StopReason::EndTurn))
    }
}

impl BrainFactory for SilentBrain {
    fn brain(&self, _agent: &Arc<Agent>) -> Result<Arc<dyn Brain>, String> {
        Ok(Arc::new(Self))
    }
}

/// How one run of the engine ends.
#[derive(Debug, Clone, Copy)]
enum EngineStop {
    /// The engine is dropped after this many scheduling steps.
    Sudden(usize),
    Untold(usize),
}

/// Counts commits, and stops the store's writer at the last one.
#[derive(Debug)]
struct WriterStopper {
    last: usize,
    commits: AtomicUsize,
    come: Notify,
    dead: Mutex<bool>,
    buried: Condvar,
}

impl WriterStopper {
    fn new(last: usize) -> Arc<Self> {
        let (commits, dead) = (AtomicUsize::new(0), Mutex::new(false));
        Arc::new(Self { last, commits, come: Notify::new(), dead, buried: Condvar::new() })
    }

    fn bury(&self) {
        *self.dead.lock().unwrap() = true;
        self.buried.notify_all();
    }
}

impl Meter for WriterStopper {
    fn committed(&self, _callers: usize, _took: Duration) {
        if self.commits.fetch_add(1, Ordering::Relaxed) + 1 == self.last {
            self.come.notify_one();
            drop(self.buried.wait_while(self.dead.lock().unwrap(), |dead| !*dead).unwrap());
        }
    }

    fn turn_began(&self, _agent: &AgentName) {}
    fn turn_ended(&self, _agent: &AgentName, _stop: &TurnOutcome, _took: Duration) {}
    fn call_ended(&self, _record: &AuditRecord, _declared: bool) {}
    fn execution_ended(&self, _execution: &Execution) {}
    fn stream_opened(&self) {}
    fn stream_closed(&self) {}
}

fn anyone() -> Caller {
    Caller::new(Principal::Anonymous)
}

fn invocation(number: usize, tool: usize) -> Invocation {
    Invocation::new(format!("mortal/{}", TOOLS[tool]), json!({})).with_key(&number.to_string(), "")
}

#[derive(Debug, Clone)]
struct EngineRun {
    wishes: Vec<usize>,
    cancels: Vec<(usize, usize)>,
    work: usize,
    death: EngineStop,
}

fn lives() -> impl Strategy<Value = Vec<EngineRun>> {
    let wishes = prop::collection::vec(0..TOOLS.len(), 0..6);
    let cancels = prop::collection::vec((any::<usize>(), 0_usize..400), 0..3);
    let death = prop_oneof![
        1 => (0_usize..1500).prop_map(EngineStop::Sudden),
        3 => (1_usize..30).prop_map(EngineStop::Untold),
    ];
    let life = (wishes, cancels, 0_usize..300, death);
    let life = life.prop_map(|(wishes, cancels, work, death)| EngineRun { wishes, cancels, work, death });
    prop::collection::vec(life, 1..7)
}

/// Yields `count` times to the other tasks, and advances the clock a little.
async fn moments(world: &ExecutionRecorder, count: usize) {
    for moment in 0..count {
        if moment % 20 == 0 {
            world.clock.advance(Duration::from_millis(1));
        }
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}

async fn born(world: &Arc<ExecutionRecorder>, file: &Path, reaper: &Arc<WriterStopper>) -> Engine {
    let ports = EnginePorts {
        store: Arc::new(SqliteStore::open_counted(file, Arc::clone(reaper) as _).unwrap()),
        bus: Arc::new(LocalBus::default()),
        brains: Arc::new(SilentBrain),
        runner: Arc::new(CountingRunner(Arc::clone(world))),
        clock: Arc::new(world.clock.clone()),
        entropy: Arc::new(SystemEntropy),
        cipher: SecretCipher::new(&[7; 32]),
        meter: Arc::clone(reaper) as _,
    };
    let engine = Engine::new(ports, EngineLimits::default(), Vec::new());
    engine.nodes().join("host", "1", StoreSharing::Exclusive, None).await.unwrap();
    engine.access().load().await.unwrap();
    let agent = nuncio_agent_file::parse("agent.toml", AGENT).unwrap().agent;
    engine.agents().publish(agent).await.unwrap();
    engine.nodes().adopt_orphans().await.unwrap();
    engine.nodes().start();
    engine
}

async fn ask(world: Arc<ExecutionRecorder>, engine: Engine, number: usize, tool: usize) {
    let told = submit_as(&engine, &anyone(), invocation(number, tool)).await.unwrap().execution.id;
    let before = world.told.lock().unwrap().insert(number, told.clone());
    assert!(before.is_none_or(|before| before == told), "one key made two executions");
}

async fn look(world: &ExecutionRecorder, engine: &Engine) -> usize {
    let told: Vec<_> = world.told.lock().unwrap().values().cloned().collect();
    let mut open = 0;
    for id in told {
        let found =
            engine.executions().execution(&anyone(), id.as_str()).await.expect("an accepted execution is stored");
        if found.state.is_over() {
            let before = world.seen_over.lock().unwrap().insert(id, found.clone());
            assert!(before.is_none_or(|before| before == found), "an ended execution has changed: {found:?}");
        } else {
            open += 1;
        }
    }
    open
}

async fn work(engine: &Engine) {
    let tasks = engine.inbox().open_tasks().await.unwrap();
    let asked_for: BTreeSet<_> = tasks.iter().map(|task| &task.execution).collect();
    assert_eq!(asked_for.len(), tasks.len(), "an execution created two tasks");
    for task in &tasks {
        // The execution may have been cancelled meanwhile.
        let _ = engine.inbox().step_task(&task.id, TaskCommand::Finish(json!("done")), "ada").await;
    }
}

/// Runs an engine until it crashes.
async fn live(world: &Arc<ExecutionRecorder>, file: &Path, life: &EngineRun, asked: &[usize]) {
    let reaper = match life.death {
        EngineStop::Sudden(_) => WriterStopper::new(usize::MAX),
        EngineStop::Untold(commit) => WriterStopper::new(commit),
    };
    let lived = async {
        let engine = born(world, file, &reaper).await;
        let new = asked.len() - life.wishes.len();
        for (number, tool) in asked.iter().enumerate().skip(new) {
            tokio::spawn(ask(Arc::clone(world), engine.clone(), number, *tool));
        }
        for (which, after) in life.cancels.iter().copied() {
            let (world, engine) = (Arc::clone(world), engine.clone());
            tokio::spawn(async move {
                moments(&world, after).await;
                let told: Vec<_> = world.told.lock().unwrap().values().cloned().collect();
                if !told.is_empty() {
                    let id = &told[which % told.len()];
                    engine.executions().cancel_execution(&anyone(), id.as_str()).await.unwrap();
                }
            });
        }
        loop {
            moments(world, life.work).await;
            work(&engine).await;
            look(world, &engine).await;
        }
    };
    let death = async {
        match life.death {
            EngineStop::Sudden(count) => moments(world, count).await,
            // A run that never reaches that commit is ended too.
            EngineStop::Untold(_) => tokio::select! {
                () = reaper.come.notified() => {}
                () = moments(world, 5000) => {}
            },
        }
        // No task of this engine runs any more; the store is closed when it is dropped.
        reaper.bury();
    };
    tokio::select! {
        () = lived => {}
        () = death => {}
    }
}

/// The last run, which lasts until every execution has ended.
async fn outlive(world: &Arc<ExecutionRecorder>, file: &Path, asked: &[usize]) {
    let engine = born(world, file, &WriterStopper::new(usize::MAX)).await;
    for (number, tool) in asked.iter().enumerate() {
        ask(Arc::clone(world), engine.clone(), number, *tool).await;
    }
    for turn in 0.. {
        work(&engine).await;
        moments(world, 100).await;
        if look(world, &engine).await == 0 && engine.load().open_executions == 0 {
            break;
        }
        assert!(turn < 10_000, "an execution never ends");
    }
    assert_eq!(engine.inbox().open_tasks().await.unwrap(), [], "an ended execution leaves no open task");
    engine.shut_down(Duration::ZERO).await;
}

async fn check(world: &ExecutionRecorder, file: &Path, asked: usize) {
    let store = SqliteStore::open(file).unwrap();
    assert_eq!(store.orphaned_owners().await.unwrap(), [], "no execution and no call is open");
    let mut records: HashMap<String, Vec<AuditRecord>> = HashMap::new();
    for stored in store.audit_links(0, usize::MAX).await.unwrap() {
        let record: AuditRecord = serde_json::from_str(&stored.link.record).unwrap();
        records.entry(record.call.to_string()).or_default().push(record);
    }
    let told = world.told.lock().unwrap().clone();
    assert_eq!(told.values().collect::<BTreeSet<_>>().len(), asked, "each key has one execution");
    let runs = world.runs.lock().unwrap().clone();
    for id in told.values() {
        let execution = store.execution(id).await.unwrap().unwrap();
        assert_eq!(world.seen_over.lock().unwrap()[id], execution);
        let ran = runs.get(id.as_str()).cloned().unwrap_or_default();
        let distinct: BTreeSet<_> = ran.iter().collect();
        assert_eq!(distinct.len(), ran.len(), "an attempt ran twice: {ran:?}");
        assert!(ran.iter().all(|attempt| (1..=execution.attempt).contains(attempt)), "{ran:?} of {execution:?}");
        let mut completed = 0;
        for attempt in 1..=execution.attempt {
            let of_attempt = &records[&format!("{id}.{attempt}")];
            assert_eq!(of_attempt.len(), 1, "one record an attempt: {of_attempt:?}");
            completed += usize::from(of_attempt[0].outcome == AuditOutcome::Completed);
        }
        assert_eq!(
            completed,
            usize::from(matches!(execution.state, ExecutionState::Completed { .. })),
            "{execution:?}"
        );
        if let (ExecutionState::Completed { output }, "flaky" | "steady") =
            (&execution.state, execution.order.skill.as_str().trim_start_matches("mortal/"))
        {
            assert_eq!(output["attempt"], execution.attempt, "the output comes from the last attempt");
            assert_eq!(ran.last(), Some(&execution.attempt));
        }
    }
    assert!(runs.keys().all(|id| told.values().any(|told| told.as_str() == id)), "only accepted executions ran");
    assert_eq!(world.overlaps.load(Ordering::Relaxed), 0, "two attempts at one execution ran at once");
}

fn in_one_life<F: Future<Output = ()>>(life: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(life);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_accepted_execution_reaches_one_final_state_despite_random_crashes(lives in lives()) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nuncio.db");
        let world = Arc::new(ExecutionRecorder::default());
        let mut asked = Vec::new();
        for life in &lives {
            asked.extend(&life.wishes);
            in_one_life(live(&world, &file, life, &asked));
            prop_assert!(world.running.lock().unwrap().is_empty(), "something survived");
        }
        in_one_life(outlive(&world, &file, &asked));
        in_one_life(check(&world, &file, asked.len()));
    }
}
