//! Puts exactly one [`CallerCheckResult`] into each request for the routes of every protocol. The [`PathRules`] of the
//! path decide which credentials are accepted. A request with any other credential is refused and never treated as one
//! without credentials.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use nuncio_core::ErrorCode;
use nuncio_core::principal::Principal;
use nuncio_engine::{Caller, CallerCheckResult, Engine, EngineError};
use nuncio_http::front::{PathRules, PathSignatureRule, ProtocolFront, ServerTokenKind};
use nuncio_http::{BodyLimits, CredentialLocation, RequestId, device_tokens, known_caller};

use crate::{
    DidAuthenticationResult, DidAuthenticator, NetworkExposure, PersonTokenIssuer, RequestHead,
    RequestSignatureVerifier, SignatureCheckResult, TokenCheckResult, TrustedIssuers,
};

/// Prefixes of API keys and signing keys of this server. Texts with these prefixes are never sent to an issuer.
const KEY_PREFIXES: [&str; 2] = ["nk_", "nsk_"];
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const X_SIGNATURE: HeaderName = HeaderName::from_static("x-signature");
/// Size limit, in bytes, of a body that is read to check a signature over it.
const MAX_SIGNED_BODY: usize = 1024 * 1024;

/// Identifies the callers of requests by every kind of credential.
#[derive(Debug, Clone)]
pub struct Authenticator {
    pub engine: Engine,
    pub exposure: NetworkExposure,
    /// Limits of bodies that are read to check a signature.
    pub bodies: BodyLimits,
    pub issuers: Arc<TrustedIssuers>,
    pub signatures: Arc<RequestSignatureVerifier>,
    pub dids: Arc<DidAuthenticator>,
    /// Tokens of people's devices and of agents' accounts.
    pub people: Arc<PersonTokenIssuer>,
}

/// The rules of a path, and the front that writes the error responses there.
#[derive(Debug, Clone, Copy)]
pub struct PathOwner {
    pub rules: &'static PathRules,
    /// The front that the path belongs to; `None` for paths of the server itself.
    pub front: Option<&'static dyn ProtocolFront>,
}

impl PathOwner {
    /// The error response, in the format of the front if the path belongs to one.
    #[must_use]
    pub fn refuse(&self, error: &EngineError) -> Response {
        self.front.map_or_else(|| nuncio_http::refuse(error), |front| front.refuse(error))
    }
}

impl Authenticator {
    /// Inserts the caller's identity into the request if that needs no lookup; returns whether it was inserted.
    pub fn identify_at_once(&self, rules: &PathRules, request: &mut Request) -> bool {
        let IdentityOrPendingLookup::Identity(identity) = self.find(rules, request) else { return false };
        insert(identity, request);
        true
    }

    /// Whether the request's signature has to be checked to identify its caller.
    #[must_use]
    pub fn is_found_by_signature(&self, rules: &PathRules, request: &Request) -> bool {
        matches!(self.find(rules, request), IdentityOrPendingLookup::Signature)
    }

    /// Inserts the caller's identity into the request, after any lookup. An error is the response to the request.
    pub async fn identify(&self, owner: PathOwner, request: &mut Request) -> Result<(), Response> {
        let is_public = owner.rules.is_public_document(request.method(), request.uri().path());
        let identity = match self.find(owner.rules, request) {
            IdentityOrPendingLookup::Identity(identity) => Ok(identity),
            IdentityOrPendingLookup::Signature => match self.check_signature(owner, request).await {
                Err(_) if is_public => Ok(CallerCheckResult::Invalid),
                checked => Ok(checked?),
            },
            IdentityOrPendingLookup::PersonOrAgent(token) => {
                let holder = device_tokens::identify(&self.engine, &*self.people, token).await;
                holder
                    .map(|it| it.map_or(CallerCheckResult::Invalid, |it| CallerCheckResult::Known(it.caller)))
                    .map_err(|error| {
                        tracing::error!(%error, "an access token cannot be checked");
                    })
            }
            IdentityOrPendingLookup::IssuerToken(token) => match self.issuers.check(token).await {
                TokenCheckResult::Known(caller) => Ok(CallerCheckResult::Known(caller)),
                TokenCheckResult::Invalid(why) => {
                    tracing::debug!(why, "an access token was refused");
                    Ok(CallerCheckResult::Invalid)
                }
                TokenCheckResult::Unverifiable(why) => {
                    tracing::warn!(why, "an access token cannot be checked");
                    Err(())
                }
            },
        };
        match identity {
            Ok(CallerCheckResult::Invalid | CallerCheckResult::Expired(_)) | Err(()) if is_public => {
                insert(self.identity_without_credential(request.headers()), request);
            }
            Ok(identity) => insert(identity, request),
            Err(()) => {
                insert(CallerCheckResult::Invalid, request);
                return Err(unverifiable(owner));
            }
        }
        Ok(())
    }

