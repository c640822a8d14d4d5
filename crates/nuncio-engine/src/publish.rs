//! Publishing: an agent becomes served, is replaced, or goes away.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use nuncio_core::Code;
use nuncio_core::agent::{Agent, Skill};
use nuncio_core::ids::{AgentName, SkillId, ToolName};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::Engine;
use crate::error::EngineError;
use crate::ports::{Brain, Runner};
use crate::skills::Offered;

/// An agent with what it needs to think and to be held back. A turn keeps the one it began with.
#[derive(Debug)]
pub struct Served {
    /// The agent.
    pub agent: Arc<Agent>,
    pub(crate) brain: Arc<dyn Brain>,
    gates: HashMap<ToolName, Gate>,
    _lease: Lease,
}

/// What holds the calls of a tool back, and what is known of them.
#[derive(Debug)]
struct Gate {
    places: Arc<Semaphore>,
    /// In microseconds; none yet is zero.
    latency: AtomicU64,
}

impl Gate {
    fn new(places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), latency: AtomicU64::new(0) }
    }
}

/// What the runner holds for a served agent. Let go of when the last turn that uses it is over.
#[derive(Debug)]
struct Lease {
    runner: Arc<dyn Runner>,
    agent: Arc<Agent>,
    tasks: TaskTracker,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (runner, agent) = (Arc::clone(&self.runner), Arc::clone(&self.agent));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.tasks.spawn_on(async move { runner.release(&agent).await }, &runtime);
        }
    }
}

impl Served {
    /// The gate that limits how many calls of a tool run at once.
    pub(crate) fn gate(&self, tool: &ToolName) -> Arc<Semaphore> {
        Arc::clone(&self.gates.get(tool).expect("every tool of a served agent has a gate").places)
    }

    /// Whether one more call of a tool could run now.
    pub(crate) fn has_room(&self, tool: &ToolName) -> bool {
        self.gates.get(tool).is_some_and(|gate| gate.places.available_permits() > 0)
    }

    /// Remembers how long a call took.
    pub(crate) fn took(&self, tool: &ToolName, span: Duration) {
        if let Some(gate) = self.gates.get(tool) {
            let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1);
            let before = gate.latency.load(Ordering::Relaxed);
            // The last few count most. Two calls that end at once may count as one; nobody minds.
            let now = if before == 0 { micros } else { before - before / 8 + micros / 8 };
            gate.latency.store(now, Ordering::Relaxed);
        }
    }

    /// How long calls of a tool took lately.
    pub(crate) fn latency(&self, tool: &ToolName) -> Option<Duration> {
        let micros = self.gates.get(tool)?.latency.load(Ordering::Relaxed);
        (micros > 0).then(|| Duration::from_micros(micros))
    }
}

/// The agents served now, and the skills they offer.
#[derive(Debug, Default)]
pub(crate) struct ServedAgents {
    current: RwLock<Current>,
    /// Counts the changes, so that whoever keeps a document of them knows when it is old.
    edition: AtomicU64,
}

#[derive(Debug, Default)]
struct Current {
    agents: BTreeMap<AgentName, Arc<Served>>,
    skills: BTreeMap<SkillId, Arc<Offered>>,
}

impl ServedAgents {
    fn read(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is served, all at once for whoever looks.
    fn change(&self, change: impl FnOnce(&mut Current)) {
        change(&mut self.current.write().unwrap_or_else(PoisonError::into_inner));
        self.edition.fetch_add(1, Ordering::Release);
    }

    fn put(&self, served: &Arc<Served>) {
        self.change(|current| {
            let name = &served.agent.name;
            current.skills.retain(|_, offered| offered.served.agent.name != *name);
            let offered = Offered::all(served).map(|offered| (offered.skill().id.clone(), Arc::new(offered)));
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
        self.change(|current| *current = Current::default());
    }

    pub(crate) fn skill(&self, id: &str) -> Option<Arc<Offered>> {
        self.read().skills.get(id).cloned()
    }

    pub(crate) fn any_skill(&self, is: impl Fn(&Offered) -> bool) -> bool {
        self.read().skills.values().any(|offered| is(offered))
    }

    pub(crate) fn skills(&self) -> Vec<Arc<Offered>> {
        self.read().skills.values().cloned().collect()
    }
}

impl Engine {
    /// Serves an agent, in place of one of the same name. When it cannot be served, nothing changes.
    ///
    /// # Errors
    /// Its brain or one of its backends is not usable.
    pub async fn publish(&self, agent: Agent) -> Result<Arc<Agent>, EngineError> {
        let name = agent.name.clone();
        let unusable = |why: String| EngineError::new(Code::AgentFileInvalid, format!("agent {name}: {why}"));
        let agent = Arc::new(self.runner().resolve(agent).await.map_err(unusable)?);
        let lease = Lease { runner: Arc::clone(self.runner()), agent: Arc::clone(&agent), tasks: self.tasks().tracker().clone() };
        let brain = self.brains().brain(&agent).map_err(unusable)?;
        self.check_skill_ids(&agent)?;
        let limit = self.limits().calls_per_tool;
        let gates = agent.tools.iter().map(|tool| (tool.name.clone(), Gate::new(limit))).collect();
        self.served().put(&Arc::new(Served { agent: Arc::clone(&agent), brain, gates, _lease: lease }));
        Ok(agent)
    }

    /// Skill ids are unique across all agents here.
    fn check_skill_ids(&self, agent: &Agent) -> Result<(), EngineError> {
        for Skill { id, .. } in agent.skills() {
            let taken = self.served().skill(id.as_str()).filter(|other| other.served.agent.name != agent.name);
            if let Some(other) = taken {
                let message = agent.skill_taken(id, &other.served.agent.name);
                return Err(EngineError::new(Code::AgentFileInvalid, message));
            }
        }
        Ok(())
    }

    /// Stops serving an agent. Its sessions stay and can be read.
    pub fn withdraw(&self, name: &AgentName) {
        self.served().remove(name);
    }

    /// The agents served now, by name.
    #[must_use]
    pub fn agents(&self) -> Vec<Arc<Agent>> {
        self.served().read().agents.values().map(|served| Arc::clone(&served.agent)).collect()
    }

    /// A number that changes whenever the agents served here do.
    #[must_use]
    pub fn agents_edition(&self) -> u64 {
        self.served().edition.load(Ordering::Acquire)
    }

    /// The agent of that name, as it is served now.
    ///
    /// # Errors
    /// None is served.
    pub fn agent(&self, name: &str) -> Result<Arc<Served>, EngineError> {
        let found = self.served().read().agents.get(name).cloned();
        found.ok_or_else(|| {
            let names: Vec<_> = self.agents().iter().map(|agent| agent.name.to_string()).collect();
            let message = format!("no agent named {name:?} is served here; there are: {}", names.join(", "));
            EngineError::new(Code::UnknownAgent, message)
        })
    }
}
