//! Errors of the core binding and its profiles: JSON-RPC error objects with a word for machines.

use nuncio_core::negotiation::{Cause, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $word:literal, $message:literal, $retry:ident;)*) => {
        /// Every error we answer with or understand.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[doc = $doc])* $name,)*
        }

        impl ErrorCode {
            /// Every error, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its number.
            #[must_use]
            pub const fn code(self) -> i64 {
                match self { $(Self::$name => $code,)* }
            }

            /// Its word; those of JSON-RPC itself have none.
            #[must_use]
            pub const fn anp_code(self) -> Option<&'static str> {
                let word = match self { $(Self::$name => $word,)* };
                if word.is_empty() { None } else { Some(word) }
            }

            /// What it is, for people.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self { $(Self::$name => $message,)* }
            }

            /// Whether the same request may succeed later.
            #[must_use]
            pub const fn is_retryable(self) -> bool {
                match self { $(Self::$name => codes!(@$retry),)* }
            }
        }
    };
    (@again) => { true };
    (@never) => { false };
}

codes! {
    /// It is not JSON.
    ParseError = -32700, "", "Parse error", never;
    /// It is no request.
    InvalidRequest = -32600, "", "Invalid request", never;
    /// There is no such method.
    MethodNotFound = -32601, "", "Method not found", never;
    /// The arguments do not fit.
    InvalidParams = -32602, "", "Invalid params", never;
    /// Something broke here.
    InternalError = -32603, "", "Internal error", again;
    /// The id is not a text with something in it.
    InvalidRequestId = 1000, "anp.invalid_request_id", "The id must be a non-empty string", never;
    /// Nobody speaks that profile here.
    UnsupportedProfile = 1001, "anp.unsupported_profile", "Unsupported profile", never;
    /// It cannot be protected so here.
    UnsupportedSecurityProfile = 1002, "anp.unsupported_security_profile", "Unsupported security profile", never;
    /// `params` is not `{meta, auth?, body}`.
    InvalidParamsShape = 1003, "anp.invalid_params_shape", "Invalid params shape", never;
    /// Several requests at once.
    BatchNotSupported = 1004, "anp.batch_not_supported", "Batches are not supported", never;
    /// Who asks is not known.
    Unauthorized = 1005, "anp.unauthorized", "Unauthorized", never;
    /// Who asks may not.
    Forbidden = 1006, "anp.forbidden", "Forbidden", never;
    /// Nobody of that DID is here.
    TargetNotFound = 1007, "anp.target_not_found", "Target not found", never;
    /// The same operation id with another request.
    IdempotencyConflict = 1008, "anp.idempotency_conflict", "Idempotency conflict", never;
    /// Nobody reads that content type here.
    UnsupportedContentType = 1009, "anp.unsupported_content_type", "Unsupported content type", never;
    /// It was not taken.
    DeliveryRejected = 1010, "anp.delivery_rejected", "Delivery rejected", never;
    /// Too much at once.
    RateLimited = 1011, "anp.rate_limited", "Rate limited", again;
    /// Not now.
    TemporarilyUnavailable = 1012, "anp.temporarily_unavailable", "Temporarily unavailable", again;
    /// The protection named and the one found differ.
    InvalidSecurityBinding = 1013, "anp.invalid_security_binding", "Invalid security binding", never;
    /// The target named and the one meant differ.
    InvalidTargetBinding = 1014, "anp.invalid_target_binding", "Invalid target binding", never;
    /// The DID has a successor.
    DidSuperseded = 1019, "anp.did_superseded", "The DID is superseded", never;
    /// The succession cannot be checked.
    DidTransitionInvalid = 1020, "anp.did_transition_invalid", "Invalid DID transition", never;
    /// There are two successions.
    DidTransitionConflict = 1021, "anp.did_transition_conflict", "Conflicting DID transition", never;
    /// The negotiation is refused.
    NegotiationRejected = 1600, "meta.negotiation_rejected", "Negotiation rejected", never;
    /// No interface has all that is asked for.
    NoMatchingInterface = 1601, "meta.no_matching_interface", "No matching interface", never;
    /// Nobody negotiates in that way here.
    UnsupportedNegotiationMode = 1602, "meta.unsupported_negotiation_mode", "Unsupported negotiation mode", never;
    /// No profile that would do.
    UnsupportedCandidateProfile = 1603, "meta.unsupported_candidate_profile", "Unsupported candidate profile", never;
    /// No protection that would do.
    UnsupportedCandidateSecurity = 1604, "meta.unsupported_security_profile", "Unsupported security profile", never;
    /// No content type that would do.
    UnsupportedCandidateContent = 1605, "meta.unsupported_content_type", "Unsupported content type", never;
    /// The request does not say enough.
    MoreInformationRequired = 1606, "meta.more_information_required", "More information required", never;
    /// Who asks must be known and allowed.
    AuthorizationRequired = 1607, "meta.authorization_required", "Authorization required", never;
    /// The request, or the result it rests on, is too old.
    NegotiationExpired = 1608, "meta.negotiation_expired", "Negotiation expired", never;
    /// The agent cannot be reached now.
    RecipientUnreachable = 2000, "direct.recipient_unreachable", "Recipient unreachable", again;
    /// The agent does not take such messages.
    PolicyViolation = 2001, "direct.policy_violation", "The recipient's policy forbids it", never;
    /// Not exactly one of text, payload and `payload_b64u`.
    InvalidPayloadShape = 2002, "direct.invalid_payload_shape", "Invalid payload shape", never;
    /// The conversation is another one.
    ConversationConflict = 2003, "direct.conversation_conflict", "Conversation conflict", never;
    /// The agent wants better protection.
    SecurityModeRequired = 2004, "direct.security_mode_required", "A stronger security mode is required", never;
}

