//! Chooses an interface locally from the description, with the same scoring as a negotiation (ANP-06 §6.3).

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::agent::Capability as DeclaredCapability;
use nuncio_core::ids::CapabilityId;
use nuncio_engine::ports::entropy::random_name;

use super::{ChosenBy, NegotiationAgreement, NegotiationRequest};
use crate::client::AnpClient;
use crate::client::describe::VerifiedAgentDescription;
use crate::client::error::{ClientError, ClientErrorReason};
use crate::negotiate as translate;
use crate::negotiation::{
    AcceptedInterfaceOrDraft, InterfaceExecutionMode, InterfaceOffer, InterfaceType, OfferedCapability,
    PreparedInterfaceOffers, SecurityProfile,
};
use crate::wire::{AgentDescription, Capability, Interface, RequestMeta, RpcError, profile, texts};

const OWN_CHOICE_VALIDITY: Duration = Duration::from_secs(600);
/// Maximum number of interfaces, and of capabilities, that are considered.
const MAX_CONSIDERED: usize = 256;

pub(super) fn choose(
    client: &AnpClient,
    agent: &VerifiedAgentDescription,
    needs: &NegotiationRequest,
    why: String,
) -> Result<NegotiationAgreement, ClientError> {
    let now = client.http.clock.now();
    let id = random_name(&*client.entropy, "neg-");
    let meta = RequestMeta { created_at: Some(now), ..RequestMeta::new(profile::NEGOTIATION) };
    let offers = PreparedInterfaceOffers::new(offers(agent));
    let request = translate::request(&needs.body(id.clone()), &meta);
    let result = match offers.choose(&request, now) {
        Ok(AcceptedInterfaceOrDraft::Accepted(accepted)) => {
            translate::result(&accepted, id, now.after(OWN_CHOICE_VALIDITY))
        }
        Ok(AcceptedInterfaceOrDraft::Draft(_)) => {
            return Err(ClientError::new(ClientErrorReason::NotAgreed, "no described interface fits the request"));
        }
        Err(refusal) => return Err(ClientError::rpc_failure(&agent.url, RpcError::from(&refusal))),
    };
    let notes = vec![format!("chosen by this client, from the description alone: {why}")];
    Ok(NegotiationAgreement { result, decided: ChosenBy::Client { why }, notes, reused: false })
}

/// Converts the described interfaces to offers. For missing information, the weakest value is assumed.
fn offers(agent: &VerifiedAgentDescription) -> Vec<InterfaceOffer> {
    let description = &agent.description;
    let mut offers: Vec<InterfaceOffer> = Vec::new();
    for (index, interface) in description.interfaces.iter().flatten().enumerate().take(MAX_CONSIDERED) {
        let kind = match interface.r#type.as_str() {
            Interface::STRUCTURED => InterfaceType::Structured,
            Interface::NATURAL_LANGUAGE => InterfaceType::NaturalLanguage,
            _ => continue,
        };
        let id = interface.id.clone().unwrap_or_else(|| format!("interfaces/{index}"));
        // Inline methods duplicate those of the interface with a URL.
        let is_copy = |other: &InterfaceOffer| id.strip_suffix(".inline") == Some(other.id.as_str());
        if offers.iter().any(is_copy) {
            continue;
        }
        offers.push(offer(agent, interface, kind, id));
    }
    offers
}

fn offer(agent: &VerifiedAgentDescription, interface: &Interface, kind: InterfaceType, id: String) -> InterfaceOffer {
    let description = &agent.description;
    let security_profiles = match &interface.security_profiles {
        Some(names) => names.iter().filter_map(|name| SecurityProfile::parse(name)).collect(),
        None => vec![SecurityProfile::TransportProtected],
    };
    let (content_types, mode): (&[_], _) = match kind {
        InterfaceType::Structured => (&["application/json"], InterfaceExecutionMode::DirectStructuredCall),
        InterfaceType::NaturalLanguage => {
            (&["text/plain", "application/json"], InterfaceExecutionMode::NaturalLanguage)
        }
    };
    let url = interface.url.as_deref().and_then(|text| agent.url.join(text).ok());
    let abilities = capabilities(description, interface).filter_map(declared_capability);
    InterfaceOffer {
        id,
        kind,
        protocol: interface.protocol.clone().unwrap_or_default(),
        profile: interface.profile.clone(),
        security_profiles,
        content_types: texts(content_types),
        execution_modes: vec![mode],
        abilities: abilities.map(|it| OfferedCapability::from(Arc::new(it))).collect(),
        human_authorization: interface.asks_a_person(),
        latency_ms: None,
        timeout_ms: None,
        url: url.as_ref().unwrap_or(&agent.url).to_string(),
        description: interface.description.clone().unwrap_or_default(),
        granted: true,
    }
}

/// Capabilities of an interface; all capabilities of the agent if the interface names none.
fn capabilities<'a>(
    description: &'a AgentDescription,
    interface: &'a Interface,
) -> impl Iterator<Item = &'a Capability> {
    let is_given = |it: &&Capability| interface.capability_refs.as_ref().is_none_or(|refs| refs.contains(&it.id));
    description.capabilities.iter().flatten().filter(is_given).take(MAX_CONSIDERED)
}

fn declared_capability(capability: &Capability) -> Option<DeclaredCapability> {
    Some(DeclaredCapability {
        id: CapabilityId::parse(&capability.id).ok()?,
        name: capability.name.clone().unwrap_or_else(|| capability.id.clone()),
        description: capability.description.clone().unwrap_or_default(),
        intent_tags: capability.intent_tags.clone().unwrap_or_default(),
        tools: Vec::new(),
        human_authorization: capability.requires_human_authorization.unwrap_or(false),
    })
}
