//! Suggestions for misspelt words ("did you mean …?").

use std::collections::BTreeSet;

/// Largest number of candidates that are searched for a similar word, to bound the time.
const MAX_CANDIDATES: usize = 100;
/// Length of the longest word, in characters, for which a similar word is searched.
const MAX_LENGTH: usize = 64;

/// Largest number of similar words in a message.
pub(super) const MAX_SIMILAR: usize = 3;

/// The candidate that is closest to `word`, if one is close enough.
pub(super) fn similar<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (word, length) = (word.to_lowercase(), word.chars().count());
    if length == 0 || length > MAX_LENGTH {
        return None;
    }
    // A third of the letters may differ, at most three.
    let limit = length.div_ceil(3).min(3);
    candidates
        .into_iter()
        .take(MAX_CANDIDATES)
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= limit)
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Help text for a word that is not among the candidates: a suggestion and the list.
pub(super) fn help<'a>(word: &str, label: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let mut help = String::new();
    if let Some(guess) = similar(word, candidates.clone()) {
        help.push_str(&format!("did you mean {guess:?}? "));
    }
    help.push_str(label);
    help.push_str(": ");
    help.push_str(&list(candidates));
    help
}

/// [`help`], or `none` if there are no candidates.
pub(super) fn help_or(none: &str, word: &str, label: &str, candidates: &BTreeSet<&str>) -> String {
    if candidates.is_empty() { none.to_owned() } else { help(word, label, candidates.iter().copied()) }
}

/// The candidates, quoted; a long list is cut.
pub(super) fn list<'a>(candidates: impl IntoIterator<Item = &'a str>) -> String {
    const MAX_SUGGESTIONS: usize = 20;
    let mut candidates = candidates.into_iter();
    let shown: Vec<_> = candidates.by_ref().take(MAX_SUGGESTIONS).map(|candidate| format!("{candidate:?}")).collect();
    let mut list = shown.join(", ");
    if candidates.next().is_some() {
        list.push_str(" and more");
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_key_similar_to_an_allowed_one_gets_a_suggestion() {
        let keys = ["name", "title", "timeout_ms", "human_authorization"];
        for (slip, meant) in [
            ("nmae", "name"),
            ("tilte", "title"),
            ("timeout", "timeout_ms"),
            ("human-authorisation", "human_authorization"),
            ("Name", "name"),
        ] {
            assert_eq!(similar(slip, keys), Some(meant), "{slip}");
        }
        for other in ["", "x", "colour", "权限", &"name".repeat(100)] {
            assert_eq!(similar(other, keys), None, "{other}");
        }
    }
}
