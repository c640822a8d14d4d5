//! What went wrong, and what to do about it.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use serde_json::{Value, json};
use url::Url;

use crate::validate::{Kind, Report};
use crate::wire::{ErrorCode, ErrorResponse, RetryAdvice};

pub(crate) use nuncio_core::address::shown;
pub(crate) use nuncio_core::text::plain;

/// Why a skill could not be found, read or invoked, or what its execution came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsumerError(Box<Failure>);

/// What a [`ConsumerError`] says.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What exactly happened.
    pub reason: Reason,
    /// The protocol's code for it.
    pub code: FailureCode,
    /// What was wrong, and where.
    pub message: String,
    /// What to do about it.
    pub advice: Option<String>,
    /// More about it, for programs.
    pub details: Option<Value>,
    /// Whether trying again makes sense.
    pub retry: Option<RetryAdvice>,
    /// The execution it happened to, when there was one.
    pub execution: Option<String>,
    /// How long the provider wants to be left alone.
    pub(super) retry_after: Option<Duration>,
    /// The status it answered with.
    pub status: Option<u16>,
}

/// One of the protocol's seven codes, or that the skill itself failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCode {
    /// One of the seven.
    Protocol(ErrorCode),
    /// The skill ran and failed.
    ExecutionFailed,
}

impl FailureCode {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Protocol(code) => code.as_str(),
            Self::ExecutionFailed => "EXECUTION_FAILED",
        }
    }

    /// The code of that word; what nobody knows is a failure of the skill.
    pub(super) fn read(word: &str) -> Self {
        let word = if word == "EXECUTION_TIMEOUT" { ErrorCode::InvocationTimeout.as_str() } else { word };
        let known = ErrorCode::ALL.into_iter().find(|code| code.as_str() == word);
        known.map_or(Self::ExecutionFailed, Self::Protocol)
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $variant:ident = $text:literal => $code:ident,)*) => {
        /// What exactly happened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Reason {
            /// Its word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            const fn code(self) -> ErrorCode {
                match self { $(Self::$variant => ErrorCode::$code),* }
            }
        }
    };
}

reasons! {
    /// What was given as a target is none.
    BadTarget = "bad_target" => ValidationError,
    /// The target is a host, and which of its skills is meant was not said.
    WhichSkill = "which_skill" => ValidationError,
    /// The address is one that may not be reached.
    Refused = "refused" => EndpointUnreachable,
    /// The other side cannot be reached.
    Unreachable = "unreachable" => EndpointUnreachable,
    /// It did not answer in time.
    TooSlow = "too_slow" => EndpointUnreachable,
    /// It answered that it is elsewhere.
    Redirected = "redirected" => EndpointUnreachable,
    /// It answered with an error.
    Answered = "answered" => EndpointUnreachable,
    /// It answered more than is read.
    TooLarge = "too_large" => ValidationError,
    /// What it answered is not of the type it must be.
    WrongType = "wrong_content_type" => ValidationError,
    /// What it answered is not the document it must be.
    InvalidDocument = "invalid_document" => ValidationError,
    /// The descriptor is not of the skill that was asked for.
    OtherSkill = "other_skill" => ValidationError,
    /// The host has no such skill, or does not show it.
    NotListed = "not_listed" => SkillNotFound,
    /// It follows a version of the protocol that we cannot read.
    Incompatible = "incompatible" => VersionIncompatible,
    /// The inputs are not what the skill takes.
    BadInputs = "bad_inputs" => ValidationError,
    /// A request of that form cannot be sent.
    CannotSend = "cannot_send" => ValidationError,
    /// The skill wants a credential and none was given.
    CredentialMissing = "credential_missing" => AuthRequired,
    /// The credential is not of the kind the skill wants.
    CredentialUnfit = "credential_unfit" => AuthRequired,
    /// The credential would go to a host nobody vouches for.
    CredentialElsewhere = "credential_elsewhere" => AuthRequired,
    /// No access token was given out.
    TokenRefused = "token_refused" => AuthRequired,
    /// Where the execution's status is, is not said.
    NoStatusUrl = "no_status_url" => ValidationError,
    /// The provider speaks of another execution or another skill than before.
    Changed = "changed" => ValidationError,
    /// The execution went back to a state it had left.
    Backwards = "backwards" => ValidationError,
    /// The output is not what the descriptor promises.
    BadOutput = "bad_output" => ValidationError,
    /// The skill failed.
    Failed = "failed" => EndpointUnreachable,
    /// The skill did not end in time, by the provider's word.
    TimedOut = "timed_out" => InvocationTimeout,
    /// We waited as long as we were told to.
    GaveUp = "gave_up" => InvocationTimeout,
}