    /// Refuses a request that would count as `local` if it had not come through a proxy, and has no credential that its
    /// route could still check.
    #[must_use]
    pub fn forwarded_refusal(&self, owner: PathOwner, request: &Request) -> Option<Response> {
        let (rules, headers) = (owner.rules, request.headers());
        let is_exempt = !rules.serves_local || rules.is_public_document(request.method(), request.uri().path());
        let is_unidentified = request.extensions().get() == Some(&CallerCheckResult::Missing);
        let may_have_credential = shows_signature(headers)
            || known_caller(request.extensions()).is_some()
            || self.engine.access().has_keys() && rules.takes_keys_elsewhere;
        if is_exempt || !is_unidentified || may_have_credential || !self.is_open_to_local() || !is_forwarded(headers) {
            return None;
        }
        let message = "this request came through a proxy, so it does not count as one from this machine: create a key \
                       with `nuncio key create`, and send it as `Authorization: Bearer KEY`";
        Some(owner.refuse(&EngineError::new(ErrorCode::ForwardedRefused, message)))
    }

    fn find<'a>(&self, rules: &PathRules, request: &'a Request) -> IdentityOrPendingLookup<'a> {
        let headers = request.headers();
        let is_public = rules.is_public_document(request.method(), request.uri().path());
        if is_public && !rules.public_varies {
            return IdentityOrPendingLookup::Identity(self.identity_without_credential(headers));
        }
        let sent = [bearer(headers), headers.get(API_KEY).and_then(|key| key.to_str().ok())];
        let token = sent.into_iter().flatten().find(|token| !token.is_empty() && !self.counts_as_none(token));
        let found = match token {
            Some(token) => self.find_by_token(rules, token),
            None => match signature_rule(rules, headers) {
                PathSignatureRule::Checked => IdentityOrPendingLookup::Signature,
                PathSignatureRule::Refused => IdentityOrPendingLookup::Identity(CallerCheckResult::Invalid),
                PathSignatureRule::LeftToRoute => {
                    IdentityOrPendingLookup::Identity(self.identity_without_credential(headers))
                }
            },
        };
        match found {
            IdentityOrPendingLookup::Identity(CallerCheckResult::Invalid | CallerCheckResult::Expired(_))
                if is_public =>
            {
                IdentityOrPendingLookup::Identity(self.identity_without_credential(headers))
            }
            found => found,
        }
    }

    fn find_by_token<'a>(&self, rules: &PathRules, token: &'a str) -> IdentityOrPendingLookup<'a> {
        if let Some(identity) = self.dids.identity_by_token(token) {
            return IdentityOrPendingLookup::Identity(match identity {
                CallerCheckResult::Known(caller) if rules.tokens.contains(&ServerTokenKind::Did) => {
                    CallerCheckResult::Known(self.engine.access().linked(caller))
                }
                _ => CallerCheckResult::Invalid,
            });
        }
        match self.people.kind(token) {
            Some(kind) if rules.tokens.contains(&kind) => return IdentityOrPendingLookup::PersonOrAgent(token),
            Some(_) => return IdentityOrPendingLookup::Identity(CallerCheckResult::Invalid),
            None => {}
        }
        if !is_own_key(token) && !self.issuers.is_empty() {
            return match self.issuers.cached_caller(token) {
                Some(caller) => IdentityOrPendingLookup::Identity(CallerCheckResult::Known(caller)),
                None => IdentityOrPendingLookup::IssuerToken(token),
            };
        }
        IdentityOrPendingLookup::Identity(self.engine.access().identity_by_key(token))
    }

    /// Whether a server that is open to `local` ignores a credential: AAP clients must send some text, so a text that
    /// is neither a key nor a token of this server counts as none. If there are issuers, any text may be their token.
    fn counts_as_none(&self, token: &str) -> bool {
        let may_be_credential =
            is_own_key(token) || is_jwt(token) || self.people.kind(token).is_some() || !self.issuers.is_empty();
        self.is_open_to_local() && !may_be_credential
    }

    /// Checks the signature of a DID or of a signing key over the whole request.
    async fn check_signature(&self, owner: PathOwner, request: &mut Request) -> Result<CallerCheckResult, Response> {
        let limits = self.bodies.at_most(MAX_SIGNED_BODY);
        let body = std::mem::take(request.body_mut());
        let read = limits.read(&self.engine, request.extensions(), body, CredentialLocation::Body).await;
        let bytes = read.map_err(|error| owner.refuse(&error))?;
        let head = RequestHead { method: request.method(), uri: request.uri(), headers: request.headers() };
        let identity = if is_signed_by_did(request.headers()) {
            match self.dids.check(head, &bytes).await {
                DidAuthenticationResult::Known(caller, _) => {
                    CallerCheckResult::Known(self.engine.access().linked(caller))
                }
                DidAuthenticationResult::Refused(fault) => return Err(self.dids.challenge(&fault)),
                DidAuthenticationResult::Absent => CallerCheckResult::Invalid,
            }
        } else {
            match self.signatures.check(head, &bytes).await {
                SignatureCheckResult::Known(caller) => CallerCheckResult::Known(caller),
                SignatureCheckResult::Invalid(why) => {
                    return Err(owner.refuse(&EngineError::new(ErrorCode::Unauthorized, why)));
                }
                SignatureCheckResult::Absent => CallerCheckResult::Invalid,
            }
        };
        *request.body_mut() = Body::from(bytes);
        Ok(identity)
    }

    /// The identity of a request without credentials, or with a text that counts as no credential.
    fn identity_without_credential(&self, headers: &HeaderMap) -> CallerCheckResult {
        match self.exposure {
            _ if self.is_open_to_local() && !is_forwarded(headers) => {
                CallerCheckResult::Known(Caller::new(Principal::Local))
            }
            NetworkExposure::Open => CallerCheckResult::Known(Caller::new(Principal::Anonymous)),
            NetworkExposure::Loopback
            | NetworkExposure::OpenLoopback
            | NetworkExposure::ClosedLoopback
            | NetworkExposure::Network => CallerCheckResult::Missing,
        }
    }

    fn is_open_to_local(&self) -> bool {
        self.exposure.is_open_to_local(self.engine.access().has_keys())
    }
}

