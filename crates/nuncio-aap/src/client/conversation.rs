//! Conversation with an agent: its messages and the tool calls that wait for an answer.
//!
//! Handles known server faults: missing or repeated `turn_stop`, missing or repeated tool results, and broken
//! connections.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use nuncio_core::ids::CallId;
use nuncio_core::message::{Content, Message, ToolCall};
use nuncio_core::session::{AwaitedAnswer, EnabledTool};
use nuncio_core::turn::{CallAnswer, StreamMode, TurnInput};

use super::error::ClientError;
use super::event::{TurnEvent, TurnStop};
use super::stream::ResumableEvent;
use super::{Client, tolerant};
use crate::wire::meta::{AgentInfo, ToolSpec};
use crate::wire::session::{HistoryKind, NewSession};
use crate::wire::turn::{AgentOverride, TurnBody};

mod exchange;
mod fold;
mod reconcile;

pub use exchange::TurnUpdateStream;

/// Time to wait for the recorded events of a running turn when joining it.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Conversation with an agent in one AAP session.
#[derive(Debug)]
pub struct AapConversation {
    client: Client,
    session: String,
    agent: AgentInfo,
    /// Tools that this client provides.
    own_tools: Vec<ToolSpec>,
    /// Enabled tools of the agent.
    enabled_tools: Vec<EnabledTool>,
    /// Options of the session as this client knows them; secret values are redacted after they were sent.
    options: BTreeMap<String, String>,
    /// Options that changed since the last turn and must be sent.
    changed_options: BTreeMap<String, String>,
    /// Whether the enabled tools changed since the last turn and must be sent.
    enabled_tools_changed: bool,
    /// Whether the client's tools changed since the last turn and must be sent.
    own_tools_changed: bool,
    messages: Vec<Message>,
    pending: Vec<UnansweredCall>,
}

/// Tool call that waits for a result or a permission from this client.
#[derive(Debug, Clone, PartialEq)]
pub struct UnansweredCall {
    pub call: ToolCall,
    pub awaits: AwaitedAnswer,
}

/// Progress of a turn, as an item of [`TurnUpdateStream`].
#[derive(Debug, Clone, PartialEq)]
pub enum TurnUpdate {
    /// The server accepted the turn, or a running turn was joined. Always the first update.
    Started,
    Text(String),
    Thinking(String),
    Call(ToolCall),
    /// A tool of the agent returned a result.
    Result {
        call: nuncio_core::ids::CallId,
        content: Content,
    },
    /// The connection broke, and the client is resuming the turn.
    Interrupted,
    /// Event of an unknown type.
    Unknown {
        event: String,
        data: String,
    },
    /// The turn ended. Always the last update.
    Ended(TurnEnd),
}

#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnd {
    pub stop: TurnStop,
    pub received: TurnCompleteness,
    /// Tool calls that wait for this client after the turn.
    pub pending: Vec<UnansweredCall>,
}

/// How completely a turn was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnCompleteness {
    /// The turn was received up to its `turn_stop` over one connection.
    Whole,
    /// The turn was received up to its `turn_stop` over several connections.
    Continued,
    /// No `turn_stop` was received; the rest was loaded from the history.
    FromHistory,
    /// No `turn_stop` was received, and the rest is unknown. The received part is kept.
    Incomplete,
}

impl AapConversation {
    /// Creates a session with an agent.
    pub async fn begin(client: Client, agent: AgentInfo, new: NewSession) -> Result<Self, ClientError> {
        let session = client.create_session(&new).await?;
        Ok(Self::new(client, session, agent, new))
    }

    /// Loads an existing session with its unanswered calls.
    pub async fn resume(client: Client, session: &str) -> Result<Self, ClientError> {
        let info = client.session(session).await?;
        let meta = client.meta().await?;
        let agent = meta.agent(&info.agent.name).cloned().unwrap_or_else(|| AgentInfo::unlisted(&info.agent.name));
        let messages = match history_kind(&agent) {
            Some(kind) => client.history(session, kind).await?,
            None => Vec::new(),
        };
        let state = NewSession { agent: info.agent, messages, tools: info.tools };
        Ok(Self::new(client, session.to_owned(), agent, state))
    }

