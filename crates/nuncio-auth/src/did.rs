//! Callers identified by their DID (ANP-02): by a signature over the request, by the header of older clients, or by the
//! access token that this server issues for a valid signature.
//!
//! The checks without a lookup come first, then the DID document is resolved and the signature verified. The nonce is
//! consumed last, so that an invalid request cannot use up a nonce of another caller.

use std::fmt;
use std::sync::Arc;

use http::uri::PathAndQuery;
use nuncio_core::principal::Principal;
use nuncio_engine::access::AuthenticationMethod;
use nuncio_engine::{Caller, CallerCheckResult, Engine};
use nuncio_identity::challenge::IssuedAccessToken;
use nuncio_identity::{
    AcceptedSigningSchemes, BoundDidDocument, Did, DidAccessTokenService, DidAuthError, ParsedCredentials,
    SignableRequest, SignaturePolicy, VerifiedSigner, http_signature,
};
use serde::Deserialize;

use crate::{RequestHead, decode_jwt_part};

mod challenge;
mod resolver;

pub use resolver::{DidResolver, LocalhostDidPolicy};

/// The DIDs of this server and its agents.
pub trait HostDids: fmt::Debug + Send + Sync {
    /// Issues and verifies access tokens for DID callers; `None` if this server has no DID.
    fn tokens(&self) -> Option<Arc<DidAccessTokenService>>;

    fn is_service(&self, did: &str) -> bool;

    /// Whether a DID belongs to this server; if so, with its document, which needs no lookup.
    fn ownership(&self, did: &Did) -> DidOwnership;

    /// The DID that is used now instead of a retired DID of this server; `None` for any other DID.
    fn successor(&self, did: &Did) -> Option<Did>;
}

#[derive(Debug, Clone)]
pub enum DidOwnership {
    Ours(Arc<BoundDidDocument>),
    /// A DID of this host that was never created.
    Unassigned,
    Foreign,
}

/// Authenticates requests by their DID credentials.
#[derive(Debug)]
pub struct DidAuthenticator {
    dids: Arc<dyn HostDids>,
    resolver: DidResolver,
    engine: Engine,
    /// The public URL that signed target URIs must begin with.
    base: String,
    realm: String,
    policy: SignaturePolicy,
}

#[derive(Debug)]
pub enum DidAuthenticationResult {
    Absent,
    /// The caller, with an access token if the request was signed.
    Known(Caller, Option<IssuedAccessToken>),
    /// The credentials are invalid; [`DidAuthenticator::challenge`] is the response.
    Refused(DidAuthError),
}

impl DidAuthenticator {
    /// Checks requests to URLs that begin with `base`.
    #[must_use]
    pub fn new(dids: Arc<dyn HostDids>, resolver: DidResolver, engine: Engine, base: &str) -> Self {
        Self {
            dids,
            resolver,
            engine,
            base: base.trim_end_matches('/').to_owned(),
            realm: http_signature::host(base).unwrap_or_else(|| "nuncio".to_owned()),
            policy: SignaturePolicy::default(),
        }
    }

    /// The DID resolver, which protocols also need to verify proofs inside bodies.
    #[must_use]
    pub const fn resolver(&self) -> &DidResolver {
        &self.resolver
    }

    /// Finds out which DID sent a request with this body. The nonce of a valid signature is consumed.
    pub async fn check(&self, head: RequestHead<'_>, body: &[u8]) -> DidAuthenticationResult {
        let credentials = match ParsedCredentials::read(head.headers, AcceptedSigningSchemes::default()) {
            Ok(credentials) => credentials,
            Err(DidAuthError::Missing) => return DidAuthenticationResult::Absent,
            Err(fault) => return DidAuthenticationResult::Refused(fault),
        };
        match self.authenticate(&credentials, head, body).await {
            Ok((did, grant)) => DidAuthenticationResult::Known(caller(&did), grant),
            Err(fault) => DidAuthenticationResult::Refused(self.with_current_did(fault)),
        }
    }

