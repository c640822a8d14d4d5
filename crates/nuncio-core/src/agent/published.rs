//! Published parts of an agent other than tools: documents, capabilities, and interfaces that other servers provide.

use url::Url;

use super::Agent;
use crate::ids::{CapabilityId, InformationPath, ToolName};
use crate::policy::asks_others;
use crate::string_enum;

/// A document that an agent publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InformationDocument {
    /// The document type, such as `Product` or `VideoObject`.
    pub kind: String,
    pub description: String,
    pub source: InformationLocation,
}

impl InformationDocument {
    /// Document type whose documents are completed and validated as product documents.
    pub const PRODUCT: &str = "Product";
    /// Size limit of a document file, in bytes.
    pub const MAX_BYTES: usize = 1 << 20;

    #[must_use]
    pub fn is_product(&self) -> bool {
        self.kind == Self::PRODUCT
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InformationLocation {
    /// The document is at a URL on any server.
    Url(Url),
    /// The document is a JSON file beside the agent file, served by this server.
    File(InformationPath),
}

/// A capability of an agent, independent of the interface that offers it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability {
    /// Id of the capability, for example `cap.hotel.booking`.
    pub id: CapabilityId,
    pub name: String,
    pub description: String,
    /// Dotted tags of the intents that the capability serves: `hotel.booking` includes everything below it.
    pub intent_tags: Vec<String>,
    /// Tools that implement the capability; empty if the agent as a whole implements it.
    pub tools: Vec<ToolName>,
    /// Whether some calls of the capability need a person's approval.
    pub human_authorization: bool,
}

impl Capability {
    /// Whether the tool implements this capability.
    #[must_use]
    pub fn is_of(&self, tool: &ToolName) -> bool {
        self.tools.is_empty() || self.tools.contains(tool)
    }
}

/// An ANP interface of an agent that another server provides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalInterface {
    /// Id of the interface in the agent file; published documents add a prefix to it.
    pub name: crate::ids::BackendName,
    pub kind: InterfaceKind,
    /// Protocol of the interface, for example `WebRTC`.
    pub protocol: String,
    pub version: Option<String>,
    /// Address of the interface's description.
    pub url: Url,
    pub description: String,
    /// Whether each use of the interface needs a person's approval.
    pub human_authorization: bool,
}

string_enum! {
    /// Kinds of ANP interfaces, in order of preference.
    #[derive(PartialOrd, Ord)]
    pub enum InterfaceKind {
        /// The interface is called with arguments.
        Structured = "structured",
        /// The interface is used by conversation.
        NaturalLanguage = "natural_language",
    }
}

/// Visibility of an agent in ANP discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscoveryVisibility {
    /// Whether the host's list of agents contains the agent.
    pub listed: bool,
    /// Whether callers without a grant may talk to the agent.
    pub conversation: bool,
}

impl Default for DiscoveryVisibility {
    fn default() -> Self {
        Self { listed: true, conversation: true }
    }
}

string_enum! {
    #[derive(Default)]
    pub enum OwnerKind {
        #[default]
        Organization = "Organization",
        Person = "Person",
    }
}

impl Agent {
    /// The declared capabilities, or one for each exposed tool if none is declared.
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
            name: tool.title_in("en").to_owned(),
            description: tool.description.clone(),
            intent_tags,
            tools: vec![tool.name.clone()],
            human_authorization: asks_others(self, tool),
        })
    }
}
