//! The authenticated caller of a request, as it is passed on and stored.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{DeviceId, PersonName, ScopeId};
use crate::principal::Principal;

/// The authenticated caller of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredCaller", into = "StoredCaller")]
pub struct Caller {
    pub principal: Principal,
    /// The person on whose behalf the caller acts.
    pub person: Option<PersonName>,
    /// Request id for logs and audit records.
    pub request: Option<String>,
    pub authentication: AuthenticationMethod,
}

/// How a caller authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthenticationMethod {
    /// The request carried no credential.
    None,
    Key,
    /// Access token of an OAuth issuer that the operator configured.
    Token {
        /// Scopes named in the token.
        scopes: Arc<[ScopeId]>,
        /// Whether the operator set `people = true` for this issuer: its subjects are people.
        people: bool,
    },
    /// HTTP request signed with a signing key.
    Signature,
    /// Request signed with a key of the caller's DID, or a token obtained with such a signature.
    Did,
    /// Access token that was issued to a person's device.
    Device(DeviceId),
    /// Token of an agent account.
    AgentToken,
}

impl Caller {
    /// Creates a caller without person, request id or credential.
    #[must_use]
    pub fn new(principal: Principal) -> Self {
        Self { principal, person: None, request: None, authentication: AuthenticationMethod::None }
    }

    /// Whether this caller acts for its own person, so that its `trust` setting or granted permission counts as that
    /// person's approval of a `high` sensitivity call.
    #[must_use]
    pub fn speaks_for_person(&self) -> bool {
        match (&self.principal, &self.authentication) {
            (Principal::Local | Principal::Key(_), _) => true,
            (Principal::OAuth { .. }, AuthenticationMethod::Token { people, .. }) => *people,
            _ => false,
        }
    }
}

/// The stored form of a caller.
#[derive(Serialize, Deserialize)]
struct StoredCaller {
    caller: Principal,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    person: Option<PersonName>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    request: Option<String>,
    /// Credential of the caller; absent in callers that earlier versions stored.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    credential: Option<AuthenticationMethod>,
    /// Scopes of the token of a caller that was stored without its credential.
    #[serde(skip_serializing, default)]
    scopes: Vec<ScopeId>,
}

impl From<StoredCaller> for Caller {
    fn from(stored: StoredCaller) -> Self {
        let StoredCaller { caller: principal, person, request, credential, scopes } = stored;
        let authentication = credential.unwrap_or_else(|| match &principal {
            Principal::Key(_) => AuthenticationMethod::Key,
            Principal::OAuth { .. } => AuthenticationMethod::Token { scopes: scopes.into(), people: false },
            Principal::Did(_) => AuthenticationMethod::Did,
            _ => AuthenticationMethod::None,
        });
        Self { principal, person, request, authentication }
    }
}

impl From<Caller> for StoredCaller {
    fn from(caller: Caller) -> Self {
        let Caller { principal, person, request, authentication } = caller;
        Self { caller: principal, person, request, credential: Some(authentication), scopes: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn caller_keeps_credential_and_request_id_through_json() {
        let issued = Principal::OAuth { issuer: "https://issuer.example".to_owned(), subject: "ada".to_owned() };
        let scopes: Arc<[ScopeId]> = [ScopeId::parse("book:write").unwrap()].into();
        for caller in [
            Caller { authentication: AuthenticationMethod::Token { scopes, people: true }, ..Caller::new(issued) },
            Caller { authentication: AuthenticationMethod::Signature, ..Caller::new(Principal::Anonymous) },
            Caller { request: Some("req_1".to_owned()), ..Caller::new(Principal::Local) },
        ] {
            let stored = serde_json::to_value(&caller).unwrap();
            assert_eq!(serde_json::from_value::<Caller>(stored).unwrap(), caller);
        }
    }

    #[test]
    fn caller_stored_without_credential_gets_the_credential_type_of_its_principal() {
        let issued = Principal::OAuth { issuer: "https://issuer.example".to_owned(), subject: "ada".to_owned() };
        let stored = json!({"caller": issued, "scopes": ["book:write"]});
        let caller: Caller = serde_json::from_value(stored).unwrap();
        let scopes: Arc<[ScopeId]> = [ScopeId::parse("book:write").unwrap()].into();
        assert_eq!(caller.authentication, AuthenticationMethod::Token { scopes, people: false });
    }
}
