//! Brain that is an agent on another AAP server.
//!
//! A step that begins with a user message creates a remote session with the history and runs one turn in it. Local
//! tools are offered as client tools; calls of them become local calls and pass the local call chain. The remote
//! agent's own tools are enabled without trust: before it runs one, the local client is asked, and the answer is
//! forwarded. For this the remote session stays open between the step that asks and the step that answers
//! ([`remote_turn`]); everything else comes from the history.
//!
//! Reasons: `docs/decisions/0005-aap-brain.md`.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use nuncio_aap::client::{
    AapConversation, AgentConfig, AgentInfo, ApiKey, Client, ClientError, NewSession, ToolSpec, TurnEnd, TurnUpdate,
};
use nuncio_core::agent::{AapBrainSpec, Agent};
use nuncio_core::backoff::Backoff;
use nuncio_core::ids::{CallId, ToolName};
use nuncio_core::message::{Content, Message};
use nuncio_core::session::{AwaitedAnswer, EnabledTool};
use nuncio_core::turn::{CallAnswer, StopReason, TurnInput};
use nuncio_engine::ports::brain::{Brain, BrainError, BrainStepInput, BrainStepStop, BrainWriter};

use crate::runners::RunnerAndBrainServices;
use crate::runners::secrets;
use crate::within;
use remote_turn::{RemoteSessionGuard, RemoteTurn, WaitingRemoteTurns};

mod remote_turn;

/// Number of attempts to reach the other AAP server. Requests are repeated only before a turn has begun.
const MAX_ATTEMPTS: u32 = 3;
/// Delays before the second and third attempt to reach the other AAP server.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(300), Duration::from_secs(60));
/// User message that starts a remote turn when the local history does not end with a user message.
const GO_ON: &str = "(Continue with the tool results above.)";
/// Result of a tool call whose permission arrived after the remote session ended.
const LOST_CALL_RESULT: &str = "Tool call not run: the agent that requested it is no longer waiting";

/// Brain of agents with `kind = "aap"`.
#[derive(Debug)]
pub struct AapBrain {
    spec: AapBrainSpec,
    services: Arc<RunnerAndBrainServices>,
    waiting: WaitingRemoteTurns,
}

impl AapBrain {
    pub(crate) fn new(spec: &AapBrainSpec, services: Arc<RunnerAndBrainServices>) -> Self {
        let waiting = WaitingRemoteTurns::new(Arc::clone(&services.clock));
        Self { spec: spec.clone(), services, waiting }
    }

    /// Says which agent the other server has, for `nuncio lint --connect`; an error if conversations would fail.
    pub(crate) async fn check_server(&self, agent: &Agent, limit: Duration) -> Result<String, String> {
        let client = self.client(agent).await?;
        let found = within(&*self.services.clock, limit, self.agent(&client)).await;
        let found = found.unwrap_or_else(|| Err(format!("did not answer within {limit:?}")))?;
        Ok(format!("has the agent {:?}", found.name))
    }

    async fn client(&self, agent: &Agent) -> Result<Client, String> {
        let key = match &self.spec.key {
            Some(name) => {
                let base_dir = self.services.programs.base_dir(&agent.name);
                let key = secrets::read_one(agent, &base_dir, name).await?;
                Some(ApiKey::parse(&key).ok_or_else(|| format!("the secret `{name}` cannot be sent as a key"))?)
            }
            None => None,
        };
        Ok(Client::new(self.spec.url.clone(), key, self.services.http.clone()))
    }

    /// Finds the remote agent: the agent that the local agent file names, or the remote server's first agent.
    async fn agent(&self, client: &Client) -> Result<AgentInfo, String> {
        let meta = self.with_retries(|| client.meta()).await?;
        match &self.spec.agent {
            Some(name) => meta.agent(name.as_str()).cloned().ok_or_else(|| format!("it has no agent `{name}`")),
            None => meta.agents.first().cloned().ok_or_else(|| "it has no agents".to_owned()),
        }
    }

    /// Creates a remote session with the history; returns the session with the input of the next turn.
    async fn begin(&self, prompt: &BrainStepInput) -> Result<(AapConversation, TurnInput), String> {
        let client = self.client(&prompt.agent).await?;
        let agent = self.agent(&client).await?;
        let (said, input) = match prompt.history.split_last() {
            Some((last @ Message::User { .. }, said)) => (said, last.clone()),
            _ => (&prompt.history[..], Message::user(GO_ON)),
        };
        let tools = if agent.capabilities.application_tools { offered(prompt) } else { Vec::new() };
        let config = AgentConfig {
            name: agent.name.clone(),
            tools: Some(own_tools(&agent, &tools)),
            options: options(&agent, prompt),
        };
        let new = NewSession { agent: config, messages: said.to_vec(), tools };
        let begin = || AapConversation::begin(client.clone(), agent.clone(), new.clone());
        Ok((self.with_retries(begin).await?, TurnInput::User(input)))
    }

    /// Takes the remote session that waits for answers, with the answers from the history; `None` if there is none.
    fn resume_remote(&self, prompt: &BrainStepInput, writer: &BrainWriter) -> Option<(RemoteTurn, TurnInput)> {
        let (remote_turn, answers) =
            self.waiting.take(writer.session())?.answered(&prompt.history, writer.answers())?;
        Some((remote_turn, TurnInput::Answers(answers)))
    }

