//! Negotiation: chooses the interface that a caller should use, by rules that the caller can verify.
//!
//! [`PreparedInterfaceOffers`] are the interfaces that are currently available, [`InterfaceRequest`] states what a
//! caller needs. Hard constraints ([`NegotiationConstraint`]) are checked first; the remaining interfaces are ranked:
//!
//! 1. by security profile: a stronger one is never traded for a better match;
//! 2. then by [`InterfaceScore::total`], whose parts are published with the choice;
//! 3. then by id, so that the same request always has the same result.
//!
//! The choice is stateless and grants nothing: the call that follows is authorised on its own.

mod constraint;
mod offer;
mod request;
mod score;
mod term_match;
#[cfg(test)]
mod tests;
mod verdict;

use std::time::Duration;

use nuncio_core::time::Timestamp;

pub use constraint::{NegotiationConstraint, NegotiationConstraintSet};
pub use offer::{InterfaceExecutionMode, InterfaceOffer, InterfaceType, OfferedCapability, SecurityProfile};
pub use request::{InterfaceRequest, NegotiationMode};
pub use score::{IntentScoreBasis, InterfaceScore};
pub use verdict::{
    AcceptedInterfaceOrDraft, ChosenInterface, InterfaceNotChosen, MAX_ALTERNATIVES, NegotiationRefusal,
    NotChosenReason, ProtocolDraftingOffer,
};

use offer::PreparedInterfaceOffer;
use request::PreparedRequest;

#[cfg(feature = "client")]
pub(crate) use constraint::is_below;

use crate::wire::AnpErrorCode;

/// Maximum age of a negotiation request.
pub const MAX_AGE: Duration = Duration::from_secs(300);
const MAX_AHEAD: Duration = Duration::from_secs(60);

/// Available interfaces, prepared for negotiation. Their order does not matter.
#[derive(Debug, Clone, Default)]
pub struct PreparedInterfaceOffers {
    entries: Vec<PreparedInterfaceOffer>,
}

struct EvaluatedOffer<'a> {
    entry: &'a PreparedInterfaceOffer,
    violations: NegotiationConstraintSet,
    score: InterfaceScore,
    ability: Option<&'a OfferedCapability>,
    security: Option<SecurityProfile>,
}

impl PreparedInterfaceOffers {
    /// Prepares interfaces for negotiation. An id may occur twice: for the capabilities that the caller may use, and
    /// for the rest.
    #[must_use]
    pub fn new(offers: Vec<InterfaceOffer>) -> Self {
        // Indices are sorted instead of offers, because offers are large to move.
        let mut order: Vec<usize> = (0..offers.len()).collect();
        let rank = |at: usize| (&offers[at].id, offers[at].granted, &offers[at]);
        order.sort_by(|one, other| rank(*one).cmp(&rank(*other)));
        let is_same = |one: &InterfaceOffer, other: &InterfaceOffer| one.id == other.id && one.granted == other.granted;
        order.dedup_by(|later, first| is_same(&offers[*later], &offers[*first]));
        let mut offers: Vec<_> = offers.into_iter().map(Some).collect();
        Self {
            entries: order.into_iter().filter_map(|at| offers[at].take()).map(PreparedInterfaceOffer::new).collect(),
        }
    }

