//! Requests and responses of the core binding (P1): JSON-RPC 2.0 with `params` of `{meta, auth?, body}`.
//!
//! Unknown members of the request, `params`, `meta` (except `x_…`) and `auth` are refused, as P1 requires. The profile
//! defines what a body may contain.

use nuncio_core::json::{self, JsonDocumentError};
use nuncio_core::time::Timestamp;
use nuncio_identity::origin_proof::{self, OriginProof, OriginProofInput};
use nuncio_identity::rfc3339;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::{AnpErrorCode, RpcError, method, profile};
use crate::negotiation::SecurityProfile;

pub const MAX_REQUEST_BYTES: usize = 1 << 20;
const MAX_ID: usize = 256;
const MAX_METHOD: usize = 128;

/// A well-formed core-binding request.
#[derive(Debug, Clone, PartialEq)]
pub struct AnpRequest {
    pub id: String,
    pub method: String,
    pub meta: RequestMeta,
    pub auth: Option<RequestAuth>,
    pub body: Map<String, Value>,
    /// `meta` as sent, which the origin proof covers.
    pub raw_meta: Map<String, Value>,
}

/// Metadata of a request (P1 §6.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestMeta {
    /// The ANP profile that defines the request's body.
    pub profile: String,
    pub security_profile: SecurityProfile,
    /// The sender's DID as claimed, unverified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_did: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<RequestTarget>,
    /// Idempotency key, equal in repeated requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "whole_seconds")]
    pub created_at: Option<Timestamp>,
}

fn whole_seconds<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(rfc3339::write).serialize(serializer)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestTarget {
    pub kind: RequestTargetKind,
    pub did: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestTargetKind {
    Agent,
    Group,
    /// The request addresses a message service.
    Service,
}

/// Proof of the sender's identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestAuth {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    pub origin_proof: Value,
}

/// Id of an invalid request, if the id could be read, and the error to send.
pub type RequestRejection = (Option<String>, RpcError);

impl AnpRequest {
    /// A request without an origin proof.
    #[must_use]
    pub fn new(id: String, method: &str, meta: RequestMeta, body: &impl Serialize) -> Self {
        let (raw_meta, body) = (to_object(&meta), to_object(body));
        Self { id, method: method.to_owned(), meta, auth: None, body, raw_meta }
    }