    async fn authenticate(
        &self,
        credentials: &ParsedCredentials,
        head: RequestHead<'_>,
        body: &[u8],
    ) -> Result<(Did, Option<IssuedAccessToken>), DidAuthError> {
        let no_did =
            DidAuthError::Did("this server has no DID, so it does not accept requests signed with one".to_owned());
        let tokens = self.dids.tokens().ok_or(no_did)?;
        let target = format!("{}{}", self.base, head.uri.path_and_query().map_or("/", PathAndQuery::as_str));
        let RequestHead { method, headers, .. } = head;
        let request = || SignableRequest { method: method.as_str(), target_uri: &target, headers, body };
        let now = self.engine.now();
        let verified = match credentials {
            ParsedCredentials::Bearer(token) => return Ok((self.token_holder(&tokens, token)?, None)),
            ParsedCredentials::Signature(claim) => {
                claim.check(&request(), now, &self.policy)?;
                let document = self.resolver.resolve(claim.did()).await?;
                claim.verify(&request(), &document)?
            }
            ParsedCredentials::Legacy(claim) => {
                claim.check(now, &self.policy)?;
                let document = self.resolver.resolve(claim.did()).await?;
                claim.verify(&self.realm, &document)?
            }
        };
        self.use_nonce("request", &verified).await?;
        let grant = tokens.issue(&verified.did, now);
        Ok((verified.did, Some(grant)))
    }

    /// Consumes the nonce of a signature. `purpose` separates the nonces of requests from those of proofs in their
    /// bodies: a client may use one nonce in both.
    pub async fn use_nonce(&self, purpose: &str, verified: &VerifiedSigner) -> Result<(), DidAuthError> {
        let Some(nonce) = &verified.nonce else { return Ok(()) };
        let validity = verified.created..self.policy.remember_until(verified.created);
        match self.engine.access().use_nonce(&format!("{purpose}\n{}", verified.key_id), nonce, validity).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(DidAuthError::Nonce("the nonce was used before; sign again with a new one")),
            Err(error) => {
                tracing::error!(%error, "a nonce cannot be stored, so its request is refused");
                Err(DidAuthError::Busy)
            }
        }
    }

    fn token_holder(&self, tokens: &DidAccessTokenService, token: &str) -> Result<Did, DidAuthError> {
        let did = tokens.verify(token, self.engine.now())?.sub;
        // A token issued for a retired key is refused, since that key may have been stolen.
        match self.dids.successor(&did) {
            Some(current) => Err(DidAuthError::Superseded { requested: did, current }),
            None => Ok(did),
        }
    }

    /// Changes the error for a retired DID of this server so that it names the DID in use now, not the next one.
    fn with_current_did(&self, fault: DidAuthError) -> DidAuthError {
        match fault {
            DidAuthError::Superseded { requested, current } => {
                let current = self.dids.successor(&requested).unwrap_or(current);
                DidAuthError::Superseded { requested, current }
            }
            other => other,
        }
    }

    /// The identity of an access token that this server issued to a DID; `None` for other tokens.
    #[must_use]
    pub fn identity_by_token(&self, token: &str) -> Option<CallerCheckResult> {
        // API keys do not have the prefix of a JWT, so they are not decoded.
        if !token.starts_with("eyJ") || !self.dids.is_service(&issuer(token)?) {
            return None;
        }
        Some(match self.token_holder(&*self.dids.tokens()?, token) {
            Ok(did) => CallerCheckResult::Known(caller(&did)),
            Err(why) => {
                tracing::debug!(%why, "an access token of this server was refused");
                CallerCheckResult::Invalid
            }
        })
    }
}

fn caller(did: &Did) -> Caller {
    Caller { authentication: AuthenticationMethod::Did, ..Caller::new(Principal::Did(did.to_string())) }
}

/// The `iss` claim of a JWT whose signature is not verified yet.
fn issuer(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct IssuerClaim {
        iss: String,
    }
    let parts: Vec<_> = token.split('.').collect();
    let [_, claims, _] = parts[..] else { return None };
    Some(decode_jwt_part::<IssuerClaim>(claims)?.iss)
}
