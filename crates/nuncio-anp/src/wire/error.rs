//! Errors of the core binding and its profiles: JSON-RPC error objects with an additional machine-readable code.

use nuncio_core::ErrorCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::negotiation::NegotiationRefusal;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $word:literal, $message:literal, $retry:ident;)*) => {
        /// All errors that Nuncio sends or recognises.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum AnpErrorCode {
            $($(#[doc = $doc])* $name,)*
        }

        impl AnpErrorCode {
            /// All error codes: those of JSON-RPC, then those of ANP ordered by number.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Number of the error in JSON-RPC.
            #[must_use]
            pub const fn code(self) -> i64 {
                match self { $(Self::$name => $code,)* }
            }

            /// ANP error code; `None` for errors of JSON-RPC itself.
            #[must_use]
            pub const fn anp_code(self) -> Option<&'static str> {
                let word = match self { $(Self::$name => $word,)* };
                if word.is_empty() { None } else { Some(word) }
            }

            #[must_use]
            pub const fn message(self) -> &'static str {
                match self { $(Self::$name => $message,)* }
            }

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
    /// The body is not JSON.
    ParseError = -32700, "", "Parse error", never;
    InvalidRequest = -32600, "", "Invalid request", never;
    MethodNotFound = -32601, "", "Method not found", never;
    InvalidParams = -32602, "", "Invalid params", never;
    InternalError = -32603, "", "Internal error", again;
    /// The id is not a non-empty string.
    InvalidRequestId = 1000, "anp.invalid_request_id", "The id must be a non-empty string", never;
    UnsupportedProfile = 1001, "anp.unsupported_profile", "Unsupported profile", never;
    UnsupportedSecurityProfile = 1002, "anp.unsupported_security_profile", "Unsupported security profile", never;
    /// `params` is not `{meta, auth?, body}`.
    InvalidParamsShape = 1003, "anp.invalid_params_shape", "Invalid params shape", never;
    BatchNotSupported = 1004, "anp.batch_not_supported", "Batches are not supported", never;
    /// The caller is not authenticated.
    Unauthorized = 1005, "anp.unauthorized", "Unauthorized", never;
    /// The caller is known but not allowed to make the request.
    Forbidden = 1006, "anp.forbidden", "Forbidden", never;
    /// No agent of this server has the target DID.
    TargetNotFound = 1007, "anp.target_not_found", "Target not found", never;
    /// The operation id was used with another request.
    IdempotencyConflict = 1008, "anp.idempotency_conflict", "Idempotency conflict", never;
    UnsupportedContentType = 1009, "anp.unsupported_content_type", "Unsupported content type", never;
    DeliveryRejected = 1010, "anp.delivery_rejected", "Delivery rejected", never;
    RateLimited = 1011, "anp.rate_limited", "Rate limited", again;
    TemporarilyUnavailable = 1012, "anp.temporarily_unavailable", "Temporarily unavailable", again;
    /// The security profile does not match how the request was protected.
    InvalidSecurityBinding = 1013, "anp.invalid_security_binding", "Invalid security binding", never;
    /// The target does not match the addressed agent.
    InvalidTargetBinding = 1014, "anp.invalid_target_binding", "Invalid target binding", never;
    /// The caller's DID has a successor.
    DidSuperseded = 1019, "anp.did_superseded", "The DID is superseded", never;
    /// The succession of a DID cannot be verified.
    DidTransitionInvalid = 1020, "anp.did_transition_invalid", "Invalid DID transition", never;
    /// The DID has two conflicting successors.
    DidTransitionConflict = 1021, "anp.did_transition_conflict", "Conflicting DID transition", never;
    NegotiationRejected = 1600, "meta.negotiation_rejected", "Negotiation rejected", never;
    NoMatchingInterface = 1601, "meta.no_matching_interface", "No matching interface", never;
    UnsupportedNegotiationMode = 1602, "meta.unsupported_negotiation_mode", "Unsupported negotiation mode", never;
    /// None of the caller's profiles is acceptable.
    UnsupportedCandidateProfile = 1603, "meta.unsupported_candidate_profile", "Unsupported candidate profile", never;
    /// None of the caller's security profiles is acceptable.
    UnsupportedCandidateSecurity = 1604, "meta.unsupported_security_profile", "Unsupported security profile", never;
    /// None of the caller's content types is acceptable.
    UnsupportedCandidateContent = 1605, "meta.unsupported_content_type", "Unsupported content type", never;
    MoreInformationRequired = 1606, "meta.more_information_required", "More information required", never;
    AuthorizationRequired = 1607, "meta.authorization_required", "Authorization required", never;
    /// The negotiation request, or the result that it relies on, is too old.
    NegotiationExpired = 1608, "meta.negotiation_expired", "Negotiation expired", never;
    RecipientUnreachable = 2000, "direct.recipient_unreachable", "Recipient unreachable", again;
    /// The agent's policy does not accept the message.
    PolicyViolation = 2001, "direct.policy_violation", "The recipient's policy forbids it", never;
    /// The message does not have exactly one of `text`, `payload` and `payload_b64u`.
    InvalidPayloadShape = 2002, "direct.invalid_payload_shape", "Invalid payload shape", never;
    ConversationConflict = 2003, "direct.conversation_conflict", "Conversation conflict", never;
    /// The agent requires a stronger security profile.
    SecurityModeRequired = 2004, "direct.security_mode_required", "A stronger security mode is required", never;
}

