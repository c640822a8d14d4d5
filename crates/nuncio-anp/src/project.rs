//! Builds ANP documents from declared agents.
//!
//! Documents have no proof and no timestamp: the same agent on the same host always gives the same bytes
//! ([`crate::wire::canonical`]).

#[cfg(feature = "client")]
mod directory;
#[cfg(feature = "server")]
mod inexpressible;
mod offers;
mod openrpc;
mod published;
mod refs;

use std::collections::BTreeMap;

use nuncio_core::agent::{Agent, ExternalInterface, InterfaceKind, Owner, Tool};
use nuncio_core::ids::AgentName;
use nuncio_core::policy::asks_others;
use nuncio_core::string_enum;
use serde_json::{Map, Value};

use crate::negotiation::SecurityProfile;

#[cfg(feature = "server")]
pub(crate) use inexpressible::inexpressible;
pub use offers::{ConversationInterfaceState, InterfaceOfferContext, ToolOfferState};
pub use openrpc::{CHAT, chat_method};

use crate::wire::{
    AgentDescription, Capability, CollectionItem, CollectionPage, Interface, PROTOCOL_TYPE, PROTOCOL_VERSION,
    SecurityDefinition, SecurityReferences, WELL_KNOWN, method, profile, texts,
};

/// Name of the security definition for DID-WBA authentication.
pub const DIDWBA: &str = "didwba_sc";
/// Name of the security definition for public access.
pub const NOSEC: &str = "nosec_sc";
/// Number of agents per page of the host's list.
pub const PAGE: usize = 100;

const INTERFACE_VERSION: &str = "1.0";

/// Properties of this host that its documents depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDocumentSettings {
    /// Prefix of all URLs in documents, without a trailing slash.
    pub base: String,
    /// Whether protocols are drafted when no structured interface matches.
    pub drafts: bool,
}

string_enum! {
    /// Kind of OpenRPC document of an agent's tools.
    pub enum ToolDocumentKind {
        /// Tools that run when called.
        Tools = "tools",
        /// Tools whose every call needs approval by a person.
        Authorized = "authorized",
    }
}

impl ToolDocumentKind {
    #[must_use]
    pub const fn asks_a_person(self) -> bool {
        matches!(self, Self::Authorized)
    }

    #[must_use]
    pub fn has(self, agent: &Agent, tool: &Tool) -> bool {
        tool.exposed && self == Self::of(agent, tool)
    }

    /// Document that lists a tool. ANP cannot ask the user behind the caller, so calls under a `high` scope wait for an
    /// approver, like calls of tools with `human_authorization`.
    #[must_use]
    pub fn of(agent: &Agent, tool: &Tool) -> Self {
        if asks_others(agent, tool) { Self::Authorized } else { Self::Tools }
    }

    /// Whether the agent has this document. `Tools` also exists for an agent that has only a conversation.
    #[must_use]
    pub fn is_of(self, agent: &Agent) -> bool {
        let talks = self == Self::Tools && agent.presence.conversation;
        talks || agent.tools.iter().any(|tool| self.has(agent, tool))
    }
}

#[must_use]
pub fn interface_id(agent: &AgentName, name: &str) -> String {
    format!("interface.{agent}.{name}")
}

impl HostDocumentSettings {
    #[must_use]
    pub fn new(base: &str) -> Self {
        Self { base: base.trim_end_matches('/').to_owned(), drafts: false }
    }

    #[must_use]
    pub fn drafts_with(&self, agent: &Agent) -> bool {
        self.drafts && agent.brain.composes() && agent.presence.conversation
    }

    #[must_use]
    pub fn description_url(&self, agent: &AgentName) -> String {
        format!("{}/agents/{agent}/ad.json", self.base)
    }

    #[must_use]
    pub fn interface_url(&self, agent: &AgentName, set: ToolDocumentKind) -> String {
        format!("{}/agents/{agent}/interfaces/{}.json", self.base, set.as_str())
    }

    #[must_use]
    pub fn information_url(&self, agent: &AgentName, stem: &str) -> String {
        format!("{}/agents/{agent}/information/{stem}.json", self.base)
    }

    #[must_use]
    pub fn rpc_url(&self, agent: &AgentName) -> String {
        format!("{}/agents/{agent}/rpc", self.base)
    }

    /// URL of the endpoint for messages and negotiation.
    #[must_use]
    pub fn anp_url(&self) -> String {
        format!("{}/anp", self.base)
    }

