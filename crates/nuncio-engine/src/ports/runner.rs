//! Where tools really run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nuncio_core::Code;
use nuncio_core::agent::{Agent, Tool};
use nuncio_core::audit::references::MessageReference;
use nuncio_core::ids::{CallId, ExecutionId, PersonName};
use nuncio_core::message::{Block, Content};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::SetOnce;

/// A call that the chain has let through: the caller is allowed, the arguments fit.
#[derive(Debug, Clone)]
pub struct RunCall {
    /// Whose tool.
    pub agent: Arc<Agent>,
    /// Which tool.
    pub tool: Arc<Tool>,
    /// The call.
    pub id: CallId,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// For whom.
    pub caller: Principal,
    /// The person they belong to.
    pub person: Option<PersonName>,
    /// When it must be over. The chain drops the future then; what runs outside must be stopped by
    /// whoever drops it.
    pub deadline: Timestamp,
    /// Identifiers to pass on, such as a trace id.
    pub trace: BTreeMap<&'static str, String>,
    /// Where the runner reports that the program has started.
    pub program_start: ProgramStart,
    /// Where the runner notes the messages that carry the call to a person's device.
    pub sent: SentMessages,
}

/// Whether the program of a call has started. A runner reports it once the program runs, or once the
/// request that makes it run is about to be sent; an execution that is interrupted before that has not
/// used an attempt.
#[derive(Debug, Clone, Default)]
pub struct ProgramStart(Option<Arc<SetOnce<()>>>);

impl ProgramStart {
    /// For a call whose start somebody waits for.
    #[must_use]
    pub(crate) fn observed() -> Self {
        Self(Some(Arc::new(SetOnce::new())))
    }

    /// The program has started. Reporting it again changes nothing.
    pub fn report(&self) {
        if let Some(start) = &self.0 {
            let _ = start.set(());
        }
    }

    /// Whether the program has started.
    pub(crate) fn is_reported(&self) -> bool {
        self.0.as_ref().is_some_and(|start| start.initialized())
    }

    /// Waits until the program has started.
    pub(crate) async fn reported(&self) {
        match &self.0 {
            Some(start) => {
                start.wait().await;
            }
            None => std::future::pending().await,
        }
    }
}

/// The messages that carried a call to a person's device. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct SentMessages(Arc<Mutex<Vec<MessageReference>>>);

/// The number of messages of one call that its record names: a call that is sent again more often than this has
/// failed in another way.
const MAX_SENT: usize = 8;

impl SentMessages {
    /// Notes a message that the relay took.
    pub fn add(&self, message: MessageReference) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < MAX_SENT {
            list.push(message);
        }
    }

    /// The messages so far, in the order in which they were sent.
    #[must_use]
    pub fn list(&self) -> Vec<MessageReference> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// For the brain and for people.
    pub content: Vec<Block>,
    /// For programs, when the tool has any.
    pub structured: Option<Value>,
}

impl ToolOutput {
    /// A plain text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], structured: None }
    }

    /// A JSON value: a text as itself, anything else in compact JSON.
    #[must_use]
    pub fn json(value: Value) -> Self {
        let text = match &value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Self { content: vec![Block::text(text)], structured: Some(value) }
    }

    /// The answer as one value: the structured one, or else the text.
    #[must_use]
    pub fn value(&self) -> Value {
        match (&self.structured, self.message_content()) {
            (Some(value), _) => value.clone(),
            (None, Content::Text(text)) => Value::String(text),
            (None, blocks) => serde_json::to_value(blocks).unwrap_or_default(),
        }
    }

    /// The content as a message carries it: one text as plain text, anything else as blocks.
    #[must_use]
    pub fn message_content(&self) -> Content {
        match self.content.as_slice() {
            [] => Content::Text(self.structured.as_ref().map(Value::to_string).unwrap_or_default()),
            [Block::Text { text, extra }] if extra.is_empty() => Content::Text(text.clone()),
            blocks => Content::Blocks(blocks.to_vec()),
        }
    }
}

/// Why a tool did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// It ran and said that it failed.
    #[error("{0}")]
    Failed(String),
    /// What it runs on cannot be reached.
    #[error("{0}")]
    Unavailable(String),
    /// Whoever runs it would not: the person, or their device for them.
    #[error("{message}")]
    Refused {
        /// Why, for programs.
        code: Code,
        /// Why, for people.
        message: String,
    },
}

impl RunError {
    /// Its code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Failed(_) => Code::ToolFailed,
            Self::Unavailable(_) => Code::ToolUnavailable,
            Self::Refused { code, .. } => *code,
        }
    }
}

/// Runs the tools of agents.
#[async_trait]
pub trait Runner: fmt::Debug + Send + Sync + 'static {
    /// Runs one call.
    async fn run(&self, call: RunCall) -> Result<ToolOutput, RunError>;

    /// Completes an agent with the tools it imports, before it is served. Fails with what is wrong
    /// and what to do.
    async fn resolve(&self, agent: Agent) -> Result<Agent, String>;

    /// Lets go of what was held for an agent that is no longer served in this form.
    async fn release(&self, agent: &Agent);

    /// Ends what a process that is gone left running for these executions, so that they can be begun
    /// again.
    async fn end_leftovers(&self, executions: &[ExecutionId]) {
        let _ = executions;
    }
}
