//! Results of checks, and comparison helpers.

use std::fmt::Debug;

/// Result of a check: success, or the reason why the check stopped.
pub(crate) type CheckVerdict = Result<(), CheckStopReason>;

/// Reason why a check stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CheckStopReason {
    /// The server violates the requirement.
    Failed(String),
    /// The server lacks what the check needs.
    Skipped(String),
}

pub(crate) fn fail(reason: impl Into<String>) -> CheckStopReason {
    CheckStopReason::Failed(reason.into())
}

pub(crate) fn skip(reason: impl Into<String>) -> CheckStopReason {
    CheckStopReason::Skipped(reason.into())
}

/// Fails with `reason` unless `holds`.
pub(crate) fn ensure(holds: bool, reason: impl FnOnce() -> String) -> CheckVerdict {
    if holds { Ok(()) } else { Err(fail(reason())) }
}

/// Fails with both values unless they are equal.
#[expect(clippy::needless_pass_by_value, reason = "callers write what they expect in place")]
pub(crate) fn equal<A, B>(what: &str, expected: A, got: B) -> CheckVerdict
where
    A: Debug + PartialEq<B>,
    B: Debug,
{
    ensure(expected == got, || {
        let (expected, got) = (format!("{expected:?}"), format!("{got:?}"));
        format!("{what}: expected {}, got {}", short(&expected), short(&got))
    })
}

/// Fails with both texts unless `text` contains `part`.
pub(crate) fn contains(what: &str, part: &str, text: &str) -> CheckVerdict {
    ensure(text.contains(part), || format!("{what}: expected something with {part:?}, got {:?}", short(text)))
}

/// Fails if `text` contains `part`.
pub(crate) fn lacks(what: &str, part: &str, text: &str) -> CheckVerdict {
    ensure(!text.contains(part), || format!("{what}: expected nothing with {part:?}, got {:?}", short(text)))
}

/// Shortens a text for a line of a report.
pub(crate) fn short(text: &str) -> String {
    const MAX_SHOWN_CHARACTERS: usize = 220;
    match text.char_indices().nth(MAX_SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{CheckStopReason, equal, short};

    #[test]
    fn failed_comparison_message_shows_expected_and_actual_value() {
        assert_eq!(equal("status", 201, 200), Err(CheckStopReason::Failed("status: expected 201, got 200".into())));
        assert_eq!(equal("status", 201, 201), Ok(()));
    }

    #[test]
    fn long_text_is_shortened_at_a_character_boundary() {
        assert!(short(&"é".repeat(500)).ends_with("é…"));
        assert_eq!(short("as it is"), "as it is");
    }
}
