//! Which interface two strangers should use: a judge anyone can check.
//!
//! [`Offers`] are the interfaces that are true of this moment, [`Request`] is what a caller wants. What a
//! caller must have is settled first, one by one ([`Constraint`]); what is left is ranked:
//!
//! 1. the stronger security profile, always: it is never traded for a better match;
//! 2. then [`Score::total`], whose parts are published with the choice;
//! 3. then the id, so that the same question always has the same answer.
//!
//! The judge asks nobody the time, keeps nothing, and its word opens no door: the call that follows is
//! authorised on its own.

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

/// How old a request may be, and how far ahead of us its clock.
pub const MAX_AGE: Duration = Duration::from_secs(300);
const MAX_AHEAD: Duration = Duration::from_secs(60);

/// The interfaces of one moment, prepared to be judged. The order they were given in does not matter.
#[derive(Debug, Clone, Default)]
pub struct Offers {
    entries: Vec<Entry>,
}

/// One interface beside a request.
struct Judged<'a> {
    entry: &'a Entry,
    violations: Violations,
    score: Score,
    ability: Option<&'a Ability>,
    security: Option<SecurityProfile>,
}

impl Offers {
    /// Prepares interfaces. An id may stand twice: once for what the caller may use of it, once for what not.
    #[must_use]
    pub fn new(offers: Vec<Offer>) -> Self {
        // Their places are put in order, not they themselves: they are large.
        let mut order: Vec<usize> = (0..offers.len()).collect();
        let rank = |at: usize| (&offers[at].id, offers[at].granted, &offers[at]);
        order.sort_by(|one, other| rank(*one).cmp(&rank(*other)));
        let is_same = |one: &Offer, other: &Offer| one.id == other.id && one.granted == other.granted;
        order.dedup_by(|later, first| is_same(&offers[*later], &offers[*first]));
        let mut offers: Vec<_> = offers.into_iter().map(Some).collect();
        Self { entries: order.into_iter().filter_map(|at| offers[at].take()).map(Entry::new).collect() }
    }

    /// The interfaces, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Offer> {
        self.entries.iter().map(|entry| &entry.offer)
    }

    /// Chooses.
    ///
    /// # Errors
    /// Why there is nothing to choose: one of nine causes.
    pub fn choose(&self, request: &Request, now: Timestamp) -> Result<Verdict<'_>, Refusal> {
        let wanted = Wanted::new(request);
        self.is_worth_judging(request, &wanted, now)?;
        let mut judged: Vec<_> = self.entries.iter().map(|entry| Judged::new(entry, &wanted)).collect();
        // The best first; among those that will not do, those that lack the least.
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

    /// What can be said before any interface is looked at.
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

    /// Nothing structured fits: who would draft a protocol with the caller.
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
        // A cause of its own, where nobody would do whatever else was asked.
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

    /// What this moment has instead, for whoever was refused.
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
