//! HTTP authentication fields of ANP-02 §3 (`WWW-Authenticate`, `Accept-Signature`, `Authentication-Info`): written by
//! servers, parsed by clients.

mod auth_params;

pub use auth_params::AuthParams;
pub(crate) use auth_params::write as write_params;

use serde_json::{Map, Value, json};

use crate::did::Did;
use crate::error::DidAuthError;
use crate::fields::HeaderFields;
use crate::http_signature::SignatureInput;

/// Value of `Accept-Signature` (RFC 9421 §5): the components and parameters that our servers ask for. They also accept
/// signatures without `@authority`, without `expires`, and without `content-digest` if there is no body.
pub const ACCEPT_SIGNATURE: &str =
    "sig1=(\"@method\" \"@target-uri\" \"@authority\" \"content-digest\");created;expires;nonce;keyid";

/// A `WWW-Authenticate: DIDWba` challenge: why the request was refused, and the nonce for the next attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DidAuthChallenge {
    pub realm: Option<String>,
    /// Error code of ANP-02, such as `invalid_nonce`.
    pub error: Option<String>,
    pub description: Option<String>,
    /// Nonce that the client must use in its next signature.
    pub nonce: Option<String>,
}

impl DidAuthChallenge {
    #[must_use]
    pub fn new(realm: &str, error: &DidAuthError, nonce: Option<&str>) -> Self {
        Self {
            realm: Some(realm.to_owned()),
            error: Some(error.error_code().to_owned()),
            description: Some(error.to_string()),
            nonce: nonce.map(str::to_owned),
        }
    }

    #[must_use]
    pub fn www_authenticate(&self) -> String {
        let members = [
            ("realm", &self.realm),
            ("error", &self.error),
            ("error_description", &self.description),
            ("nonce", &self.nonce),
        ];
        let members = members.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        format!("DIDWba {}", auth_params::write(members))
    }

    /// The challenge as a JSON response body, with the same content as the header.
    #[must_use]
    pub fn to_json(&self, status: u16) -> Value {
        let mut body = Map::new();
        body.insert("code".to_owned(), json!(status));
        for (name, value) in [("error", &self.error), ("error_description", &self.description), ("nonce", &self.nonce)]
        {
            if let Some(value) = value {
                body.insert(name.to_owned(), json!(value));
            }
        }
        Value::Object(body)
    }

    /// Parses the first `DIDWba` challenge of a `WWW-Authenticate` value.
    #[must_use]
    pub fn read(field: &str) -> Option<Self> {
        let params = AuthParams::read_all(field);
        let params = params.into_iter().find(|params| params.is_scheme("DIDWba"))?;
        let text = |name| params.get(name).map(str::to_owned);
        Some(Self {
            realm: text("realm"),
            error: text("error"),
            description: text("error_description"),
            nonce: text("nonce"),
        })
    }

    /// Returns whether signing again can succeed: false when the server rejects this DID or key and gave no new nonce.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        let hopeless = ["invalid_did", "invalid_verification_method", "forbidden_did"];
        self.nonce.is_some() || !self.error.as_deref().is_some_and(|error| hopeless.contains(&error))
    }
}

/// Parses the component names of `Accept-Signature`; returns an empty list if the value is malformed.
#[must_use]
pub fn accepted_components(field: &str) -> Vec<String> {
    SignatureInput::read(field).map(|input| input.components).unwrap_or_default()
}

/// Keeps the requested components that this request actually has, in the server's order.
#[must_use]
pub fn satisfiable_components<S: AsRef<str>>(components: &[S], headers: &dyn HeaderFields, body: &[u8]) -> Vec<String> {
    let has = |name: &str| match name {
        "@method" | "@target-uri" | "@authority" | "@scheme" | "@path" | "@query" | "@request-target" => true,
        "content-digest" => !body.is_empty(),
        _ => !name.starts_with('@') && headers.field(name).is_some(),
    };
    components.iter().map(AsRef::as_ref).filter(|name| has(name)).map(str::to_owned).collect()
}

/// The bearer token that `Authentication-Info` carries after a valid signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedAccessToken {
    pub access_token: String,
    /// Lifetime of the access token in seconds.
    pub expires_in: Option<u64>,
    pub scope: Option<String>,
}

impl IssuedAccessToken {
    #[must_use]
    pub fn authentication_info(&self) -> String {
        let mut text =
            auth_params::write([("access_token", self.access_token.as_str()), ("token_type", "Bearer")].into_iter());
        if let Some(seconds) = self.expires_in {
            text.push_str(&format!(", expires_in={seconds}"));
        }
        if let Some(scope) = &self.scope {
            text.push_str(", ");
            text.push_str(&auth_params::write([("scope", scope.as_str())].into_iter()));
        }
        text
    }

    /// Parses `Authentication-Info`; returns `None` without a bearer token.
    #[must_use]
    pub fn read(field: &str) -> Option<Self> {
        let params = AuthParams::read_info(field);
        let access_token = params.get("access_token").filter(|token| !token.is_empty())?.to_owned();
        if !params.get("token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer")) {
            return None;
        }
        Some(Self {
            access_token,
            expires_in: params.get("expires_in").and_then(|seconds| seconds.parse().ok()),
            scope: params.get("scope").map(str::to_owned),
        })
    }
}

/// Body of a 409 response for a DID whose document names a successor (ANP-03 1.2).
#[must_use]
pub fn superseded_body(requested: &Did, current: &Did) -> Value {
    json!({
        "code": "did_superseded",
        "requestedDid": requested.as_str(),
        "currentDid": current.as_str(),
        "stableSubjectId": requested.stable_subject(),
    })
}
