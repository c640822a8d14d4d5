//! Hard constraints of a negotiation, which an interface must satisfy before it is scored.

use nuncio_core::string_enum;

use super::offer::{Ability, InterfaceOffer, InterfaceType, SecurityProfile};
use super::request::PreparedRequest;
use super::score::Score;

string_enum! {
    /// A requirement of the caller, by the request field that asks for it.
    #[derive(PartialOrd, Ord)]
    #[repr(u16)]
    pub enum Constraint {
        /// Is one of the named interfaces.
        CandidateInterfaces = "candidateInterfaceRefs",
        /// Has one of the named profiles or protocols.
        CandidateProtocols = "candidateProtocols",
        /// Has a profile that the caller supports.
        SupportedProfiles = "supportedProfiles",
        /// Offers the required security profile.
        RequiredSecurityProfile = "requiredSecurityProfile",
        /// Offers a security profile that the caller supports.
        SupportedSecurityProfiles = "supportedSecurityProfiles",
        /// Offers at least the protection of the request itself.
        OwnSecurityProfile = "security_profile",
        /// Accepts a content type that the caller supports.
        SupportedContentTypes = "supportedContentTypes",
        /// Offers an execution mode that the caller supports.
        SupportedExecutionModes = "supportedExecutionModes",
        /// Has all required capabilities.
        RequiredCapabilities = "requiredCapabilities",
        /// Needs a person's approval, or needs none, as the caller asks.
        HumanAuthorization = "requiresHumanAuthorization",
        /// Answers within the time limit.
        MaxLatency = "maxLatencyMs",
        /// Is not a natural-language interface, if the caller refuses those.
        NaturalLanguage = "allowNaturalLanguageFallback",
        /// Is related to the intent.
        Intent = "intent",
    }
}

/// A set of constraints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Constraints(u16);

impl Constraints {
    pub(super) const fn all() -> Self {
        Self(u16::MAX)
    }

    pub(super) fn one(constraint: Constraint) -> Self {
        let mut one = Self::default();
        one.add(constraint);
        one
    }

    pub(super) fn add(&mut self, constraint: Constraint) {
        self.0 |= 1 << constraint as u16;
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn of(self, some: &[Constraint]) -> Self {
        some.iter().fold(Self::default(), |found, constraint| Self(found.0 | self.0 & 1 << *constraint as u16))
    }

    pub(super) fn any_of(self, some: &[Constraint]) -> bool {
        !self.of(some).is_empty()
    }

    pub(super) const fn count(self) -> u32 {
        self.0.count_ones()
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn has(self, constraint: Constraint) -> bool {
        self.0 & 1 << constraint as u16 != 0
    }

    /// In a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Constraint> {
        Constraint::ALL.into_iter().filter(move |constraint| self.has(*constraint))
    }

    /// The request fields that ask for them.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        self.iter().map(Constraint::as_str).collect()
    }
}

/// The constraints that an offer does not satisfy.
pub(super) fn check(
    offer: &InterfaceOffer,
    wanted: &PreparedRequest<'_>,
    ability: Option<&Ability>,
    security: Option<SecurityProfile>,
    score: &Score,
) -> Constraints {
    let request = wanted.request;
    let wishes = &request.wishes;
    let mut lacks = Constraints::default();
    let mut must = |constraint, holds: bool| {
        if !holds {
            lacks.add(constraint);
        }
    };
    let named = &request.candidate_interfaces;
    must(Constraint::CandidateInterfaces, named.is_empty() || named.contains(&offer.id));
    must(Constraint::CandidateProtocols, wanted.is_candidate_protocol(offer));
    let profiles = request.caller.supported_profiles.as_ref();
    let speaks = |profile: &String| profiles.is_none_or(|profiles| profiles.contains(profile));
    must(Constraint::SupportedProfiles, offer.profile.as_ref().is_none_or(speaks));
    must(Constraint::SupportedContentTypes, offer.content_types.is_empty() || wanted.content_type(offer).is_some());
    must(Constraint::SupportedExecutionModes, wanted.execution_mode(offer).is_some());
    let can = |needed: &String| offer.abilities.iter().any(|it| is_below(it.capability.id.as_str(), needed));
    must(Constraint::RequiredCapabilities, request.required_capabilities.iter().all(can));
    let asks = offer.human_authorization;
    must(Constraint::HumanAuthorization, wishes.requires_human_authorization.is_none_or(|wanted| wanted == asks));
    let (takes, may_take) = (offer.latency_of(ability), wishes.max_latency_ms);
    must(Constraint::MaxLatency, takes.zip(may_take).is_none_or(|(takes, may_take)| takes <= may_take));
    must(Constraint::NaturalLanguage, wanted.takes_type(offer.kind));
    // Natural language accepts any intent, and a named capability is more specific than words.
    let is_about_it = score.intent > 0 || !request.required_capabilities.is_empty();
    must(Constraint::Intent, is_about_it || offer.kind == InterfaceType::NaturalLanguage);
    if security.is_none() {
        blame_security(offer, wanted, &mut lacks);
    }
    lacks
}

/// Decides which of the three security constraints to report.
fn blame_security(offer: &InterfaceOffer, wanted: &PreparedRequest<'_>, lacks: &mut Constraints) {
    let has = |rule: &dyn Fn(SecurityProfile) -> bool| offer.security_profiles.iter().any(|profile| rule(*profile));
    let required = wanted.request.wishes.required_security_profile.as_deref();
    let known = wanted.request.caller.supported_security_profiles.as_deref();
    let least = wanted.request.security_profile;
    let before = *lacks;
    if required.is_some_and(|required| !has(&|profile| profile.as_str() == required)) {
        lacks.add(Constraint::RequiredSecurityProfile);
    }
    if known.is_some_and(|known| !has(&|profile| known.iter().any(|it| it == profile.as_str()))) {
        lacks.add(Constraint::SupportedSecurityProfiles);
    }
    if least.is_some_and(|least| !has(&|profile| profile >= least)) {
        lacks.add(Constraint::OwnSecurityProfile);
    }
    if *lacks == before {
        // Each constraint holds for some profile, but no profile satisfies all: the strictest is reported.
        lacks.add(if required.is_some() {
            Constraint::RequiredSecurityProfile
        } else if known.is_some() {
            Constraint::SupportedSecurityProfiles
        } else {
            Constraint::OwnSecurityProfile
        });
    }
}

/// Whether a capability is the named one or below it: `cap.hotel.booking.create` is below `cap.hotel.booking`.
pub(super) fn is_below(id: &str, named: &str) -> bool {
    id.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
