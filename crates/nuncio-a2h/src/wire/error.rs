//! `{"error": {code, message, i18n_key, params}}`.

use nuncio_core::Code;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An answer that refuses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Why.
    pub error: WireError,
}

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WireError {
    /// For programs: [`Code`] in capitals.
    pub code: String,
    /// For people, in English.
    pub message: String,
    /// Where a client's bundle has the message in other languages.
    pub i18n_key: String,
    /// What a program needs to do better; an object.
    pub params: Value,
}

impl WireError {
    /// An error with nothing but its message.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code: name(code), message: message.into(), i18n_key: i18n_key(code), params: json!({}) }
    }

    /// The stable code behind it, for `nuncio explain`.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        Code::parse(&self.code.to_ascii_lowercase())
    }
}

/// A code as it is written here: `MANIFEST_INVALID`.
#[must_use]
pub fn name(code: Code) -> String {
    code.as_str().to_ascii_uppercase()
}

/// Where the words for a code are.
#[must_use]
pub fn i18n_key(code: Code) -> String {
    format!("errors.{}", code.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_written_as_the_convention_has_it() {
        let body = ErrorBody { error: WireError::new(Code::ManifestInvalid, "no") };
        let written = json!({"error": {
            "code": "MANIFEST_INVALID", "message": "no", "i18n_key": "errors.manifest_invalid", "params": {},
        }});
        assert_eq!(serde_json::to_value(&body).unwrap(), written);
        assert_eq!(serde_json::from_value::<ErrorBody>(written).unwrap().error.code(), Some(Code::ManifestInvalid));
    }
}
