//! Negotiation requests, and their values that the comparison with offers needs.

use nuncio_core::json::essence;
use nuncio_core::string_enum;
use nuncio_core::time::Timestamp;

use super::constraint::{NegotiationConstraint, NegotiationConstraintSet, SECURITY_CONSTRAINTS};
use super::offer::{InterfaceExecutionMode, InterfaceOffer, InterfaceType, SecurityProfile};
use super::term_match::{HashedIntentTag, HashedWordSet};
use crate::wire::{self, CallerCapabilities, Intent};

/// A negotiation request. `None` means that a list was not sent; an empty list was sent and allows nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InterfaceRequest {
    /// Negotiation mode; an absent one means `structured_selection`.
    pub mode: Option<String>,
    pub intent: Intent,
    /// Capabilities that the interface must have; all are required.
    pub required_capabilities: Vec<String>,
    pub caller: CallerCapabilities,
    pub constraints: wire::Constraints,
    /// Interfaces to choose from; empty for all.
    pub candidate_interfaces: Vec<String>,
    /// Profiles or protocols to choose from; empty for all.
    pub candidate_protocols: Vec<String>,
    /// Security profile under which the request was sent; the chosen profile must not be weaker.
    pub security_profile: Option<SecurityProfile>,
    /// Time of the request by the caller's clock.
    pub created_at: Option<Timestamp>,
}

string_enum! {
    pub enum NegotiationMode {
        /// Chooses among existing interfaces.
        StructuredSelection = "structured_selection",
        /// Drafts a protocol if no interface fits.
        Drafting = "natural_language_protocol_drafting",
    }
}

impl InterfaceRequest {
    /// The negotiation mode; `None` if it is unknown.
    #[must_use]
    pub fn mode(&self) -> Option<NegotiationMode> {
        match self.mode.as_deref() {
            None => Some(NegotiationMode::StructuredSelection),
            Some(name) => NegotiationMode::parse(name),
        }
    }
}

/// A request with precomputed tags and words, shared by all offers.
pub(super) struct PreparedRequest<'a> {
    pub(super) request: &'a InterfaceRequest,
    pub(super) tags: Vec<HashedIntentTag>,
    pub(super) words: HashedWordSet,
}

impl<'a> PreparedRequest<'a> {
    pub(super) fn new(request: &'a InterfaceRequest) -> Self {
        let intent = &request.intent;
        let tags = intent.intent_tags.iter().map(String::as_str);
        let texts = intent.name.iter().chain(&intent.description).map(String::as_str);
        Self {
            request,
            tags: tags.clone().filter_map(HashedIntentTag::parse).collect(),
            words: HashedWordSet::of(texts.chain(tags)),
        }
    }

