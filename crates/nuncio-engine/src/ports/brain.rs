//! What thinks.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::agent::Agent;
use nuncio_core::event::{EventLog, LogFull, OutputKind};
use nuncio_core::ids::{CallId, OptionName, SessionId, ToolName};
use nuncio_core::message::{Block, Content, Extra, Message, ToolCall};
use nuncio_core::turn::{CallAnswer, StopReason, Usage};
use serde_json::{Map, Value};

use crate::converse::LiveTurn;

/// What a brain is given to think about.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// Whose brain.
    pub agent: Arc<Agent>,
    /// The conversation so far, compacted to the brain's window.
    pub history: Vec<Message>,
    /// The tools it may call.
    pub tools: Vec<OfferedTool>,
    /// Every option of the agent's: what the client set, or the default.
    pub options: BTreeMap<OptionName, String>,
}

/// A tool as a brain sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// The name to call it by.
    pub name: ToolName,
    /// What it does.
    pub description: String,
    /// What it takes.
    pub parameters: Value,
}

/// How a brain ended one step of thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thought {
    /// Why it stopped. With tool calls made, `tool_use` and `end_turn` mean the same: the calls
    /// are run and it is asked again.
    pub stop: StopReason,
    /// What it counted, if it counts.
    pub usage: Option<Usage>,
}

impl Thought {
    /// A step that ended by itself.
    #[must_use]
    pub fn ended(stop: StopReason) -> Self {
        Self { stop, usage: None }
    }
}

/// Why a brain could not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrainError {
    /// It failed; the text is for people and is kept.
    #[error("{0}")]
    Failed(String),
    /// It wrote more than a turn may hold.
    #[error(transparent)]
    TooMuch(#[from] LogFull),
}

/// Something that thinks: history in, text, thinking and tool calls out.
///
/// A brain keeps no state between steps. It is cancelled by dropping the future.
#[async_trait]
pub trait Brain: fmt::Debug + Send + Sync + 'static {
    /// Thinks one step, writing to `voice` as it goes.
    async fn think(&self, prompt: Prompt, voice: &mut Speaker) -> Result<Thought, BrainError>;

    /// Sums up a history that no longer fits; nothing when it cannot. Then it is left out unsaid.
    async fn summarize(&self, _prompt: Prompt) -> Option<String> {
        None
    }

    /// How many bytes of history it can take; none for any amount.
    fn window(&self) -> Option<usize> {
        None
    }
}

/// Makes brains from what agent files say.
pub trait Brains: fmt::Debug + Send + Sync + 'static {
    /// The brain an agent asks for, or what is wrong with it.
    fn brain(&self, agent: &Arc<Agent>) -> Result<Arc<dyn Brain>, String>;
}

/// Where a brain speaks: pieces go straight into the turn's event log and to whoever listens.
#[derive(Debug)]
pub struct Speaker {
    turn: Arc<LiveTurn>,
    said: Said,
    since_pause: u32,
    answers: Vec<CallAnswer>,
}

/// What a brain said in one step.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Blocks in the order they were begun.
    pub(crate) pieces: Vec<Piece>,
    /// Which of them are calls that the brain runs itself, if the app allows it.
    pub(crate) asked: HashSet<usize>,
    /// What such calls came to.
    pub(crate) results: Vec<(CallId, Content)>,
}

/// A block as it was said.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Text or thinking.
    Spoken {
        /// Which of the two.
        voice: OutputKind,
        /// What was said.
        text: String,
        /// What the brain wants back with it.
        extra: Extra,
    },
    /// A tool call: the id the brain gave, if any.
    Call {
        /// The id the brain gave it.
        id: Option<CallId>,
        /// The tool.
        name: ToolName,
        /// The arguments.
        input: Map<String, Value>,
        /// What the brain wants back with it.
        extra: Extra,
    },
}

/// After how many pieces a fast brain lets others have the thread.
const PAUSE_EVERY: u32 = 256;

impl Speaker {
    pub(crate) fn new(turn: Arc<LiveTurn>) -> Self {
        Self { turn, said: Said::default(), since_pause: 0, answers: Vec::new() }
    }

    /// A speaker into a turn of one's own, for trying a brain without an engine.
    #[must_use]
    pub fn for_turn(turn: Arc<LiveTurn>) -> Self {
        Self::new(turn)
    }

