//! An agent on another AAP server as the brain.
//!
//! A step that begins with a user message makes a session there, seeded with the history, and has one
//! turn in it. Our tools are offered as client tools: the calls of them become calls of ours, and pass
//! our chain. The other agent's own tools are switched on untrusted: when it wants to run one, our app
//! is asked, and its word is passed on. For that the session is kept open between the step that asks
//! and the one that answers ([`line`]); everything else comes from the history.
//!
//! Why it is so: `docs/decisions/0005-aap-brain.md`.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use nuncio_aap::client::{
    AgentConfig, AgentInfo, ApiKey, Client, ClientError, Conversation, Ended, NewSession, ToolSpec, Update,
};
use nuncio_core::agent::AapSpec;
use nuncio_core::ids::{CallId, ToolName};
use nuncio_core::message::{Content, Message};
use nuncio_core::session::{AwaitedAnswer, ToolRef};
use nuncio_core::turn::{CallAnswer, StopReason, TurnInput};
use nuncio_engine::ports::brain::{Brain, BrainError, Prompt, Speaker, Thought};

use super::Means;
use crate::runners::secrets::Secrets;
use line::{Line, Lines, Watch};

mod line;

/// How often the other server is asked before it counts as gone. Only until a turn has begun.
const ATTEMPTS: u32 = 3;
/// How long before the second attempt; twice as long before the third.
const PAUSE: Duration = Duration::from_millis(300);
/// What is said to an agent that should go on with a history it did not see grow.
const GO_ON: &str = "(Go on, with the tool results above.)";
/// What a call came to that was allowed too late.
const LOST: &str = "Tool call not run: the agent that wanted it is no longer waiting";

/// The brain of agents whose file says `kind = "aap"`.
#[derive(Debug)]
pub struct AapBrain {
    spec: AapSpec,
    means: Arc<Means>,
    lines: Lines,
}

impl AapBrain {
    pub(super) fn new(spec: &AapSpec, means: Arc<Means>) -> Self {
        let lines = Lines::new(Arc::clone(&means.clock));
        Self { spec: spec.clone(), means, lines }
    }

    async fn client(&self, prompt: &Prompt) -> Result<Client, String> {
        let key = match &self.spec.key {
            Some(name) => {
                let base_dir = self.means.programs.base_dir(&prompt.agent.name);
                let secrets = Secrets::named(&prompt.agent, &base_dir, name).await?;
                let key = secrets.get(name.as_str()).and_then(ApiKey::parse);
                Some(key.ok_or_else(|| format!("the secret `{name}` cannot be sent as a key"))?)
            }
            None => None,
        };
        Ok(Client::new(self.spec.url.clone(), key, self.means.http.clone()))
    }

    /// The agent there: the one named, or the only or first.
    async fn agent(&self, client: &Client) -> Result<AgentInfo, String> {
        let meta = self.patiently(|| client.meta()).await?;
        match &self.spec.agent {
            Some(name) => meta.agent(name.as_str()).cloned().ok_or_else(|| format!("it has no agent `{name}`")),
            None => meta.agents.first().cloned().ok_or_else(|| "it has no agents".to_owned()),
        }
    }

    /// A session there with what was said so far, and what is to be said next.
    async fn begin(&self, prompt: &Prompt) -> Result<(Conversation, TurnInput), String> {
        let client = self.client(prompt).await?;
        let agent = self.agent(&client).await?;
        let (said, input) = match prompt.history.split_last() {
            Some((last @ Message::User { .. }, said)) => (said, last.clone()),
            _ => (&prompt.history[..], Message::user(GO_ON)),
        };
        let tools = if agent.supports.application_tools { offered(prompt) } else { Vec::new() };
        let config = AgentConfig {
            name: agent.name.clone(),
            tools: Some(own_tools(&agent, &tools)),
            options: options(&agent, prompt),
        };
        let new = NewSession { agent: config, messages: said.to_vec(), tools };
        let begin = || Conversation::begin(client.clone(), agent.clone(), new.clone());
        Ok((self.patiently(begin).await?, TurnInput::User(input)))
    }

    /// The session that waits for the answers in the history, and the answers; nothing when it is gone.
    fn go_on(&self, prompt: &Prompt, voice: &Speaker) -> Option<(Line, TurnInput)> {
        let (line, answers) = self.lines.take(voice.session())?.answered(&prompt.history, voice.answers())?;
        Some((line, TurnInput::Answers(answers)))
    }