    /// Page of the host's agent list, counted from 1; `None` after the last page. The first page exists even if empty.
    #[must_use]
    pub fn page<'a>(&self, agents: impl Iterator<Item = &'a Agent>, page: usize) -> Option<CollectionPage> {
        let mut listed: Vec<_> = agents.filter(|agent| agent.presence.listed).collect();
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        let first = page.checked_sub(1)?.checked_mul(PAGE)?;
        if page > 1 && first >= listed.len() {
            return None;
        }
        let url = |page: usize| match page {
            1 => format!("{}{WELL_KNOWN}", self.base),
            _ => format!("{}{WELL_KNOWN}?page={page}", self.base),
        };
        let here = listed.iter().skip(first).take(PAGE);
        let items = here.map(|agent| CollectionItem::new(name_of(agent).to_owned(), self.description_url(&agent.name)));
        let next = (listed.len() > first + PAGE).then(|| url(page + 1));
        Some(CollectionPage::new(url(page), items.collect(), next))
    }

    /// Builds an agent's description, without a proof.
    #[must_use]
    pub fn description(&self, agent: &Agent, did: Option<&str>) -> AgentDescription {
        let information = agent.information.iter().map(|it| self.information(agent, it)).collect();
        AgentDescription {
            url: Some(self.description_url(&agent.name)),
            owner: agent.owner.as_ref().map(owner),
            description: Some(description_of(agent)),
            created: agent.created.map(|at| at.to_string()),
            information: some_list(information),
            capabilities: Some(agent.abilities().iter().map(capability).collect()),
            interfaces: Some(self.interfaces(agent)),
            ..bare_description(name_of(agent).to_owned(), did, DIDWBA)
        }
    }

    fn interfaces(&self, agent: &Agent) -> Vec<Interface> {
        let mut interfaces = vec![self.negotiation(agent)];
        if agent.presence.conversation {
            interfaces.push(self.conversation(agent));
        }
        for set in ToolDocumentKind::ALL.into_iter().filter(|set| set.is_of(agent)) {
            interfaces.push(self.structured(agent, set));
            interfaces.push(self.inline(agent, set));
        }
        interfaces.extend(agent.interfaces.iter().map(|it| elsewhere(agent, it)));
        interfaces
    }

    /// Builds the negotiation interface of an agent (ANP-06 §5.4).
    fn negotiation(&self, agent: &Agent) -> Interface {
        let about = "Endpoint for runtime capabilities and for choosing the best interface.".to_owned();
        let mut negotiates =
            texts(&["profiles", "interfaces", "schemas", "security_profiles", "content_types", "execution_modes"]);
        if self.drafts_with(agent) {
            negotiates.push("protocol_artifacts".to_owned());
        }
        Interface {
            version: Some(INTERFACE_VERSION.to_owned()),
            profile: Some(profile::NEGOTIATION.to_owned()),
            binding: Some("jsonrpc-2.0".to_owned()),
            url: Some(self.anp_url()),
            methods: Some(texts(&[method::GET_CAPABILITIES, method::NEGOTIATE])),
            security: Some(SecurityReferences::Names(vec![DIDWBA.to_owned()])),
            security_profiles: Some(protection()),
            negotiates: Some(negotiates),
            ..Interface::new(interface_id(&agent.name, "negotiation"), Interface::META, "ANP", about)
        }
    }

    fn conversation(&self, agent: &Agent) -> Interface {
        let about = format!("Natural language conversation with {}.", name_of(agent));
        let refs = agent.abilities().iter().map(|it| it.id.to_string()).collect();
        Interface {
            version: Some(INTERFACE_VERSION.to_owned()),
            profile: Some(profile::DIRECT.to_owned()),
            url: Some(self.anp_url()),
            security: Some(SecurityReferences::Name(DIDWBA.to_owned())),
            security_profiles: Some(protection()),
            capability_refs: some_list(refs),
            ..Interface::new(interface_id(&agent.name, "conversation"), Interface::NATURAL_LANGUAGE, "ANP", about)
        }
    }

    /// Builds the interface with the URL of an OpenRPC document. The document is public; its methods state their own
    /// security.
    fn structured(&self, agent: &Agent, set: ToolDocumentKind) -> Interface {
        let about = match set {
            ToolDocumentKind::Tools => format!("OpenRPC interface of {}.", name_of(agent)),
            ToolDocumentKind::Authorized => {
                format!(
                    "OpenRPC interface of {}, with methods that need a person's approval for each call.",
                    name_of(agent)
                )
            }
        };
        let refs = capabilities_of(agent, set).iter().map(|it| it.id.to_string()).collect();
        Interface {
            version: Some(agent.version.to_string()),
            profile: Some(profile::RPC.to_owned()),
            url: Some(self.interface_url(&agent.name, set)),
            security: Some(SecurityReferences::Name(NOSEC.to_owned())),
            security_profiles: Some(protection()),
            capability_refs: some_list(refs),
            human_authorization: Some(set.asks_a_person()),
            ..Interface::new(interface_id(&agent.name, set.as_str()), Interface::STRUCTURED, "openrpc", about)
        }
    }

    /// Builds the interface with an inline OpenRPC document, for clients that do not fetch the document by URL.
    fn inline(&self, agent: &Agent, set: ToolDocumentKind) -> Interface {
        Interface {
            id: Some(interface_id(&agent.name, &format!("{}.inline", set.as_str()))),
            url: None,
            content: serde_json::to_value(self.openrpc(agent, set)).ok(),
            security: Some(SecurityReferences::Name(DIDWBA.to_owned())),
            ..self.structured(agent, set)
        }
    }
}

