//! Timestamps as ANP writes them: RFC 3339 with a time zone. Timestamps that we write have whole seconds.

use nuncio_core::time::Timestamp;

/// Formats a timestamp in whole seconds: `2026-01-01T00:00:00Z`.
#[must_use]
pub fn write(moment: Timestamp) -> String {
    from_seconds(seconds(moment)).to_string().replace(".000Z", "Z")
}

/// Parses RFC 3339 with `T` and a time zone; every other form is refused.
#[must_use]
pub fn read(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let digits = |from: usize, to: usize| bytes.get(from..to).is_some_and(|part| part.iter().all(u8::is_ascii_digit));
    let date = digits(0, 4) && digits(5, 7) && digits(8, 10) && digits(11, 13) && digits(14, 16) && digits(17, 19);
    let signs = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !date || text.len() > 40 || signs.iter().any(|(at, sign)| bytes[*at] != *sign) {
        return None;
    }
    let zone = text[19..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let fraction = &text[19..text.len() - zone.len()];
    let fraction_reads =
        fraction.is_empty() || fraction.strip_prefix('.').is_some_and(|part| !part.is_empty() && !part.contains('.'));
    let zone_reads = zone == "Z"
        || (zone.len() == 6 && zone.starts_with(['+', '-']) && digits(text.len() - 5, text.len() - 3) && {
            bytes[text.len() - 3] == b':' && digits(text.len() - 2, text.len())
        });
    if !fraction_reads || !zone_reads {
        return None;
    }
    Timestamp::try_from(text.to_owned()).ok()
}

/// Whole seconds since the Unix epoch, rounded down.
#[must_use]
pub fn seconds(moment: Timestamp) -> i64 {
    moment.as_millis().div_euclid(1000)
}

#[must_use]
pub fn from_seconds(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds.saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_rfc3339_timestamps_are_parsed() {
        let moment = read("2026-01-01T00:00:00Z").unwrap();
        assert_eq!(seconds(moment), 1_767_225_600);
        assert_eq!(write(moment), "2026-01-01T00:00:00Z");
        assert_eq!(read("2026-01-01T02:00:00.000+02:00"), Some(moment));
        for text in [
            "",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.1.1Z",
            "2026-01-01T00:00:00Z[UTC]",
            "2026-01-01T00:00:00+02",
            "2026-13-01T00:00:00Z",
            "2026-01-01T00:00:00é",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
