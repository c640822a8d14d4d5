//! Errors of the ANP client.

use nuncio_core::{ErrorCode, string_enum};
use nuncio_engine::remote_error;
use serde_json::{Value, json};
use url::Url;

use crate::validate::AnpValidationReport;
use crate::wire::{AnpErrorCode, RpcError};

pub(crate) use nuncio_core::address::display_url;
pub(crate) use nuncio_core::text::plain;

/// Advice for a caller whom the remote side wants to know.
pub(super) const IDENTIFY_YOURSELF: &str =
    "sign the request with a DID (--as AGENT), or give a key (--key or NUNCIO_KEY)";

remote_error! {
    /// Error while finding, verifying, negotiating with or calling an agent.
    pub struct ClientError(ClientErrorDetails, ClientErrorReason {
        /// JSON-RPC error that the remote side sent, if any.
        pub rpc_error: Option<RpcError> = |_| None,
    })
}

string_enum! {
    pub enum ClientErrorReason {
        /// The target text is not a DID, a URL or a host.
        BadTarget = "bad_target",
        /// The target is a host with several agents, so the agent must be named.
        WhichAgent = "which_agent",
        /// The caller named no method, or the agent has no such method.
        WhichMethod = "which_method",
        /// The address is not allowed by the outbound policy.
        Refused = "refused",
        Unreachable = "unreachable",
        TooSlow = "too_slow",
        Redirected = "redirected",
        /// The response has an unexpected HTTP status.
        Answered = "answered",
        TooLarge = "too_large",
        WrongType = "wrong_content_type",
        InvalidDocument = "invalid_document",
        /// The DID cannot be resolved, or its document does not belong to it.
        BadDid = "bad_did",
        /// The DID is deactivated, and its successor cannot be verified.
        Superseded = "superseded",
        /// A verification check of the agent failed.
        Untrusted = "untrusted",
        BadArguments = "bad_arguments",
        IdentityNeeded = "identity_needed",
        CannotSign = "cannot_sign",
        /// The remote side knows the caller but does not allow the call.
        Forbidden = "forbidden",
        /// The response is a JSON-RPC or ANP error.
        Failed = "failed",
        /// The negotiation ended without an interface.
        NotAgreed = "not_agreed",
        /// The negotiation result is inconsistent.
        BadAgreement = "bad_agreement",
        /// The negotiation result has a weaker security profile than requested.
        Downgrade = "downgrade",
        /// The negotiated interface cannot be used by this client.
        CannotUse = "cannot_use",
    }
}

impl ClientErrorReason {
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::BadTarget | Self::WhichAgent => ErrorCode::BadRequest,
            Self::WhichMethod => ErrorCode::ToolNotFound,
            Self::Refused => ErrorCode::OutboundRefused,
            Self::Unreachable | Self::TooSlow | Self::Redirected | Self::Answered => ErrorCode::EndpointUnreachable,
            Self::TooLarge | Self::WrongType | Self::InvalidDocument => ErrorCode::ValidationError,
            Self::BadDid | Self::Superseded | Self::Untrusted => ErrorCode::PeerUntrusted,
            Self::BadArguments => ErrorCode::InvalidArguments,
            Self::IdentityNeeded => ErrorCode::AuthRequired,
            Self::CannotSign => ErrorCode::DidUnavailable,
            Self::Forbidden => ErrorCode::PermissionDenied,
            Self::Failed => ErrorCode::ToolFailed,
            Self::NotAgreed | Self::BadAgreement | Self::Downgrade | Self::CannotUse => ErrorCode::NegotiationFailed,
        }
    }
}

impl ClientError {
    pub(super) fn answered(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Error for a fetched document that does not validate.
    pub(super) fn invalid(url: &Url, report: &AnpValidationReport) -> Self {
        let (what, count) = (report.kind.as_str(), report.errors.len());
        let first = report.errors.first().map(ToString::to_string).unwrap_or_default();
        let more = if count > 1 { format!(", and {} more faults", count - 1) } else { String::new() };
        Self::new(
            ClientErrorReason::InvalidDocument,
            format!("{} is no {what}: {}{more}", display_url(url), plain(&first)),
        )
        .advice("only its publisher can correct it; nothing was called")
        .details(json!(report.errors))
    }

    /// Error for a JSON-RPC or ANP error response.
    pub(super) fn rpc_failure(url: &Url, error: RpcError) -> Self {
        let reason = match error.known_code() {
            Some(AnpErrorCode::Unauthorized | AnpErrorCode::AuthorizationRequired) => ClientErrorReason::IdentityNeeded,
            Some(AnpErrorCode::Forbidden) => ClientErrorReason::Forbidden,
            Some(AnpErrorCode::InvalidParams) => ClientErrorReason::BadArguments,
            Some(code) if (1600..=1608).contains(&code.code()) => ClientErrorReason::NotAgreed,
            _ => ClientErrorReason::Failed,
        };
        let anp_code = error.anp_code().map(|code| format!(" ({})", plain(code))).unwrap_or_default();
        // Some software puts the reason in `data`.
        let why = error.data.as_ref().and_then(Value::as_str);
        let why = why.map(|why| format!(": {}", plain(why))).unwrap_or_default();
        let message = format!("{} answered {}{anp_code}: {}{why}", display_url(url), error.code, plain(&error.message));
        let mut failure = Self::new(reason, message);
        failure.0.details = error.data.clone();
        failure.0.rpc_error = Some(error);
        match reason {
            ClientErrorReason::IdentityNeeded => failure.advice(IDENTIFY_YOURSELF),
            ClientErrorReason::Forbidden => failure.advice("ask its operator for the permission that is missing"),
            _ => failure,
        }
    }

    /// Whether the remote side no longer accepts the agreement. Nothing was executed, and negotiating again may help
    /// (ANP-06 §10.1).
    #[must_use]
    pub fn is_stale(&self) -> bool {
        let code = self.0.rpc_error.as_ref().and_then(RpcError::known_code);
        let stale = matches!(
            code,
            Some(
                AnpErrorCode::MethodNotFound
                    | AnpErrorCode::UnsupportedProfile
                    | AnpErrorCode::UnsupportedSecurityProfile
                    | AnpErrorCode::UnsupportedContentType
                    | AnpErrorCode::TargetNotFound
                    | AnpErrorCode::InvalidSecurityBinding
                    | AnpErrorCode::InvalidTargetBinding
                    | AnpErrorCode::NoMatchingInterface
                    | AnpErrorCode::UnsupportedCandidateProfile
                    | AnpErrorCode::UnsupportedCandidateSecurity
                    | AnpErrorCode::UnsupportedCandidateContent
                    | AnpErrorCode::NegotiationExpired
            )
        );
        stale || matches!(self.0.status, Some(404 | 405 | 410 | 415)) || self.0.reason == ClientErrorReason::WhichMethod
    }
}