    /// The message that what was said would become. A call without an id gets its place for one.
    #[must_use]
    pub fn message(&self) -> Message {
        let blocks = self.said.pieces.iter().enumerate().map(|(place, piece)| match piece {
            Piece::Spoken { voice: OutputKind::Text, text, extra } => {
                Block::Text { text: text.clone(), extra: extra.clone() }
            }
            Piece::Spoken { voice: OutputKind::Thinking, text, extra } => {
                Block::Thinking { thinking: text.clone(), extra: extra.clone() }
            }
            Piece::Call { id, name, input, extra } => {
                let nameless = || CallId::parse(&format!("call-{place}")).expect("a number is a call id");
                let id = id.clone().unwrap_or_else(nameless);
                let call = ToolCall { id, name: name.clone(), input: input.clone() };
                Block::ToolUse { call, extra: extra.clone() }
            }
        });
        Message::assistant(blocks.collect())
    }

    /// Says a piece of text.
    ///
    /// # Errors
    /// The turn is full.
    pub async fn text(&mut self, piece: &str) -> Result<(), BrainError> {
        self.speak(OutputKind::Text, piece).await
    }

    /// Thinks a piece aloud.
    ///
    /// # Errors
    /// The turn is full.
    pub async fn thinking(&mut self, piece: &str) -> Result<(), BrainError> {
        self.speak(OutputKind::Thinking, piece).await
    }

    /// Calls a tool. The call is announced when the step is over, with the others of the step.
    pub fn call(&mut self, id: Option<CallId>, name: ToolName, input: Map<String, Value>) {
        self.said.pieces.push(Piece::Call { id, name, input, extra: Extra::new() });
    }

    /// Asks the app whether a call may run that the brain itself runs, elsewhere: with a tool that is
    /// none of the agent's. The answer is among [`Self::answers`] of a later step.
    pub fn ask(&mut self, id: Option<CallId>, name: ToolName, input: Map<String, Value>) {
        self.said.asked.insert(self.said.pieces.len());
        self.call(id, name, input);
    }

    /// The app's word on the calls the brain asked about, as [`CallAnswer::Permission`].
    #[must_use]
    pub fn answers(&self) -> &[CallAnswer] {
        &self.answers
    }

    /// What a call came to that the brain asked about.
    ///
    /// # Errors
    /// The turn is full.
    pub fn result(&mut self, call: CallId, content: Content) -> Result<(), BrainError> {
        self.turn.write(|log: &mut EventLog| log.tool_result(call.as_str(), &content))?;
        self.said.results.push((call, content));
        Ok(())
    }

    /// Names the conversation, for a brain that keeps a line open for it.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.turn.session
    }

    pub(crate) fn answered(mut self, answers: Vec<CallAnswer>) -> Self {
        self.answers = answers;
        self
    }

    /// Keeps fields with what was last said or called, such as a signature, so that they are in the
    /// history when the brain sees it again. They do not go into the stream.
    pub fn keep(&mut self, fields: Extra) {
        if let Some(Piece::Spoken { extra, .. } | Piece::Call { extra, .. }) = self.said.pieces.last_mut() {
            extra.extend(fields);
        }
    }

    /// Whether anything has reached the client in this step. Until then a brain may start over.
    #[must_use]
    pub fn has_spoken(&self) -> bool {
        !self.said.pieces.is_empty()
    }

    async fn speak(&mut self, voice: OutputKind, piece: &str) -> Result<(), BrainError> {
        if piece.is_empty() {
            return Ok(());
        }
        // The readers are woken when the brain pauses: once for all it said until then.
        self.turn.write_quietly(|log: &mut EventLog| log.delta(voice, piece))?;
        match self.said.pieces.last_mut() {
            Some(Piece::Spoken { voice: last, text, .. }) if *last == voice => text.push_str(piece),
            _ => self.said.pieces.push(Piece::Spoken { voice, text: piece.to_owned(), extra: Extra::new() }),
        }
        self.since_pause += 1;
        if self.since_pause >= PAUSE_EVERY {
            self.since_pause = 0;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    pub(crate) fn into_said(self) -> Said {
        self.said
    }
}
