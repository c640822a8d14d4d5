//! How an agent thinks.

use crate::ids::{BackendName, ToolName};
use crate::template::Template;

/// The brain an agent file chose.
#[derive(Debug, Clone, PartialEq)]
pub enum BrainSpec {
    /// Intents by keyword and pattern; no network.
    Rules(RulesSpec),
    /// Plays a script carried in the user's message; for trying clients.
    Script,
}

impl BrainSpec {
    /// The word by which an agent file chooses it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rules(_) => "rules",
            Self::Script => "script",
        }
    }
}

/// What a rules brain knows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RulesSpec {
    /// What it says when nothing matches.
    pub fallback: Option<Template>,
    /// What it understands, in order of preference.
    pub intents: Vec<Intent>,
}

/// Something a person may want.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    /// Its name, unique in the agent.
    pub name: BackendName,
    /// Words or phrases any of which means it; matched without regard to case.
    pub keywords: Vec<String>,
    /// Patterns any of which means it; named groups fill slots.
    pub patterns: Vec<String>,
    /// What must be known before it can be done, in the order asked.
    pub slots: Vec<Slot>,
    /// The tool that does it; none for a plain answer.
    pub tool: Option<ToolName>,
    /// What to say: over `slots`, and `result` and `text` once the tool has run.
    pub answer: Template,
    /// What to say when the tool failed: over `slots` and `error`.
    pub failure: Option<Template>,
}

/// Something to be known before an intent can be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    /// The argument of the tool that it fills.
    pub name: String,
    /// What it looks like.
    pub kind: SlotKind,
    /// How to ask for it. A slot without a question is optional.
    pub ask: Option<Template>,
    /// What it is when nobody says.
    pub default: Option<String>,
    /// Whether an earlier intent's value of the same name serves again.
    pub remember: bool,
}

/// What a slot's value looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotKind {
    /// Whatever is said, when it is asked for.
    Text,
    /// A date; ISO, `today`, `tomorrow`.
    Date,
    /// A whole number, in digits or a small number's word.
    Integer,
    /// One of these words. `suite|suites|套房` is said in three ways and has the value `suite`.
    Choice(Vec<String>),
    /// What this pattern finds.
    Pattern(String),
}