    /// Whether the request has neither intent nor capabilities to compare.
    pub(super) fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.words.is_empty() && self.request.required_capabilities.is_empty()
    }

    /// Strongest security profile that both sides support. A required profile must match exactly, and the profile of
    /// the request itself is the minimum.
    pub(super) fn security(&self, offer: &InterfaceOffer) -> Option<SecurityProfile> {
        let allowed = |profile: &SecurityProfile| SECURITY_CONSTRAINTS.iter().all(|it| self.allows(*it, *profile));
        offer.security_profiles.iter().copied().filter(allowed).max()
    }

    /// Whether one of the [`SECURITY_CONSTRAINTS`] allows a profile.
    pub(super) fn allows(&self, constraint: NegotiationConstraint, profile: SecurityProfile) -> bool {
        let InterfaceRequest { caller, constraints, security_profile, .. } = self.request;
        match constraint {
            NegotiationConstraint::RequiredSecurityProfile => {
                constraints.required_security_profile.as_ref().is_none_or(|required| required == profile.as_str())
            }
            NegotiationConstraint::SupportedSecurityProfiles => {
                let supported = caller.supported_security_profiles.as_ref();
                supported.is_none_or(|supported| supported.iter().any(|it| it == profile.as_str()))
            }
            _ => security_profile.is_none_or(|least| profile >= least),
        }
    }

    /// Content type to send: the one that the caller prefers among those that both sides support.
    pub(super) fn content_type<'o>(&self, offer: &'o InterfaceOffer) -> Option<&'o str> {
        let supported = self.request.caller.supported_content_types.as_deref();
        let mut common = offer
            .content_types
            .iter()
            .map(String::as_str)
            .filter(|it| supported.is_none_or(|supported| supported.iter().any(|range| covers(range, it))));
        let liked = |it: &str| self.liked_content(it).unwrap_or(usize::MAX);
        let first = common.next()?;
        Some(common.fold(first, |best, it| if liked(it) < liked(best) { it } else { best }))
    }

    /// Rank of a content type in the caller's preferences; 0 is best.
    pub(super) fn liked_content(&self, content_type: &str) -> Option<usize> {
        self.request.constraints.preferred_content_types.iter().position(|range| covers(range, content_type))
    }

    /// Execution mode: the one that the offer prefers among those that the caller supports.
    pub(super) fn execution_mode(&self, offer: &InterfaceOffer) -> Option<InterfaceExecutionMode> {
        let usable =
            |mode: &InterfaceExecutionMode| *mode != InterfaceExecutionMode::Drafting && self.takes_mode(*mode);
        offer.execution_modes.iter().copied().find(usable)
    }

    pub(super) fn takes_mode(&self, mode: InterfaceExecutionMode) -> bool {
        let supported = self.request.caller.supported_execution_modes.as_deref();
        supported.is_none_or(|supported| supported.iter().any(|it| it == mode.as_str()))
    }

    /// Whether the caller accepts the interface type.
    pub(super) fn takes_type(&self, kind: InterfaceType) -> bool {
        kind != InterfaceType::NaturalLanguage
            || self.request.constraints.allow_natural_language_fallback != Some(false)
    }

    /// Whether the offer's profile or protocol is among the candidates.
    pub(super) fn is_candidate_protocol(&self, offer: &InterfaceOffer) -> bool {
        let candidates = &self.request.candidate_protocols;
        let is_it =
            |name: &String| Some(name) == offer.profile.as_ref() || *name == offer.protocol || *name == offer.url;
        candidates.is_empty() || candidates.iter().any(is_it)
    }

    /// Constraints that the request contains.
    pub(super) fn requested(&self) -> NegotiationConstraintSet {
        let InterfaceRequest { caller, constraints, .. } = self.request;
        let mut requested = NegotiationConstraintSet::default();
        let present = [
            (NegotiationConstraint::CandidateInterfaces, !self.request.candidate_interfaces.is_empty()),
            (NegotiationConstraint::CandidateProtocols, !self.request.candidate_protocols.is_empty()),
            (NegotiationConstraint::SupportedProfiles, caller.supported_profiles.is_some()),
            (NegotiationConstraint::RequiredSecurityProfile, constraints.required_security_profile.is_some()),
            (NegotiationConstraint::SupportedSecurityProfiles, caller.supported_security_profiles.is_some()),
            (NegotiationConstraint::OwnSecurityProfile, self.request.security_profile.is_some()),
            (NegotiationConstraint::SupportedContentTypes, caller.supported_content_types.is_some()),
            (NegotiationConstraint::SupportedExecutionModes, caller.supported_execution_modes.is_some()),
            (NegotiationConstraint::RequiredCapabilities, !self.request.required_capabilities.is_empty()),
            (NegotiationConstraint::HumanAuthorization, constraints.requires_human_authorization.is_some()),
            (NegotiationConstraint::MaxLatency, constraints.max_latency_ms.is_some()),
            (NegotiationConstraint::NaturalLanguage, constraints.allow_natural_language_fallback == Some(false)),
        ];
        present.into_iter().filter(|(_, present)| *present).for_each(|(constraint, _)| requested.add(constraint));
        requested
    }
}

/// Whether a content type or a range such as `text/*` covers another. Case and parameters are ignored.
fn covers(range: &str, content_type: &str) -> bool {
    let (range, content_type) = (essence(range), essence(content_type));
    match range.strip_suffix("/*") {
        Some("*") => true,
        Some(family) => content_type.split('/').next().is_some_and(|it| it.eq_ignore_ascii_case(family)),
        None => range.eq_ignore_ascii_case(content_type),
    }
}
