//! What went wrong, and what to do about it.

use std::fmt;
use std::ops::Deref;

use nuncio_core::Code;
use nuncio_engine::ports::fetch::FetchError;
use serde_json::{Value, json};
use url::Url;

use crate::validate::Report;
use crate::wire::{ErrorCode, RpcError};

pub(crate) use nuncio_core::address::shown;
pub(crate) use nuncio_core::text::plain;

/// Why an agent could not be found, believed, negotiated with or called.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientError(Box<Failure>);

/// What a [`ClientError`] says.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What exactly happened.
    pub reason: Reason,
    /// What was wrong, and where.
    pub message: String,
    /// What to do about it.
    pub advice: Option<String>,
    /// More about it, for programs.
    pub details: Option<Value>,
    /// What the other side said, where it answered with an error of its protocol.
    pub said: Option<RpcError>,
    /// The status it answered with.
    pub status: Option<u16>,
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

            /// The code whose page says more.
            #[must_use]
            pub const fn code(self) -> Code {
                match self { $(Self::$variant => Code::$code),* }
            }
        }
    };
}

reasons! {
    /// What was given as a target is none.
    BadTarget = "bad_target" => BadRequest,
    /// The target is a host with several agents, and which one is meant was not said.
    WhichAgent = "which_agent" => BadRequest,
    /// Which method is meant was not said, or there is none such.
    WhichMethod = "which_method" => ToolNotFound,
    /// The address is one that may not be reached.
    Refused = "refused" => OutboundRefused,
    /// The other side cannot be reached.
    Unreachable = "unreachable" => EndpointUnreachable,
    /// It did not answer in time.
    TooSlow = "too_slow" => EndpointUnreachable,
    /// It answered that it is elsewhere.
    Redirected = "redirected" => EndpointUnreachable,
    /// It answered with a status that says no.
    Answered = "answered" => EndpointUnreachable,
    /// It answered more than is read.
    TooLarge = "too_large" => ValidationError,
    /// What it answered is not of the type it must be.
    WrongType = "wrong_content_type" => ValidationError,
    /// What it answered is not the document it must be.
    InvalidDocument = "invalid_document" => ValidationError,
    /// The DID cannot be looked up, or its document is not its own.
    BadDid = "bad_did" => PeerUntrusted,
    /// The DID is out of use, and what takes its place cannot be followed.
    Superseded = "superseded" => PeerUntrusted,
    /// Something about the agent was checked and is not true.
    Untrusted = "untrusted" => PeerUntrusted,
    /// The arguments are not what the method takes.
    BadArguments = "bad_arguments" => InvalidArguments,
    /// It wants to know who calls.
    IdentityNeeded = "identity_needed" => AuthRequired,
    /// Nothing can be signed.
    CannotSign = "cannot_sign" => DidUnavailable,
    /// Who calls is known, and may not.
    Forbidden = "forbidden" => PermissionDenied,
    /// It answered with an error of JSON-RPC or of ANP.
    Failed = "failed" => ToolFailed,
    /// No interface was agreed upon.
    NotAgreed = "not_agreed" => NegotiationFailed,
    /// What was agreed upon does not hold what it must.
    BadAgreement = "bad_agreement" => NegotiationFailed,
    /// What was agreed upon would be weaker than what was asked for.
    Downgrade = "downgrade" => NegotiationFailed,
    /// What was agreed upon cannot be used from here.
    CannotUse = "cannot_use" => NegotiationFailed,
}

