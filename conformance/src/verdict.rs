//! How a check ends, and the few comparisons checks are written with.

use std::fmt::Debug;

/// What a check comes to: it held, or why it stopped.
pub(crate) type Verdict = Result<(), Stop>;

/// Why a check stopped early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The server did something else than the row says.
    Failed(String),
    /// The server offers nothing the row could be tried on.
    Skipped(String),
}

/// The row does not hold.
pub(crate) fn fail(reason: impl Into<String>) -> Stop {
    Stop::Failed(reason.into())
}

/// The row cannot be tried here.
pub(crate) fn skip(reason: impl Into<String>) -> Stop {
    Stop::Skipped(reason.into())
}

/// `reason` is the failure unless `holds`.
pub(crate) fn ensure(holds: bool, reason: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(fail(reason())) }
}

/// The two are the same, or the failure shows both.
#[expect(clippy::needless_pass_by_value, reason = "callers write what they expect in place")]
pub(crate) fn equal<A, B>(what: &str, expected: A, got: B) -> Verdict
where
    A: Debug + PartialEq<B>,
    B: Debug,
{
    ensure(expected == got, || {
        let (expected, got) = (format!("{expected:?}"), format!("{got:?}"));
        format!("{what}: expected {}, got {}", short(&expected), short(&got))
    })
}

/// The text holds the part, or the failure shows both.
pub(crate) fn contains(what: &str, part: &str, text: &str) -> Verdict {
    ensure(text.contains(part), || format!("{what}: expected something with {part:?}, got {:?}", short(text)))
}

/// The text does not hold the part.
pub(crate) fn lacks(what: &str, part: &str, text: &str) -> Verdict {
    ensure(!text.contains(part), || format!("{what}: expected nothing with {part:?}, got {:?}", short(text)))
}

/// A text cut to what fits a line of a report.
pub(crate) fn short(text: &str) -> String {
    const MOST: usize = 220;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Stop, equal, short};

    #[test]
    fn a_difference_shows_both_sides() {
        assert_eq!(equal("status", 201, 200), Err(Stop::Failed("status: expected 201, got 200".into())));
        assert_eq!(equal("status", 201, 201), Ok(()));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert!(short(&"é".repeat(500)).ends_with("é…"));
        assert_eq!(short("as it is"), "as it is");
    }
}