    /// Asks again while the other server is busy or not there.
    async fn patiently<T, F>(&self, ask: impl Fn() -> F) -> Result<T, String>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut pause = PAUSE;
        for _ in 1..ATTEMPTS {
            match ask().await {
                Err(ClientError::Unreachable(_) | ClientError::Refused { status: 429 | 502..=504, .. }) => {}
                asked => return asked.map_err(|error| error.to_string()),
            }
            self.means.clock.sleep_until(self.means.clock.now().after(pause)).await;
            pause *= 2;
        }
        ask().await.map_err(|error| error.to_string())
    }

    /// Has the turn there, and says here what is said there.
    async fn relay(&self, mut line: Line, input: TurnInput, voice: &mut Speaker) -> Result<Thought, BrainError> {
        let watch = Watch::over(&line.conversation);
        let mut exchange = line.conversation.send(input);
        let mut ended = None;
        while let Some(update) = exchange.next().await {
            match update.map_err(|error| self.failed(&error.to_string()))? {
                Update::Text(piece) => voice.text(&piece).await?,
                Update::Thinking(piece) => voice.thinking(&piece).await?,
                // The results of what our app allowed; those of tools that run unasked are its own.
                Update::Result { call, content } => {
                    if let Some(ours) = line.asked.remove(&call) {
                        voice.result(ours, content)?;
                    }
                }
                Update::Call(_) | Update::Interrupted | Update::Unknown { .. } => {}
                Update::Ended(end) => ended = Some(end),
            }
        }
        let Some(Ended { stop, pending, .. }) = ended else {
            return Err(self.failed("it did not come to an end"));
        };
        if stop.reason == StopReason::Error || stop.cancelled {
            let why = stop.error.map_or_else(|| "it does not say why".to_owned(), |error| error.message);
            return Err(self.failed(&why));
        }
        let thought = Thought { stop: stop.reason, usage: stop.usage };
        line.calls.clear();
        for waiting in pending {
            let call = waiting.call;
            line.calls.push(call.clone());
            match waiting.awaits {
                AwaitedAnswer::Result => voice.call(Some(call.id), call.name, call.input),
                AwaitedAnswer::Permission => voice.ask(Some(call.id), call.name, call.input),
            }
        }
        if line.calls.is_empty() {
            // Dropping the watch takes the session away there.
            return Ok(thought);
        }
        watch.over_for_now();
        self.lines.keep(voice.session().clone(), line);
        Ok(thought)
    }

    fn failed(&self, why: &str) -> BrainError {
        let host = self.spec.url.host_str().unwrap_or_default();
        BrainError::Failed(format!("the agent at {host} failed: {why}"))
    }
}

#[async_trait]
impl Brain for AapBrain {
    async fn think(&self, prompt: Prompt, voice: &mut Speaker) -> Result<Thought, BrainError> {
        if let Some((line, input)) = self.go_on(&prompt, voice) {
            return self.relay(line, input, voice).await;
        }
        for answer in voice.answers().to_vec() {
            if let CallAnswer::Permission { call, granted: true, .. } = answer {
                voice.result(call, Content::from(LOST))?;
            }
        }
        let (conversation, input) = self.begin(&prompt).await.map_err(|why| self.failed(&why))?;
        self.relay(Line::new(conversation), input, voice).await
    }
}

/// Our tools, as those of a client.
fn offered(prompt: &Prompt) -> Vec<ToolSpec> {
    let tool = |tool: &nuncio_engine::ports::brain::OfferedTool| ToolSpec {
        name: tool.name.to_string(),
        title: None,
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
    };
    prompt.tools.iter().map(tool).collect()
}

/// The other agent's own tools, each to be asked about. A name of ours stays ours.
fn own_tools(agent: &AgentInfo, ours: &[ToolSpec]) -> Vec<ToolRef> {
    let taken: HashSet<&str> = ours.iter().map(|tool| tool.name.as_str()).collect();
    let free = agent.tools.iter().filter(|tool| !taken.contains(tool.name.as_str()));
    free.filter_map(|tool| Some(ToolRef { name: ToolName::parse(&tool.name).ok()?, trust: Some(false) })).collect()
}

/// What our client set, for the options that the other agent has too.
fn options(agent: &AgentInfo, prompt: &Prompt) -> BTreeMap<String, String> {
    let takes = |name: &str, value: &str| {
        let option = agent.options.iter().find(|option| option.name == name);
        option.is_some_and(|option| option.options.is_empty() || option.options.iter().any(|choice| choice == value))
    };
    let set = prompt.options.iter().filter(|(name, value)| !value.is_empty() && takes(name.as_str(), value));
    set.map(|(name, value)| (name.to_string(), value.clone())).collect()
}

/// The answer to a call among the messages behind it.
fn result_of<'a>(messages: &'a [Message], call: &CallId) -> Option<&'a Content> {
    messages.iter().find_map(|message| match message {
        Message::Tool { tool_call_id, content, .. } if tool_call_id == call => Some(content),
        _ => None,
    })
}
