//! Publishing: an agent becomes served, is replaced, or goes away.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use nuncio_core::Code;
use nuncio_core::agent::Agent;
use nuncio_core::ids::{AgentName, ToolName};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::Engine;
use crate::error::EngineError;
use crate::ports::{Brain, Runner};

/// An agent with what it needs to think and to be held back. A turn keeps the one it began with.
#[derive(Debug)]
pub struct Served {
    /// The agent.
    pub agent: Arc<Agent>,
    pub(crate) brain: Arc<dyn Brain>,
    gates: HashMap<ToolName, Arc<Semaphore>>,
    _lease: Lease,
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
        Arc::clone(self.gates.get(tool).expect("every tool of a served agent has a gate"))
    }
}

/// The agents served now.
#[derive(Debug, Default)]
pub(crate) struct ServedAgents {
    by_name: RwLock<BTreeMap<AgentName, Arc<Served>>>,
    /// Counts the changes, so that whoever keeps a document of them knows when it is old.
    edition: AtomicU64,
}

impl ServedAgents {
    fn all(&self) -> Vec<Arc<Served>> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn find(&self, name: &str) -> Option<Arc<Served>> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn put(&self, served: Arc<Served>) {
        let name = served.agent.name.clone();
        self.by_name.write().unwrap_or_else(PoisonError::into_inner).insert(name, served);
        self.edition.fetch_add(1, Ordering::Release);
    }

    fn remove(&self, name: &AgentName) {
        self.by_name.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.edition.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn clear(&self) {
        self.by_name.write().unwrap_or_else(PoisonError::into_inner).clear();
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
        let lease = Lease { runner: Arc::clone(self.runner()), agent: Arc::clone(&agent), tasks: self.tasks().clone() };
        let brain = self.brains().brain(&agent).map_err(unusable)?;
        let limit = self.limits().calls_per_tool;
        let gates = agent.tools.iter().map(|tool| (tool.name.clone(), Arc::new(Semaphore::new(limit)))).collect();
        self.served().put(Arc::new(Served { agent: Arc::clone(&agent), brain, gates, _lease: lease }));
        Ok(agent)
    }

    /// Stops serving an agent. Its sessions stay and can be read.
    pub fn withdraw(&self, name: &AgentName) {
        self.served().remove(name);
    }

    /// The agents served now, by name.
    #[must_use]
    pub fn agents(&self) -> Vec<Arc<Agent>> {
        self.served().all().into_iter().map(|served| Arc::clone(&served.agent)).collect()
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
        self.served().find(name).ok_or_else(|| {
            let names: Vec<_> = self.agents().iter().map(|agent| agent.name.to_string()).collect();
            let message = format!("no agent named {name:?} is served here; there are: {}", names.join(", "));
            EngineError::new(Code::UnknownAgent, message)
        })
    }
}