impl ClientError {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(Failure { reason, message, advice: None, details: None, said: None, status: None }))
    }

    pub(super) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    pub(super) fn details(mut self, details: Value) -> Self {
        self.0.details = Some(details);
        self
    }

    pub(super) fn answered(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// A document that is not what it must be.
    pub(super) fn invalid(url: &Url, report: &Report) -> Self {
        let (what, count) = (report.kind.name(), report.errors.len());
        let first = report.errors.first().map(ToString::to_string).unwrap_or_default();
        let more = if count > 1 { format!(", and {} more faults", count - 1) } else { String::new() };
        Self::new(Reason::InvalidDocument, format!("{} is no {what}: {}{more}", shown(url), plain(&first)))
            .advice("it is its publisher's to put right; nothing was called")
            .details(json!(report.errors))
    }

    /// An error of JSON-RPC or ANP that came back.
    pub(super) fn said(url: &Url, error: RpcError) -> Self {
        let reason = match error.known() {
            Some(ErrorCode::Unauthorized | ErrorCode::AuthorizationRequired) => Reason::IdentityNeeded,
            Some(ErrorCode::Forbidden) => Reason::Forbidden,
            Some(ErrorCode::InvalidParams) => Reason::BadArguments,
            Some(code) if (1600..=1608).contains(&code.code()) => Reason::NotAgreed,
            _ => Reason::Failed,
        };
        let word = error.anp_code().map(|word| format!(" ({})", plain(word))).unwrap_or_default();
        // Some software says why beside the message.
        let more =
            error.data.as_ref().and_then(Value::as_str).map(|why| format!(": {}", plain(why))).unwrap_or_default();
        let message = format!("{} answered {}{word}: {}{more}", shown(url), error.code, plain(&error.message));
        let mut failure = Self::new(reason, message);
        failure.0.details = error.data.clone();
        failure.0.said = Some(error);
        match reason {
            Reason::IdentityNeeded => failure.advice("say who you are: sign with a DID it knows"),
            Reason::Forbidden => failure.advice("ask its operator for the permission that is missing"),
            _ => failure,
        }
    }

    pub(super) fn unfetched(url: &Url, error: FetchError) -> Self {
        let place = shown(url);
        match error {
            FetchError::Refused { why, .. } => Self::new(Reason::Refused, format!("{place} may not be reached: {why}"))
                .details(json!({"url": place, "reason": why}))
                .advice("the address came from a document of somebody else; name its host yourself if you trust it"),
            FetchError::Unreachable { why, .. } => {
                Self::new(Reason::Unreachable, format!("{place} cannot be reached: {why}"))
                    .details(json!({"url": place, "reason": why}))
            }
            FetchError::TooSlow { limit, .. } => {
                Self::new(Reason::TooSlow, format!("{place} did not answer within {limit:?}"))
                    .details(json!({"url": place, "timeout_ms": u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)}))
            }
            FetchError::TooLarge { limit, .. } => {
                Self::new(Reason::TooLarge, format!("{place} answered with more than {limit} bytes"))
                    .details(json!({"url": place, "limit": limit}))
            }
        }
    }

    /// Whether the other side does not know, or no longer knows, what was agreed upon. Nothing was done then,
    /// and agreeing anew may help (ANP-06 §10.1).
    #[must_use]
    pub fn is_stale(&self) -> bool {
        let known = self.0.said.as_ref().and_then(RpcError::known);
        let stale = matches!(
            known,
            Some(
                ErrorCode::MethodNotFound
                    | ErrorCode::UnsupportedProfile
                    | ErrorCode::UnsupportedSecurityProfile
                    | ErrorCode::UnsupportedContentType
                    | ErrorCode::TargetNotFound
                    | ErrorCode::InvalidSecurityBinding
                    | ErrorCode::InvalidTargetBinding
                    | ErrorCode::NoMatchingInterface
                    | ErrorCode::UnsupportedCandidateProfile
                    | ErrorCode::UnsupportedCandidateSecurity
                    | ErrorCode::UnsupportedCandidateContent
                    | ErrorCode::NegotiationExpired
            )
        );
        stale || matches!(self.0.status, Some(404 | 405 | 410 | 415)) || self.0.reason == Reason::WhichMethod
    }
}

impl Deref for ClientError {
    type Target = Failure;

    fn deref(&self) -> &Failure {
        &self.0
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ClientError {}