    /// Adds the origin proof that `prove` computes.
    pub fn proven<E>(self, prove: impl FnOnce(&OriginProofInput<'_>) -> Result<OriginProof, E>) -> Result<Self, E> {
        let proof = self.with_origin_request(prove)?;
        let auth = RequestAuth { scheme: Some(origin_proof::SCHEME.to_owned()), origin_proof: proof.to_json() };
        Ok(Self { auth: Some(auth), ..self })
    }

    /// Calls `use_parts` with the parts of the request that an origin proof covers.
    pub fn with_origin_request<T>(&self, use_parts: impl FnOnce(&OriginProofInput<'_>) -> T) -> T {
        let (meta, body) = (Value::Object(self.raw_meta.clone()), Value::Object(self.body.clone()));
        use_parts(&OriginProofInput { method: &self.method, meta: &meta, body: &body })
    }

    /// Parses a request; the error is the response to send.
    pub fn read(bytes: &[u8]) -> Result<Self, Box<RequestRejection>> {
        let value = json::read(bytes, MAX_REQUEST_BYTES).map_err(|unreadable| Box::new((None, unread(&unreadable))))?;
        let Value::Object(mut members) = value else {
            let code = if value.is_array() { AnpErrorCode::BatchNotSupported } else { AnpErrorCode::InvalidRequest };
            return Err(Box::new((None, RpcError::new(code))));
        };
        let id = read_id(&members).map_err(|error| Box::new((None, error)))?;
        read_members(&id, &mut members).map_err(|error| Box::new((Some(id), error)))
    }

    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut params = json!({"meta": self.raw_meta, "body": self.body});
        if let Some(auth) = &self.auth {
            params["auth"] = json!(auth);
        }
        json!({"jsonrpc": "2.0", "id": self.id, "method": self.method, "params": params})
    }
}

fn to_object(value: &impl Serialize) -> Map<String, Value> {
    match json!(value) {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn unread(unreadable: &JsonDocumentError) -> RpcError {
    let code = match unreadable {
        JsonDocumentError::NotJson(_) => AnpErrorCode::ParseError,
        _ => AnpErrorCode::InvalidRequest,
    };
    RpcError::new(code).with_message(format!("{}: {unreadable}", code.message()))
}

fn read_id(members: &Map<String, Value>) -> Result<String, RpcError> {
    match members.get("id") {
        Some(Value::String(id)) if !id.is_empty() && id.len() <= MAX_ID => Ok(id.clone()),
        _ => Err(RpcError::new(AnpErrorCode::InvalidRequestId)
            .with_details(json!({"expected": format!("a string of 1 to {MAX_ID} bytes")}))),
    }
}

fn read_members(id: &str, members: &mut Map<String, Value>) -> Result<AnpRequest, RpcError> {
    let invalid = |message: &str| RpcError::new(AnpErrorCode::InvalidRequest).with_message(message);
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("jsonrpc must be \"2.0\""));
    }
    if let Some(name) = members.keys().find(|name| !["jsonrpc", "id", "method", "params"].contains(&name.as_str())) {
        return Err(invalid(&format!("A request has no member {:?}", cut(name))));
    }
    let method_name = members.get("method").and_then(Value::as_str).filter(|name| is_method(name));
    let Some(method_name) = method_name.map(str::to_owned) else {
        return Err(invalid(
            "The method must consist of lower-case parts separated by dots, and must not begin with \"rpc.\"",
        ));
    };
    let params = members.shift_remove("params");
    // Some callers ask for capabilities without parameters.
    let says_nothing = params.as_ref().is_none_or(|params| params.as_object().is_some_and(Map::is_empty));
    if method_name == method::GET_CAPABILITIES && says_nothing {
        return Ok(AnpRequest::new(id.to_owned(), &method_name, RequestMeta::new(profile::CORE_BINDING), &json!({})));
    }
    let Some(Value::Object(mut params)) = params else {
        return Err(shape_error("params", "an object of meta, auth and body"));
    };
    refuse_unknown_members(&params, &["meta", "auth", "body"], "params", |_| false)?;
    let Some(Value::Object(raw_meta)) = params.shift_remove("meta") else {
        return Err(shape_error("params.meta", "an object"));
    };
    let Some(Value::Object(body)) = params.shift_remove("body") else {
        return Err(shape_error("params.body", "an object"));
    };
    let meta = RequestMeta::read(&raw_meta)?;
    let auth = params.shift_remove("auth").map(|auth| {
        let auth: Result<RequestAuth, _> = serde_json::from_value(auth);
        auth.map_err(|error| shape_error("params.auth", &format!("scheme and origin_proof ({error})")))
    });
    Ok(AnpRequest { id: id.to_owned(), method: method_name, meta, auth: auth.transpose()?, body, raw_meta })
}

impl RequestMeta {
    /// Metadata with a profile and no other member.
    pub(crate) fn new(profile: &str) -> Self {
        Self {
            profile: profile.to_owned(),
            security_profile: SecurityProfile::TransportProtected,
            sender_did: None,
            target: None,
            operation_id: None,
            message_id: None,
            content_type: None,
            created_at: None,
        }
    }

    /// Accepted members of `meta`. Nuncio ignores the device members, which belong to extensions, and the last two,
    /// which belong to older versions.
    const KNOWN_MEMBERS: [&str; 12] = [
        "profile",
        "security_profile",
        "sender_did",
        "target",
        "operation_id",
        "message_id",
        "content_type",
        "created_at",
        "sender_device_id",
        "recipient_device_id",
        "anp_version",
        "trace_id",
    ];

