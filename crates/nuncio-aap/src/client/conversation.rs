//! A conversation with an agent: what was said, and which calls wait for an answer.
//!
//! What servers are known to do wrong is put right here: no or two `turn_stop`s, results that are
//! missing or come twice, connections that end in the middle.

use std::time::Duration;

use futures_util::StreamExt as _;
use nuncio_core::ids::CallId;
use nuncio_core::message::{Content, Message, ToolCall};
use nuncio_core::session::{AwaitedAnswer, ToolRef};
use nuncio_core::turn::{CallAnswer, StreamMode, TurnInput};

use super::error::ClientError;
use super::event::{TurnEvent, TurnStop};
use super::meta::{AgentInfo, ToolSpec};
use super::session::{HistoryKind, NewSession};
use super::stream::Told;
use super::turn::{AgentOverride, TurnBody};
use super::{Client, tolerant};

mod exchange;
mod fold;
mod reconcile;

pub use exchange::Exchange;

/// How long what a turn has said so far may take to come.
const AT_ONCE: Duration = Duration::from_millis(500);

/// A conversation in one session.
#[derive(Debug)]
pub struct Conversation {
    client: Client,
    session: String,
    agent: AgentInfo,
    /// The tools we bring.
    own_tools: Vec<ToolSpec>,
    /// The agent's tools that are switched on.
    switched_on: Vec<ToolRef>,
    /// Whether the server has not been told yet what is switched on now.
    untold: bool,
    /// Whether it has not been told yet which tools we bring now.
    untold_own: bool,
    messages: Vec<Message>,
    pending: Vec<Pending>,
}

/// A call that waits for us.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// The call.
    pub call: ToolCall,
    /// For what.
    pub awaits: AwaitedAnswer,
}

/// What a turn brings, as it comes.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// A piece of text.
    Text(String),
    /// A piece of thinking.
    Thinking(String),
    /// The agent calls a tool.
    Call(ToolCall),
    /// A tool of the agent's has answered.
    Result {
        /// The call.
        call: nuncio_core::ids::CallId,
        /// The answer.
        content: Content,
    },
    /// The connection broke, and the turn is being taken up again.
    Interrupted,
    /// An event we do not know.
    Unknown {
        /// Its name.
        event: String,
        /// Its data.
        data: String,
    },
    /// The turn is over. Always the last.
    Ended(Ended),
}

/// How a turn ended, and how surely we know.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// How.
    pub stop: TurnStop,
    /// How much of it we have.
    pub received: Received,
    /// The calls that wait for us now.
    pub pending: Vec<Pending>,
}

/// How a turn was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// To its `turn_stop`.
    Whole,
    /// To its `turn_stop`, over more than one connection.
    Continued,
    /// Without `turn_stop`; what was missing is from the history.
    FromHistory,
    /// Without `turn_stop`, and nobody can tell what is missing. What was received is kept.
    Incomplete,
}

impl Conversation {
    /// Begins a conversation with an agent.
    ///
    /// # Errors
    /// The session cannot be made.
    pub async fn begin(client: Client, agent: AgentInfo, new: NewSession) -> Result<Self, ClientError> {
        let session = client.create_session(&new).await?;
        let switched_on = new.agent.tools.unwrap_or_default();
        let mut conversation = Self {
            client,
            session,
            agent,
            own_tools: new.tools,
            switched_on,
            untold: false,
            untold_own: false,
            messages: new.messages,
            pending: Vec::new(),
        };
        conversation.pending = conversation.unresolved();
        Ok(conversation)
    }

    /// Takes up a conversation again, with the calls that still wait for an answer.
    ///
    /// # Errors
    /// There is no such session, or the server does not say what it needs to.
    pub async fn resume(client: Client, session: &str) -> Result<Self, ClientError> {
        let info = client.session(session).await?;
        let meta = client.meta().await?;
        let agent = meta
            .agent(&info.agent.name)
            .cloned()
            .unwrap_or_else(|| AgentInfo { name: info.agent.name.clone(), ..AgentInfo::default() });
        let messages = match history_kind(&agent) {
            Some(kind) => client.history(session, kind).await?,
            None => Vec::new(),
        };
        let switched_on = info.agent.tools.unwrap_or_default();
        let session = session.to_owned();
        let mut conversation = Self {
            client,
            session,
            agent,
            own_tools: info.tools,
            switched_on,
            untold: false,
            untold_own: false,
            messages,
            pending: Vec::new(),
        };
        conversation.pending = conversation.unresolved();
        Ok(conversation)
    }

    /// Its server.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The session's id.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }

    /// With whom.
    #[must_use]
    pub fn agent(&self) -> &AgentInfo {
        &self.agent
    }

    /// What was said.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The calls that wait for an answer. All of them are answered in one turn.
    #[must_use]
    pub fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// The agent's tools that are switched on.
    #[must_use]
    pub fn switched_on(&self) -> &[ToolRef] {
        &self.switched_on
    }

    /// The tools we bring.
    #[must_use]
    pub fn own_tools(&self) -> &[ToolSpec] {
        &self.own_tools
    }

    /// From the next turn on the agent may run that tool without asking.
    pub fn trust(&mut self, tool: &str) {
        for switched_on in self.switched_on.iter_mut().filter(|switched_on| switched_on.name.as_str() == tool) {
            self.untold |= switched_on.trust != Some(true);
            switched_on.trust = Some(true);
        }
    }

