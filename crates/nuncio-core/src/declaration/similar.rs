//! Suggestions for misspelt words ("did you mean …?").

/// Largest number of candidates that are searched for a similar word, to bound the time.
const MAX_CANDIDATES: usize = 100;
/// Length of the longest word, in characters, for which a similar word is searched.
const MAX_LENGTH: usize = 64;

/// The candidate that is closest to `word`, if one is close enough.
pub(super) fn similar<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = letters(word);
    if word.is_empty() || word.len() > MAX_LENGTH {
        return None;
    }
    // A third of the letters may differ, at most three.
    let limit = word.len().div_ceil(3).min(3);
    candidates
        .into_iter()
        .take(MAX_CANDIDATES)
        .map(|candidate| (letters(candidate), candidate))
        .filter(|(letters, _)| letters.len().abs_diff(word.len()) <= limit)
        .map(|(letters, candidate)| (distance(&word, &letters), candidate))
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

/// The candidates, quoted; a long list is cut.
pub(super) fn list<'a>(candidates: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 20;
    let mut candidates = candidates.into_iter();
    let shown: Vec<_> = candidates.by_ref().take(SHOWN).map(|candidate| format!("{candidate:?}")).collect();
    let mut list = shown.join(", ");
    if candidates.next().is_some() {
        list.push_str(" and more");
    }
    list
}

fn letters(word: &str) -> Vec<char> {
    word.chars().flat_map(char::to_lowercase).collect()
}

/// Optimal string alignment distance: insertions, deletions, changes and swaps of neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_get_a_suggestion() {
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

    #[test]
    fn swapped_neighbours_have_distance_one() {
        let of = |a: &str, b: &str| distance(&letters(a), &letters(b));
        assert_eq!(of("", ""), 0);
        assert_eq!(of("", "abc"), 3);
        assert_eq!(of("abcd", "abdc"), 1);
        assert_eq!(of("kitten", "sitting"), 3);
    }
}
