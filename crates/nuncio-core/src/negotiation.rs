//! Negotiation: chooses the interface that a caller should use, by rules that the caller can verify.
//!
//! [`Offers`] are the interfaces that are currently available, [`Request`] states what a caller needs. Hard
//! constraints ([`Constraint`]) are checked first; the remaining interfaces are ranked:
//!
//! 1. by security profile: a stronger one is never traded for a better match;
//! 2. then by [`Score::total`], whose parts are published with the choice;
//! 3. then by id, so that the same request always has the same result.
//!
//! The choice is stateless and grants nothing: the call that follows is authorised on its own.

mod constraint;
mod offer;
mod request;
mod score;
#[cfg(test)]
mod tests;
mod verdict;
mod words;

use std::time::Duration;

use crate::time::Timestamp;

pub use constraint::{Constraint, Constraints as Violations};
pub use offer::{Ability, ExecutionMode, InterfaceType, Offer, SecurityProfile};
pub use request::{Caller, Intent, Mode, Request, Wishes};
pub use score::{IntentBy, Score};
pub use verdict::{Accepted, Alternative, Cause, Draft, Lost, MAX_ALTERNATIVES, Refusal, Verdict};

use offer::Entry;
use request::Wanted;

/// Maximum age of a request, and maximum lead of the caller's clock.
pub const MAX_AGE: Duration = Duration::from_secs(300);
const MAX_AHEAD: Duration = Duration::from_secs(60);

/// The available interfaces, prepared for negotiation. Their order does not matter.
#[derive(Debug, Clone, Default)]
pub struct Offers {
    entries: Vec<Entry>,
}

/// An interface evaluated for a request.
struct Judged<'a> {
    entry: &'a Entry,
    violations: Violations,
    score: Score,
    ability: Option<&'a Ability>,
    security: Option<SecurityProfile>,
}

impl Offers {
    /// Prepares interfaces. An id may occur twice: for the part that the caller may use, and for the rest.
    #[must_use]
    pub fn new(offers: Vec<Offer>) -> Self {
        // Sorts indices, because offers are large to move.
        let mut order: Vec<usize> = (0..offers.len()).collect();
        let rank = |at: usize| (&offers[at].id, offers[at].granted, &offers[at]);
        order.sort_by(|one, other| rank(*one).cmp(&rank(*other)));
        let is_same = |one: &Offer, other: &Offer| one.id == other.id && one.granted == other.granted;
        order.dedup_by(|later, first| is_same(&offers[*later], &offers[*first]));
        let mut offers: Vec<_> = offers.into_iter().map(Some).collect();
        Self { entries: order.into_iter().filter_map(|at| offers[at].take()).map(Entry::new).collect() }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Offer> {
        self.entries.iter().map(|entry| &entry.offer)
    }

    /// Chooses the best interface. The error has one of nine causes.
    pub fn choose(&self, request: &Request, now: Timestamp) -> Result<Verdict<'_>, Refusal> {
        let wanted = Wanted::new(request);
        self.is_worth_judging(request, &wanted, now)?;
        let mut judged: Vec<_> = self.entries.iter().map(|entry| Judged::new(entry, &wanted)).collect();
        // Best first; among unsuitable ones, those that violate the fewest constraints.
        judged.sort_by_cached_key(Judged::rank);
        let drafting = request.mode() == Some(Mode::Drafting);
        let will_do =
            |it: &Judged<'_>| it.violations.is_empty() && it.entry.offer.granted && (it.is_structured() || !drafting);
        match judged.iter().position(will_do) {
            Some(chosen) => Ok(Verdict::Accepted(accept(&judged, chosen, &wanted))),
            None if drafting => self.draft(&judged, &wanted),
            None => Err(self.refuse(&judged, &wanted)),
        }
    }