    /// Repeats a request while the other server is busy or unreachable, up to [`MAX_ATTEMPTS`] times.
    async fn with_retries<T, F>(&self, ask: impl Fn() -> F) -> Result<T, String>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        for attempt in 1..MAX_ATTEMPTS {
            match ask().await {
                Err(ClientError::Unreachable(_) | ClientError::Refused { status: 429 | 502..=504, .. }) => {}
                asked => return asked.map_err(|error| error.to_string()),
            }
            self.services.clock.sleep_until(self.services.clock.now().after(BACKOFF.after(attempt))).await;
        }
        ask().await.map_err(|error| error.to_string())
    }

    /// Runs the remote turn and forwards its output to `writer`.
    async fn relay(
        &self,
        mut remote_turn: RemoteTurn,
        input: TurnInput,
        writer: &mut BrainWriter,
    ) -> Result<BrainStepStop, BrainError> {
        let guard = RemoteSessionGuard::over(&remote_turn.conversation);
        let mut exchange = remote_turn.conversation.send(input);
        let mut ended = None;
        while let Some(update) = exchange.next().await {
            match update.map_err(|error| self.failed(&error.to_string()))? {
                TurnUpdate::Text(piece) => writer.text(&piece).await?,
                TurnUpdate::Thinking(piece) => writer.thinking(&piece).await?,
                // Only results of calls that the local client allowed are forwarded; tools that run without permission
                // are internal to the remote agent.
                TurnUpdate::Result { call, content } => {
                    if let Some(ours) = remote_turn.asked.remove(&call) {
                        writer.result(ours, content)?;
                    }
                }
                TurnUpdate::Started | TurnUpdate::Call(_) | TurnUpdate::Interrupted | TurnUpdate::Unknown { .. } => {}
                TurnUpdate::Ended(end) => ended = Some(end),
            }
        }
        let Some(TurnEnd { stop, pending, .. }) = ended else {
            return Err(self.failed("it did not end"));
        };
        if stop.reason == StopReason::Error || stop.cancelled {
            let why = stop.error.map_or_else(|| "it gave no reason".to_owned(), |error| error.message);
            return Err(self.failed(&why));
        }
        let thought = BrainStepStop { stop: stop.reason, usage: stop.usage };
        remote_turn.calls.clear();
        for waiting in pending {
            let call = waiting.call;
            remote_turn.calls.push(call.clone());
            match waiting.awaits {
                AwaitedAnswer::Result => writer.call(Some(call.id), call.name, call.input),
                AwaitedAnswer::Permission => writer.ask(Some(call.id), call.name, call.input),
            }
        }
        if remote_turn.calls.is_empty() {
            // Dropping the guard deletes the remote session.
            return Ok(thought);
        }
        guard.keep_session();
        self.waiting.keep(writer.session().clone(), remote_turn);
        Ok(thought)
    }

    fn failed(&self, why: &str) -> BrainError {
        let host = self.spec.url.host_str().unwrap_or_default();
        BrainError::Failed(format!("the agent at {host} failed: {why}"))
    }
}

#[async_trait]
impl Brain for AapBrain {
    async fn think(&self, prompt: BrainStepInput, writer: &mut BrainWriter) -> Result<BrainStepStop, BrainError> {
        if let Some((remote_turn, input)) = self.resume_remote(&prompt, writer) {
            return self.relay(remote_turn, input, writer).await;
        }
        for answer in writer.answers().to_vec() {
            if let CallAnswer::Permission { call, granted: true, .. } = answer {
                writer.result(call, Content::from(LOST_CALL_RESULT))?;
            }
        }
        let (conversation, input) = self.begin(&prompt).await.map_err(|why| self.failed(&why))?;
        self.relay(RemoteTurn::new(conversation), input, writer).await
    }
}

/// Offers the local tools as AAP client tools.
fn offered(prompt: &BrainStepInput) -> Vec<ToolSpec> {
    let tool = |tool: &nuncio_engine::ports::brain::OfferedTool| ToolSpec {
        name: tool.name.to_string(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
        ..ToolSpec::default()
    };
    prompt.tools.iter().map(tool).collect()
}

/// Remote agent's tools, marked as untrusted so that each call needs permission. Local tools of the same name win.
fn own_tools(agent: &AgentInfo, ours: &[ToolSpec]) -> Vec<EnabledTool> {
    let taken: HashSet<&str> = ours.iter().map(|tool| tool.name.as_str()).collect();
    let free = agent.tools.iter().filter(|tool| !taken.contains(tool.name.as_str()));
    free.filter_map(|tool| Some(EnabledTool { name: ToolName::parse(&tool.name).ok()?, trust: Some(false) })).collect()
}

/// Session options that the remote agent also declares and whose values it accepts.
fn options(agent: &AgentInfo, prompt: &BrainStepInput) -> BTreeMap<String, String> {
    let takes = |name: &str, value: &str| {
        let option = agent.options.iter().find(|option| option.name == name);
        option.is_some_and(|option| option.options.is_empty() || option.options.iter().any(|choice| choice == value))
    };
    let set = prompt.options.iter().filter(|(name, value)| !value.is_empty() && takes(name.as_str(), value));
    set.map(|(name, value)| (name.to_string(), value.clone())).collect()
}

/// Result of `call` among the messages that follow the call.
fn result_of<'a>(messages: &'a [Message], call: &CallId) -> Option<&'a Content> {
    messages.iter().find_map(|message| match message {
        Message::Tool { tool_call_id, content, .. } if tool_call_id == call => Some(content),
        _ => None,
    })
}
