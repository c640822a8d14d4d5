//! Who is asking: puts exactly one [`Identity`] into each request, which every protocol's routes read. Which
//! credentials count depends on the [`PathRules`] of the path; a credential that does not count is refused, it is never
//! taken for a request without one.

use ::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use nuncio_core::Code;
use nuncio_core::principal::Principal;
use nuncio_engine::{Caller, EngineError, Identity};
use nuncio_http::front::{PathRules, SignatureRule, TokenKind};
use nuncio_http::{CredentialLocation, known_caller};

use super::Shared;
use super::request_id::RequestId;
use crate::auth::did::{DidCheck, RequestHead};
use crate::auth::{SignatureCheck, TokenCheck};
use crate::serve::Exposure;

/// Prefixes of API keys and signing keys of this server. They are never sent to an issuer.
const OWN_KEYS: [&str; 2] = ["nk_", "nsk_"];
/// Prefix of the tokens of A2H agent accounts.
const AGENT_TOKEN: &str = "hsk_";
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const X_SIGNATURE: HeaderName = HeaderName::from_static("x-signature");
/// How large a body may be that is read to check a signature over it.
const MAX_SIGNED_BODY: usize = 1024 * 1024;

/// Puts the identity into the request if nothing has to be looked up; returns whether it did.
pub(super) fn identify_at_once(shared: &Shared, request: &mut Request) -> bool {
    let FoundCredential::Identity(identity) = find(shared, request) else { return false };
    insert(identity, request);
    true
}

/// Whether the request's signature has to be checked to identify its caller.
pub(super) fn is_found_by_signature(shared: &Shared, request: &Request) -> bool {
    matches!(find(shared, request), FoundCredential::Signature)
}

/// Puts the identity into the request, looking up what has to be.
pub(super) async fn identify(shared: &Shared, request: &mut Request) -> Result<(), Response> {
    let path = request.uri().path();
    let is_public = shared.rules(path).is_public_document(request.method(), path);
    let identity = match find(shared, request) {
        FoundCredential::Identity(identity) => Ok(identity),
        FoundCredential::Signature => match by_signature(shared, request).await {
            Err(_) if is_public => Ok(Identity::Invalid),
            checked => checked?,
        },
        FoundCredential::PersonOrAgent(token) => {
            let known = nuncio_a2h::server::identify(&shared.engine, &*shared.auth.people, token).await;
            known.map(|known| known.map_or(Identity::Invalid, |shown| Identity::Known(shown.caller))).map_err(|error| {
                tracing::error!(%error, "an access token cannot be checked");
            })
        }
        FoundCredential::IssuerToken(token) => match shared.auth.issuers.check(token).await {
            TokenCheck::Known(caller) => Ok(Identity::Known(caller)),
            TokenCheck::Invalid(why) => {
                tracing::debug!(why, "an access token was refused");
                Ok(Identity::Invalid)
            }
            TokenCheck::Unverifiable(why) => {
                tracing::warn!(why, "an access token cannot be checked");
                Err(())
            }
        },
    };
    match identity {
        Ok(Identity::Invalid | Identity::Expired(_)) | Err(()) if is_public => {
            insert(unidentified(shared, request.headers()), request);
        }
        Ok(identity) => insert(identity, request),
        Err(()) => {
            insert(Identity::Invalid, request);
            return Err(unverifiable(shared, request));
        }
    }
    Ok(())
}

/// Refuses a request that would count as `local` if it had not come through a proxy, and shows no credential that its
/// route could still check.
pub(super) fn forwarded_refusal(shared: &Shared, request: &Request) -> Option<Response> {
    let (path, headers) = (request.uri().path(), request.headers());
    let rules = shared.rules(path);
    let is_exempt = !rules.serves_local || rules.is_public_document(request.method(), path);
    let is_unidentified = request.extensions().get() == Some(&Identity::Missing);
    let may_show_more = shows_signature(headers)
        || known_caller(request.extensions()).is_some()
        || shared.engine.access().has_keys() && rules.takes_keys_elsewhere;
    if is_exempt || !is_unidentified || may_show_more || !is_open_to_local(shared) || !is_forwarded(headers) {
        return None;
    }
    let message = "this request came through a proxy, so it does not count as one from this machine: make a key with `nuncio key create`, and send it as `Authorization: Bearer KEY`";
    Some(shared.refuse(path, &EngineError::new(Code::ForwardedRefused, message)))
}

/// Whether the request passed through a proxy, by what proxies add to it.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(header::FORWARDED)
        || headers.contains_key(header::VIA)
        || headers.keys().any(|name| name.as_str().starts_with("x-forwarded-"))
}

fn insert(mut identity: Identity, request: &mut Request) {
    if let Identity::Known(caller) = &mut identity {
        caller.request = request.extensions().get::<RequestId>().map(|id| id.0.clone());
    }
    request.extensions_mut().insert(identity);
}

/// The identity of a request, or the lookup that is needed to determine it.
enum FoundCredential<'a> {
    Identity(Identity),
    /// A token of a person's device or of an agent's account.
    PersonOrAgent(&'a str),
    IssuerToken(&'a str),
    /// The body has to be read to check the signature over it.
    Signature,
}

fn find<'a>(shared: &Shared, request: &'a Request) -> FoundCredential<'a> {
    let (path, headers) = (request.uri().path(), request.headers());
    let rules = shared.rules(path);
    let is_public = rules.is_public_document(request.method(), path);
    if is_public && !rules.public_varies {
        return FoundCredential::Identity(unidentified(shared, headers));
    }
    let sent = [bearer(headers), headers.get(API_KEY).and_then(|key| key.to_str().ok())];
    let token = sent.into_iter().flatten().find(|token| !token.is_empty() && !counts_as_none(shared, token));
    let found = match token {
        Some(token) => find_by_token(shared, rules, token),
        None => match signature_rule(rules, headers) {
            SignatureRule::Checked => FoundCredential::Signature,
            SignatureRule::Refused => FoundCredential::Identity(Identity::Invalid),
            SignatureRule::LeftToRoute => FoundCredential::Identity(unidentified(shared, headers)),
        },
    };
    match found {
        FoundCredential::Identity(Identity::Invalid | Identity::Expired(_)) if is_public => {
            FoundCredential::Identity(unidentified(shared, headers))
        }
        found => found,
    }
}

