//! An agent's interfaces as negotiation offers for one caller at one time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nuncio_core::agent::{Agent, Tool};

use super::{HostDocumentSettings, ToolDocumentKind, interface_id, name_of};
use crate::negotiation::{InterfaceExecutionMode, InterfaceOffer, InterfaceType, OfferedCapability, SecurityProfile};
use crate::wire::{profile, texts};

/// State of a tool for one caller at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolOfferState {
    /// False if the tool is disabled or overloaded.
    pub available: bool,
    /// Whether the caller may use the tool.
    pub granted: bool,
    /// Recent duration of the tool's calls, in milliseconds.
    pub latency_ms: Option<u64>,
    /// Time limit of a call including its approval, in milliseconds.
    pub timeout_ms: u64,
}

/// State of the conversation interface for one caller at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConversationInterfaceState {
    pub available: bool,
    /// Whether the caller may converse with the agent.
    pub granted: bool,
    /// Recent duration of the agent's answers, in milliseconds.
    pub latency_ms: Option<u64>,
    pub timeout_ms: Option<u64>,
    pub drafts: bool,
    /// Whether the caller can sign messages with a DID. Callers without a DID use the chat method instead.
    pub signs: bool,
}

pub struct InterfaceOfferContext<'a> {
    pub tool: &'a dyn Fn(&Tool) -> ToolOfferState,
    pub conversation: ConversationInterfaceState,
}

impl HostDocumentSettings {
    /// Offers of an agent. Tools that the caller may not use are offered as not granted, so that the negotiation can
    /// ask for authentication; if authentication would not help, such tools should be marked as unavailable.
    #[must_use]
    pub fn offers(&self, agent: &Agent, moment: &InterfaceOfferContext<'_>) -> Vec<InterfaceOffer> {
        let mut offers = Vec::new();
        for set in ToolDocumentKind::ALL {
            for granted in [true, false] {
                offers.extend(self.tools_offer(agent, set, granted, moment));
            }
        }
        if agent.presence.conversation && moment.conversation.available {
            offers.push(self.conversation_offer(agent, moment));
        }
        offers
    }

    /// Offer of the available tools of one document; `granted` selects those that the caller may or may not use.
    fn tools_offer(
        &self,
        agent: &Agent,
        set: ToolDocumentKind,
        granted: bool,
        moment: &InterfaceOfferContext<'_>,
    ) -> Option<InterfaceOffer> {
        let tools: Vec<(&Tool, ToolOfferState)> = agent
            .tools
            .iter()
            .filter(|tool| set.has(agent, tool))
            .map(|tool| (&**tool, (moment.tool)(tool)))
            .filter(|(_, state)| state.available && state.granted == granted)
            .collect();
        if tools.is_empty() {
            return None;
        }
        let abilities: Vec<_> = agent.abilities().into_iter().map(Arc::new).collect();
        let mut found: BTreeMap<_, OfferedCapability> = BTreeMap::new();
        for capability in &abilities {
            let of: Vec<_> = tools.iter().filter(|(tool, _)| capability.is_of(&tool.name)).collect();
            let Some((tool, _)) = of.first() else { continue };
            // With several tools, the slowest one determines the latency, and there is no single schema.
            let mut ability = OfferedCapability::from(capability.clone());
            ability.latency_ms = of.iter().filter_map(|(_, state)| state.latency_ms).max();
            ability.timeout_ms = of.iter().map(|(_, state)| state.timeout_ms).max();
            if !granted {
                let scopes = of.iter().filter_map(|(tool, _)| tool.scope.as_ref()).map(ToString::to_string);
                ability.missing_scopes = scopes.collect::<BTreeSet<_>>().into_iter().collect();
            }
            if of.len() == 1 {
                ability.request_schema = Some(self.schema_url(agent, tool, "input"));
                ability.response_schema = Some(self.schema_url(agent, tool, "output"));
            }
            found.insert(capability.id.clone(), ability);
        }
        Some(InterfaceOffer {
            id: interface_id(&agent.name, set.as_str()),
            kind: InterfaceType::Structured,
            protocol: "openrpc".to_owned(),
            profile: Some(profile::RPC.to_owned()),
            security_profiles: vec![SecurityProfile::TransportProtected],
            content_types: vec!["application/json".to_owned()],
            execution_modes: vec![InterfaceExecutionMode::DirectStructuredCall],
            abilities: found.into_values().collect(),
            human_authorization: set.asks_a_person(),
            latency_ms: tools.iter().filter_map(|(_, state)| state.latency_ms).max(),
            timeout_ms: tools.iter().map(|(_, state)| state.timeout_ms).max(),
            url: self.interface_url(&agent.name, set),
            description: format!("OpenRPC interface of {}.", name_of(agent)),
            granted,
        })
    }

    fn conversation_offer(&self, agent: &Agent, moment: &InterfaceOfferContext<'_>) -> InterfaceOffer {
        let state = moment.conversation;
        let mut execution_modes = vec![InterfaceExecutionMode::NaturalLanguage];
        if state.signs {
            execution_modes.push(InterfaceExecutionMode::DirectMessage);
        }
        if state.drafts {
            execution_modes.push(InterfaceExecutionMode::Drafting);
        }
        let usable = |tool: &Tool| {
            let state = (moment.tool)(tool);
            state.available && state.granted
        };
        let usable: Vec<_> = agent.exposed_tools().filter(|tool| usable(tool)).collect();
        let mut abilities = agent.abilities();
        abilities.retain(|it| it.tools.is_empty() || usable.iter().any(|tool| it.is_of(&tool.name)));
        InterfaceOffer {
            id: interface_id(&agent.name, "conversation"),
            kind: InterfaceType::NaturalLanguage,
            protocol: if state.signs { "ANP" } else { "openrpc" }.to_owned(),
            profile: Some(if state.signs { profile::DIRECT } else { profile::RPC }.to_owned()),
            security_profiles: vec![SecurityProfile::TransportProtected],
            content_types: texts(if state.signs { &["text/plain", "application/json"] } else { &["application/json"] }),
            execution_modes,
            abilities: abilities.into_iter().map(|it| Arc::new(it).into()).collect(),
            human_authorization: false,
            latency_ms: state.latency_ms,
            timeout_ms: state.timeout_ms,
            url: if state.signs { self.anp_url() } else { self.interface_url(&agent.name, ToolDocumentKind::Tools) },
            description: format!("Natural language conversation with {}.", name_of(agent)),
            granted: state.granted,
        }
    }
}
