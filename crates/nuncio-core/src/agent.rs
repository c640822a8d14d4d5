//! The agent: one description from which every protocol's documents are projected.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::ids::{AgentName, BackendName, OptionName, ScopeId, SkillId, ToolName};
use crate::schema::Schema;
use crate::text::LocalText;
use crate::time::Timestamp;

mod brain;
mod published;
mod run;
mod skill;

pub use brain::{AapSpec, BrainSpec, Intent, ModelOptions, ModelSpec, Provider, RulesSpec, Slot, SlotKind};
pub use published::{
    Capability, ElsewhereInterface, Information, InformationSource, InterfaceKind, OwnerKind, Presence,
};
pub use run::{
    AnpRun, CommandRun, DeviceRun, HttpMethod, HttpRun, HumanRun, Import, McpServer, McpTransport, ProgramAccess, Run,
    SecretSource, SkillCredential, SkillRun,
};
pub use skill::{Access, CapabilityType, Retry, Skill, SkillAuth, SkillMethod, SkillVersion};

/// An agent as its author declared it. Built by [`crate::declaration`], which checks that every
/// tool's scope and backend exist, that names are unique and that schemas compile.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its name here.
    pub name: AgentName,
    /// What people call it.
    pub title: Option<String>,
    /// Its own version.
    pub version: semver::Version,
    /// What it is for.
    pub description: Option<String>,
    /// Who answers for it.
    pub owner: Option<Owner>,
    /// How it thinks.
    pub brain: BrainSpec,
    /// What its clients may do with it.
    pub capabilities: Capabilities,
    /// What a client may set per session.
    pub options: Vec<AgentOption>,
    /// The permissions its tools need.
    pub scopes: Vec<Scope>,
    /// What it can do.
    pub tools: Vec<Arc<Tool>>,
    /// The MCP servers its tools run on.
    pub mcp: Vec<McpServer>,
    /// The secrets its templates may name.
    pub secrets: Vec<(BackendName, SecretSource)>,
    /// What its programs may reach beside what every program may.
    pub allow: ProgramAccess,
    /// The agent as a whole as a skill: one text in, one answer out.
    pub skill: Option<Box<Skill>>,
    /// Since when it exists.
    pub created: Option<Timestamp>,
    /// How it shows itself to strangers who look around.
    pub presence: Presence,
    /// What it publishes to read.
    pub information: Vec<Information>,
    /// What its author says it can do for others; [`Agent::abilities`] is never empty where there are tools.
    pub abilities: Vec<Capability>,
    /// Its interfaces that somebody else serves.
    pub interfaces: Vec<ElsewhereInterface>,
    /// What it tells people's devices that it can do, such as `supports_voice`.
    pub flags: BTreeMap<String, bool>,
}

impl Agent {
    /// The tool of that name, hidden or not.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.iter().find(|tool| tool.name.as_str() == name)
    }

    /// The tools its clients may see and switch on.
    pub fn exposed_tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.iter().filter(|tool| tool.exposed)
    }

    /// The tools that run on people's devices.
    pub fn device_tools(&self) -> impl Iterator<Item = (&Arc<Tool>, &DeviceRun)> {
        self.tools.iter().filter_map(|tool| match &tool.run {
            Run::Device(run) => Some((tool, run)),
            _ => None,
        })
    }

    /// What it offers as skills: tools, and itself as a whole.
    pub fn skills(&self) -> impl Iterator<Item = &Skill> {
        self.tools.iter().filter_map(|tool| tool.skill.as_deref()).chain(self.skill.as_deref())
    }

    /// What is said where another agent has a skill of the same id: ids are unique across a host.
    #[must_use]
    pub fn skill_taken(&self, id: &SkillId, by: &AgentName) -> String {
        format!("agent {}: the skill id {id} is already used by agent {by}; give one of them another `id`", self.name)
    }

    /// The scope of that id.
    #[must_use]
    pub fn scope(&self, id: &ScopeId) -> Option<&Scope> {
        self.scopes.iter().find(|scope| scope.id == *id)
    }

    /// The option of that name.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&AgentOption> {
        self.options.iter().find(|option| option.name.as_str() == name)
    }

    /// The command lines of the programs that are started for it: command tools, MCP servers, and its brain.
    pub fn programs(&self) -> impl Iterator<Item = &[String]> {
        let tools = self.tools.iter().filter_map(|tool| match &tool.run {
            Run::Command(run) => Some(run.argv.as_slice()),
            _ => None,
        });
        let servers = self.mcp.iter().filter_map(|server| match &server.transport {
            McpTransport::Stdio { argv, .. } => Some(argv.as_slice()),
            McpTransport::Http { .. } => None,
        });
        let brain = match &self.brain {
            BrainSpec::Process(run) => Some(run.argv.as_slice()),
            _ => None,
        };
        tools.chain(servers).chain(brain)
    }

    /// Whether a person other than the caller must approve calls of some of its tools.
    #[must_use]
    pub fn needs_approvers(&self) -> bool {
        let imports = || self.mcp.iter().filter_map(|server| server.import.as_ref());
        self.tools.iter().any(|tool| tool.human_authorization) || imports().any(|import| import.human_authorization)
    }

    /// The MCP server of that name.
    #[must_use]
    pub fn mcp_server(&self, name: &BackendName) -> Option<&McpServer> {
        self.mcp.iter().find(|server| server.name == *name)
    }
}