/// Description with a name only. `security` is the default scheme of its interfaces.
fn bare_description(name: String, did: Option<&str>, security: &str) -> AgentDescription {
    AgentDescription {
        protocol_type: PROTOCOL_TYPE.to_owned(),
        protocol_version: PROTOCOL_VERSION.to_owned(),
        r#type: AgentDescription::TYPE.to_owned(),
        url: None,
        name,
        did: did.map(str::to_owned),
        owner: None,
        description: None,
        created: None,
        security_definitions: BTreeMap::from([
            (DIDWBA.to_owned(), SecurityDefinition::didwba()),
            (NOSEC.to_owned(), SecurityDefinition::nosec()),
        ]),
        security: SecurityReferences::Name(security.to_owned()),
        information: None,
        capabilities: None,
        interfaces: None,
        proof: None,
        extra: Map::new(),
    }
}

fn capabilities_of(agent: &Agent, set: ToolDocumentKind) -> Vec<nuncio_core::agent::Capability> {
    let tools: Vec<_> = agent.tools.iter().filter(|tool| set.has(agent, tool)).collect();
    let mut abilities = agent.abilities();
    abilities.retain(|ability| tools.iter().any(|tool| ability.is_of(&tool.name)));
    abilities
}

fn capability(ability: &nuncio_core::agent::Capability) -> Capability {
    Capability {
        id: ability.id.to_string(),
        name: Some(ability.name.clone()),
        description: Some(ability.description.clone()),
        intent_tags: some_list(ability.intent_tags.clone()),
        requires_human_authorization: Some(ability.human_authorization),
        extra: Map::new(),
    }
}

fn elsewhere(agent: &Agent, it: &ExternalInterface) -> Interface {
    let kind = match it.kind {
        InterfaceKind::Structured => Interface::STRUCTURED,
        InterfaceKind::NaturalLanguage => Interface::NATURAL_LANGUAGE,
    };
    let id = interface_id(&agent.name, &format!("elsewhere.{}", it.name));
    Interface {
        version: it.version.clone(),
        url: Some(it.url.to_string()),
        human_authorization: it.human_authorization.then_some(true),
        ..Interface::new(id, kind, &it.protocol, it.description.clone())
    }
}

fn owner(owner: &Owner) -> crate::wire::Owner {
    crate::wire::Owner {
        r#type: Some(owner.kind.as_str().to_owned()),
        name: Some(owner.name.clone()),
        url: owner.url.as_ref().map(ToString::to_string),
        email: owner.email.clone(),
        extra: Map::new(),
    }
}

#[must_use]
pub fn name_of(agent: &Agent) -> &str {
    agent.title_in("en")
}

/// Description of an agent, never empty, since some clients refuse an empty description.
fn description_of(agent: &Agent) -> String {
    match &agent.description {
        Some(text) => text.in_english().to_owned(),
        None => format!("The agent {}.", name_of(agent)),
    }
}

fn protection() -> Vec<String> {
    texts(&[SecurityProfile::TransportProtected.as_str()])
}

fn some_list<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

/// Value of a string member of a schema; `None` if it is absent or empty.
fn said<'a>(schema: &'a Value, key: &str) -> Option<&'a str> {
    schema.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}
