//! Checks string formats: timestamps, URLs, header names.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use url::Url;

use crate::wire::EXECUTION_ID;

/// An ISO 8601 date or time; only one with an offset from UTC is a moment that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Iso8601Time {
    /// A date and time with an offset from UTC, so that it can be compared.
    Moment(Timestamp),
    /// A date, or a time without an offset.
    Local,
}

/// Parses ISO 8601: a date, or a date, `T`, a time and an optional offset.
pub(super) fn time(text: &str) -> Option<Iso8601Time> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || b"-+:.TZ".contains(&byte);
    if !text.bytes().all(is_plain) {
        return None;
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(Iso8601Time::Moment(moment));
    }
    // The parser of local times would accept a malformed offset.
    let no_offset = !text.ends_with('Z') && text.find('T').is_none_or(|at| !text[at..].contains(['+', '-']));
    let is_local = no_offset && (text.parse::<Date>().is_ok() || text.parse::<DateTime>().is_ok());
    is_local.then_some(Iso8601Time::Local)
}

/// Whether the text is an absolute http or https URL, or a template for one.
pub(super) fn is_http_url(text: &str) -> bool {
    // The URL parser ignores white space and line ends; other implementations may not.
    if text.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
        return false;
    }
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    let absolute = lower.starts_with("http://") || lower.starts_with("https://");
    absolute && Url::parse(&text.replace(EXECUTION_ID, "id")).is_ok_and(|url| url.has_host())
}

/// Whether the text is a valid HTTP header name.
pub(super) fn is_header_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_check_accepts_only_iso_8601_dates_and_times() {
        for moment in ["2025-01-15T08:00:00Z", "2025-01-15T08:00:00.123+02:00", "2025-01-15T08:00:00-05:00"] {
            assert!(matches!(time(moment), Some(Iso8601Time::Moment(_))), "{moment}");
        }
        for local in ["2025-01-15", "2025-01-15T08:00:00", "20250115T080000"] {
            assert_eq!(time(local), Some(Iso8601Time::Local), "{local}");
        }
        for bad in [
            "",
            "yesterday",
            "2025-13-01",
            "2025-02-30T00:00:00Z",
            "2025-01-15 08:00:00Z",
            "2025-01-15T08:00:00+99:99",
            "2025-01-15T08:00:00Z[UTC]",
            "1736928000",
            "2025-01-15T25:00:00",
            "08:00:00",
        ] {
            assert_eq!(time(bad), None, "{bad}");
        }
    }

    #[test]
    fn url_check_accepts_absolute_http_urls_only() {
        for good in
            ["https://a.example", "http://localhost:7400/x?y#z", "HTTPS://a.example/{execution_id}", "https://1.2.3.4"]
        {
            assert!(is_http_url(good), "{good}");
        }
        for bad in [
            "",
            "javascript:alert(1)",
            "ftp://a.example",
            "/relative",
            "//a.example",
            "a.example",
            "https:",
            "https://",
            " https://a.example",
            "https://a.example/\n",
            "java\nscript:alert(1)",
            "https:a.example",
            "data:text/html,x",
            "file:///etc/passwd",
        ] {
            assert!(!is_http_url(bad), "{bad:?}");
        }
    }

    #[test]
    fn invalid_header_names_are_refused() {
        assert!(is_header_name("X-API-Key"));
        for bad in ["", "X Key", "X:Key", "X\r\nKey", "clé"] {
            assert!(!is_header_name(bad), "{bad:?}");
        }
    }
}