    /// Checks the request itself, before any interface is evaluated.
    fn is_worth_judging(&self, request: &Request, wanted: &Wanted<'_>, now: Timestamp) -> Result<(), Refusal> {
        let unsupported_mode = || Refusal::unsupported_mode(request.mode.as_deref().unwrap_or_default());
        let mode = request.mode().ok_or_else(unsupported_mode)?;
        if let Some(created) = request.created_at {
            if created.until(now) > MAX_AGE {
                return Err(Refusal::expired(created, MAX_AGE));
            }
            if now.until(created) > MAX_AHEAD {
                return Err(Refusal::from_the_future(created));
            }
        }
        let can_draft = |entry: &Entry| entry.offer.execution_modes.contains(&ExecutionMode::Drafting);
        if mode == Mode::Drafting && !self.entries.iter().any(can_draft) {
            return Err(unsupported_mode());
        }
        if wanted.says_nothing() {
            return Err(Refusal::more_information());
        }
        Ok(())
    }

    /// No structured interface fits: chooses one with which a protocol can be drafted.
    fn draft<'a>(&'a self, judged: &[Judged<'a>], wanted: &Wanted<'_>) -> Result<Verdict<'a>, Refusal> {
        let drafts = |it: &&Judged<'a>| {
            it.entry.offer.execution_modes.contains(&ExecutionMode::Drafting)
                && it.violations.is_empty()
                && wanted.takes_mode(ExecutionMode::Drafting)
        };
        match judged.iter().filter(drafts).find(|it| it.entry.offer.granted) {
            Some(it) => Ok(Verdict::Draft(Draft {
                offer: &it.entry.offer,
                security: it.security.unwrap_or(SecurityProfile::TransportProtected),
                alternatives: verdict::alternatives(judged, None),
            })),
            None => Err(self.refuse(judged, wanted)),
        }
    }

    fn refuse(&self, judged: &[Judged<'_>], wanted: &Wanted<'_>) -> Refusal {
        if judged.iter().any(|it| it.violations.is_empty() && !it.entry.offer.granted) {
            return Refusal::authorization_required();
        }
        // The specific cause, if no interface satisfies that requirement alone.
        for (cause, of) in Cause::OF_ONE_CONSTRAINT {
            let blocked = |it: &Judged<'_>| it.violations.any_of(of);
            if !judged.is_empty() && judged.iter().all(blocked) {
                let all = judged.iter().fold(Violations::all(), |all, it| all.and(it.violations));
                let mut unsupported = all.of(of);
                if unsupported.is_empty() {
                    unsupported = wanted.asked().of(of);
                }
                return Refusal::unsupported(*cause, unsupported, self.supported(*cause));
            }
        }
        let nearest = judged.iter().find(|it| it.entry.offer.granted);
        let mut unsupported = nearest.map_or_else(|| Violations::one(Constraint::Intent), |it| it.violations);
        if unsupported.is_empty() {
            // It fits, but not for drafting.
            unsupported.add(Constraint::SupportedExecutionModes);
        }
        Refusal::no_match(unsupported, nearest.map(|it| it.entry.offer.id.as_str()))
    }

    /// The values that are supported instead, for the refusal.
    fn supported(&self, cause: Cause) -> Vec<String> {
        let open = self.entries.iter().map(|entry| &entry.offer).filter(|offer| offer.granted);
        let mut found: Vec<String> = match cause {
            Cause::UnsupportedCandidateProfile => open.filter_map(|offer| offer.profile.clone()).collect(),
            Cause::UnsupportedSecurityProfile => {
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

impl<'a> Judged<'a> {
    fn new(entry: &'a Entry, wanted: &Wanted<'_>) -> Self {
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

    fn is_structured(&self) -> bool {
        self.entry.offer.kind == InterfaceType::Structured
    }
}

fn accept<'a>(judged: &[Judged<'a>], chosen: usize, wanted: &Wanted<'_>) -> Accepted<'a> {
    let it = &judged[chosen];
    let offer = &it.entry.offer;
    let latency = wanted.request.wishes.max_latency_ms;
    Accepted {
        offer,
        ability: it.ability,
        security: it.security.unwrap_or(SecurityProfile::TransportProtected),
        content_type: wanted.content_type(offer),
        mode: wanted.execution_mode(offer),
        human_authorization: offer.human_authorization,
        timeout_ms: offer.timeout_of(it.ability).into_iter().chain(latency).min(),
        score: it.score,
        alternatives: verdict::alternatives(judged, Some(chosen)),
    }
}
