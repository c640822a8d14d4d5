//! Brain configuration: how an agent produces its answers.

use url::Url;

use super::run::CommandRunSpec;
use crate::ids::{AgentName, BackendName, OptionName, ToolName};
use crate::string_enum;
use crate::template::Template;

/// The `[brain]` section of an agent file.
#[derive(Debug, Clone, PartialEq)]
pub enum BrainSpec {
    /// A brain that matches keywords and patterns; uses no network.
    Rules(RulesBrainSpec),
    /// A brain that plays a script contained in the user's message, for testing clients.
    Script,
    Model(Box<ModelBrainSpec>),
    /// A brain that is a program, started for each step of a turn.
    Process(CommandRunSpec),
    /// A brain that is an agent on another AAP server.
    Aap(AapBrainSpec),
}

impl BrainSpec {
    /// Value of `kind` in the `[brain]` section of the agent file.
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

    /// Whether the brain can write text that is not in the agent file.
    #[must_use]
    pub const fn composes(&self) -> bool {
        match self {
            Self::Rules(_) | Self::Script => false,
            Self::Model(_) | Self::Process(_) | Self::Aap(_) => true,
        }
    }

    /// Name of the agent's secret that the brain sends as API key; `None` if it sends none or a session option gives
    /// the key.
    #[must_use]
    pub fn key(&self) -> Option<&BackendName> {
        match self {
            Self::Model(model) => model.key.as_ref(),
            Self::Aap(aap) => aap.key.as_ref(),
            Self::Rules(_) | Self::Script | Self::Process(_) => None,
        }
    }
}

/// Configuration of a language model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelBrainSpec {
    pub provider: ModelProvider,
    pub model: String,
    /// Base URL of the model's API; `None` for the provider's own.
    pub base_url: Option<Url>,
    /// Name of the secret that holds the API key.
    pub key: Option<BackendName>,
    pub temperature: Option<f64>,
    /// Limit of the model's output tokens per step; `None` for the provider's default, or 8192 at Anthropic.
    pub max_tokens: Option<u64>,
    /// System prompt; a template over `options`.
    pub instructions: Option<Template>,
    /// Context window of the model, in tokens; `None` for 100,000, or 8,000 for Ollama.
    pub window_tokens: Option<u64>,
    /// Session options that override fields of this configuration.
    pub options: ModelOptionNames,
}

/// Agent options whose session value overrides the model configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelOptionNames {
    pub model: Option<OptionName>,
    /// Option for the temperature; its value is a number written as text.
    pub temperature: Option<OptionName>,
    pub key: Option<OptionName>,
}

string_enum! {
    /// Providers of language models, in the order in which they are listed to people.
    pub enum ModelProvider {
        /// OpenAI, or any server with the same API.
        OpenAi = "openai",
        Anthropic = "anthropic",
        Gemini = "gemini",
        /// Ollama, on this machine unless `base_url` is set.
        Ollama = "ollama",
        OpenRouter = "openrouter",
        DeepSeek = "deepseek",
        Mistral = "mistral",
        Groq = "groq",
    }
}

impl ModelProvider {
    /// Whether the provider accepts requests without a key.
    #[must_use]
    pub fn is_keyless(self) -> bool {
        self == Self::Ollama
    }
}

/// An agent on another AAP server that answers in place of a local brain.
#[derive(Debug, Clone, PartialEq)]
pub struct AapBrainSpec {
    /// Base URL of the other server's AAP interface.
    pub url: Url,
    /// Agent on the other AAP server; `None` selects the server's only or first agent.
    pub agent: Option<AgentName>,
    /// Name of the secret that holds the API key.
    pub key: Option<BackendName>,
}

/// Configuration of a rules brain.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RulesBrainSpec {
    /// Template of the answer when no intent matches, over `intents`; a built-in text if absent.
    pub fallback: Option<Template>,
    /// Intents in order of preference: the first wins a tie.
    pub intents: Vec<Intent>,
}

/// An intent of the user that the rules brain recognises.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    /// Name of the intent, unique in the agent.
    pub name: BackendName,
    /// Words or phrases, any of which matches the intent, ignoring case.
    pub keywords: Vec<String>,
    /// Regular expressions, any of which matches the intent; named groups fill slots.
    pub patterns: Vec<String>,
    /// Values that must be collected before the intent runs, in the order they are asked for.
    pub slots: Vec<IntentSlot>,
    /// The tool that the intent calls; `None` for a text answer.
    pub tool: Option<ToolName>,
    /// Answer template over `slots`, and over `result` and `text` once the tool has run.
    pub answer: Template,
    /// Answer template for a failed tool, over `slots`, `error` and `denied`; a built-in text if absent.
    pub failure: Option<Template>,
}

/// A value that an intent needs before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct IntentSlot {
    /// Name of the slot and of the tool argument that it fills.
    pub name: String,
    pub kind: SlotKind,
    /// The question that asks for the slot's value; a built-in sentence if absent.
    pub ask: Option<Template>,
    /// Whether the user is asked if the slot has no value: it has a question, or the intent's tool requires the
    /// argument, and it has no default.
    pub is_required: bool,
    /// Value of the slot if the user gives none.
    pub default: Option<String>,
    /// Whether the value of an earlier intent's slot of the same name is reused.
    pub remember: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotKind {
    /// A slot that takes any answer to its question.
    Text,
    /// A slot for an ISO date, `today` or `tomorrow`.
    Date,
    /// A slot for a whole number in digits, or a small number as a word.
    Integer,
    /// A slot for one of these values: `suite|suites|套房` accepts three spellings and has the value `suite`
    /// ([`SlotKind::spellings`]).
    Choice(Vec<String>),
    /// A slot for the text that matches this regular expression.
    Pattern(String),
}

impl SlotKind {
    /// The spellings of an entry of [`SlotKind::Choice`]; the first one is the value.
    pub fn spellings(entry: &str) -> impl Iterator<Item = &str> {
        entry.split('|').map(str::trim).filter(|word| !word.is_empty())
    }
}
