//! How well an interface fits, in points anyone can count again.
//!
//! | part | points |
//! |---|---|
//! | intent by tags | the mean over the wanted tags of the best answer to each: 1000 the same tag, 900 one below it, 600 × shared ⁄ wanted parts one above it |
//! | intent by words, where tags are missing or have nothing in common | 500 × shared words ⁄ wanted words; less than 50 counts as nothing |
//! | interface type | 300 × (n − place) ⁄ n in the caller's n preferences; structured before natural language when it has none |
//! | content type | 100 × (n − place) ⁄ n in the caller's n preferences |
//! | latency | 50 000 ⁄ (1000 + measured milliseconds); nothing when it was not measured |
//!
//! Divisions drop what is left over. An interface's intent is that of its best ability; of abilities with the
//! same points the one with more of the wanted words is meant.

use super::constraint::is_below;
use super::offer::{Entry, InterfaceType, Subject};
use super::request::Wanted;

const INTERFACE_TYPE: usize = 300;
const CONTENT_TYPE: usize = 100;
const LEAST_WORDS: u32 = 50;

/// The points of one interface, part by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Score {
    /// How well it does what is wanted: up to 1000.
    pub intent: u32,
    /// By what that was seen.
    pub intent_by: IntentBy,
    /// How much the caller likes its type: up to 300.
    pub interface_type: u32,
    /// How much the caller likes its content type: up to 100.
    pub content_type: u32,
    /// How fast it is: up to 50.
    pub latency: u32,
    /// All of it.
    pub total: u32,
}

/// By what an intent was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IntentBy {
    /// It was not.
    #[default]
    Nothing,
    /// By tags.
    Tags,
    /// By words.
    Words,
}

impl IntentBy {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Tags => "tags",
            Self::Words => "words",
        }
    }
}

/// The points, and which ability they are for.
pub(super) fn score(entry: &Entry, wanted: &Wanted<'_>) -> (Score, Option<usize>) {
    let offer = &entry.offer;
    let required = &wanted.request.required_capabilities;
    let is_required = |at: usize| {
        let id = offer.abilities.get(at).map(|it| it.capability.id.as_str());
        required.is_empty() || id.is_some_and(|id| required.iter().any(|named| is_below(id, named)))
    };
    let mut best = (0, IntentBy::Nothing, None);
    let mut best_rank = (false, 0, 0, false);
    for (at, subject) in entry.subjects.iter().enumerate() {
        let words = entry.words_of(at, &wanted.words);
        let (points, by) = intent(subject, wanted, words);
        // What is named comes before what looks like it; words tell apart what tags do not; the first stays.
        let rank = (is_required(at), points, words, true);
        if rank > best_rank {
            best = (points, by, Some(at));
            best_rank = rank;
        }
    }
    let ability = best.2.filter(|at| *at < offer.abilities.len());
    let latency = offer.latency_of(ability.map(|at| &offer.abilities[at]));
    let mut score = Score {
        intent: best.0,
        intent_by: best.1,
        interface_type: interface_type(offer.kind, wanted),
        content_type: content_type(entry, wanted),
        latency: latency.map_or(0, |millis| points(50_000 / (1000 + millis.min(1_000_000)))),
        total: 0,
    };
    score.total = score.intent + score.interface_type + score.content_type + score.latency;
    (score, ability)
}

fn intent(subject: &Subject, wanted: &Wanted<'_>, words: u32) -> (u32, IntentBy) {
    if !wanted.tags.is_empty() {
        let best = |tag| subject.tags.iter().map(|has| has.answers(tag)).max().unwrap_or(0);
        let sum: u64 = wanted.tags.iter().map(|tag| u64::from(best(tag))).sum();
        let mean = points(sum / wanted.tags.len() as u64);
        if mean > 0 {
            return (mean, IntentBy::Tags);
        }
    }
    match words / 2 {
        0..LEAST_WORDS => (0, IntentBy::Nothing),
        found => (found, IntentBy::Words),
    }
}

fn interface_type(kind: InterfaceType, wanted: &Wanted<'_>) -> u32 {
    let liked = &wanted.request.wishes.interface_types;
    if liked.is_empty() {
        let all = [InterfaceType::Structured, InterfaceType::NaturalLanguage];
        return by_place(INTERFACE_TYPE, all.iter().position(|it| *it == kind), all.len());
    }
    by_place(INTERFACE_TYPE, liked.iter().position(|it| it == kind.as_str()), liked.len())
}

fn content_type(entry: &Entry, wanted: &Wanted<'_>) -> u32 {
    let chosen = wanted.content_type(&entry.offer).and_then(|it| wanted.liked_content(it));
    by_place(CONTENT_TYPE, chosen, wanted.request.wishes.content_types.len())
}

fn by_place(most: usize, place: Option<usize>, of: usize) -> u32 {
    place.map_or(0, |place| points((most * (of - place) / of) as u64))
}

fn points(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
