//! The agent: the one description from which every protocol's documents are generated.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crate::device_time::CALL_CHAIN_WAITS;
use crate::ids::{AgentName, BackendName, OptionName, ScopeId, SkillId, ToolName};
use crate::schema::Schema;
use crate::string_enum;
use crate::text::TextByLanguage;
use crate::time::Timestamp;

mod brain;
mod command_line;
mod published;
mod run;
mod skill;

pub use brain::{
    AapBrainSpec, BrainSpec, Intent, IntentSlot, ModelBrainSpec, ModelOptionNames, ModelProvider, RulesBrainSpec,
    SlotKind,
};
pub use command_line::CommandLine;
pub use published::{
    Capability, DiscoveryVisibility, ExternalInterface, InformationDocument, InformationLocation, InterfaceKind,
    OwnerKind,
};
pub use run::{
    AnpMethod, AnpRunSpec, CommandRunSpec, DeviceRunSpec, HttpMethod, HttpRunSpec, HumanRunSpec, McpImportRules,
    McpServerSpec, McpTransport, ProgramAccess, SecretSource, SkillCredential, SkillRunSpec, ToolRunSpec,
};
pub use skill::{CapabilityType, Skill, SkillAccess, SkillAuth, SkillHttpMethod, SkillRetryPolicy, SkillVersion};

/// An agent as its author declared it. The crate `nuncio-agent-file` builds it and has checked that every tool's scope and
/// backend exist, that names are unique and that schemas compile.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    pub name: AgentName,
    pub title: Option<TextByLanguage>,
    pub version: semver::Version,
    pub description: Option<TextByLanguage>,
    /// Messages that a person could begin with, shown in an empty conversation.
    pub examples: Vec<TextByLanguage>,
    /// Whether protocols of tools offer the whole agent as a tool: text in, answer out.
    pub ask: bool,
    pub owner: Option<Owner>,
    pub brain: BrainSpec,
    pub capabilities: AapCapabilities,
    /// Session options that the agent offers to clients.
    pub options: Vec<AgentOption>,
    /// Permissions that the agent's tools need.
    pub scopes: Vec<Scope>,
    pub tools: Vec<Arc<Tool>>,
    /// MCP servers that run some of the agent's tools.
    pub mcp: Vec<McpServerSpec>,
    /// Names and sources of the secrets that templates and a model or AAP brain may use.
    pub secrets: Vec<(BackendName, SecretSource)>,
    /// Files and sockets that the agent's programs may use beyond the common set.
    pub allow: ProgramAccess,
    /// Publishes the whole agent as one skill: text in, text out.
    pub skill: Option<Box<Skill>>,
    pub created: Option<Timestamp>,
    /// Visibility of the agent in ANP discovery.
    pub presence: DiscoveryVisibility,
    /// Documents that the agent publishes over ANP.
    pub information: Vec<InformationDocument>,
    /// Capabilities that the author declared. If there are none, [`Agent::abilities`] derives them from the tools.
    pub abilities: Vec<Capability>,
    /// ANP interfaces of this agent that another server provides.
    pub interfaces: Vec<ExternalInterface>,
    /// A2H `capability_flags`, such as `supports_voice`.
    pub flags: BTreeMap<String, bool>,
}

impl Agent {
    /// The agent's title in the language, or in the nearest one that it has; the name of an agent without a title.
    #[must_use]
    pub fn title_in(&self, language: &str) -> &str {
        self.title.as_ref().map_or(self.name.as_str(), |title| title.in_language(language))
    }

