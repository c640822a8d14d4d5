//! Hard constraints of a negotiation, which an interface must satisfy before it is scored.

use nuncio_core::string_enum;

use super::offer::{InterfaceOffer, InterfaceType, OfferedCapability, SecurityProfile};
use super::request::PreparedRequest;
use super::score::InterfaceScore;

string_enum! {
    /// Requirement of the caller, identified by its field in the request.
    #[derive(PartialOrd, Ord)]
    #[repr(u16)]
    pub enum NegotiationConstraint {
        /// The interface is one of the named interfaces.
        CandidateInterfaces = "candidateInterfaceRefs",
        /// The interface has one of the named profiles or protocols.
        CandidateProtocols = "candidateProtocols",
        SupportedProfiles = "supportedProfiles",
        RequiredSecurityProfile = "requiredSecurityProfile",
        SupportedSecurityProfiles = "supportedSecurityProfiles",
        /// The interface offers at least the security profile under which the request was sent.
        OwnSecurityProfile = "security_profile",
        SupportedContentTypes = "supportedContentTypes",
        SupportedExecutionModes = "supportedExecutionModes",
        RequiredCapabilities = "requiredCapabilities",
        /// The interface needs a person's approval, or needs none, as the caller asks.
        HumanAuthorization = "requiresHumanAuthorization",
        /// The measured latency of the interface is within the limit; an unmeasured interface passes.
        MaxLatency = "maxLatencyMs",
        /// The interface is not a natural-language interface, if the caller refuses those.
        NaturalLanguage = "allowNaturalLanguageFallback",
        Intent = "intent",
    }
}

/// Constraints on the security profile, the strictest first.
pub(super) const SECURITY_CONSTRAINTS: [NegotiationConstraint; 3] = [
    NegotiationConstraint::RequiredSecurityProfile,
    NegotiationConstraint::SupportedSecurityProfiles,
    NegotiationConstraint::OwnSecurityProfile,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NegotiationConstraintSet(u16);

impl NegotiationConstraintSet {
    pub(super) const fn all() -> Self {
        Self(u16::MAX)
    }

    pub(super) fn add(&mut self, constraint: NegotiationConstraint) {
        self.0 |= 1 << constraint as u16;
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn of(self, some: &[NegotiationConstraint]) -> Self {
        some.iter().fold(Self::default(), |found, constraint| Self(found.0 | self.0 & 1 << *constraint as u16))
    }

    pub(super) const fn count(self) -> u32 {
        self.0.count_ones()
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn has(self, constraint: NegotiationConstraint) -> bool {
        self.0 & 1 << constraint as u16 != 0
    }

    /// Constraints of the set, in the order of their declaration.
    pub fn iter(self) -> impl Iterator<Item = NegotiationConstraint> {
        NegotiationConstraint::ALL.into_iter().filter(move |constraint| self.has(*constraint))
    }

    /// Names of the request fields that ask for these constraints.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        self.iter().map(NegotiationConstraint::as_str).collect()
    }
}

/// Returns the constraints that an offer does not satisfy.
pub(super) fn check(
    offer: &InterfaceOffer,
    wanted: &PreparedRequest<'_>,
    ability: Option<&OfferedCapability>,
    security: Option<SecurityProfile>,
    score: &InterfaceScore,
) -> NegotiationConstraintSet {
    let request = wanted.request;
    let wanted_constraints = &request.constraints;
    let mut lacks = NegotiationConstraintSet::default();
    let mut must = |constraint, holds: bool| {
        if !holds {
            lacks.add(constraint);
        }
    };
    let candidates = &request.candidate_interfaces;
    must(NegotiationConstraint::CandidateInterfaces, candidates.is_empty() || candidates.contains(&offer.id));
    must(NegotiationConstraint::CandidateProtocols, wanted.is_candidate_protocol(offer));
    let profiles = request.caller.supported_profiles.as_ref();
    let speaks = |profile: &String| profiles.is_none_or(|profiles| profiles.contains(profile));
    must(NegotiationConstraint::SupportedProfiles, offer.profile.as_ref().is_none_or(speaks));
    must(
        NegotiationConstraint::SupportedContentTypes,
        offer.content_types.is_empty() || wanted.content_type(offer).is_some(),
    );
    must(NegotiationConstraint::SupportedExecutionModes, wanted.execution_mode(offer).is_some());
    let can = |needed: &String| offer.abilities.iter().any(|it| is_below(it.capability.id.as_str(), needed));
    must(NegotiationConstraint::RequiredCapabilities, request.required_capabilities.iter().all(can));
    let asked = wanted_constraints.requires_human_authorization;
    must(NegotiationConstraint::HumanAuthorization, asked.is_none_or(|asked| asked == offer.human_authorization));
    let (takes, may_take) = (offer.latency_of(ability), wanted_constraints.max_latency_ms);
    must(NegotiationConstraint::MaxLatency, takes.zip(may_take).is_none_or(|(takes, may_take)| takes <= may_take));
    must(NegotiationConstraint::NaturalLanguage, wanted.takes_type(offer.kind));
    // A natural-language interface accepts any intent, and a required capability replaces a matching intent.
    let is_about_it = score.intent > 0 || !request.required_capabilities.is_empty();
    must(NegotiationConstraint::Intent, is_about_it || offer.kind == InterfaceType::NaturalLanguage);
    if security.is_none() {
        report_security(offer, wanted, &mut lacks);
    }
    lacks
}

/// Decides which of the violated security constraints to report.
fn report_security(offer: &InterfaceOffer, wanted: &PreparedRequest<'_>, lacks: &mut NegotiationConstraintSet) {
    let requested = wanted.requested().of(&SECURITY_CONSTRAINTS);
    let before = *lacks;
    for constraint in requested.iter() {
        if !offer.security_profiles.iter().any(|profile| wanted.allows(constraint, *profile)) {
            lacks.add(constraint);
        }
    }
    if *lacks == before {
        // Each constraint holds for some profile, but no profile satisfies all: the strictest is reported.
        lacks.add(requested.iter().next().unwrap_or(NegotiationConstraint::OwnSecurityProfile));
    }
}

/// Whether a capability is the named one or below it: `cap.hotel.booking.create` is below `cap.hotel.booking`.
pub(crate) fn is_below(id: &str, named: &str) -> bool {
    id.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
