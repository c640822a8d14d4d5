//! Body of error responses: `{"error": {code, message, i18n_key, params}}`.

use nuncio_core::ErrorCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    pub error: WireError,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireError {
    /// Error code for programs: [`ErrorCode`] in capitals, such as `MANIFEST_INVALID`.
    pub code: String,
    pub message: String,
    /// Key under which a client looks up a translation of the message.
    pub i18n_key: String,
    /// Error details for programs, as an object.
    pub params: Value,
}

impl WireError {
    /// Error with empty `params`.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code: code.as_str().to_ascii_uppercase(),
            message: message.into(),
            i18n_key: format!("errors.{}", code.as_str()),
            params: json!({}),
        }
    }

    /// The stable error code that `nuncio explain` knows.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        ErrorCode::parse(&self.code.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_body_has_code_message_i18n_key_and_params() {
        let body = ErrorBody { error: WireError::new(ErrorCode::ManifestInvalid, "no") };
        let written = json!({"error": {
            "code": "MANIFEST_INVALID", "message": "no", "i18n_key": "errors.manifest_invalid", "params": {},
        }});
        assert_eq!(serde_json::to_value(&body).unwrap(), written);
        assert_eq!(
            serde_json::from_value::<ErrorBody>(written).unwrap().error.code(),
            Some(ErrorCode::ManifestInvalid)
        );
    }
}