    fn new(client: Client, session: String, agent: AgentInfo, state: NewSession) -> Self {
        let mut conversation = Self {
            client,
            session,
            agent,
            own_tools: state.tools,
            enabled_tools: state.agent.tools.unwrap_or_default(),
            options: state.agent.options,
            changed_options: BTreeMap::new(),
            enabled_tools_changed: false,
            own_tools_changed: false,
            messages: state.messages,
            pending: Vec::new(),
        };
        conversation.pending = conversation.unresolved();
        conversation
    }

    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }

    #[must_use]
    pub fn agent(&self) -> &AgentInfo {
        &self.agent
    }

    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Tool calls that wait for an answer. One turn must answer all of them.
    #[must_use]
    pub fn pending(&self) -> &[UnansweredCall] {
        &self.pending
    }

    #[must_use]
    pub fn enabled_tools(&self) -> &[EnabledTool] {
        &self.enabled_tools
    }

    #[must_use]
    pub fn own_tools(&self) -> &[ToolSpec] {
        &self.own_tools
    }

    /// Options that were set in this session. Secret values of a resumed session are redacted.
    #[must_use]
    pub fn options(&self) -> &BTreeMap<String, String> {
        &self.options
    }

    /// Sets an option from the next turn on.
    pub fn set_option(&mut self, name: &str, value: &str) {
        self.options.insert(name.to_owned(), value.to_owned());
        self.changed_options.insert(name.to_owned(), value.to_owned());
    }

    /// Lets the agent run a tool without asking for permission from the next turn on.
    pub fn trust(&mut self, tool: &str) {
        for enabled_tools in self.enabled_tools.iter_mut().filter(|enabled_tools| enabled_tools.name.as_str() == tool) {
            self.enabled_tools_changed |= enabled_tools.trust != Some(true);
            enabled_tools.trust = Some(true);
        }
    }

    /// Replaces the client's tools from the next turn on.
    pub fn set_own_tools(&mut self, tools: Vec<ToolSpec>) {
        self.own_tools_changed |= tools != self.own_tools;
        self.own_tools = tools;
        self.pending = std::mem::take(&mut self.pending)
            .into_iter()
            .map(|UnansweredCall { call, .. }| UnansweredCall { awaits: self.awaits(&call), call })
            .collect();
    }

    /// Starts a turn and returns its updates. Nothing is sent until the stream is polled. Dropping the stream does not
    /// stop the turn on servers that continue turns without a connection.
    pub fn send(&mut self, input: TurnInput) -> TurnUpdateStream<'_> {
        let mut body = TurnBody::new(&input, self.mode());
        let tools = self.enabled_tools_changed.then(|| self.enabled_tools.clone());
        let options = self.changed_options.clone();
        if tools.is_some() || !options.is_empty() {
            body.agent = Some(AgentOverride { tools, options });
        }
        if self.own_tools_changed {
            body.tools = Some(self.own_tools.clone());
        }
        TurnUpdateStream::new(self, input, body)
    }

    /// Joins the running turn from its first event; `None` if no turn runs or the server lacks the extension. Removes
    /// messages of this turn that came from the history, because the stream repeats them.
    pub async fn join(&mut self) -> Result<Option<TurnUpdateStream<'_>>, ClientError> {
        let mut stream = match self.client.running(&self.session).await {
            Ok(stream) => stream,
            // No turn runs, or the server lacks the extension.
            Err(ClientError::Refused { status: 400..500, .. } | ClientError::NotAap(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        self.pending.clear();
        // The server sends the recorded events of the turn immediately.
        let first = tokio::time::timeout(AT_ONCE, async {
            loop {
                match stream.next().await {
                    Some(Ok(ResumableEvent { event: TurnEvent::TurnStart, .. })) => {}
                    other => return other,
                }
            }
        });
        let first = first.await.ok().flatten();
        Ok(Some(TurnUpdateStream::joined(self, stream, first)))
    }

    /// Removes the messages of the running turn, whose first event is `first`.
    fn remove_turn(&mut self, first: &TurnEvent) {
        let user = self.messages.len() - since_user(&self.messages).len();
        let answers = |message: &Message, calls: &[&CallId]| matches!(message, Message::Tool { tool_call_id, .. } if calls.contains(&tool_call_id));
        let begins = match first {
            TurnEvent::TurnStop(_) => return,
            // A turn whose input answers permission requests begins with a tool result.
            TurnEvent::ToolResult { call, .. } => {
                let at = self.messages.iter().rposition(|message| answers(message, &[call]));
                at.filter(|at| *at >= user).unwrap_or(self.messages.len())
            }
            // Any other turn begins after its input: a user message, or results of client tools.
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

    pub async fn delete(self) -> Result<(), ClientError> {
        self.client.delete_session(&self.session).await
    }

    /// Most detailed stream mode that the agent supports.
    fn mode(&self) -> StreamMode {
        match &self.agent.capabilities {
            has if has.stream_delta => StreamMode::Delta,
            has if has.stream_message => StreamMode::Message,
            _ => StreamMode::None,
        }
    }

    /// Adds a turn input to the messages after the server accepted it.
    fn accepted(&mut self, input: TurnInput) {
        self.pending.clear();
        self.changed_options.clear();
        self.enabled_tools_changed = false;
        self.own_tools_changed = false;
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

    /// Whether an unanswered tool call waits for a result or for a permission.
    fn awaits(&self, call: &ToolCall) -> AwaitedAnswer {
        let ours = self.own_tools.iter().any(|tool| tool.name == call.name.as_str());
        if ours { AwaitedAnswer::Result } else { AwaitedAnswer::Permission }
    }

    /// Whether a tool call must be answered by this client: a call of its own tool, or one that requires permission.
    fn needs_us(&self, call: &ToolCall) -> bool {
        let asks = |tool: &EnabledTool| tool.name == call.name && tool.trust != Some(true);
        self.awaits(call) == AwaitedAnswer::Result || self.enabled_tools.iter().any(asks)
    }

    /// Unanswered tool calls of the agent's last message.
    #[must_use]
    pub fn unresolved(&self) -> Vec<UnansweredCall> {
        let exchange = since_user(&self.messages);
        let Some(last) = exchange.iter().rev().find(|message| matches!(message, Message::Assistant { .. })) else {
            return Vec::new();
        };
        let answered = tolerant::answered(exchange);
        let open = last.tool_calls().filter(|call| !answered.contains(&call.id));
        open.map(|call| UnansweredCall { call: call.clone(), awaits: self.awaits(call) }).collect()
    }
}

/// Most complete history that the agent offers.
fn history_kind(agent: &AgentInfo) -> Option<HistoryKind> {
    match &agent.capabilities {
        has if has.full_history => Some(HistoryKind::Full),
        has if has.compacted_history => Some(HistoryKind::Compacted),
        _ => None,
    }
}

/// Messages after the last user message.
fn since_user(messages: &[Message]) -> &[Message] {
    let last = messages.iter().rposition(|message| matches!(message, Message::User { .. }));
    &messages[last.map_or(0, |at| at + 1)..]
}
