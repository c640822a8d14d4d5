//! The other ports of a simulated node: clock, randomness, bus, brain and tools.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use nuncio_core::agent::Agent;
use nuncio_core::ids::ToolName;
use nuncio_core::message::Message;
use nuncio_core::time::Timestamp;
use nuncio_core::turn::StopReason;
use nuncio_engine::ports::brain::{Brain, BrainError, BrainFactory, BrainStepInput, BrainStepStop, BrainWriter};
use nuncio_engine::ports::bus::{Bus, BusNotice};
use nuncio_engine::ports::runner::{AuthorizedToolCall, Runner, ToolOutput, ToolRunError};
use nuncio_engine::ports::{Clock, Entropy};
use serde_json::{Map, json};
use tokio::sync::mpsc;

use crate::observer::Observer;
use crate::random::SeededRandom;
use crate::scheduler::{PortCallFate, PossiblePortFaults, Scheduler};

#[derive(Debug)]
pub(crate) struct SimulatedClock(pub(crate) Scheduler);

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep_until(&self, moment: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(self.0.sleep_until(moment))
    }
}

#[derive(Debug)]
pub(crate) struct SimulatedEntropy(Mutex<SeededRandom>);

impl SimulatedEntropy {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(SeededRandom::new(seed)))
    }
}

impl Entropy for SimulatedEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut random = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in bytes {
            *byte = random.next().to_le_bytes()[0];
        }
    }
}

type BusNoticeSender = mpsc::UnboundedSender<BusNotice>;

/// Listeners of all nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimulatedBusNetwork(Arc<Mutex<Vec<BusNoticeSender>>>);

/// The bus of one node. Each listener gets each notice late, twice or not at all.
#[derive(Debug)]
pub(crate) struct SimulatedBus {
    pub(crate) network: SimulatedBusNetwork,
    pub(crate) scheduler: Scheduler,
    pub(crate) node: usize,
}

#[async_trait]
impl Bus for SimulatedBus {
    async fn publish(&self, notice: BusNotice) {
        let mut listeners = self.network.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.send(notice.clone()).is_ok());
    }

    fn subscribe(&self) -> BoxStream<'static, BusNotice> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.network.0.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        let (scheduler, node) = (self.scheduler.clone(), self.node);
        let notices = stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
        notices
            .flat_map(move |notice| {
                let scheduler = scheduler.clone();
                let label = format!("receives {notice:?}");
                stream::once(async move {
                    let copies = match scheduler.call(node, label, PossiblePortFaults::BeforeOrAfter).await {
                        PortCallFate::Succeeds => 1,
                        PortCallFate::FailsBefore => 0,
                        PortCallFate::FailsAfter => 2,
                    };
                    stream::iter(vec![notice; copies])
                })
                .flatten()
            })
            .boxed()
    }
}

/// A brain that calls the tool that the user's message names and then ends the turn.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedBrain {
    pub(crate) scheduler: Scheduler,
    pub(crate) node: usize,
}

#[async_trait]
impl Brain for SimulatedBrain {
    async fn think(&self, prompt: BrainStepInput, writer: &mut BrainWriter) -> Result<BrainStepStop, BrainError> {
        self.scheduler.call(self.node, "thinks".to_owned(), PossiblePortFaults::None).await;
        match prompt.history.last() {
            Some(Message::User { content, .. }) => {
                let words = content.text();
                let tool = words.split_whitespace().next().unwrap_or_default();
                match ToolName::parse(tool) {
                    Ok(name) if prompt.tools.iter().any(|offered| offered.name == name) => {
                        writer.call(None, name, Map::new());
                    }
                    _ => writer.text("There is nothing to do.").await?,
                }
            }
            _ => writer.text("It is done.").await?,
        }
        Ok(BrainStepStop::ended(StopReason::EndTurn))
    }
}

impl BrainFactory for SimulatedBrain {
    fn brain(&self, _agent: &Arc<Agent>) -> Result<Arc<dyn Brain>, String> {
        Ok(Arc::new(self.clone()))
    }
}

/// Tools that count how often they ran.
pub(crate) struct SimulatedRunner {
    pub(crate) scheduler: Scheduler,
    pub(crate) node: usize,
    pub(crate) observer: Arc<Observer>,
}

impl fmt::Debug for SimulatedRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedRunner").field("node", &self.node).finish_non_exhaustive()
    }
}

#[async_trait]
impl Runner for SimulatedRunner {
    async fn run(&self, call: AuthorizedToolCall) -> Result<ToolOutput, ToolRunError> {
        if let Some(inbox) = &call.inbox {
            return inbox.run_by_person(&call, "Do it.".to_owned()).await;
        }
        let attempt = call.trace.get("attempt").cloned().unwrap_or_default();
        let run = match call.trace.get("execution_id") {
            Some(execution) => format!("{execution}.{attempt}"),
            None => format!("{} {}", call.source.conversation.as_deref().unwrap_or_default(), call.id),
        };
        self.scheduler.call(self.node, format!("starts {} for {run}", call.tool.name), PossiblePortFaults::None).await;
        self.observer.ran(&run);
        call.program_start.report();
        self.scheduler.call(self.node, format!("ends {} for {run}", call.tool.name), PossiblePortFaults::None).await;
        match call.tool.name.as_str() {
            "broken" => Err(ToolRunError::Failed("it broke".to_owned())),
            "flaky" if attempt.parse::<u32>().is_ok_and(|attempt| attempt < 3) => {
                Err(ToolRunError::Unavailable("not available yet".to_owned()))
            }
            _ => Ok(ToolOutput::json(json!({ "run": run }))),
        }
    }

    async fn resolve(&self, agent: Agent) -> Result<Agent, String> {
        Ok(agent)
    }

    async fn release(&self, _agent: &Agent) {}
}
