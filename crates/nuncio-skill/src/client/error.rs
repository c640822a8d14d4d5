//! Errors of the consumer, with advice for the user.

use std::fmt;
use std::time::Duration;

use nuncio_core::string_enum;
use nuncio_engine::remote_error;
use serde_json::json;
use url::Url;

use crate::validate::{SkillDocumentType, ValidationReport};
use crate::wire::{ErrorResponse, RetryAdvice, SkillErrorCode};

pub(crate) use nuncio_core::address::display_url;
pub(crate) use nuncio_core::text::plain;

remote_error! {
    /// Error while finding, describing or invoking a skill, or the failure of its execution.
    pub struct SkillConsumerError(ConsumerFailure, ConsumerErrorReason {
        /// Error code of the protocol (§8.1) or `EXECUTION_FAILED`.
        pub code: ConsumerFailureCode = |reason| ConsumerFailureCode::Protocol(reason.code()),
        pub retry: Option<RetryAdvice> = |_| None,
        /// Id of the execution, if the provider had accepted the invocation.
        pub execution: Option<String> = |_| None,
        /// Delay from the provider's `Retry-After` header.
        pub(super) retry_after: Option<Duration> = |_| None,
    })
}

/// One of the protocol's seven codes, or `EXECUTION_FAILED` for a skill that ran and failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerFailureCode {
    Protocol(SkillErrorCode),
    ExecutionFailed,
}

impl ConsumerFailureCode {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Protocol(code) => code.as_str(),
            Self::ExecutionFailed => "EXECUTION_FAILED",
        }
    }

    /// Parses an error code; an unknown code becomes `EXECUTION_FAILED`.
    pub(super) fn read(word: &str) -> Self {
        let word = if word == "EXECUTION_TIMEOUT" { SkillErrorCode::InvocationTimeout.as_str() } else { word };
        SkillErrorCode::parse(word).map_or(Self::ExecutionFailed, Self::Protocol)
    }
}

impl fmt::Display for ConsumerFailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

string_enum! {
    /// Specific cause of a [`SkillConsumerError`], finer than the protocol's code.
    pub enum ConsumerErrorReason {
        /// The text given as a target cannot be parsed.
        BadTarget = "bad_target",
        /// The target is a host without a skill id.
        WhichSkill = "which_skill",
        /// The address policy forbids a connection to this address.
        Refused = "refused",
        /// The connection failed.
        Unreachable = "unreachable",
        /// The request timed out.
        TooSlow = "too_slow",
        /// The server answered with a redirect, which is not followed.
        Redirected = "redirected",
        /// The server answered with an error status.
        Answered = "answered",
        /// The response exceeds the size limit.
        TooLarge = "too_large",
        /// The response has the wrong content type.
        WrongType = "wrong_content_type",
        /// The response is not a valid document of the expected kind.
        InvalidDocument = "invalid_document",
        /// The descriptor belongs to another skill than the requested one.
        OtherSkill = "other_skill",
        /// The host's index does not list the skill.
        NotListed = "not_listed",
        /// The document follows an unsupported protocol version.
        Incompatible = "incompatible",
        /// The inputs do not match the descriptor.
        BadInputs = "bad_inputs",
        /// The request cannot be built, such as for a body type other than JSON.
        CannotSend = "cannot_send",
        /// The skill requires a credential and none was given.
        CredentialMissing = "credential_missing",
        /// The credential is of another kind than the skill requires.
        CredentialUnfit = "credential_unfit",
        /// The credential would go to a host that the named host does not control.
        CredentialElsewhere = "credential_elsewhere",
        /// The token endpoint refused to issue a token.
        TokenRefused = "token_refused",
        /// The endpoint gives no status URL for the execution.
        NoStatusUrl = "no_status_url",
        /// A later response names another execution or skill.
        Changed = "changed",
        /// The execution reported an earlier state than before.
        Backwards = "backwards",
        /// The output does not match the descriptor's output schema.
        BadOutput = "bad_output",
        /// The execution failed.
        Failed = "failed",
        /// The provider reported a timeout.
        TimedOut = "timed_out",
        /// The consumer's own waiting time ended.
        GaveUp = "gave_up",
    }
}

