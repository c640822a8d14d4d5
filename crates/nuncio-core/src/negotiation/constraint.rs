//! What an interface must be, before anyone asks how well it fits.

use super::offer::{Ability, InterfaceType, Offer, SecurityProfile};
use super::request::Wanted;
use super::score::Score;

/// Something a caller must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Constraint {
    /// One of the interfaces named.
    CandidateInterfaces,
    /// One of the profiles or protocols named.
    CandidateProtocols,
    /// A profile the caller speaks.
    SupportedProfiles,
    /// The security profile that is required.
    RequiredSecurityProfile,
    /// A security profile the caller has.
    SupportedSecurityProfiles,
    /// No less protection than the request had.
    OwnSecurityProfile,
    /// A content type the caller knows.
    SupportedContentTypes,
    /// A way of use the caller knows.
    SupportedExecutionModes,
    /// All that it must be able to do.
    RequiredCapabilities,
    /// A person who is asked, or none.
    HumanAuthorization,
    /// An answer in time.
    MaxLatency,
    /// Not by talking.
    NaturalLanguage,
    /// Something to do with what is wanted.
    Intent,
}

impl Constraint {
    /// Every constraint.
    pub const ALL: [Self; 13] = [
        Self::CandidateInterfaces,
        Self::CandidateProtocols,
        Self::SupportedProfiles,
        Self::RequiredSecurityProfile,
        Self::SupportedSecurityProfiles,
        Self::OwnSecurityProfile,
        Self::SupportedContentTypes,
        Self::SupportedExecutionModes,
        Self::RequiredCapabilities,
        Self::HumanAuthorization,
        Self::MaxLatency,
        Self::NaturalLanguage,
        Self::Intent,
    ];

    /// The field of a request that asks for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CandidateInterfaces => "candidateInterfaceRefs",
            Self::CandidateProtocols => "candidateProtocols",
            Self::SupportedProfiles => "supportedProfiles",
            Self::RequiredSecurityProfile => "requiredSecurityProfile",
            Self::SupportedSecurityProfiles => "supportedSecurityProfiles",
            Self::OwnSecurityProfile => "security_profile",
            Self::SupportedContentTypes => "supportedContentTypes",
            Self::SupportedExecutionModes => "supportedExecutionModes",
            Self::RequiredCapabilities => "requiredCapabilities",
            Self::HumanAuthorization => "requiresHumanAuthorization",
            Self::MaxLatency => "maxLatencyMs",
            Self::NaturalLanguage => "allowNaturalLanguageFallback",
            Self::Intent => "intent",
        }
    }
}

/// Some constraints.
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

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this is one of them.
    #[must_use]
    pub const fn has(self, constraint: Constraint) -> bool {
        self.0 & 1 << constraint as u16 != 0
    }

    /// Each of them, in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Constraint> {
        Constraint::ALL.into_iter().filter(move |constraint| self.has(*constraint))
    }

    /// The fields that ask for them.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        self.iter().map(Constraint::as_str).collect()
    }
}

/// What of an offer will not do.
pub(super) fn check(
    offer: &Offer,
    wanted: &Wanted<'_>,
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
    let profiles = request.caller.profiles.as_ref();
    let speaks = |profile: &String| profiles.is_none_or(|profiles| profiles.contains(profile));
    must(Constraint::SupportedProfiles, offer.profile.as_ref().is_none_or(speaks));
    must(Constraint::SupportedContentTypes, offer.content_types.is_empty() || wanted.content_type(offer).is_some());
    must(Constraint::SupportedExecutionModes, wanted.execution_mode(offer).is_some());
    let can = |needed: &String| offer.abilities.iter().any(|it| is_below(it.capability.id.as_str(), needed));
    must(Constraint::RequiredCapabilities, request.required_capabilities.iter().all(can));
    let asks = offer.human_authorization;
    must(Constraint::HumanAuthorization, wishes.human_authorization.is_none_or(|wanted| wanted == asks));
    let (takes, may_take) = (offer.latency_of(ability), wishes.max_latency_ms);
    must(Constraint::MaxLatency, takes.zip(may_take).is_none_or(|(takes, may_take)| takes <= may_take));
    must(Constraint::NaturalLanguage, wanted.takes_type(offer.kind));
    // To people one can say anything; and a capability that is named says more than words.
    let is_about_it = score.intent > 0 || !request.required_capabilities.is_empty();
    must(Constraint::Intent, is_about_it || offer.kind == InterfaceType::NaturalLanguage);
    if security.is_none() {
        blame_security(offer, wanted, &mut lacks);
    }
    lacks
}

/// Which of the three rules about protection left none.
fn blame_security(offer: &Offer, wanted: &Wanted<'_>, lacks: &mut Constraints) {
    let has = |rule: &dyn Fn(SecurityProfile) -> bool| offer.security_profiles.iter().any(|profile| rule(*profile));
    let required = wanted.request.wishes.security_profile.as_deref();
    let known = wanted.request.caller.security_profiles.as_deref();
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
        // Each holds for some profile, and no profile for all: the strictest that was said is to blame.
        lacks.add(if required.is_some() {
            Constraint::RequiredSecurityProfile
        } else if known.is_some() {
            Constraint::SupportedSecurityProfiles
        } else {
            Constraint::OwnSecurityProfile
        });
    }
}

/// Whether a capability is the one named, or one below it: `cap.hotel.booking.create` is `cap.hotel.booking`.
pub(super) fn is_below(id: &str, named: &str) -> bool {
    id.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
