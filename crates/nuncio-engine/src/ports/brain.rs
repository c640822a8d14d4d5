//! Brains, which generate the messages of agents.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::agent::Agent;
use nuncio_core::event::{ModelOutputKind, TurnEventLog, TurnEventLogFullError};
use nuncio_core::ids::{CallId, OptionName, SessionId, ToolName};
use nuncio_core::message::{Block, Content, Message, ToolCall, UnknownMessageFields};
use nuncio_core::turn::{CallAnswer, StopReason, TokenUsage};
use serde_json::{Map, Value};

use crate::live_turn::LiveTurn;

#[derive(Debug, Clone)]
pub struct BrainStepInput {
    pub agent: Arc<Agent>,
    /// The part of the conversation that [`Brain::history_need`] names.
    pub history: Vec<Message>,
    pub tools: Vec<OfferedTool>,
    /// All options of the agent: client values or defaults.
    pub options: BTreeMap<OptionName, String>,
}

/// A tool as offered to a brain.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    pub name: ToolName,
    pub description: String,
    pub parameters: Value,
}

/// How one brain step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrainStepStop {
    /// Why the brain stopped. If it made tool calls, `tool_use` and `end_turn` mean the same: the calls run and the
    /// brain continues.
    pub stop: StopReason,
    /// Token usage of the step, if known.
    pub usage: Option<TokenUsage>,
}

impl BrainStepStop {
    #[must_use]
    pub fn ended(stop: StopReason) -> Self {
        Self { stop, usage: None }
    }
}

/// Why a brain step failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrainError {
    /// The brain failed; the text is shown to people and stored.
    #[error("{0}")]
    Failed(String),
    /// The author's program failed. The details, such as its stack trace, are logged; people get a general sentence.
    #[error("the agent's program failed; the log of its server says why")]
    ProgramFailed { details: String },
    #[error(transparent)]
    TooMuch(#[from] TurnEventLogFullError),
}

/// Part of a history that a brain needs for a step. What it does not need is not read from the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryNeed {
    /// The newest user message and the messages after it.
    NewestExchange,
    /// System messages and the newest exchanges, at most this many bytes of JSON. Older messages are left out.
    Window(usize),
    /// Like `Window`, for a brain that summarises older messages: those since the last summary are read too, in parts of
    /// that size.
    SummarizedWindow(usize),
    Everything,
}

/// Generates messages: history in; text, thinking and tool calls out.
///
/// A brain keeps no state between steps and is cancelled by dropping the future.
#[async_trait]
pub trait Brain: fmt::Debug + Send + Sync + 'static {
    /// Runs one step and writes its output to `writer`.
    async fn think(&self, prompt: BrainStepInput, writer: &mut BrainWriter) -> Result<BrainStepStop, BrainError>;

    /// Summarises messages that no longer fit the context window; `None` if the brain cannot, and they are dropped.
    async fn summarize(&self, _prompt: BrainStepInput) -> Option<String> {
        None
    }

    /// Part of the history that [`Brain::think`] needs to answer `exchange`, which is the newest user message and what
    /// followed it.
    fn history_need(&self, _exchange: &[Message]) -> HistoryNeed {
        HistoryNeed::Everything
    }
}

/// Creates brains from agent files.
pub trait BrainFactory: fmt::Debug + Send + Sync + 'static {
    /// Builds the brain that the agent file configures; `Err` says what is wrong with that configuration.
    fn brain(&self, agent: &Arc<Agent>) -> Result<Arc<dyn Brain>, String>;
}

/// Output of a brain: text goes straight to the turn's event log and its readers.
#[derive(Debug)]
pub struct BrainWriter {
    turn: Arc<LiveTurn>,
    output: BrainOutput,
    since_pause: u32,
    answers: Vec<CallAnswer>,
}

/// Everything a brain wrote in one step.
#[derive(Debug, Default)]
pub(crate) struct BrainOutput {
    /// Pieces of output, in the order in which they began.
    pub(crate) pieces: Vec<BrainOutputPiece>,
    /// Indexes of calls that the brain runs itself, if the app allows it.
    pub(crate) asked: HashSet<usize>,
    /// Results of calls that the brain ran itself.
    pub(crate) results: Vec<(CallId, Content)>,
}

#[derive(Debug)]
pub(crate) enum BrainOutputPiece {
    Text {
        kind: ModelOutputKind,
        text: String,
        /// Extra fields that the brain needs back in the history.
        extra: UnknownMessageFields,
    },
    Call {
        /// Call id chosen by the brain, if it gave one.
        id: Option<CallId>,
        name: ToolName,
        input: Map<String, Value>,
        /// Extra fields that the brain needs back in the history.
        extra: UnknownMessageFields,
    },
}

