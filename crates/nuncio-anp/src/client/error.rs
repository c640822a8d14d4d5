//! Errors of the client.

use std::fmt;
use std::ops::Deref;

use nuncio_core::Code;
use nuncio_engine::ports::fetch::FetchError;
use serde_json::{Value, json};
use url::Url;

use crate::validate::AnpReport;
use crate::wire::{ErrorCode, RpcError};

pub(crate) use nuncio_core::address::shown;
pub(crate) use nuncio_core::text::plain;

/// Why an agent could not be found, trusted, negotiated with or called.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientError(Box<ClientErrorDetails>);

/// Content of a [`ClientError`].
#[derive(Debug, Clone, PartialEq)]
pub struct ClientErrorDetails {
    pub reason: Reason,
    /// What was wrong in the exchange with the agent, and where.
    pub message: String,
    /// What the user can do about the error.
    pub advice: Option<String>,
    /// Machine-readable details of the error.
    pub details: Option<Value>,
    /// The JSON-RPC error of the remote side, if the remote side sent one.
    pub said: Option<RpcError>,
    /// HTTP status of the remote side's response.
    pub status: Option<u16>,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $variant:ident = $text:literal => $code:ident,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Reason {
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// The documented error code for this reason.
            #[must_use]
            pub const fn code(self) -> Code {
                match self { $(Self::$variant => Code::$code),* }
            }
        }
    };
}

reasons! {
    /// The target text is not a DID, a URL or a host.
    BadTarget = "bad_target" => BadRequest,
    /// The target is a host with several agents.
    WhichAgent = "which_agent" => BadRequest,
    /// The caller named no method, or the agent has no such method.
    WhichMethod = "which_method" => ToolNotFound,
    /// The address is not allowed by the outbound policy.
    Refused = "refused" => OutboundRefused,
    Unreachable = "unreachable" => EndpointUnreachable,
    TooSlow = "too_slow" => EndpointUnreachable,
    Redirected = "redirected" => EndpointUnreachable,
    /// The response has an unexpected HTTP status.
    Answered = "answered" => EndpointUnreachable,
    TooLarge = "too_large" => ValidationError,
    /// The response has the wrong content type.
    WrongType = "wrong_content_type" => ValidationError,
    InvalidDocument = "invalid_document" => ValidationError,
    /// The DID cannot be resolved, or its document does not belong to it.
    BadDid = "bad_did" => PeerUntrusted,
    /// The DID is deactivated, and its successor cannot be verified.
    Superseded = "superseded" => PeerUntrusted,
    /// A verification check of the agent failed.
    Untrusted = "untrusted" => PeerUntrusted,
    BadArguments = "bad_arguments" => InvalidArguments,
    /// The remote side requires authentication.
    IdentityNeeded = "identity_needed" => AuthRequired,
    CannotSign = "cannot_sign" => DidUnavailable,
    /// The caller is authenticated but not allowed.
    Forbidden = "forbidden" => PermissionDenied,
    /// The response is a JSON-RPC or ANP error.
    Failed = "failed" => ToolFailed,
    /// The negotiation ended without an interface.
    NotAgreed = "not_agreed" => NegotiationFailed,
    /// The negotiation result is inconsistent.
    BadAgreement = "bad_agreement" => NegotiationFailed,
    /// The negotiation result has a weaker security profile than requested.
    Downgrade = "downgrade" => NegotiationFailed,
    /// The negotiated interface cannot be used by this client.
    CannotUse = "cannot_use" => NegotiationFailed,
}

impl ClientError {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(ClientErrorDetails { reason, message, advice: None, details: None, said: None, status: None }))
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

    /// Error for a fetched document that does not validate.
    pub(super) fn invalid(url: &Url, report: &AnpReport) -> Self {
        let (what, count) = (report.kind.name(), report.errors.len());
        let first = report.errors.first().map(ToString::to_string).unwrap_or_default();
        let more = if count > 1 { format!(", and {} more faults", count - 1) } else { String::new() };
        Self::new(Reason::InvalidDocument, format!("{} is no {what}: {}{more}", shown(url), plain(&first)))
            .advice("it is its publisher's to put right; nothing was called")
            .details(json!(report.errors))
    }

    /// Error for a JSON-RPC or ANP error response.
    pub(super) fn said(url: &Url, error: RpcError) -> Self {
        let reason = match error.known() {
            Some(ErrorCode::Unauthorized | ErrorCode::AuthorizationRequired) => Reason::IdentityNeeded,
            Some(ErrorCode::Forbidden) => Reason::Forbidden,
            Some(ErrorCode::InvalidParams) => Reason::BadArguments,
            Some(code) if (1600..=1608).contains(&code.code()) => Reason::NotAgreed,
            _ => Reason::Failed,
        };
        let word = error.anp_code().map(|word| format!(" ({})", plain(word))).unwrap_or_default();
        // Some software puts the reason in `data`.
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
                .advice("the address came from a document of another host; name that host yourself if you trust it"),
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

    /// Returns whether the remote side no longer accepts the agreement. Nothing was executed, and negotiating again may
    /// help (ANP-06 §10.1).
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
    type Target = ClientErrorDetails;

    fn deref(&self) -> &ClientErrorDetails {
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
