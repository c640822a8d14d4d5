//! Errors of the AAP client.

use std::error::Error as _;

use serde_json::Value;

/// Length limit of a server's error message, in characters.
const MAX_MESSAGE: usize = 500;

/// Failure of a request to an AAP server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The response ended before it was complete.
    #[error("the answer ended early: {0}")]
    Broken(String),
    /// The server answered with an error status.
    #[error("the server refused the request ({status}): {message}")]
    Refused {
        status: u16,
        /// Error message of the server, from a JSON or plain-text body.
        message: String,
        code: Option<String>,
    },
    /// The response does not follow AAP.
    #[error("the server does not follow AAP v3: {0}")]
    NotAap(String),
    #[error("{0}")]
    TooLarge(String),
}

impl ClientError {
    /// Whether the server answered 404 or 405.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404 | 405, .. })
    }

    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => code.as_deref(),
            _ => None,
        }
    }

    pub(super) fn unreachable(error: &reqwest::Error) -> Self {
        Self::Unreachable(cause(error))
    }

    pub(super) fn broken(error: &reqwest::Error) -> Self {
        Self::Broken(cause(error))
    }

    /// Parses an error response, which is JSON with `error` from Nuncio and often plain text from other servers.
    pub(super) fn refused(status: u16, body: &[u8]) -> Self {
        let (text_found, code) = match serde_json::from_slice::<Value>(body) {
            Ok(Value::Object(mut fields)) => {
                let code = fields.get("code").and_then(Value::as_str).map(str::to_owned);
                let text_found =
                    ["error", "message", "detail"].iter().find_map(|key| match fields.shift_remove(*key)? {
                        Value::String(text) => Some(text),
                        Value::Object(inner) => inner.get("message").and_then(Value::as_str).map(str::to_owned),
                        _ => None,
                    });
                (text_found.unwrap_or_default(), code)
            }
            Ok(Value::String(text)) => (text, None),
            _ => (String::from_utf8_lossy(body).into_owned(), None),
        };
        let text_found: String =
            text_found.trim().chars().filter(|c| !c.is_control() || *c == '\n').take(MAX_MESSAGE).collect();
        let message = if text_found.is_empty() { "it does not say why".to_owned() } else { text_found };
        Self::Refused { status, message, code }
    }
}

/// Innermost cause of a connection failure. The address is left out, because it may contain a secret.
fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it took too long".to_owned();
    }
    let innermost = std::iter::successors(error.source(), |&cause| cause.source()).last();
    innermost.map_or_else(|| "the exchange failed".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_message_is_read_from_json_or_plain_text_without_control_characters() {
        let refused = |body: &[u8]| ClientError::refused(500, body);
        let said = |message: &str, code: Option<&str>| ClientError::Refused {
            status: 500,
            message: message.to_owned(),
            code: code.map(str::to_owned),
        };
        assert_eq!(refused(br#"{"error":"no","code":"bad_json"}"#), said("no", Some("bad_json")));
        assert_eq!(refused(br#"{"error":{"message":"deep"}}"#), said("deep", None));
        assert_eq!(refused(b"Internal Server Error"), said("Internal Server Error", None));
        assert_eq!(refused(b"\x1b[31mred"), said("[31mred", None));
        assert_eq!(refused(b"{}"), said("it does not say why", None));
        assert_eq!(refused(b""), said("it does not say why", None));
    }
}