    /// Finds a tool by name, including hidden tools.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.iter().find(|tool| tool.name.as_str() == name)
    }

    /// Tools that clients may see and enable.
    pub fn exposed_tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.iter().filter(|tool| tool.exposed)
    }

    /// Tools that run on people's devices.
    pub fn device_tools(&self) -> impl Iterator<Item = (&Arc<Tool>, &DeviceRunSpec)> {
        self.tools.iter().filter_map(|tool| match &tool.run {
            ToolRunSpec::Device(run) => Some((tool, run)),
            _ => None,
        })
    }

    /// Texts that the agent has in several languages, of itself and of its tools that clients see, as its author names
    /// them: `agent.title` or `tool search: title`.
    #[must_use]
    pub fn translated_texts(&self) -> Vec<String> {
        let is_translated = |text: &TextByLanguage| text.languages().nth(1).is_some();
        let own = [("agent.title", &self.title), ("agent.description", &self.description)];
        let own = own.into_iter().filter(|(_, text)| text.as_ref().is_some_and(is_translated));
        let tools = self.exposed_tools().filter(|tool| tool.title.as_ref().is_some_and(is_translated));
        own.map(|(name, _)| name.to_owned()).chain(tools.map(|tool| format!("tool {}: title", tool.name))).collect()
    }

    /// All published skills of the agent: those of its tools and that of the agent as a whole.
    pub fn skills(&self) -> impl Iterator<Item = &Skill> {
        self.tools.iter().filter_map(|tool| tool.skill.as_deref()).chain(self.skill.as_deref())
    }

    /// Error message for a skill id that another agent already uses. Skill ids are unique across a host.
    #[must_use]
    pub fn skill_taken(&self, id: &SkillId, by: &AgentName) -> String {
        format!("agent {}: the skill id {id} is already used by agent {by}; give one of them another `id`", self.name)
    }

    #[must_use]
    pub fn scope(&self, id: &ScopeId) -> Option<&Scope> {
        self.scopes.iter().find(|scope| scope.id == *id)
    }

    #[must_use]
    pub fn option(&self, name: &str) -> Option<&AgentOption> {
        self.options.iter().find(|option| option.name.as_str() == name)
    }

    /// Command lines of all programs started for the agent: command tools, MCP servers and a process brain.
    pub fn programs(&self) -> impl Iterator<Item = &CommandLine> {
        let tools = self.tools.iter().filter_map(|tool| match &tool.run {
            ToolRunSpec::Command(run) => Some(&run.command),
            _ => None,
        });
        let servers = self.mcp.iter().filter_map(|server| match &server.transport {
            McpTransport::Stdio { command, .. } => Some(command),
            McpTransport::Http { .. } => None,
        });
        let brain = match &self.brain {
            BrainSpec::Process(run) => Some(&run.command),
            _ => None,
        };
        tools.chain(servers).chain(brain)
    }

    /// Whether some tool needs an approver who is not the caller.
    #[must_use]
    pub fn needs_approvers(&self) -> bool {
        let imports = || self.mcp.iter().filter_map(|server| server.import.as_ref());
        self.tools.iter().any(|tool| tool.human_authorization) || imports().any(|import| import.human_authorization)
    }

    #[must_use]
    pub fn mcp_server(&self, name: &BackendName) -> Option<&McpServerSpec> {
        self.mcp.iter().find(|server| server.name == *name)
    }
}

/// The person or organisation responsible for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub kind: OwnerKind,
    pub name: String,
    pub url: Option<Url>,
    pub email: Option<String>,
}

/// AAP capabilities: what an agent accepts from its client applications and shows to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AapCapabilities {
    /// Clients may read the compacted history that the model sees.
    pub compacted_history: bool,
    /// Clients may read the complete history.
    pub full_history: bool,
    /// The agent offers streaming of answers piece by piece (`delta`).
    pub stream_delta: bool,
    /// The agent offers streaming of answers block by block (`message`).
    pub stream_message: bool,
    /// The agent offers answers without streaming.
    pub stream_none: bool,
    /// Clients may bring tools of their own.
    pub application_tools: bool,
    /// Images given as `https:` URLs are accepted.
    pub image_https: bool,
    /// Images given as data inside the message are accepted.
    pub image_data: bool,
}

