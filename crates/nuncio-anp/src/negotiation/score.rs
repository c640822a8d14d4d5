//! Scoring of interfaces, in points that a caller can recompute.
//!
//! | part | points |
//! |---|---|
//! | intent by tags | mean over the wanted tags of the best match for each: 1000 for the same tag, 900 for one below it, 600 × shared ⁄ wanted parts for one above it |
//! | intent by words, if there are no tags or none match | 500 × shared words ⁄ wanted words; less than 50 counts as 0 |
//! | interface type | 300 × (n − index) ⁄ n in the caller's n preferences; structured before natural language without preferences |
//! | content type | 100 × (n − index) ⁄ n in the caller's n preferences |
//! | latency | 50 000 ⁄ (1000 + measured milliseconds); 0 if not measured |
//!
//! Divisions round down. An interface's intent is that of its best capability; among capabilities with equal points
//! the one with more of the wanted words counts.

use std::cmp::Reverse;

use nuncio_core::string_enum;

use super::constraint::is_below;
use super::offer::{InterfaceType, PreparedInterfaceOffer};
use super::request::PreparedRequest;
use super::term_match::HashedIntentTag;

const INTERFACE_TYPE: usize = 300;
const CONTENT_TYPE: usize = 100;
const LEAST_WORDS: u32 = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterfaceScore {
    /// Points for the match with the intent: up to 1000.
    pub intent: u32,
    pub intent_by: IntentScoreBasis,
    /// Points for the caller's preference of the interface type: up to 300.
    pub interface_type: u32,
    /// Points for the caller's preference of the content type: up to 100.
    pub content_type: u32,
    /// Points for a low latency: up to 50.
    pub latency: u32,
    pub total: u32,
}

string_enum! {
    #[derive(Default)]
    pub enum IntentScoreBasis {
        #[default]
        Nothing = "nothing",
        Tags = "tags",
        Words = "words",
    }
}

/// Returns the score of an offer, and the index of its best capability.
pub(super) fn score(entry: &PreparedInterfaceOffer, wanted: &PreparedRequest<'_>) -> (InterfaceScore, Option<usize>) {
    let offer = &entry.offer;
    let required = &wanted.request.required_capabilities;
    let is_required = |at: usize| {
        let id = offer.abilities.get(at).map(|it| it.capability.id.as_str());
        required.is_empty() || id.is_some_and(|id| required.iter().any(|required_id| is_below(id, required_id)))
    };
    let ranked = entry.tags.iter().enumerate().map(|(at, tags)| {
        let words = entry.words_of(at, &wanted.words);
        let (points, by) = intent(tags, wanted, words);
        // Required capabilities rank first, then more points, then more words, then the lower index.
        ((is_required(at), points, words, Reverse(at)), by)
    });
    let ((_, intent, _, Reverse(at)), intent_by) = ranked.max_by_key(|(rank, _)| *rank).unwrap_or_default();
    let ability = Some(at).filter(|at| *at < offer.abilities.len());
    let latency = offer.latency_of(ability.map(|at| &offer.abilities[at]));
    let mut score = InterfaceScore {
        intent,
        intent_by,
        interface_type: interface_type(offer.kind, wanted),
        content_type: content_type(entry, wanted),
        latency: latency.map_or(0, |millis| points(50_000 / (1000 + millis.min(1_000_000)))),
        total: 0,
    };
    score.total = score.intent + score.interface_type + score.content_type + score.latency;
    (score, ability)
}

fn intent(tags: &[HashedIntentTag], wanted: &PreparedRequest<'_>, words: u32) -> (u32, IntentScoreBasis) {
    if !wanted.tags.is_empty() {
        let best = |tag| tags.iter().map(|has| has.answers(tag)).max().unwrap_or(0);
        let sum: u64 = wanted.tags.iter().map(|tag| u64::from(best(tag))).sum();
        let mean = points(sum / wanted.tags.len() as u64);
        if mean > 0 {
            return (mean, IntentScoreBasis::Tags);
        }
    }
    match words / 2 {
        0..LEAST_WORDS => (0, IntentScoreBasis::Nothing),
        found => (found, IntentScoreBasis::Words),
    }
}

fn interface_type(kind: InterfaceType, wanted: &PreparedRequest<'_>) -> u32 {
    let liked = &wanted.request.constraints.preferred_interface_types;
    if liked.is_empty() {
        let all = [InterfaceType::Structured, InterfaceType::NaturalLanguage];
        return points_by_rank(INTERFACE_TYPE, all.iter().position(|it| *it == kind), all.len());
    }
    points_by_rank(INTERFACE_TYPE, liked.iter().position(|it| it == kind.as_str()), liked.len())
}

fn content_type(entry: &PreparedInterfaceOffer, wanted: &PreparedRequest<'_>) -> u32 {
    let chosen = wanted.content_type(&entry.offer).and_then(|it| wanted.liked_content(it));
    points_by_rank(CONTENT_TYPE, chosen, wanted.request.constraints.preferred_content_types.len())
}

fn points_by_rank(most: usize, index: Option<usize>, of: usize) -> u32 {
    index.map_or(0, |index| points((most * (of - index) / of) as u64))
}

fn points(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