    /// Chooses the best interface for a request. The error has one of nine codes.
    pub fn choose(
        &self,
        request: &InterfaceRequest,
        now: Timestamp,
    ) -> Result<AcceptedInterfaceOrDraft<'_>, NegotiationRefusal> {
        let wanted = PreparedRequest::new(request);
        self.check_request(request, &wanted, now)?;
        let mut evaluated: Vec<_> = self.entries.iter().map(|entry| EvaluatedOffer::new(entry, &wanted)).collect();
        // The best interface comes first; among unsuitable ones, the one that violates the fewest constraints.
        evaluated.sort_by_cached_key(EvaluatedOffer::rank);
        let drafting = request.mode() == Some(NegotiationMode::Drafting);
        let is_acceptable = |it: &EvaluatedOffer<'_>| {
            let offer = &it.entry.offer;
            it.violations.is_empty() && offer.granted && (offer.kind == InterfaceType::Structured || !drafting)
        };
        match evaluated.iter().position(is_acceptable) {
            Some(chosen) => Ok(AcceptedInterfaceOrDraft::Accepted(accept(&evaluated, chosen, &wanted))),
            None if drafting => self.draft(&evaluated, &wanted),
            None => Err(self.refuse(&evaluated, &wanted)),
        }
    }

    /// Checks the request itself, before any interface is evaluated.
    fn check_request(
        &self,
        request: &InterfaceRequest,
        wanted: &PreparedRequest<'_>,
        now: Timestamp,
    ) -> Result<(), NegotiationRefusal> {
        let unsupported_mode = || NegotiationRefusal::unsupported_mode(request.mode.as_deref().unwrap_or_default());
        let mode = request.mode().ok_or_else(unsupported_mode)?;
        if let Some(created) = request.created_at {
            if created.until(now) > MAX_AGE {
                return Err(NegotiationRefusal::expired(created));
            }
            if now.until(created) > MAX_AHEAD {
                return Err(NegotiationRefusal::from_the_future(created));
            }
        }
        let can_draft =
            |entry: &PreparedInterfaceOffer| entry.offer.execution_modes.contains(&InterfaceExecutionMode::Drafting);
        if mode == NegotiationMode::Drafting && !self.entries.iter().any(can_draft) {
            return Err(unsupported_mode());
        }
        if wanted.is_empty() {
            return Err(NegotiationRefusal::more_information());
        }
        Ok(())
    }

    /// Chooses an interface with which a protocol can be drafted, because no structured interface fits.
    fn draft<'a>(
        &'a self,
        evaluated: &[EvaluatedOffer<'a>],
        wanted: &PreparedRequest<'_>,
    ) -> Result<AcceptedInterfaceOrDraft<'a>, NegotiationRefusal> {
        let drafts = |it: &&EvaluatedOffer<'a>| {
            it.entry.offer.execution_modes.contains(&InterfaceExecutionMode::Drafting)
                && it.violations.is_empty()
                && wanted.takes_mode(InterfaceExecutionMode::Drafting)
        };
        match evaluated.iter().filter(drafts).find(|it| it.entry.offer.granted) {
            Some(it) => Ok(AcceptedInterfaceOrDraft::Draft(ProtocolDraftingOffer {
                offer: &it.entry.offer,
                security: it.security.unwrap_or(SecurityProfile::TransportProtected),
                alternatives: verdict::alternatives(evaluated, None),
            })),
            None => Err(self.refuse(evaluated, wanted)),
        }
    }

    fn refuse(&self, evaluated: &[EvaluatedOffer<'_>], wanted: &PreparedRequest<'_>) -> NegotiationRefusal {
        if evaluated.iter().any(|it| it.violations.is_empty() && !it.entry.offer.granted) {
            return NegotiationRefusal::authorization_required();
        }
        // A requirement that no interface satisfies is reported with its own code.
        for (cause, of) in verdict::CAUSES_OF_ONE_REQUIREMENT {
            let blocked = |it: &EvaluatedOffer<'_>| !it.violations.of(of).is_empty();
            if !evaluated.is_empty() && evaluated.iter().all(blocked) {
                let all = evaluated.iter().fold(NegotiationConstraintSet::all(), |all, it| all.and(it.violations));
                let mut unsupported = all.of(of);
                if unsupported.is_empty() {
                    unsupported = wanted.requested().of(of);
                }
                return NegotiationRefusal::unsupported(*cause, unsupported, self.supported(*cause));
            }
        }
        let nearest = evaluated.iter().find(|it| it.entry.offer.granted);
        let mut unsupported = nearest
            .map_or_else(|| NegotiationConstraintSet::all().of(&[NegotiationConstraint::Intent]), |it| it.violations);
        if unsupported.is_empty() {
            // An interface satisfies all constraints but cannot be used for drafting.
            unsupported.add(NegotiationConstraint::SupportedExecutionModes);
        }
        NegotiationRefusal::no_match(unsupported, nearest.map(|it| it.entry.offer.id.as_str()))
    }

    /// Supported values that the refusal with this code suggests to the caller.
    fn supported(&self, cause: AnpErrorCode) -> Vec<String> {
        let open = self.entries.iter().map(|entry| &entry.offer).filter(|offer| offer.granted);
        let mut found: Vec<String> = match cause {
            AnpErrorCode::UnsupportedCandidateProfile => open.filter_map(|offer| offer.profile.clone()).collect(),
            AnpErrorCode::UnsupportedCandidateSecurity => {
                open.flat_map(|offer| &offer.security_profiles).map(|it| it.as_str().to_owned()).collect()
            }
            _ => open.flat_map(|offer| offer.content_types.clone()).collect(),
        };
        found.sort();
        found.dedup();
        found.truncate(MAX_ALTERNATIVES);
        found
    }
}

impl<'a> EvaluatedOffer<'a> {
    fn new(entry: &'a PreparedInterfaceOffer, wanted: &PreparedRequest<'_>) -> Self {
        let (score, ability) = score::score(entry, wanted);
        let ability = ability.and_then(|at| entry.offer.abilities.get(at));
        let security = wanted.security(&entry.offer);
        let violations = constraint::check(&entry.offer, wanted, ability, security, &score);
        Self { entry, violations, score, ability, security }
    }

    fn rank(&self) -> impl Ord + use<'a> {
        let security = std::cmp::Reverse(self.security.filter(|_| self.violations.is_empty()));
        (self.violations.count(), security, std::cmp::Reverse(self.score.total), self.entry.offer.id.as_str())
    }
}

fn accept<'a>(evaluated: &[EvaluatedOffer<'a>], chosen: usize, wanted: &PreparedRequest<'_>) -> ChosenInterface<'a> {
    let it = &evaluated[chosen];
    let offer = &it.entry.offer;
    let latency = wanted.request.constraints.max_latency_ms;
    ChosenInterface {
        offer,
        ability: it.ability,
        security: it.security.unwrap_or(SecurityProfile::TransportProtected),
        content_type: wanted.content_type(offer),
        mode: wanted.execution_mode(offer),
        timeout_ms: offer.timeout_of(it.ability).into_iter().chain(latency).min(),
        score: it.score,
        alternatives: verdict::alternatives(evaluated, Some(chosen)),
    }
}