/// The identity of a request, or the lookup that is needed to determine it.
enum IdentityOrPendingLookup<'a> {
    Identity(CallerCheckResult),
    PersonOrAgent(&'a str),
    IssuerToken(&'a str),
    /// A signature has to be checked, which needs the request body.
    Signature,
}

fn insert(mut identity: CallerCheckResult, request: &mut Request) {
    if let CallerCheckResult::Known(caller) = &mut identity {
        caller.request = request.extensions().get::<RequestId>().map(|id| id.0.clone());
    }
    request.extensions_mut().insert(identity);
}

/// Whether the request passed through a proxy, judged by the headers that proxies add.
#[must_use]
pub fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(header::FORWARDED)
        || headers.contains_key(header::VIA)
        || headers.keys().any(|name| name.as_str().starts_with("x-forwarded-"))
}

fn is_own_key(token: &str) -> bool {
    KEY_PREFIXES.iter().any(|prefix| token.starts_with(prefix))
}

/// The rule for the signature of a request without a token; `LeftToRoute` if there is no signature.
fn signature_rule(rules: &PathRules, headers: &HeaderMap) -> PathSignatureRule {
    if is_signed_by_did(headers) {
        rules.did_signatures
    } else if headers.contains_key(X_SIGNATURE) {
        rules.key_signatures
    } else {
        PathSignatureRule::LeftToRoute
    }
}

/// Whether a request carries a signature of any kind.
#[must_use]
pub fn shows_signature(headers: &HeaderMap) -> bool {
    is_signed_by_did(headers) || headers.contains_key(X_SIGNATURE)
}

/// Whether a DID signs the request: by an HTTP signature (RFC 9421), or by the header of older clients.
fn is_signed_by_did(headers: &HeaderMap) -> bool {
    let scheme = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.split_once(' '));
    headers.contains_key("signature-input")
        || headers.contains_key("signature")
        || scheme.is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("didwba"))
}

fn is_jwt(token: &str) -> bool {
    token.starts_with("eyJ") && token.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// The token of `Authorization: Bearer TOKEN`; `None` if it is empty or the scheme is another one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn unverifiable(owner: PathOwner) -> Response {
    let message = "the access token cannot be checked now; try again later";
    let mut response = owner.refuse(&EngineError::new(ErrorCode::IssuerUnavailable, message));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    response
}