    /// From the next turn on these are the tools we bring.
    pub fn bring(&mut self, tools: Vec<ToolSpec>) {
        self.untold_own |= tools != self.own_tools;
        self.own_tools = tools;
        self.pending = std::mem::take(&mut self.pending)
            .into_iter()
            .map(|Pending { call, .. }| Pending { awaits: self.awaits(&call), call })
            .collect();
    }

    /// Sends something and tells what comes of it. Nothing is sent before the stream is polled.
    /// The turn goes on when the stream is dropped, on servers that allow it.
    pub fn send(&mut self, input: TurnInput) -> Exchange<'_> {
        let mut body = TurnBody::new(&input, self.mode());
        if std::mem::take(&mut self.untold) {
            body.agent = Some(AgentOverride { tools: Some(self.switched_on.clone()), ..AgentOverride::default() });
        }
        if std::mem::take(&mut self.untold_own) {
            body.tools = Some(self.own_tools.clone());
        }
        Exchange::new(self, input, body)
    }

    /// Joins the turn that runs now, if one does, from its beginning: what the history had of it is
    /// taken back, for it is told anew.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn join(&mut self) -> Result<Option<Exchange<'_>>, ClientError> {
        let mut stream = match self.client.running(&self.session).await {
            Ok(stream) => stream,
            // Nothing runs, or the server does not have this.
            Err(ClientError::Refused { status: 400..500, .. } | ClientError::NotAap(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        self.pending.clear();
        // What it has said so far comes at once.
        let first = tokio::time::timeout(AT_ONCE, async {
            loop {
                match stream.next().await {
                    Some(Ok(Told { event: TurnEvent::TurnStart, .. })) => {}
                    other => return other,
                }
            }
        });
        let first = first.await.ok().flatten();
        Ok(Some(Exchange::joined(self, stream, first)))
    }

    /// Takes back what the history has of a turn that began with this event.
    fn take_back(&mut self, first: &TurnEvent) {
        let user = self.messages.len() - since_user(&self.messages).len();
        let answers = |message: &Message, calls: &[&CallId]| matches!(message, Message::Tool { tool_call_id, .. } if calls.contains(&tool_call_id));
        let begins = match first {
            TurnEvent::TurnStop(_) => return,
            // A turn that answers permissions begins with the result of one,
            TurnEvent::ToolResult { call, .. } => {
                let at = self.messages.iter().rposition(|message| answers(message, &[call]));
                at.filter(|at| *at >= user).unwrap_or(self.messages.len())
            }
            // any other behind what was sent: a message, or the results of our tools.
            _ => {
                let calls = self.messages.iter().flat_map(Message::tool_calls);
                let ours: Vec<_> =
                    calls.filter(|call| self.awaits(call) == AwaitedAnswer::Result).map(|call| &call.id).collect();
                let at = self.messages.iter().rposition(|message| answers(message, &ours));
                at.map_or(user, |at| user.max(at + 1))
            }
        };
        self.messages.truncate(begins);
    }

    /// Deletes the session.
    ///
    /// # Errors
    /// As for any request.
    pub async fn delete(self) -> Result<(), ClientError> {
        self.client.delete_session(&self.session).await
    }

    /// The finest way of telling a turn that the agent supports.
    fn mode(&self) -> StreamMode {
        match self.agent.supports {
            supports if supports.stream_delta => StreamMode::Delta,
            supports if supports.stream_message => StreamMode::Message,
            _ => StreamMode::None,
        }
    }

    /// The server has taken the input: it is part of the conversation now.
    fn accepted(&mut self, input: TurnInput) {
        self.pending.clear();
        match input {
            TurnInput::User(message) => self.messages.push(message),
            TurnInput::Answers(answers) => {
                let results = answers.into_iter().filter_map(|answer| match answer {
                    CallAnswer::Result { call, content, extra } => {
                        Some(Message::Tool { tool_call_id: call, content, extra })
                    }
                    CallAnswer::Permission { .. } => None,
                });
                self.messages.extend(results);
            }
        }
    }

    /// What an unanswered call waits for.
    fn awaits(&self, call: &ToolCall) -> AwaitedAnswer {
        let ours = self.own_tools.iter().any(|tool| tool.name == call.name.as_str());
        if ours { AwaitedAnswer::Result } else { AwaitedAnswer::Permission }
    }

    /// Whether nobody but us can answer a call: our own tool, or one that may not run unasked.
    fn needs_us(&self, call: &ToolCall) -> bool {
        let asks = |tool: &ToolRef| tool.name == call.name && tool.trust != Some(true);
        self.awaits(call) == AwaitedAnswer::Result || self.switched_on.iter().any(asks)
    }

    /// The calls of the last message of the agent's that have no answer.
    fn unresolved(&self) -> Vec<Pending> {
        let exchange = since_user(&self.messages);
        let Some(last) = exchange.iter().rev().find(|message| matches!(message, Message::Assistant { .. })) else {
            return Vec::new();
        };
        let answered = tolerant::answered(exchange);
        let open = last.tool_calls().filter(|call| !answered.contains(&call.id));
        open.map(|call| Pending { call: call.clone(), awaits: self.awaits(call) }).collect()
    }
}

/// The most exact history that an agent shows.
fn history_kind(agent: &AgentInfo) -> Option<HistoryKind> {
    match agent.supports {
        supports if supports.full_history => Some(HistoryKind::Full),
        supports if supports.compacted_history => Some(HistoryKind::Compacted),
        _ => None,
    }
}

/// What came after the last user message.
fn since_user(messages: &[Message]) -> &[Message] {
    let last = messages.iter().rposition(|message| matches!(message, Message::User { .. }));
    &messages[last.map_or(0, |at| at + 1)..]
}
