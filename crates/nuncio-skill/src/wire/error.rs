//! The one form of every error (§8).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Quantity, document, present};
use crate::schema::model::{Described, Shape};

document! {
    /// What every error answer looks like.
    nested struct ErrorResponse {
        /// The error.
        error: ErrorBody,
    }
}

document! {
    /// What went wrong.
    nested struct ErrorBody {
        /// One of the seven codes.
        code: ErrorCode,
        /// What went wrong, for people.
        message: String,
        /// More about it.
        #[serde(default, deserialize_with = "present")]
        details: Option<Value>,
        /// Whether trying again makes sense.
        retry: Option<RetryAdvice>,
    }
}

document! {
    /// When, and how often, to try again.
    nested struct RetryAdvice {
        /// How long to wait first, in milliseconds.
        suggested_delay_ms: Quantity,
        /// How often to try at most.
        max_attempts: Quantity,
    }
}

impl RetryAdvice {
    /// Advice of these two numbers.
    #[must_use]
    pub fn new(suggested_delay_ms: u64, max_attempts: u64) -> Self {
        Self { suggested_delay_ms: suggested_delay_ms.into(), max_attempts: max_attempts.into(), extra: Map::new() }
    }
}

/// The seven codes (§8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// A document or a request is not as it must be.
    ValidationError,
    /// No credentials, or none that are valid.
    AuthRequired,
    /// Valid credentials that do not allow it.
    PermissionDenied,
    /// No such skill, descriptor or execution.
    SkillNotFound,
    /// It took too long.
    InvocationTimeout,
    /// The endpoint could not be reached.
    EndpointUnreachable,
    /// The descriptor follows a version the consumer cannot read.
    VersionIncompatible,
}

impl ErrorCode {
    /// Every code, in the seed's order.
    pub const ALL: [Self; 7] = [
        Self::ValidationError,
        Self::AuthRequired,
        Self::PermissionDenied,
        Self::SkillNotFound,
        Self::InvocationTimeout,
        Self::EndpointUnreachable,
        Self::VersionIncompatible,
    ];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ValidationError => "VALIDATION_ERROR",
            Self::AuthRequired => "AUTH_REQUIRED",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::SkillNotFound => "SKILL_NOT_FOUND",
            Self::InvocationTimeout => "INVOCATION_TIMEOUT",
            Self::EndpointUnreachable => "ENDPOINT_UNREACHABLE",
            Self::VersionIncompatible => "VERSION_INCOMPATIBLE",
        }
    }

    /// The HTTP statuses it comes with, the usual one first.
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

impl Described for ErrorCode {
    fn shape() -> Shape {
        Shape::Words(Self::ALL.iter().map(|code| code.as_str()).collect())
    }
}

impl ErrorResponse {
    /// An error of that code, saying that.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let error = ErrorBody { code, message: message.into(), details: None, retry: None, extra: Map::new() };
        Self { error, extra: Map::new() }
    }

    /// With more about it.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.error.details = Some(details);
        self
    }

    /// With advice on trying again.
    #[must_use]
    pub fn with_retry(mut self, suggested_delay_ms: u64, max_attempts: u64) -> Self {
        self.error.retry = Some(RetryAdvice::new(suggested_delay_ms, max_attempts));
        self
    }

    /// Reads another provider's error with good will: older names for codes and details, and advice with a
    /// number missing. None when it is no error of this protocol at all.
    #[must_use]
    pub fn tolerate(mut document: Value) -> Option<Self> {
        let error = document.get_mut("error")?.as_object_mut()?;
        if error.get("code").and_then(Value::as_str) == Some("EXECUTION_TIMEOUT") {
            error.insert("code".to_owned(), ErrorCode::InvocationTimeout.as_str().into());
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
                error.remove("retry");
            } else if let Some(retry) = retry.as_object_mut() {
                retry.insert("suggested_delay_ms".to_owned(), delay.unwrap_or_else(|| 0.into()));
                retry.insert("max_attempts".to_owned(), attempts.unwrap_or_else(|| 1.into()));
            }
        }
        serde_json::from_value(document).ok()
    }
}

/// A violation in the older form, in ours.
fn violation(old: Value) -> Value {
    let Value::Object(mut old) = old else { return old };
    let field = old.remove("field").and_then(|field| field.as_str().map(str::to_owned)).unwrap_or_default();
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
    fn every_code_is_written_as_the_seed_writes_it() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }

    #[test]
    fn other_peoples_errors_are_read_with_good_will() {
        let read = |body: Value| ErrorResponse::tolerate(json!({ "error": body }));
        let old = read(json!({"code": "EXECUTION_TIMEOUT", "message": "m", "retry": {"max_attempts": 2}})).unwrap();
        assert_eq!(old.error.code, ErrorCode::InvocationTimeout);
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
