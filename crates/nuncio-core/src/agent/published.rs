//! What an agent publishes beside its tools: things to read, abilities to find it by, interfaces elsewhere.

use url::Url;

use super::Agent;
use crate::ids::{CapabilityId, InformationPath, ToolName};
use crate::policy::asks_others;

/// Something an agent publishes to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Information {
    /// What sort of thing it is, such as `Product` or `VideoObject`.
    pub kind: String,
    /// What is in it.
    pub description: String,
    /// Where it is.
    pub source: InformationSource,
}

impl Information {
    /// The kind whose files are completed and checked as product documents.
    pub const PRODUCT: &str = "Product";
    /// How many bytes a file may have.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Whether it is a product document.
    #[must_use]
    pub fn is_product(&self) -> bool {
        self.kind == Self::PRODUCT
    }
}

/// Where information is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InformationSource {
    /// At an address of its own.
    Url(Url),
    /// In a JSON file beside the agent file, which we serve.
    File(InformationPath),
}

/// Something an agent can do for others, whichever of its interfaces they use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability {
    /// Its id, such as `cap.hotel.booking`.
    pub id: CapabilityId,
    /// What people call it.
    pub name: String,
    /// What it is.
    pub description: String,
    /// What people may want when they need it: `hotel.booking` and below.
    pub intent_tags: Vec<String>,
    /// The tools that do it; none for the agent as a whole.
    pub tools: Vec<ToolName>,
    /// Whether a person must agree to some of it.
    pub human_authorization: bool,
}

impl Capability {
    /// Whether that tool does some of it.
    #[must_use]
    pub fn is_of(&self, tool: &ToolName) -> bool {
        self.tools.is_empty() || self.tools.contains(tool)
    }
}

/// An interface of an agent that somebody else serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElsewhereInterface {
    /// Its id in the agent file and, prefixed, in documents.
    pub name: crate::ids::BackendName,
    /// What sort of interface it is.
    pub kind: InterfaceKind,
    /// What it speaks, such as `WebRTC`.
    pub protocol: String,
    /// Of which version.
    pub version: Option<String>,
    /// Where it is described.
    pub url: Url,
    /// What it is for.
    pub description: String,
    /// Whether a person must agree to each use.
    pub human_authorization: bool,
}

/// How an interface is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterfaceKind {
    /// By calls with arguments.
    Structured,
    /// By talking.
    NaturalLanguage,
}

impl InterfaceKind {
    /// Every kind, in the order they are preferred.
    pub const ALL: [Self; 2] = [Self::Structured, Self::NaturalLanguage];

    /// Its word in agent files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Structured => "structured",
            Self::NaturalLanguage => "natural_language",
        }
    }
}

/// How an agent shows itself to strangers who look around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presence {
    /// Whether it is in the host's list of agents.
    pub listed: bool,
    /// Whether strangers may talk to it.
    pub conversation: bool,
}

impl Default for Presence {
    fn default() -> Self {
        Self { listed: true, conversation: true }
    }
}

/// What sort of owner answers for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OwnerKind {
    /// An organisation.
    #[default]
    Organization,
    /// A person.
    Person,
}

impl OwnerKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Organization, Self::Person];

    /// Its word, in agent files and documents alike.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Organization => "Organization",
            Self::Person => "Person",
        }
    }
}

impl Agent {
    /// What it can do for others: what its author declared, else one ability for each exposed tool.
    #[must_use]
    pub fn abilities(&self) -> Vec<Capability> {
        if !self.abilities.is_empty() {
            let mut abilities = self.abilities.clone();
            for ability in &mut abilities {
                ability.human_authorization |=
                    self.tools.iter().any(|tool| ability.is_of(&tool.name) && asks_others(self, tool));
            }
            return abilities;
        }
        self.exposed_tools().filter_map(|tool| self.ability_of(tool)).collect()
    }

    fn ability_of(&self, tool: &super::Tool) -> Option<Capability> {
        let id = CapabilityId::parse(&format!("cap.{}.{}", self.name, tool.name)).ok()?;
        let tags = tool.skill.iter().flat_map(|skill| skill.tags.iter().map(String::as_str));
        let mut intent_tags: Vec<String> = Vec::new();
        for tag in tags.chain([tool.name.as_str()]) {
            if !intent_tags.iter().any(|known| known == tag) {
                intent_tags.push(tag.to_owned());
            }
        }
        Some(Capability {
            id,
            name: tool.title.clone().unwrap_or_else(|| tool.name.to_string()),
            description: tool.description.clone(),
            intent_tags,
            tools: vec![tool.name.clone()],
            human_authorization: asks_others(self, tool),
        })
    }
}
