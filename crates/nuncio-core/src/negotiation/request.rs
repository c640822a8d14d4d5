//! What a caller asks of the judge.

use super::constraint::{Constraint, Constraints};
use super::offer::{ExecutionMode, InterfaceType, Offer, SecurityProfile};
use super::words::{Tag, Words};
use crate::time::Timestamp;

/// What a caller asks for. Lists that are `None` were not sent; empty ones were, and allow nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// How to negotiate; `structured_selection` when it was not said.
    pub mode: Option<String>,
    /// What the caller wants done.
    pub intent: Intent,
    /// What the interface must be able to do, all of it.
    pub required_capabilities: Vec<String>,
    /// What the caller can do.
    pub caller: Caller,
    /// What else the caller asks for.
    pub wishes: Wishes,
    /// The interfaces to choose among; empty for all.
    pub candidate_interfaces: Vec<String>,
    /// The profiles or protocols to choose among; empty for all.
    pub candidate_protocols: Vec<String>,
    /// How the request itself was protected: what comes of it is protected no less.
    pub security_profile: Option<SecurityProfile>,
    /// When it was made, by the caller's clock.
    pub created_at: Option<Timestamp>,
}

/// What a caller wants done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Intent {
    /// A name for it.
    pub name: Option<String>,
    /// In words.
    pub description: Option<String>,
    /// By tags such as `hotel.booking`.
    pub tags: Vec<String>,
}

/// What a caller can do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// The profiles it speaks.
    pub profiles: Option<Vec<String>>,
    /// How it can protect what it says.
    pub security_profiles: Option<Vec<String>>,
    /// What it can send and read.
    pub content_types: Option<Vec<String>>,
    /// How it can use an interface.
    pub execution_modes: Option<Vec<String>>,
}

/// What else a caller asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wishes {
    /// The interface types it likes, best first.
    pub interface_types: Vec<String>,
    /// The content types it likes, best first.
    pub content_types: Vec<String>,
    /// Whether a person must, or must not, be asked.
    pub human_authorization: Option<bool>,
    /// How long an answer may take.
    pub max_latency_ms: Option<u64>,
    /// Whether talking will do.
    pub natural_language_fallback: Option<bool>,
    /// The one way it must be protected.
    pub security_profile: Option<String>,
}

/// How to negotiate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Among the interfaces there are.
    StructuredSelection,
    /// And where none fits, by making up a protocol.
    Drafting,
}

impl Mode {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StructuredSelection => "structured_selection",
            Self::Drafting => "natural_language_protocol_drafting",
        }
    }
}

impl Request {
    /// How to negotiate; nothing when it is a way nobody knows.
    #[must_use]
    pub fn mode(&self) -> Option<Mode> {
        match self.mode.as_deref() {
            None => Some(Mode::StructuredSelection),
            Some(word) => [Mode::StructuredSelection, Mode::Drafting].into_iter().find(|mode| mode.as_str() == word),
        }
    }
}

