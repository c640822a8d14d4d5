//! How an agent thinks.

use url::Url;

use super::run::CommandRun;
use crate::ids::{AgentName, BackendName, OptionName, ToolName};
use crate::template::Template;

/// The brain an agent file chose.
#[derive(Debug, Clone, PartialEq)]
pub enum BrainSpec {
    /// Intents by keyword and pattern; no network.
    Rules(RulesSpec),
    /// Plays a script carried in the user's message; for trying clients.
    Script,
    /// A language model.
    Model(Box<ModelSpec>),
    /// A program, started for each step of thinking.
    Process(CommandRun),
    /// An agent on another AAP server.
    Aap(AapSpec),
}

impl BrainSpec {
    /// The word by which an agent file chooses it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rules(_) => "rules",
            Self::Script => "script",
            Self::Model(_) => "model",
            Self::Process(_) => "process",
            Self::Aap(_) => "aap",
        }
    }

    /// Whether it can say what nobody wrote down for it.
    #[must_use]
    pub const fn composes(&self) -> bool {
        match self {
            Self::Rules(_) | Self::Script => false,
            Self::Model(_) | Self::Process(_) | Self::Aap(_) => true,
        }
    }

    /// The secret of the agent's that it shows to the one it asks.
    #[must_use]
    pub fn key(&self) -> Option<&BackendName> {
        match self {
            Self::Model(model) => model.key.as_ref(),
            Self::Aap(aap) => aap.key.as_ref(),
            Self::Rules(_) | Self::Script | Self::Process(_) => None,
        }
    }
}

/// Which language model, where, and how it is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// Who serves it.
    pub provider: Provider,
    /// Its name there.
    pub model: String,
    /// Where the provider's interface begins; none for the provider's own address.
    pub base_url: Option<Url>,
    /// The secret that holds the key.
    pub key: Option<BackendName>,
    /// How freely it chooses its words.
    pub temperature: Option<f64>,
    /// How many tokens it may write in one step.
    pub max_tokens: Option<u64>,
    /// What it is told before the conversation: over `options`.
    pub instructions: Option<Template>,
    /// How many tokens of history it can take.
    pub window_tokens: Option<u64>,
    /// What a session may set otherwise.
    pub options: ModelOptions,
}

/// The options of the agent's that take the place of what the file says, where a session sets them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelOptions {
    /// Names the model.
    pub model: Option<OptionName>,
    /// A number, as text.
    pub temperature: Option<OptionName>,
    /// A secret: the key.
    pub key: Option<OptionName>,
}

/// Who serves a language model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// OpenAI, and any server that speaks as it does.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google.
    Gemini,
    /// Ollama, on this machine unless said otherwise.
    Ollama,
    /// OpenRouter.
    OpenRouter,
    /// DeepSeek.
    DeepSeek,
    /// Mistral.
    Mistral,
    /// Groq.
    Groq,
}

impl Provider {
    /// Every provider, in the order people list them.
    pub const ALL: [Self; 8] = [
        Self::OpenAi,
        Self::Anthropic,
        Self::Gemini,
        Self::Ollama,
        Self::OpenRouter,
        Self::DeepSeek,
        Self::Mistral,
        Self::Groq,
    ];

    /// The word by which an agent file chooses it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::OpenRouter => "openrouter",
            Self::DeepSeek => "deepseek",
            Self::Mistral => "mistral",
            Self::Groq => "groq",
        }
    }

    /// Reads that word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == text)
    }

    /// Whether it answers those who show no key.
    #[must_use]
    pub fn is_keyless(self) -> bool {
        self == Self::Ollama
    }
}

/// Another AAP server, whose agent thinks for this one.
#[derive(Debug, Clone, PartialEq)]
pub struct AapSpec {
    /// Where its AAP interface begins.
    pub url: Url,
    /// Which of its agents; none for its only or first one.
    pub agent: Option<AgentName>,
    /// The secret that holds the key it asks for.
    pub key: Option<BackendName>,
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