impl AnpErrorCode {
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.code() == code)
    }
}

/// Body of an HTTP error, outside JSON-RPC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HttpErrorBody<'a> {
    pub error: HttpError<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HttpError<'a> {
    pub code: ErrorCode,
    pub message: &'a str,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    /// Machine-readable data: `anp_code`, `retryable`, `details`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// An RPC error with the default message of its code.
    #[must_use]
    pub fn new(code: AnpErrorCode) -> Self {
        let data = code.anp_code().map(|word| json!({"anp_code": word, "retryable": code.is_retryable()}));
        Self { code: code.code(), message: code.message().to_owned(), data }
    }

    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Adds `data.details`.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        let data = self.data.get_or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(data) = data {
            data.insert("details".to_owned(), details);
        }
        self
    }

    #[must_use]
    pub fn anp_code(&self) -> Option<&str> {
        self.data.as_ref()?.get("anp_code")?.as_str()
    }

    /// The error by its number or, if the number is another implementation's own, by its machine-readable code
    /// (ANP-06 §11).
    #[must_use]
    pub fn known_code(&self) -> Option<AnpErrorCode> {
        AnpErrorCode::from_code(self.code).or_else(|| {
            let word = self.anp_code()?;
            AnpErrorCode::ALL.iter().copied().find(|it| it.anp_code() == Some(word))
        })
    }
}

impl From<&NegotiationRefusal> for RpcError {
    fn from(refusal: &NegotiationRefusal) -> Self {
        let lists = [
            ("unsupportedConstraints", json!(refusal.unsupported.names())),
            ("supported", json!(refusal.supported)),
            ("missing", json!(refusal.missing)),
        ];
        let lists = lists.into_iter().filter(|(_, list)| *list != json!([]));
        let nearest = refusal.nearest.as_ref().map(|nearest| ("nearest", json!(nearest)));
        let details: Map<_, _> = lists.chain(nearest).map(|(name, value)| (name.to_owned(), value)).collect();
        let error = Self::new(refusal.cause).with_message(&refusal.message);
        if details.is_empty() { error } else { error.with_details(details.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_recognised_by_its_number_or_by_its_machine_readable_code() {
        let known = |error: Value| serde_json::from_value::<RpcError>(error).unwrap().known_code();
        let outdated = Some(AnpErrorCode::UnsupportedCandidateProfile);
        let data = json!({"anp_code": "meta.unsupported_candidate_profile"});
        assert_eq!(known(json!({"code": 1603, "message": "x"})), outdated);
        assert_eq!(known(json!({"code": -32000, "message": "x", "data": data})), outdated);
        assert_eq!(known(json!({"code": -32000, "message": "x", "data": {"anp_code": ""}})), None);
        assert_eq!(known(json!({"code": -32000, "message": "x", "data": "meta.unsupported_candidate_profile"})), None);
    }
}
