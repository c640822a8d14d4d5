//! Headers of MCP: <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#standard-headers>

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, header};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(super) const NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(super) const PARAM_PREFIX: &str = "mcp-param-";

const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// Why a header cannot be compared with the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderFault {
    Missing,
    Repeated,
    /// The value is not visible ASCII, or not the Base64 that it claims to be.
    Unreadable,
}

impl HeaderFault {
    pub(super) fn says(self, name: &str) -> String {
        match self {
            Self::Missing => format!("the header {name} is missing"),
            Self::Repeated => format!("the header {name} is repeated"),
            Self::Unreadable => format!("the header {name} cannot be read"),
        }
    }
}

/// The value of a header that occurs once, without surrounding spaces and tabs.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, HeaderFault> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or(HeaderFault::Missing)?;
    if values.next().is_some() {
        return Err(HeaderFault::Repeated);
    }
    Ok(value.to_str().map_err(|_| HeaderFault::Unreadable)?.trim_matches([' ', '\t']))
}

/// Decodes `=?base64?…?=`; any other value is literal.
pub(super) fn decoded(value: &str) -> Result<String, HeaderFault> {
    let (before, after) = ENCODED;
    let Some(encoded) = value.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)) else {
        return Ok(value.to_owned());
    };
    let bytes = STANDARD.decode(encoded).map_err(|_| HeaderFault::Unreadable)?;
    String::from_utf8(bytes).map_err(|_| HeaderFault::Unreadable)
}

/// Whether the client can read a stream of events as the response. A missing header accepts everything.
pub(super) fn accepts_stream(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
    let is_stream = |part: &str| {
        let media_type = part.split(';').next().unwrap_or_default().trim();
        ["text/event-stream", "text/*", "*/*"].iter().any(|name| media_type.eq_ignore_ascii_case(name))
    };
    accepted.peek().is_none() || accepted.any(|value| value.split(',').any(is_stream))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn header_value_is_literal_unless_it_is_wrapped_base64() {
        for (value, text) in [
            ("echo", "echo"),
            ("=?base64?ZWNobw==?=", "echo"),
            ("=?base64?5Zui?=", "团"),
            ("=?Base64?ZWNobw==?=", "=?Base64?ZWNobw==?="),
            ("=?base64?ZWNobw==", "=?base64?ZWNobw=="),
        ] {
            assert_eq!(decoded(value).as_deref(), Ok(text), "{value}");
        }
        for value in ["=?base64?ZWNobw?=", "=?base64?ZW NobwA=?=", "=?base64?/w==?=", "=?base64?!!!!?="] {
            assert_eq!(decoded(value), Err(HeaderFault::Unreadable), "{value}");
        }
    }

    #[test]
    fn repeated_header_is_refused_even_if_the_values_agree() {
        let mut headers = HeaderMap::new();
        assert_eq!(single(&headers, "mcp-method"), Err(HeaderFault::Missing));
        headers.append(METHOD, HeaderValue::from_static(" tools/list\t"));
        assert_eq!(single(&headers, "mcp-method"), Ok("tools/list"));
        headers.append(METHOD, HeaderValue::from_static("tools/list"));
        assert_eq!(single(&headers, "mcp-method"), Err(HeaderFault::Repeated));
    }

    #[test]
    fn client_that_lists_only_json_gets_no_stream() {
        let accepting = |value: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            value.map(|value| headers.insert(header::ACCEPT, HeaderValue::from_static(value)));
            accepts_stream(&headers)
        };
        for (value, expected) in [
            (None, true),
            (Some("application/json, text/event-stream"), true),
            (Some("*/*"), true),
            (Some("application/json"), false),
            (Some("text/event-streams"), false),
        ] {
            assert_eq!(accepting(value), expected, "{value:?}");
        }
    }
}