impl ConsumerError {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self(Box::new(Failure {
            reason,
            code: FailureCode::Protocol(reason.code()),
            message: message.into(),
            advice: None,
            details: None,
            retry: None,
            execution: None,
            retry_after: None,
            status: None,
        }))
    }

    pub(super) fn code(mut self, code: FailureCode) -> Self {
        self.0.code = code;
        self
    }

    pub(super) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    pub(super) fn details(mut self, details: Value) -> Self {
        self.0.details = Some(details);
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

    /// A document that is not what it must be.
    pub(super) fn invalid(url: &Url, report: &Report) -> Self {
        let (what, count) = (report.kind.name(), report.errors.len());
        let first = report.errors.first().map(ToString::to_string).unwrap_or_default();
        let more = if count > 1 { format!(", and {} more faults", count - 1) } else { String::new() };
        let advice = match report.kind {
            Kind::SkillIndex | Kind::SkillDescriptor => "it is its provider's to put right; nothing was invoked",
            _ => "it is its provider's to put right; what was invoked may go on there",
        };
        Self::new(Reason::InvalidDocument, format!("{} is no valid {what}: {first}{more}", shown(url)))
            .advice(advice)
            .details(json!(report.errors))
    }

    /// Whether it may well be gone soon.
    pub(super) fn is_passing(&self) -> bool {
        match self.reason {
            Reason::Unreachable => true,
            Reason::Answered => matches!(self.status, Some(429 | 502 | 503)),
            _ => false,
        }
    }

    /// The error in the protocol's one form (§8.2).
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut error = json!({"code": self.0.code.as_str(), "message": self.0.message});
        if let Some(details) = &self.0.details {
            error["details"] = details.clone();
        }
        if let Some(retry) = &self.0.retry {
            error["retry"] = json!(retry);
        }
        error
    }
}

impl Deref for ConsumerError {
    type Target = Failure;

    fn deref(&self) -> &Failure {
        &self.0
    }
}

impl fmt::Display for ConsumerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConsumerError {}

/// What a provider answered instead of what was asked for.
pub(super) fn refusal(url: &Url, status: u16, body: &[u8], retry_after: Option<Duration>) -> ConsumerError {
    let place = shown(url);
    let said = serde_json::from_slice(body).ok().and_then(ErrorResponse::tolerate);
    let Some(ErrorResponse { error, .. }) = said else {
        let error = ConsumerError::new(Reason::Answered, format!("{place} answered {status}"));
        return error.code(FailureCode::Protocol(code_of(status))).answered(status, retry_after);
    };
    let details = error.details.filter(|details| !details.is_null());
    let mut failure =
        ConsumerError::new(Reason::Answered, format!("{place} answered {status}: {}", plain(&error.message)))
            .code(FailureCode::Protocol(error.code))
            .retry(error.retry)
            .answered(status, retry_after);
    failure.0.details = details;
    match error.code {
        ErrorCode::AuthRequired => failure.advice("check the credential: it is missing, wrong or has ended"),
        ErrorCode::PermissionDenied => failure.advice("ask the provider for the permission that is missing"),
        _ => failure,
    }
}

/// The code that comes with a status, where the answer does not say.
fn code_of(status: u16) -> ErrorCode {
    let usual = ErrorCode::ALL.into_iter().find(|code| code.statuses().contains(&status));
    usual.unwrap_or(if status < 500 { ErrorCode::ValidationError } else { ErrorCode::EndpointUnreachable })
}
