//! Port that runs tools.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nuncio_core::ErrorCode;
use nuncio_core::agent::{Agent, Tool};
use nuncio_core::audit::references::SealedMessageReference;
use nuncio_core::call_source::CallSource;
use nuncio_core::ids::{CallId, ExecutionId, PersonName};
use nuncio_core::message::{Block, Content, DESCRIBED_CONTENT_KEY};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::SetOnce;

/// Why a tool on a person's device is missing for a caller without a person.
pub const NO_LINKED_PERSON: &str = "it runs on a person's device, and no person is linked to this app yet: \
     `nuncio user invite NAME` invites one, and `nuncio key create --person NAME` makes a key that is linked to them";

/// An authorised call with valid arguments.
#[derive(Debug, Clone)]
pub struct AuthorizedToolCall {
    pub agent: Arc<Agent>,
    pub tool: Arc<Tool>,
    pub id: CallId,
    pub arguments: Map<String, Value>,
    pub caller: Principal,
    /// The person on whose behalf the caller acts.
    pub person: Option<PersonName>,
    /// Caller and conversation, for a person who decides on the call.
    pub source: CallSource,
    /// The call chain drops the future at this time; the runner must then stop the program.
    pub deadline: Timestamp,
    /// Identifiers to forward, such as a trace id.
    pub trace: BTreeMap<&'static str, String>,
    pub program_start: ProgramStartSignal,
    /// Collects the messages that carry the call to a person's device.
    pub sent: SentCallMessages,
    /// Inbox for tools that people run; `None` for other tools.
    pub inbox: Option<Arc<dyn HumanTaskInbox>>,
}

/// Tasks for people. The inbox withdraws a task at its deadline and when its call is cancelled.
#[async_trait]
pub trait HumanTaskInbox: fmt::Debug + Send + Sync {
    /// Creates the task of a call and waits for its result.
    async fn run_by_person(&self, call: &AuthorizedToolCall, instructions: String) -> Result<ToolOutput, ToolRunError>;
}

/// Whether the program of a call has started. A runner reports it when the program runs or its request is about to be
/// sent; an execution interrupted before has not used an attempt.
#[derive(Debug, Clone, Default)]
pub struct ProgramStartSignal(Arc<SetOnce<()>>);

impl ProgramStartSignal {
    /// Reports that the program has started; further calls change nothing.
    pub fn report(&self) {
        let _ = self.0.set(());
    }

    pub(crate) fn is_reported(&self) -> bool {
        self.0.initialized()
    }

    pub(crate) async fn reported(&self) {
        self.0.wait().await;
    }
}

/// Messages that carried a call to a person's device. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct SentCallMessages(Arc<Mutex<Vec<SealedMessageReference>>>);

/// Maximum number of messages per call in the audit record.
const MAX_SENT: usize = 8;

impl SentCallMessages {
    /// Adds a message that the relay accepted.
    pub fn add(&self, message: SealedMessageReference) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < MAX_SENT {
            list.push(message);
        }
    }

    #[must_use]
    pub fn list(&self) -> Vec<SealedMessageReference> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// Result of the tool for the brain and for people.
    pub content: Vec<Block>,
    /// Structured result of the tool for programs.
    pub structured: Option<Value>,
}

impl ToolOutput {
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], structured: None }
    }

    /// Structured output, with a string as plain text and anything else as compact JSON.
    #[must_use]
    pub fn json(value: Value) -> Self {
        let text = match &value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Self { content: vec![Block::text(text)], structured: Some(value) }
    }

    /// The structured value of the output, or else its text, or its blocks as JSON if they are not one text.
    #[must_use]
    pub fn value(&self) -> Value {
        match (&self.structured, self.message_content()) {
            (Some(value), _) => value.clone(),
            (None, Content::Text(text)) => Value::String(text),
            (None, blocks) => serde_json::to_value(blocks).unwrap_or_default(),
        }
    }

    /// Content of a message: one text as plain text, no block at all as the structured value in JSON, anything else as
    /// blocks, without the content that texts and images describe.
    #[must_use]
    pub fn message_content(&self) -> Content {
        let content: Vec<_> = self.content.iter().cloned().map(without_described_content).collect();
        match <[Block; 1]>::try_from(content) {
            Ok([Block::Text { text, extra }]) if extra.is_empty() => Content::Text(text),
            Ok([block]) => Content::Blocks(vec![block]),
            Err(none) if none.is_empty() => {
                Content::Text(self.structured.as_ref().map(Value::to_string).unwrap_or_default())
            }
            Err(blocks) => Content::Blocks(blocks),
        }
    }
}

fn without_described_content(mut block: Block) -> Block {
    if let Block::Text { extra, .. } | Block::Image { extra, .. } = &mut block {
        extra.shift_remove(DESCRIBED_CONTENT_KEY);
    }
    block
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolRunError {
    /// The tool ran and reported a failure.
    #[error("{0}")]
    Failed(String),
    /// The tool's backend cannot be reached.
    #[error("{0}")]
    Unavailable(String),
    /// The person or their device refused the call or did not answer.
    #[error("{message}")]
    Refused { code: ErrorCode, message: String },
    /// The call has no outcome: the server stops while a person works on the call, or the store failed.
    #[error("{message}")]
    NoOutcome { code: ErrorCode, message: String },
}

impl ToolRunError {
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Failed(_) => ErrorCode::ToolFailed,
            Self::Unavailable(_) => ErrorCode::ToolUnavailable,
            Self::Refused { code, .. } | Self::NoOutcome { code, .. } => *code,
        }
    }
}

#[async_trait]
pub trait Runner: fmt::Debug + Send + Sync + 'static {
    async fn run(&self, call: AuthorizedToolCall) -> Result<ToolOutput, ToolRunError>;

    /// Adds imported tools to an agent before it is served; `Err` says what is wrong and what to do.
    async fn resolve(&self, agent: Agent) -> Result<Agent, String>;

    /// Releases resources of an agent that is no longer served in this form.
    async fn release(&self, agent: &Agent);

    /// Stops programs that a previous process left running for these executions, so that they can run again.
    async fn end_leftovers(&self, _executions: &[ExecutionId]) {}
}