    fn read(meta: &Map<String, Value>) -> Result<Self, RpcError> {
        refuse_unknown_members(meta, &Self::KNOWN_MEMBERS, "params.meta", |name| name.starts_with("x_"))?;
        let text = |name: &str| match meta.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
            Some(_) => Err(shape_error(&format!("params.meta.{name}"), "a non-empty string")),
        };
        for older in ["sender_device_id", "recipient_device_id", "anp_version", "trace_id"] {
            text(older)?;
        }
        let needed = |name: &str| text(name)?.ok_or_else(|| shape_error(&format!("params.meta.{name}"), "a profile"));
        let profile = needed("profile")?;
        let security_profile = SecurityProfile::parse(&needed("security_profile")?).ok_or_else(|| {
            RpcError::new(AnpErrorCode::UnsupportedSecurityProfile).with_details(json!({
                "field": "params.meta.security_profile",
                "expected": SecurityProfile::ALL.map(SecurityProfile::as_str),
            }))
        })?;
        let target = meta.get("target").map(|target| {
            let target =
                serde_json::from_value(target.clone()).ok().filter(|it: &RequestTarget| it.did.starts_with("did:"));
            target.ok_or_else(|| shape_error("params.meta.target", "kind (agent, group or service) and did"))
        });
        let sender_did = text("sender_did")?;
        if sender_did.as_deref().is_some_and(|did| !did.starts_with("did:")) {
            return Err(shape_error("params.meta.sender_did", "a DID"));
        }
        let created_at = text("created_at")?.map(|text| {
            Timestamp::try_from(text)
                .map_err(|_| shape_error("params.meta.created_at", "a time such as 2026-06-27T12:00:00Z"))
        });
        Ok(Self {
            profile,
            security_profile,
            sender_did,
            target: target.transpose()?,
            operation_id: text("operation_id")?,
            message_id: text("message_id")?,
            content_type: text("content_type")?,
            created_at: created_at.transpose()?,
        })
    }
}

fn refuse_unknown_members(
    object: &Map<String, Value>,
    allowed: &[&str],
    path: &str,
    ignored: fn(&str) -> bool,
) -> Result<(), RpcError> {
    let unknown = |name: &&String| !allowed.contains(&name.as_str()) && !ignored(name);
    let unknown: Vec<_> = object.keys().filter(unknown).map(|name| cut(name)).take(16).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let error = RpcError::new(AnpErrorCode::InvalidParamsShape).with_message(format!("{path} has unknown fields"));
    Err(error.with_details(json!({"field": path, "unexpected_fields": unknown})))
}

fn shape_error(field: &str, expected: &str) -> RpcError {
    let error = RpcError::new(AnpErrorCode::InvalidParamsShape).with_message(format!("{field} must be {expected}"));
    error.with_details(json!({"field": field, "expected": expected}))
}

/// Whether a method name consists of lower-case parts separated by dots.
fn is_method(name: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_lowercase())
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    name.len() <= MAX_METHOD && !name.starts_with("rpc.") && name.split('.').all(is_part)
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

/// JSON-RPC response: either a result or an error.
#[derive(Debug, Clone, PartialEq)]
pub enum AnpResponse {
    Result {
        id: Value,
        result: Value,
    },
    Error {
        /// Id of the request; null if the id could not be read.
        id: Value,
        error: RpcError,
    },
}

impl AnpResponse {
    #[must_use]
    pub fn result(id: impl Into<Value>, result: Value) -> Self {
        Self::Result { id: id.into(), result }
    }

    #[must_use]
    pub fn error(id: Option<impl Into<Value>>, error: RpcError) -> Self {
        Self::Error { id: id.map_or(Value::Null, Into::into), error }
    }

    #[must_use]
    pub fn new(id: impl Into<Value>, outcome: Result<Value, RpcError>) -> Self {
        match outcome {
            Ok(result) => Self::result(id, result),
            Err(error) => Self::error(Some(id), error),
        }
    }

    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Result { id, result } => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Self::Error { id, error } => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        }
    }

    /// Parses the response to the request with this id.
    pub fn read(bytes: &[u8], max_bytes: usize, id: &Value) -> Result<Self, String> {
        let value = json::read(bytes, max_bytes).map_err(|unreadable| format!("the response {unreadable}"))?;
        let Value::Object(mut members) = value else {
            return Err("the response must be an object".to_owned());
        };
        if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err("the response must contain jsonrpc \"2.0\"".to_owned());
        }
        let found = members.shift_remove("id").unwrap_or(Value::Null);
        match (members.shift_remove("result"), members.shift_remove("error")) {
            (Some(result), None) if found == *id => Ok(Self::Result { id: found, result }),
            // A server that could not read the id sends null.
            (None, Some(error)) if found == *id || found.is_null() => {
                let error =
                    serde_json::from_value(error).map_err(|error| format!("the error cannot be read: {error}"))?;
                Ok(Self::Error { id: found, error })
            }
            (Some(_), Some(_)) => Err("the response has both a result and an error".to_owned()),
            (None, None) => Err("the response has neither a result nor an error".to_owned()),
            _ => Err("the response is to another request".to_owned()),
        }
    }
}
