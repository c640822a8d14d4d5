//! An interface of this moment, and what is prepared of it.

use std::sync::Arc;

use super::words::{Tag, Words};
use crate::agent::Capability;

/// One interface that is true of this moment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offer {
    /// Its id in the description.
    pub id: String,
    /// How it is used.
    pub kind: InterfaceType,
    /// What it speaks, such as `openrpc`.
    pub protocol: String,
    /// The profile it follows; one without a profile can be used by anyone.
    pub profile: Option<String>,
    /// How what is said on it can be protected.
    pub security_profiles: Vec<SecurityProfile>,
    /// What can be sent to it, what it likes best first; empty for whatever one likes.
    pub content_types: Vec<String>,
    /// How it can be used, what it likes best first.
    pub execution_modes: Vec<ExecutionMode>,
    /// What can be done with it.
    pub abilities: Vec<Ability>,
    /// Whether a person must agree to each use.
    pub human_authorization: bool,
    /// How long an answer takes, as far as it was measured; where an ability does not know better.
    pub latency_ms: Option<u64>,
    /// How long one use may take; where an ability does not know better.
    pub timeout_ms: Option<u64>,
    /// Where it, or its description, is.
    pub url: String,
    /// What it is for.
    pub description: String,
    /// Whether this caller may use it. One that nobody should hear of is not offered at all.
    pub granted: bool,
}

/// Something that can be done with an interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ability {
    /// What.
    pub capability: Arc<Capability>,
    /// How long an answer takes, as far as it was measured.
    pub latency_ms: Option<u64>,
    /// How long one use may take.
    pub timeout_ms: Option<u64>,
    /// Where the shape of requests is described.
    pub request_schema: Option<String>,
    /// Where the shape of answers is described.
    pub response_schema: Option<String>,
}

impl From<Arc<Capability>> for Ability {
    fn from(capability: Arc<Capability>) -> Self {
        Self { capability, latency_ms: None, timeout_ms: None, request_schema: None, response_schema: None }
    }
}

impl Offer {
    /// How long an answer takes when it is used for that.
    #[must_use]
    pub fn latency_of(&self, ability: Option<&Ability>) -> Option<u64> {
        ability.and_then(|ability| ability.latency_ms).or(self.latency_ms)
    }

    /// How long one use for that may take.
    #[must_use]
    pub fn timeout_of(&self, ability: Option<&Ability>) -> Option<u64> {
        ability.and_then(|ability| ability.timeout_ms).or(self.timeout_ms)
    }
}

/// How an interface is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterfaceType {
    /// By calls with arguments.
    Structured,
    /// By talking.
    NaturalLanguage,
}

impl InterfaceType {
    /// Its word in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Structured => "StructuredInterface",
            Self::NaturalLanguage => "NaturalLanguageInterface",
        }
    }
}

/// How what is said is protected, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecurityProfile {
    /// On its way.
    TransportProtected,
    /// From every member of a group to every other.
    GroupE2ee,
    /// From one end to the other.
    DirectE2ee,
}

impl SecurityProfile {
    /// Every profile, the weakest first.
    pub const ALL: [Self; 3] = [Self::TransportProtected, Self::GroupE2ee, Self::DirectE2ee];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TransportProtected => "transport-protected",
            Self::GroupE2ee => "group-e2ee",
            Self::DirectE2ee => "direct-e2ee",
        }
    }

    /// Reads that word, to the letter: what looks like it is not it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.as_str() == text)
    }
}

/// How an interface is used once it is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExecutionMode {
    /// A call with arguments.
    DirectStructuredCall,
    /// A message to one agent.
    DirectMessage,
    /// A message to a group.
    GroupMessage,
    /// Work that is asked for now and done later.
    AsyncTask,
    /// An answer that comes in pieces.
    Stream,
    /// Talking.
    NaturalLanguage,
    /// Making up a protocol together.
    Drafting,
}

impl ExecutionMode {
    /// Every mode.
    pub const ALL: [Self; 7] = [
        Self::DirectStructuredCall,
        Self::DirectMessage,
        Self::GroupMessage,
        Self::AsyncTask,
        Self::Stream,
        Self::NaturalLanguage,
        Self::Drafting,
    ];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DirectStructuredCall => "direct_structured_call",
            Self::DirectMessage => "direct_message",
            Self::GroupMessage => "group_message",
            Self::AsyncTask => "async_task",
            Self::Stream => "stream",
            Self::NaturalLanguage => "natural_language",
            Self::Drafting => "natural_language_protocol_drafting",
        }
    }

    /// Reads that word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

/// An offer with the words and tags of what it can do.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) offer: Offer,
    pub(super) subjects: Vec<Subject>,
}

/// What one ability is about; of an offer without abilities, nothing that is tagged.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) tags: Vec<Tag>,
}

impl Entry {
    pub(super) fn new(offer: Offer) -> Self {
        let tags =
            |ability: &Ability| ability.capability.intent_tags.iter().filter_map(|tag| Tag::parse(tag)).collect();
        let mut subjects: Vec<_> = offer.abilities.iter().map(|it| Subject { tags: tags(it) }).collect();
        if subjects.is_empty() {
            subjects.push(Subject { tags: Vec::new() });
        }
        Self { offer, subjects }
    }

    /// How much of the wanted words is said of the subject at that place, out of 1000.
    pub(super) fn words_of(&self, at: usize, wanted: &Words) -> u32 {
        match self.offer.abilities.get(at) {
            Some(Ability { capability, .. }) => {
                let texts = [capability.name.as_str(), &capability.description];
                wanted.found_in(texts.into_iter().chain(capability.intent_tags.iter().map(String::as_str)))
            }
            None => wanted.found_in([self.offer.description.as_str()].into_iter()),
        }
    }
}