/// A request with what is prepared of it once, for every offer.
pub(super) struct Wanted<'a> {
    pub(super) request: &'a Request,
    pub(super) tags: Vec<Tag>,
    pub(super) words: Words,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(request: &'a Request) -> Self {
        let intent = &request.intent;
        let tags = intent.tags.iter().map(String::as_str);
        let texts = intent.name.iter().chain(&intent.description).map(String::as_str);
        Self { request, tags: tags.clone().filter_map(Tag::parse).collect(), words: Words::of(texts.chain(tags)) }
    }

    /// Whether nothing can be compared with anything.
    pub(super) fn says_nothing(&self) -> bool {
        self.tags.is_empty() && self.words.is_empty() && self.request.required_capabilities.is_empty()
    }

    /// The strongest protection both sides know. What is required is taken to the letter, and what the
    /// request came with is the least.
    pub(super) fn security(&self, offer: &Offer) -> Option<SecurityProfile> {
        let required = self.request.wishes.security_profile.as_deref();
        let known = self.request.caller.security_profiles.as_deref();
        let allowed = |profile: &SecurityProfile| {
            required.is_none_or(|required| required == profile.as_str())
                && known.is_none_or(|known| known.iter().any(|it| it == profile.as_str()))
                && self.request.security_profile.is_none_or(|least| *profile >= least)
        };
        offer.security_profiles.iter().copied().filter(allowed).max()
    }

    /// What to send: what the caller likes best of what both know.
    pub(super) fn content_type<'o>(&self, offer: &'o Offer) -> Option<&'o str> {
        let known = self.request.caller.content_types.as_deref();
        let mut common = offer
            .content_types
            .iter()
            .map(String::as_str)
            .filter(|it| known.is_none_or(|known| known.iter().any(|range| covers(range, it))));
        let liked = |it: &str| self.liked_content(it).unwrap_or(usize::MAX);
        let first = common.next()?;
        Some(common.fold(first, |best, it| if liked(it) < liked(best) { it } else { best }))
    }

    /// How much the caller likes a content type: 0 is best.
    pub(super) fn liked_content(&self, content_type: &str) -> Option<usize> {
        self.request.wishes.content_types.iter().position(|range| covers(range, content_type))
    }

    /// How to use it: what the offer likes best of what the caller can do.
    pub(super) fn execution_mode(&self, offer: &Offer) -> Option<ExecutionMode> {
        let usable = |mode: &ExecutionMode| *mode != ExecutionMode::Drafting && self.takes_mode(*mode);
        offer.execution_modes.iter().copied().find(usable)
    }

    pub(super) fn takes_mode(&self, mode: ExecutionMode) -> bool {
        let known = self.request.caller.execution_modes.as_deref();
        known.is_none_or(|known| known.iter().any(|it| it == mode.as_str()))
    }

    /// Whether the caller minds talking.
    pub(super) fn takes_type(&self, kind: InterfaceType) -> bool {
        kind != InterfaceType::NaturalLanguage || self.request.wishes.natural_language_fallback != Some(false)
    }

    /// Whether that profile or protocol is one of those to choose among.
    pub(super) fn is_candidate_protocol(&self, offer: &Offer) -> bool {
        let candidates = &self.request.candidate_protocols;
        let is_it =
            |word: &String| Some(word) == offer.profile.as_ref() || *word == offer.protocol || *word == offer.url;
        candidates.is_empty() || candidates.iter().any(is_it)
    }

    /// The constraints that were said at all.
    pub(super) fn asked(&self) -> Constraints {
        let Request { caller, wishes, .. } = self.request;
        let mut asked = Constraints::default();
        let said = [
            (Constraint::CandidateInterfaces, !self.request.candidate_interfaces.is_empty()),
            (Constraint::CandidateProtocols, !self.request.candidate_protocols.is_empty()),
            (Constraint::SupportedProfiles, caller.profiles.is_some()),
            (Constraint::RequiredSecurityProfile, wishes.security_profile.is_some()),
            (Constraint::SupportedSecurityProfiles, caller.security_profiles.is_some()),
            (Constraint::OwnSecurityProfile, self.request.security_profile.is_some()),
            (Constraint::SupportedContentTypes, caller.content_types.is_some()),
            (Constraint::SupportedExecutionModes, caller.execution_modes.is_some()),
            (Constraint::RequiredCapabilities, !self.request.required_capabilities.is_empty()),
            (Constraint::HumanAuthorization, wishes.human_authorization.is_some()),
            (Constraint::MaxLatency, wishes.max_latency_ms.is_some()),
            (Constraint::NaturalLanguage, wishes.natural_language_fallback == Some(false)),
        ];
        said.into_iter().filter(|(_, said)| *said).for_each(|(constraint, _)| asked.add(constraint));
        asked
    }
}

/// Whether a content type, or a range such as `text/*`, covers another. Case and parameters do not matter.
fn covers(range: &str, content_type: &str) -> bool {
    let essence = |text: &'_ str| text.split_once(';').map_or(text.len(), |(essence, _)| essence.len());
    let range = range[..essence(range)].trim();
    let content_type = content_type[..essence(content_type)].trim();
    match range.strip_suffix("/*") {
        Some("*") => true,
        Some(family) => content_type.split('/').next().is_some_and(|it| it.eq_ignore_ascii_case(family)),
        None => range.eq_ignore_ascii_case(content_type),
    }
}