impl ErrorCode {
    /// The error of that number.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.code() == code)
    }
}

impl From<Cause> for ErrorCode {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Rejected => Self::NegotiationRejected,
            Cause::NoMatchingInterface => Self::NoMatchingInterface,
            Cause::UnsupportedMode => Self::UnsupportedNegotiationMode,
            Cause::UnsupportedCandidateProfile => Self::UnsupportedCandidateProfile,
            Cause::UnsupportedSecurityProfile => Self::UnsupportedCandidateSecurity,
            Cause::UnsupportedContentType => Self::UnsupportedCandidateContent,
            Cause::MoreInformationRequired => Self::MoreInformationRequired,
            Cause::AuthorizationRequired => Self::AuthorizationRequired,
            Cause::Expired => Self::NegotiationExpired,
        }
    }
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// Its number.
    pub code: i64,
    /// What went wrong, for people.
    pub message: String,
    /// More for machines: `anp_code`, `retryable`, `details`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// An error in its usual words.
    #[must_use]
    pub fn new(code: ErrorCode) -> Self {
        let data = code.anp_code().map(|word| json!({"anp_code": word, "retryable": code.is_retryable()}));
        Self { code: code.code(), message: code.message().to_owned(), data }
    }

    /// The same error, in other words.
    #[must_use]
    pub fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The same error, with more for machines.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        let data = self.data.get_or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(data) = data {
            data.insert("details".to_owned(), details);
        }
        self
    }

    /// Its word.
    #[must_use]
    pub fn anp_code(&self) -> Option<&str> {
        self.data.as_ref()?.get("anp_code")?.as_str()
    }

    /// Which of ours it is.
    #[must_use]
    pub fn known(&self) -> Option<ErrorCode> {
        ErrorCode::from_code(self.code)
    }
}

impl From<&Refusal> for RpcError {
    fn from(refusal: &Refusal) -> Self {
        let mut details = Map::new();
        if !refusal.unsupported.is_empty() {
            details.insert("unsupportedConstraints".to_owned(), json!(refusal.unsupported.names()));
        }
        if !refusal.supported.is_empty() {
            details.insert("supported".to_owned(), json!(refusal.supported));
        }
        if !refusal.missing.is_empty() {
            details.insert("missing".to_owned(), json!(refusal.missing));
        }
        if let Some(nearest) = &refusal.nearest {
            details.insert("nearest".to_owned(), json!(nearest));
        }
        let error = Self::new(refusal.cause.into()).saying(&refusal.message);
        if details.is_empty() { error } else { error.with_details(details.into()) }
    }
}
