//! Which intent a message means.

use super::lexicon::{Lexicon, Wish};
use super::reading::{Reading, stands_alone};

/// How well an intent matches. A pattern beats any keywords, then more text found by keywords wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Strength {
    pattern: usize,
    keywords: usize,
}

impl Strength {
    const NONE: Self = Self { pattern: 0, keywords: 0 };

    pub(super) fn is_by_pattern(self) -> bool {
        self.pattern > 0
    }
}

/// The number of the intent that matches best; of equals the one declared first.
pub(super) fn best(lexicon: &Lexicon, reading: &Reading) -> Option<(usize, Strength)> {
    let mut best: Option<(usize, Strength)> = None;
    for (number, wish) in lexicon.intents.iter().enumerate() {
        let strength = strength(wish, reading);
        if strength > best.map_or(Strength::NONE, |(_, best)| best) {
            best = Some((number, strength));
        }
    }
    best
}

fn strength(wish: &Wish, reading: &Reading) -> Strength {
    let found = wish.patterns.iter().filter_map(|pattern| pattern.find(&reading.text));
    // A pattern that matches nothing at all still matches.
    let pattern = found.map(|found| found.len().max(1)).max().unwrap_or(0);
    Strength { pattern, keywords: covered(&wish.keywords, &reading.lower) }
}

/// How many characters of the text the keywords cover together.
fn covered(keywords: &[String], text: &str) -> usize {
    let mut parts: Vec<_> = keywords.iter().filter_map(|word| occurrence(text, word)).collect();
    parts.sort_unstable_by_key(|part| (part.start, part.end));
    let mut end = 0;
    let mut count = 0;
    for part in parts {
        let fresh = text.get(part.start.max(end)..part.end).unwrap_or_default();
        count += fresh.chars().count();
        end = end.max(part.end);
    }
    count
}

/// The first place where `word` stands in the text as a word.
fn occurrence(text: &str, word: &str) -> Option<std::ops::Range<usize>> {
    text.match_indices(word).map(|(at, found)| at..at + found.len()).find(|part| stands_alone(text, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_that_overlap_are_counted_once() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(covered(&words(&["cancel", "cancel my booking", "booking"]), "cancel my booking please"), 17);
        assert_eq!(covered(&words(&["book", "room"]), "a roomy bookshop"), 0);
        assert_eq!(covered(&words(&["预订", "房间"]), "我想预订一个房间"), 4);
        assert_eq!(covered(&[], "anything"), 0);
    }
}
