//! Interfaces that can be negotiated, with precomputed tags and words.

use std::sync::Arc;

use nuncio_core::agent::Capability;
use nuncio_core::string_enum;

use super::term_match::{HashedIntentTag, HashedWordSet};

/// Interface that is currently available to a caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceOffer {
    /// Id of the interface in the agent description.
    pub id: String,
    pub kind: InterfaceType,
    /// Protocol of the interface, such as `openrpc`.
    pub protocol: String,
    /// Profile that callers must support; any caller can use an interface without one.
    pub profile: Option<String>,
    pub security_profiles: Vec<SecurityProfile>,
    /// Accepted content types, preferred first; empty accepts all.
    pub content_types: Vec<String>,
    /// Execution modes of the interface, preferred first.
    pub execution_modes: Vec<InterfaceExecutionMode>,
    pub abilities: Vec<OfferedCapability>,
    /// Whether each use needs a person's approval.
    pub human_authorization: bool,
    /// Measured latency of the interface in milliseconds; a capability may have its own.
    pub latency_ms: Option<u64>,
    /// Time limit of one use in milliseconds; a capability may have its own.
    pub timeout_ms: Option<u64>,
    /// URL of the interface or of its description.
    pub url: String,
    pub description: String,
    /// Whether this caller may use the interface. Interfaces that must stay hidden from the caller are not offered at all.
    pub granted: bool,
}

/// A capability as offered by an interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferedCapability {
    pub capability: Arc<Capability>,
    pub latency_ms: Option<u64>,
    pub timeout_ms: Option<u64>,
    /// URL of the request schema.
    pub request_schema: Option<String>,
    /// URL of the response schema.
    pub response_schema: Option<String>,
    /// Scopes that the caller lacks, if the interface is not granted for that reason.
    pub missing_scopes: Vec<String>,
}

impl From<Arc<Capability>> for OfferedCapability {
    fn from(capability: Arc<Capability>) -> Self {
        Self {
            capability,
            latency_ms: None,
            timeout_ms: None,
            request_schema: None,
            response_schema: None,
            missing_scopes: Vec::new(),
        }
    }
}

impl InterfaceOffer {
    /// Latency of the capability in milliseconds; without one, that of the interface.
    #[must_use]
    pub fn latency_of(&self, ability: Option<&OfferedCapability>) -> Option<u64> {
        ability.and_then(|ability| ability.latency_ms).or(self.latency_ms)
    }

    /// Time limit of the capability in milliseconds; without one, that of the interface.
    #[must_use]
    pub fn timeout_of(&self, ability: Option<&OfferedCapability>) -> Option<u64> {
        ability.and_then(|ability| ability.timeout_ms).or(self.timeout_ms)
    }
}

string_enum! {
    #[derive(PartialOrd, Ord)]
    pub enum InterfaceType {
        /// An interface that is called with arguments.
        Structured = "StructuredInterface",
        /// An interface that is used by conversation.
        NaturalLanguage = "NaturalLanguageInterface",
    }
}

string_enum! {
    /// Protection of messages, from weakest to strongest. Only the exact spellings are accepted.
    #[derive(PartialOrd, Ord)]
    pub enum SecurityProfile {
        /// Messages are encrypted in transit only (TLS).
        TransportProtected = "transport-protected",
        /// Messages are end-to-end encrypted among the members of a group.
        GroupE2ee = "group-e2ee",
        /// Messages are end-to-end encrypted between two parties.
        DirectE2ee = "direct-e2ee",
    }
}

string_enum! {
    /// How a chosen interface is used.
    #[derive(PartialOrd, Ord)]
    pub enum InterfaceExecutionMode {
        DirectStructuredCall = "direct_structured_call",
        DirectMessage = "direct_message",
        GroupMessage = "group_message",
        /// Work that is requested now and completed later.
        AsyncTask = "async_task",
        /// The answer is streamed in pieces.
        Stream = "stream",
        NaturalLanguage = "natural_language",
        /// Drafting of a new protocol by both sides.
        Drafting = "natural_language_protocol_drafting",
    }
}

#[derive(Debug, Clone)]
pub(super) struct PreparedInterfaceOffer {
    pub(super) offer: InterfaceOffer,
    /// Tags of each capability; one empty list for an offer without capabilities.
    pub(super) tags: Vec<Vec<HashedIntentTag>>,
}

impl PreparedInterfaceOffer {
    pub(super) fn new(offer: InterfaceOffer) -> Self {
        let tags_of = |ability: &OfferedCapability| {
            ability.capability.intent_tags.iter().filter_map(|tag| HashedIntentTag::parse(tag)).collect()
        };
        let mut tags: Vec<_> = offer.abilities.iter().map(tags_of).collect();
        if tags.is_empty() {
            tags.push(Vec::new());
        }
        Self { offer, tags }
    }

    /// Share of the wanted words that capability number `at` contains, out of 1000; without capabilities, the share
    /// that the offer's description contains.
    pub(super) fn words_of(&self, at: usize, wanted: &HashedWordSet) -> u32 {
        match self.offer.abilities.get(at) {
            Some(OfferedCapability { capability, .. }) => {
                let texts = [capability.name.as_str(), &capability.description];
                wanted.found_in(texts.into_iter().chain(capability.intent_tags.iter().map(String::as_str)))
            }
            None => wanted.found_in([self.offer.description.as_str()].into_iter()),
        }
    }
}
