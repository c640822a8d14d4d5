//! Chooses the intent of a message.

use super::compiled::{CompiledIntent, CompiledRules};
use super::normalize::{NormalizedMessage, stands_alone};

/// Strength of an intent's match. A pattern beats keywords; among keywords the longer matched text wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IntentMatchStrength {
    pattern: usize,
    keywords: usize,
}

impl IntentMatchStrength {
    const NONE: Self = Self { pattern: 0, keywords: 0 };

    pub(super) fn is_by_pattern(self) -> bool {
        self.pattern > 0
    }
}

/// Best matching intent; the first declared wins a tie.
pub(super) fn best<'a>(
    rules: &'a CompiledRules,
    reading: &NormalizedMessage,
) -> Option<(&'a CompiledIntent, IntentMatchStrength)> {
    let matched = rules.intents.iter().map(|intent| (intent, strength(intent, reading)));
    let matched = matched.filter(|(_, strength)| *strength > IntentMatchStrength::NONE);
    // Reversed, because `max_by_key` returns the last of equal values.
    matched.rev().max_by_key(|(_, strength)| *strength)
}

fn strength(intent: &CompiledIntent, reading: &NormalizedMessage) -> IntentMatchStrength {
    let found = intent.patterns.iter().filter_map(|pattern| pattern.find(&reading.text));
    // A pattern that matches an empty text counts too.
    let pattern = found.map(|found| found.len().max(1)).max().unwrap_or(0);
    IntentMatchStrength { pattern, keywords: covered(&intent.keywords, &reading.lower) }
}

/// Number of characters of the text that the keywords cover, each counted once.
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

/// First occurrence of `word` as a whole word.
fn occurrence(text: &str, word: &str) -> Option<std::ops::Range<usize>> {
    text.match_indices(word).map(|(at, found)| at..at + found.len()).find(|part| stands_alone(text, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_matched_by_several_keywords_count_once() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(covered(&words(&["cancel", "cancel my booking", "booking"]), "cancel my booking please"), 17);
        assert_eq!(covered(&words(&["book", "room"]), "a roomy bookshop"), 0);
        assert_eq!(covered(&words(&["预订", "房间"]), "我想预订一个房间"), 4);
        assert_eq!(covered(&[], "anything"), 0);
    }
}