/// Number of output pieces after which a fast brain yields to other tasks.
const PAUSE_EVERY: u32 = 256;

impl BrainWriter {
    #[must_use]
    pub fn for_turn(turn: Arc<LiveTurn>) -> Self {
        Self { turn, output: BrainOutput::default(), since_pause: 0, answers: Vec::new() }
    }

    /// The message written so far. Calls without id are numbered by position.
    #[must_use]
    pub fn message(&self) -> Message {
        let blocks = self.output.pieces.iter().enumerate().map(|(index, piece)| match piece {
            BrainOutputPiece::Text { kind, text, extra } => text_block(*kind, text.clone(), extra.clone()),
            BrainOutputPiece::Call { id, name, input, extra } => {
                let nameless = || CallId::parse(&format!("call-{index}")).expect("a number is a call id");
                let id = id.clone().unwrap_or_else(nameless);
                let call = ToolCall { id, name: name.clone(), input: input.clone() };
                Block::ToolUse { call, extra: extra.clone() }
            }
        });
        Message::assistant(blocks.collect())
    }

    pub async fn text(&mut self, piece: &str) -> Result<(), BrainError> {
        self.write(ModelOutputKind::Text, piece).await
    }

    pub async fn thinking(&mut self, piece: &str) -> Result<(), BrainError> {
        self.write(ModelOutputKind::Thinking, piece).await
    }

    /// Adds a tool call. All calls are announced when the step ends.
    pub fn call(&mut self, id: Option<CallId>, name: ToolName, input: Map<String, Value>) {
        self.output.pieces.push(BrainOutputPiece::Call { id, name, input, extra: UnknownMessageFields::new() });
    }

    /// Asks the app to allow a call that the brain runs itself, with a tool that is not the agent's. The answer is in
    /// [`Self::answers`] of a later step.
    pub fn ask(&mut self, id: Option<CallId>, name: ToolName, input: Map<String, Value>) {
        self.output.asked.insert(self.output.pieces.len());
        self.call(id, name, input);
    }

    /// The app's decisions on calls the brain asked about, as [`CallAnswer::Permission`].
    #[must_use]
    pub fn answers(&self) -> &[CallAnswer] {
        &self.answers
    }

    /// Reports the result of a call that the brain ran itself.
    pub fn result(&mut self, call: CallId, content: Content) -> Result<(), BrainError> {
        self.turn.write(|log: &mut TurnEventLog| log.tool_result(call.as_str(), &content))?;
        self.output.results.push((call, content));
        Ok(())
    }

    /// The session, for a brain that keeps a connection per session.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.turn.session
    }

    pub(crate) fn answered(mut self, answers: Vec<CallAnswer>) -> Self {
        self.answers = answers;
        self
    }

    /// Attaches fields, such as a signature, to the last block, so that they are in the history. They are not streamed.
    pub fn keep(&mut self, fields: UnknownMessageFields) {
        if let Some(BrainOutputPiece::Text { extra, .. } | BrainOutputPiece::Call { extra, .. }) =
            self.output.pieces.last_mut()
        {
            extra.extend(fields);
        }
    }

    async fn write(&mut self, kind: ModelOutputKind, piece: &str) -> Result<(), BrainError> {
        if piece.is_empty() {
            return Ok(());
        }
        // Readers are woken once, when the brain pauses.
        self.turn.write_quietly(|log: &mut TurnEventLog| log.delta(kind, piece))?;
        match self.output.pieces.last_mut() {
            Some(BrainOutputPiece::Text { kind: last, text, .. }) if *last == kind => text.push_str(piece),
            _ => self.output.pieces.push(BrainOutputPiece::Text {
                kind,
                text: piece.to_owned(),
                extra: UnknownMessageFields::new(),
            }),
        }
        self.since_pause += 1;
        if self.since_pause >= PAUSE_EVERY {
            self.since_pause = 0;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    pub(crate) fn into_output(self) -> BrainOutput {
        self.output
    }
}

pub(crate) fn text_block(kind: ModelOutputKind, text: String, extra: UnknownMessageFields) -> Block {
    match kind {
        ModelOutputKind::Text => Block::Text { text, extra },
        ModelOutputKind::Thinking => Block::Thinking { thinking: text, extra },
    }
}
