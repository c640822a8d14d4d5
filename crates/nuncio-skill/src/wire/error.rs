//! Error responses of the protocol (§8).

use nuncio_core::string_enum;
use serde_json::{Map, Value, json};

use super::{LenientNumber, document, present};

document! {
    /// Body of every error response.
    nested struct ErrorResponse {
        /// The error that occurred.
        error: ErrorBody,
    }
}

document! {
    /// Error code, message and retry advice of an error response.
    nested struct ErrorBody {
        /// One of the seven error codes.
        code: SkillErrorCode,
        /// Error message, for people.
        message: String,
        /// Further details of the error.
        #[serde(default, deserialize_with = "present")]
        details: Option<Value>,
        /// Retry advice; absent if a retry is not advised.
        retry: Option<RetryAdvice>,
    }
}

document! {
    /// Advice on when and how often to retry.
    nested struct RetryAdvice {
        /// Delay before the first retry, in milliseconds.
        suggested_delay_ms: LenientNumber,
        /// Highest number of attempts.
        max_attempts: LenientNumber,
    }
}

impl RetryAdvice {
    #[must_use]
    pub fn new(suggested_delay_ms: u64, max_attempts: u64) -> Self {
        Self { suggested_delay_ms: suggested_delay_ms.into(), max_attempts: max_attempts.into(), extra: Map::new() }
    }
}

string_enum! {
    /// Error codes of the protocol, in the order of §8.1.
    pub enum SkillErrorCode {
        /// A document or request is invalid.
        ValidationError = "VALIDATION_ERROR",
        /// Credentials are missing or invalid.
        AuthRequired = "AUTH_REQUIRED",
        /// The credentials are valid but do not allow the call.
        PermissionDenied = "PERMISSION_DENIED",
        /// The skill, descriptor or execution does not exist.
        SkillNotFound = "SKILL_NOT_FOUND",
        InvocationTimeout = "INVOCATION_TIMEOUT",
        EndpointUnreachable = "ENDPOINT_UNREACHABLE",
        /// The descriptor follows a version that the consumer cannot read.
        VersionIncompatible = "VERSION_INCOMPATIBLE",
    }
}

impl SkillErrorCode {
    /// HTTP statuses used with the code, the default one first.
    #[must_use]
    pub const fn statuses(self) -> &'static [u16] {
        match self {
            Self::ValidationError => &[400, 405, 406, 413, 414, 415, 422],
            Self::AuthRequired => &[401],
            Self::PermissionDenied => &[403],
            Self::SkillNotFound => &[404],
            Self::InvocationTimeout => &[504, 408],
            Self::EndpointUnreachable => &[503, 502, 500, 429],
            Self::VersionIncompatible => &[422],
        }
    }
}

impl ErrorResponse {
    #[must_use]
    pub fn new(code: SkillErrorCode, message: impl Into<String>) -> Self {
        let error = ErrorBody { code, message: message.into(), details: None, retry: None, extra: Map::new() };
        Self { error, extra: Map::new() }
    }

    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.error.details = Some(details);
        self
    }

    #[must_use]
    pub fn with_retry(mut self, suggested_delay_ms: u64, max_attempts: u64) -> Self {
        self.error.retry = Some(RetryAdvice::new(suggested_delay_ms, max_attempts));
        self
    }

    /// Parses an error of another provider leniently: accepts older names of codes and fields, and incomplete retry
    /// advice. Returns `None` if it is not an error of this protocol.
    #[must_use]
    pub fn tolerate(mut document: Value) -> Option<Self> {
        let error = document.get_mut("error")?.as_object_mut()?;
        if error.get("code").and_then(Value::as_str) == Some("EXECUTION_TIMEOUT") {
            error.insert("code".to_owned(), SkillErrorCode::InvocationTimeout.as_str().into());
        }
        if let Some(Value::Array(violations)) =
            error.get_mut("details").and_then(|details| details.get_mut("violations"))
        {
            let faults = violations.drain(..).map(violation).collect();
            error.insert("details".to_owned(), Value::Array(faults));
        }
        if let Some(retry) = error.get_mut("retry") {
            let number = |name: &str| retry.get(name).filter(|value| value.is_number()).cloned();
            let (delay, attempts) = (number("suggested_delay_ms"), number("max_attempts"));
            if delay.is_none() && attempts.is_none() {
                error.shift_remove("retry");
            } else if let Some(retry) = retry.as_object_mut() {
                retry.insert("suggested_delay_ms".to_owned(), delay.unwrap_or_else(|| 0.into()));
                retry.insert("max_attempts".to_owned(), attempts.unwrap_or_else(|| 1.into()));
            }
        }
        serde_json::from_value(document).ok()
    }
}

/// Converts a validation fault from its older form with `field` to the current one with `path`.
fn violation(old: Value) -> Value {
    let Value::Object(mut old) = old else { return old };
    let field = old.shift_remove("field").and_then(|field| field.as_str().map(str::to_owned)).unwrap_or_default();
    let path = if field.is_empty() || field.starts_with('/') { field } else { format!("/{}", field.replace('.', "/")) };
    let mut fault = json!({ "path": path });
    if let Value::Object(fault) = &mut fault {
        fault.extend(old);
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_code_serialises_to_the_text_of_as_str() {
        for code in SkillErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }

    #[test]
    fn error_response_in_older_form_is_accepted_and_other_json_is_not() {
        let read = |body: Value| ErrorResponse::tolerate(json!({ "error": body }));
        let old = read(json!({"code": "EXECUTION_TIMEOUT", "message": "m", "retry": {"max_attempts": 2}})).unwrap();
        assert_eq!(old.error.code, SkillErrorCode::InvocationTimeout);
        assert_eq!(old.error.retry, Some(RetryAdvice::new(0, 2)));
        let violations = json!({"violations": [{"field": "endpoint.method", "expected": "GET", "actual": "PATCH"}]});
        let old = read(json!({"code": "VALIDATION_ERROR", "message": "m", "details": violations})).unwrap();
        let ours = json!([{"path": "/endpoint/method", "expected": "GET", "actual": "PATCH"}]);
        assert_eq!(old.error.details, Some(ours));
        let odd = read(json!({"code": "AUTH_REQUIRED", "message": "m", "retry": "soon"})).unwrap();
        assert_eq!(odd.error.retry, None);
        assert_eq!(read(json!({"code": "TEAPOT", "message": "m"})), None);
        assert_eq!(ErrorResponse::tolerate(json!({"error": "nope"})), None);
        assert_eq!(ErrorResponse::tolerate(json!([1])), None);
    }
}