impl ConsumerErrorReason {
    const fn code(self) -> SkillErrorCode {
        match self {
            Self::Refused | Self::Unreachable | Self::TooSlow | Self::Redirected | Self::Answered | Self::Failed => {
                SkillErrorCode::EndpointUnreachable
            }
            Self::NotListed => SkillErrorCode::SkillNotFound,
            Self::Incompatible => SkillErrorCode::VersionIncompatible,
            Self::CredentialMissing | Self::CredentialUnfit | Self::CredentialElsewhere | Self::TokenRefused => {
                SkillErrorCode::AuthRequired
            }
            Self::TimedOut | Self::GaveUp => SkillErrorCode::InvocationTimeout,
            _ => SkillErrorCode::ValidationError,
        }
    }
}

impl SkillConsumerError {
    pub(super) fn code(mut self, code: ConsumerFailureCode) -> Self {
        self.0.code = code;
        self
    }

    pub(super) fn retry(mut self, retry: Option<RetryAdvice>) -> Self {
        self.0.retry = retry;
        self
    }

    pub(super) fn answered(mut self, status: u16, retry_after: Option<Duration>) -> Self {
        self.0.status = Some(status);
        self.0.retry_after = retry_after;
        self
    }

    pub(super) fn of(mut self, execution: &str) -> Self {
        self.0.execution = Some(execution.to_owned());
        self
    }

    /// Error for a fetched document that failed validation.
    pub(super) fn invalid(url: &Url, report: &ValidationReport) -> Self {
        let (what, count) = (report.kind.as_str(), report.errors.len());
        let first = report.errors.first().map(ToString::to_string).unwrap_or_default();
        let more = if count > 1 { format!(", and {} more faults", count - 1) } else { String::new() };
        let advice = match report.kind {
            SkillDocumentType::SkillIndex | SkillDocumentType::SkillDescriptor => {
                "only its provider can correct it; nothing was invoked"
            }
            _ => "only its provider can correct it; the execution may still run there",
        };
        Self::new(
            ConsumerErrorReason::InvalidDocument,
            format!("{} is not a valid {what}: {first}{more}", display_url(url)),
        )
        .advice(advice)
        .details(json!(report.errors))
    }

    /// Whether the error may be temporary: a failed connection, or status 429, 502 or 503.
    pub(super) fn is_passing(&self) -> bool {
        match self.reason {
            ConsumerErrorReason::Unreachable => true,
            ConsumerErrorReason::Answered => matches!(self.status, Some(429 | 502 | 503)),
            _ => false,
        }
    }
}

/// Converts an error response of a provider to a [`SkillConsumerError`].
pub(super) fn refusal(url: &Url, status: u16, body: &[u8], retry_after: Option<Duration>) -> SkillConsumerError {
    let address = display_url(url);
    let response = serde_json::from_slice(body).ok().and_then(ErrorResponse::tolerate);
    let Some(ErrorResponse { error, .. }) = response else {
        let error = SkillConsumerError::new(ConsumerErrorReason::Answered, format!("{address} answered {status}"));
        let code = code_of(status);
        return with_advice(error.code(ConsumerFailureCode::Protocol(code)).answered(status, retry_after), code);
    };
    let details = error.details.filter(|details| !details.is_null());
    let mut failure = SkillConsumerError::new(
        ConsumerErrorReason::Answered,
        format!("{address} answered {status}: {}", plain(&error.message)),
    )
    .code(ConsumerFailureCode::Protocol(error.code))
    .retry(error.retry)
    .answered(status, retry_after);
    failure.0.details = details;
    with_advice(failure, error.code)
}

fn with_advice(failure: SkillConsumerError, code: SkillErrorCode) -> SkillConsumerError {
    match code {
        SkillErrorCode::AuthRequired => {
            failure.advice("check the credential (--key or NUNCIO_KEY): it is missing, wrong or has expired")
        }
        SkillErrorCode::PermissionDenied => failure.advice("ask the provider for the permission that is missing"),
        _ => failure,
    }
}

/// Default code for an HTTP status, used when the body has no error code.
fn code_of(status: u16) -> SkillErrorCode {
    let usual = SkillErrorCode::ALL.into_iter().find(|code| code.statuses().contains(&status));
    usual.unwrap_or(if status < 500 { SkillErrorCode::ValidationError } else { SkillErrorCode::EndpointUnreachable })
}
