//! Publication of agents: serve, replace, withdraw.

use crate::context::EngineContext;
use crate::ports::brain::BrainFactory;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::agent::{Agent, Skill};
use nuncio_core::ids::{AgentName, SkillId, ToolName};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::error::EngineError;
use crate::ports::{Brain, Runner};

mod published_skill;

pub use published_skill::PublishedSkill;

/// A published agent with its brain and tool limits. A running turn keeps the one it began with.
#[derive(Debug)]
pub struct PublishedAgent {
    pub agent: Arc<Agent>,
    pub(crate) brain: Arc<dyn Brain>,
    gates: HashMap<ToolName, ToolConcurrencyLimit>,
    _lease: RunnerLease,
}

/// Concurrency limit and recent latency of a tool.
#[derive(Debug)]
struct ToolConcurrencyLimit {
    places: Arc<Semaphore>,
    /// Moving average of the duration of the tool's successful calls, in microseconds; zero before the first.
    latency: AtomicU64,
}

impl ToolConcurrencyLimit {
    fn new(places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), latency: AtomicU64::new(0) }
    }
}

/// Runner resources of a published agent, released when the last turn that uses it is over.
#[derive(Debug)]
struct RunnerLease {
    runner: Arc<dyn Runner>,
    agent: Arc<Agent>,
    tasks: TaskTracker,
}

impl Drop for RunnerLease {
    fn drop(&mut self) {
        let (runner, agent) = (Arc::clone(&self.runner), Arc::clone(&self.agent));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.tasks.spawn_on(async move { runner.release(&agent).await }, &runtime);
        }
    }
}

impl PublishedAgent {
    /// Semaphore for the concurrent calls of a tool.
    pub(crate) fn gate(&self, tool: &ToolName) -> Arc<Semaphore> {
        Arc::clone(&self.gates.get(tool).expect("every tool of a served agent has a gate").places)
    }

    pub(crate) fn has_room(&self, tool: &ToolName) -> bool {
        self.gates.get(tool).is_some_and(|gate| gate.places.available_permits() > 0)
    }

    /// Updates the moving average of a tool's latency.
    pub(crate) fn record_latency(&self, tool: &ToolName, span: Duration) {
        if let Some(gate) = self.gates.get(tool) {
            let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1);
            let before = gate.latency.load(Ordering::Relaxed);
            // Moving average. Two calls that end at once may count as one.
            let now = if before == 0 { micros } else { before - before / 8 + micros / 8 };
            gate.latency.store(now, Ordering::Relaxed);
        }
    }

    pub(crate) fn latency(&self, tool: &ToolName) -> Option<Duration> {
        let micros = self.gates.get(tool)?.latency.load(Ordering::Relaxed);
        (micros > 0).then(|| Duration::from_micros(micros))
    }
}

#[derive(Debug, Default)]
pub(crate) struct PublishedAgents {
    current: RwLock<PublishedSnapshot>,
    /// Incremented by every change, so that cached documents can be invalidated.
    edition: AtomicU64,
}

#[derive(Debug, Default)]
struct PublishedSnapshot {
    agents: BTreeMap<AgentName, Arc<PublishedAgent>>,
    skills: BTreeMap<SkillId, Arc<PublishedSkill>>,
}

impl PublishedAgents {
    fn read(&self) -> RwLockReadGuard<'_, PublishedSnapshot> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes agents and skills atomically for readers.
    fn change(&self, change: impl FnOnce(&mut PublishedSnapshot)) {
        change(&mut self.current.write().unwrap_or_else(PoisonError::into_inner));
        self.edition.fetch_add(1, Ordering::Release);
    }

    fn put(&self, served: &Arc<PublishedAgent>) {
        self.change(|current| {
            let name = &served.agent.name;
            current.skills.retain(|_, offered| offered.served.agent.name != *name);
            let offered = PublishedSkill::all(served).map(|offered| (offered.skill().id.clone(), Arc::new(offered)));
            current.skills.extend(offered);
            current.agents.insert(name.clone(), Arc::clone(served));
        });
    }

    fn remove(&self, name: &AgentName) {
        self.change(|current| {
            current.skills.retain(|_, offered| offered.served.agent.name != *name);
            current.agents.remove(name);
        });
    }

    pub(crate) fn clear(&self) {
        self.change(|current| *current = PublishedSnapshot::default());
    }

    pub(crate) fn skill(&self, id: &str) -> Option<Arc<PublishedSkill>> {
        self.read().skills.get(id).cloned()
    }

    pub(crate) fn any_skill(&self, is: impl Fn(&PublishedSkill) -> bool) -> bool {
        self.read().skills.values().any(|offered| is(offered))
    }

    pub(crate) fn skills(&self) -> Vec<Arc<PublishedSkill>> {
        self.read().skills.values().cloned().collect()
    }
}

/// Service for the agents that are served now.
pub struct AgentService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) brains: Arc<dyn BrainFactory>,
    pub(crate) published: PublishedAgents,
}

impl AgentService {
    /// Publishes an agent, replacing one of the same name. On failure nothing changes.
    pub async fn publish(&self, agent: Agent) -> Result<Arc<Agent>, EngineError> {
        let name = agent.name.clone();
        let unusable = |why: String| EngineError::new(ErrorCode::AgentFileInvalid, format!("agent {name}: {why}"));
        let agent = Arc::new(self.runner.resolve(agent).await.map_err(unusable)?);
        let lease = RunnerLease {
            runner: Arc::clone(&self.runner),
            agent: Arc::clone(&agent),
            tasks: self.context.tasks.tracker.clone(),
        };
        let brain = self.brains.brain(&agent).map_err(unusable)?;
        self.check_skill_ids(&agent)?;
        let limit = self.context.limits.calls_per_tool;
        let gates = agent.tools.iter().map(|tool| (tool.name.clone(), ToolConcurrencyLimit::new(limit))).collect();
        self.published.put(&Arc::new(PublishedAgent { agent: Arc::clone(&agent), brain, gates, _lease: lease }));
        Ok(agent)
    }

    /// Checks that no other agent has a skill with the same id.
    fn check_skill_ids(&self, agent: &Agent) -> Result<(), EngineError> {
        for Skill { id, .. } in agent.skills() {
            let taken = self.published.skill(id.as_str()).filter(|other| other.served.agent.name != agent.name);
            if let Some(other) = taken {
                let message = agent.skill_taken(id, &other.served.agent.name);
                return Err(EngineError::new(ErrorCode::AgentFileInvalid, message));
            }
        }
        Ok(())
    }

    /// Withdraws an agent. Its sessions stay readable.
    pub fn withdraw(&self, name: &AgentName) {
        self.published.remove(name);
    }

    #[must_use]
    pub fn list(&self) -> Vec<Arc<Agent>> {
        self.published.read().agents.values().map(|served| Arc::clone(&served.agent)).collect()
    }

    /// Number that changes whenever an agent is published or withdrawn.
    #[must_use]
    pub fn agents_edition(&self) -> u64 {
        self.published.edition.load(Ordering::Acquire)
    }

    pub fn agent(&self, name: &str) -> Result<Arc<PublishedAgent>, EngineError> {
        let found = self.published.read().agents.get(name).cloned();
        found.ok_or_else(|| {
            let names: Vec<_> = self.list().iter().map(|agent| agent.name.to_string()).collect();
            let message = format!("no agent named {name:?} is served here; there are: {}", names.join(", "));
            EngineError::new(ErrorCode::UnknownAgent, message)
        })
    }
}