impl Default for AapCapabilities {
    /// Default capabilities: everything except images, which not every brain can process.
    fn default() -> Self {
        Self {
            compacted_history: true,
            full_history: true,
            stream_delta: true,
            stream_message: true,
            stream_none: true,
            application_tools: true,
            image_https: false,
            image_data: false,
        }
    }
}

/// An option that a client may set per session. All values are text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentOption {
    pub name: OptionName,
    pub title: Option<String>,
    pub description: Option<String>,
    pub kind: OptionValueType,
    /// Value of the option if a client sets none.
    pub default: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValueType {
    Text,
    /// The option is a text that is never returned to clients.
    Secret,
    /// The option takes one of the listed values.
    Select(Vec<String>),
}

/// A permission, with the texts and the sensitivity shown to the person who grants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Id of the permission, for example `booking:write`.
    pub id: ScopeId,
    /// Short name of the permission for a button or a list.
    pub label: TextByLanguage,
    /// One sentence about the permission for the person who grants it.
    pub description: Option<TextByLanguage>,
    pub sensitivity: Sensitivity,
    /// Translation key of the label on people's devices; derived from the id when absent.
    pub label_key: Option<String>,
    /// Translation key of the permission's description; derived from the id when absent.
    pub description_key: Option<String>,
}

string_enum! {
    /// How sensitive a permission is. It decides how often a device asks its person, and whether the server needs an
    /// approver (only for `high`).
    #[derive(PartialOrd, Ord)]
    pub enum Sensitivity {
        /// Calls under a permission of low sensitivity run without asking the person.
        Low = "low",
        /// The person is asked once per consent window.
        Medium = "medium",
        /// The person is asked for every call.
        High = "high",
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The name by which brains call the tool.
    pub name: ToolName,
    pub title: Option<TextByLanguage>,
    /// Description of the tool for people and for models.
    pub description: String,
    /// Permission that a caller of the tool needs; `None` admits everyone who may talk to the agent.
    pub scope: Option<ScopeId>,
    pub input: Schema,
    /// Schema of the tool's structured result, if declared.
    pub output: Option<Schema>,
    pub run: ToolRunSpec,
    /// Whether clients see the tool. A hidden tool runs without asking the client; a device tool is never offered to
    /// clients.
    pub exposed: bool,
    /// Whether each call of the tool needs an approver who is not the caller.
    pub human_authorization: bool,
    /// Time limit of one call of the tool.
    pub timeout: Duration,
    /// How the tool is published as a skill; `None` if it is not published.
    pub skill: Option<Box<Skill>>,
    pub hints: ToolHints,
}

/// What clients are told about a tool beside its schemas. Nothing here is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolHints {
    pub effect: Option<ToolEffect>,
    /// Whether a repeated call with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// Whether the tool reaches beyond a closed set of things, such as the web.
    pub open_world: Option<bool>,
}

string_enum! {
    /// What a tool does to its environment.
    #[derive(PartialOrd, Ord)]
    pub enum ToolEffect {
        ReadOnly = "read",
        /// The tool adds or changes something.
        Writes = "write",
        /// The tool may delete or overwrite something.
        Destroys = "destructive",
    }
}

impl Tool {
    /// The tool's title in the language, or in the nearest one that it has; the name of a tool without a title.
    #[must_use]
    pub fn title_in(&self, language: &str) -> &str {
        self.title.as_ref().map_or(self.name.as_str(), |title| title.in_language(language))
    }

    /// Whether the tool runs on a person's device. The device then asks the person itself.
    #[must_use]
    pub fn on_device(&self) -> bool {
        matches!(self.run, ToolRunSpec::Device(_))
    }

    /// Longest time of one call of the tool: its timeout, and for a device tool also the time to ask the person.
    #[must_use]
    pub fn call_time(&self) -> Duration {
        match self.on_device() {
            true => self.timeout + CALL_CHAIN_WAITS,
            false => self.timeout,
        }
    }
}