/// Who answers for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// What sort of owner it is.
    pub kind: OwnerKind,
    /// A person or an organisation.
    pub name: String,
    /// Their page.
    pub url: Option<Url>,
    /// Where to write to them.
    pub email: Option<String>,
}

/// What an agent accepts from and shows to the apps that talk to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The history the model sees may be read.
    pub compacted_history: bool,
    /// The whole exact history may be read.
    pub full_history: bool,
    /// A turn may be streamed piece by piece.
    pub stream_delta: bool,
    /// A turn may be streamed block by block.
    pub stream_message: bool,
    /// A turn may be answered at once.
    pub stream_none: bool,
    /// Apps may bring tools of their own.
    pub application_tools: bool,
    /// Pictures by `https:` address are accepted.
    pub image_https: bool,
    /// Pictures inside the message are accepted.
    pub image_data: bool,
}

impl Default for Capabilities {
    /// Everything but pictures, which not every brain can see.
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

/// Something a client may set for its session. All values are text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentOption {
    /// Its name.
    pub name: OptionName,
    /// What people call it.
    pub title: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// What it takes.
    pub kind: OptionKind,
    /// Its value when a client sets none.
    pub default: String,
}

/// What an option takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionKind {
    /// Any text.
    Text,
    /// A text that is never shown again.
    Secret,
    /// One of these.
    Select(Vec<String>),
}

/// A permission, and how much a person would mind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Its id, such as `booking:write`.
    pub id: ScopeId,
    /// A few words for a button or a list.
    pub label: LocalText,
    /// A sentence for the one who decides.
    pub description: Option<LocalText>,
    /// How much is at stake.
    pub sensitivity: Sensitivity,
    /// Where people's devices have their own words for the label; by a rule from the id when none is given.
    pub label_key: Option<String>,
    /// The same for the description.
    pub description_key: Option<String>,
}

/// How much is at stake when a permission is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sensitivity {
    /// Harmless: it runs.
    Low,
    /// Asked once in a while.
    Medium,
    /// Asked every time.
    High,
}

impl Sensitivity {
    /// The word for it in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// The one of that word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Low, Self::Medium, Self::High].into_iter().find(|sensitivity| sensitivity.as_str() == word)
    }
}

impl std::fmt::Display for Sensitivity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing an agent can do.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The name brains call it by.
    pub name: ToolName,
    /// What people call it.
    pub title: Option<String>,
    /// What it does, for people and models.
    pub description: String,
    /// The permission a caller needs; none means whoever may talk to the agent.
    pub scope: Option<ScopeId>,
    /// What it takes.
    pub input: Schema,
    /// What its structured result looks like, when declared.
    pub output: Option<Schema>,
    /// Where it really runs.
    pub run: Run,
    /// Whether clients see it. A hidden tool is the agent's own and runs without asking them; one that runs on
    /// people's devices is not for clients at all.
    pub exposed: bool,
    /// Whether a person other than the caller must approve each call.
    pub human_authorization: bool,
    /// How long one call may take.
    pub timeout: Duration,
    /// What strangers see of it, if it is offered to them.
    pub skill: Option<Box<Skill>>,
}

impl Tool {
    /// Whether it runs on a person's own device, which asks them itself.
    #[must_use]
    pub fn on_device(&self) -> bool {
        matches!(self.run, Run::Device(_))
    }
}