fn find_by_token<'a>(shared: &Shared, rules: &PathRules, token: &'a str) -> FoundCredential<'a> {
    if let Some(identity) = shared.auth.dids.by_token(token) {
        return FoundCredential::Identity(match identity {
            Identity::Known(caller) if rules.tokens.contains(&TokenKind::Did) => {
                Identity::Known(shared.engine.access().linked(caller))
            }
            _ => Identity::Invalid,
        });
    }
    if shared.auth.people.knows(token) {
        let kind = if token.starts_with(AGENT_TOKEN) { TokenKind::Agent } else { TokenKind::Device };
        return if rules.tokens.contains(&kind) {
            FoundCredential::PersonOrAgent(token)
        } else {
            FoundCredential::Identity(Identity::Invalid)
        };
    }
    if !is_own_key(token) && !shared.auth.issuers.is_empty() {
        return match shared.auth.issuers.recall(token) {
            Some(caller) => FoundCredential::Identity(Identity::Known(caller)),
            None => FoundCredential::IssuerToken(token),
        };
    }
    FoundCredential::Identity(shared.engine.access().identity_by_key(token))
}

/// Whether a server that is open to `local` takes this text for no credential: AAP's clients must send some. It looks
/// neither like one of ours nor like a token; where there are issuers, any text may be a token of theirs.
fn counts_as_none(shared: &Shared, token: &str) -> bool {
    let may_be_known =
        is_own_key(token) || is_jwt(token) || shared.auth.people.knows(token) || !shared.auth.issuers.is_empty();
    is_open_to_local(shared) && !may_be_known
}

fn is_own_key(token: &str) -> bool {
    OWN_KEYS.iter().any(|prefix| token.starts_with(prefix))
}

/// Checks a signature by a DID, or a signing key's, over the whole request.
async fn by_signature(shared: &Shared, request: &mut Request) -> Result<Result<Identity, ()>, Response> {
    let refuse = |request: &Request, error: &EngineError| shared.refuse(request.uri().path(), error);
    let limits = shared.bodies.at_most(MAX_SIGNED_BODY);
    let body = std::mem::take(request.body_mut());
    let read = limits.read(&shared.engine, request.extensions(), body, CredentialLocation::Body).await;
    let bytes = read.map_err(|error| refuse(request, &error))?;
    let head = RequestHead { method: request.method(), uri: request.uri(), headers: request.headers() };
    let identity = if is_signed(request.headers()) {
        match shared.auth.dids.check(head, &bytes).await {
            DidCheck::Known(caller, _) => Identity::Known(shared.engine.access().linked(caller)),
            DidCheck::Refused(fault) => return Err(shared.auth.dids.answer(&fault)),
            DidCheck::Absent => Identity::Invalid,
        }
    } else {
        match shared.auth.signatures.check(head, &bytes).await {
            SignatureCheck::Known(caller) => Identity::Known(caller),
            SignatureCheck::Invalid(why) => return Err(refuse(request, &EngineError::new(Code::Unauthorized, why))),
            SignatureCheck::Absent => Identity::Invalid,
        }
    };
    *request.body_mut() = Body::from(bytes);
    Ok(Ok(identity))
}

/// A request without credentials, or with text that counts as none.
fn unidentified(shared: &Shared, headers: &HeaderMap) -> Identity {
    match shared.exposure {
        _ if is_open_to_local(shared) && !is_forwarded(headers) => Identity::Known(Caller::new(Principal::Local)),
        Exposure::Open => Identity::Known(Caller::new(Principal::Anonymous)),
        Exposure::Loopback | Exposure::OpenLoopback | Exposure::Network => Identity::Missing,
    }
}

fn is_open_to_local(shared: &Shared) -> bool {
    shared.exposure.is_open_to_local(shared.engine.access().has_keys())
}

/// What happens to the signature of a request without a token, if it has one.
fn signature_rule(rules: &PathRules, headers: &HeaderMap) -> SignatureRule {
    if is_signed(headers) {
        rules.did_signatures
    } else if headers.contains_key(X_SIGNATURE) {
        rules.key_signatures
    } else {
        SignatureRule::LeftToRoute
    }
}

/// Whether a request carries a signature of any kind.
pub(super) fn shows_signature(headers: &HeaderMap) -> bool {
    is_signed(headers) || headers.contains_key(X_SIGNATURE)
}

/// Whether a DID signs the request: by an HTTP signature (RFC 9421), or by the header of older clients.
fn is_signed(headers: &HeaderMap) -> bool {
    let scheme = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.split_once(' '));
    headers.contains_key("signature-input")
        || headers.contains_key("signature")
        || scheme.is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("didwba"))
}

fn is_jwt(token: &str) -> bool {
    token.starts_with("eyJ") && token.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// The key of `Authorization: Bearer KEY`; none when it is empty or of another kind.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

fn unverifiable(shared: &Shared, request: &Request) -> Response {
    let message = "the access token cannot be checked now; try again later";
    let mut response = shared.refuse(request.uri().path(), &EngineError::new(Code::IssuerUnavailable, message));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    response
}
