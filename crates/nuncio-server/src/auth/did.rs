//! Callers known by their DID (ANP-02): by a signature over the request, by the header of older clients, or by
//! a token that a good signature earned here.
//!
//! Cheap checks come first, then the document is looked up, then the signature, and only then is
//! the nonce used up, so that nobody can use up the nonce of another caller.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Uri};
use nuncio_core::principal::Principal;
use nuncio_engine::access::Credential;
use nuncio_engine::{Caller, Engine, Identity};
use nuncio_identity::challenge::AccessGrant;
use nuncio_identity::{
    AcceptedSchemes, AuthError, Credentials, Did, SignaturePolicy, SignedRequest, TokenIssuer, VerifiedSigner,
    http_signature,
};
use serde::Deserialize;

use crate::dids::Dids;

mod answer;
mod resolver;

pub use resolver::{LocalPeers, Resolver};

/// Finds out which DID a request comes from.
pub struct DidAuth {
    dids: Dids,
    resolver: Resolver,
    engine: Engine,
    /// The public URL that signed target URIs must begin with.
    base: String,
    realm: String,
    policy: SignaturePolicy,
}

#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    pub method: &'a Method,
    /// The address, as it was asked for.
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
}

#[derive(Debug)]
pub enum DidCheck {
    Absent,
    /// The caller is identified; a valid signature also earns an access token.
    Known(Caller, Option<AccessGrant>),
    /// Its credentials are invalid; [`DidAuth::answer`] makes the response.
    Refused(AuthError),
}

impl DidAuth {
    /// Checks requests to addresses that begin with `base`.
    #[must_use]
    pub fn new(dids: Dids, resolver: Resolver, engine: Engine, base: &str) -> Self {
        Self {
            dids,
            resolver,
            engine,
            base: base.trim_end_matches('/').to_owned(),
            realm: http_signature::host(base).unwrap_or_else(|| "nuncio".to_owned()),
            policy: SignaturePolicy::default(),
        }
    }

    /// The DID resolver, also for proofs that are not of requests.
    #[must_use]
    pub const fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    #[must_use]
    pub const fn dids(&self) -> &Dids {
        &self.dids
    }

    /// Finds out who sent a request with that body. A good signature is used up by this.
    pub async fn check(&self, head: RequestHead<'_>, body: &[u8]) -> DidCheck {
        let credentials = match Credentials::read(head.headers, AcceptedSchemes::default()) {
            Ok(credentials) => credentials,
            Err(AuthError::Missing) => return DidCheck::Absent,
            Err(fault) => return DidCheck::Refused(fault),
        };
        match self.authenticate(&credentials, head, body).await {
            Ok((did, grant)) => DidCheck::Known(caller(&did), grant),
            Err(fault) => DidCheck::Refused(self.up_to_date(fault)),
        }
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        head: RequestHead<'_>,
        body: &[u8],
    ) -> Result<(Did, Option<AccessGrant>), AuthError> {
        let none = AuthError::Did("this server has no DID, and takes nothing that is signed with one".to_owned());
        let tokens = self.dids.tokens().ok_or(none)?;
        let target = format!("{}{}", self.base, head.uri.path_and_query().map_or("/", PathAndQuery::as_str));
        let RequestHead { method, headers, .. } = head;
        let request = || SignedRequest { method: method.as_str(), target_uri: &target, headers, body };
        let now = self.engine.now();
        let verified = match credentials {
            Credentials::Bearer(token) => return Ok((self.token_holder(&tokens, token)?, None)),
            Credentials::Signature(claim) => {
                claim.check(&request(), now, &self.policy)?;
                let document = self.resolver.resolve(claim.did()).await?;
                claim.verify(&request(), &document)?
            }
            Credentials::Legacy(claim) => {
                claim.check(now, &self.policy)?;
                let document = self.resolver.resolve(claim.did()).await?;
                claim.verify(&self.realm, &document)?
            }
        };
        self.use_nonce("request", &verified).await?;
        let grant = tokens.issue(&verified.did, now);
        Ok((verified.did, Some(grant)))
    }

    /// Uses up the nonce of what was verified. `of` keeps the nonces of requests and of proofs in them apart: a client
    /// may use one nonce in both.
    pub(crate) async fn use_nonce(&self, of: &str, verified: &VerifiedSigner) -> Result<(), AuthError> {
        let Some(nonce) = &verified.nonce else { return Ok(()) };
        let until = self.policy.remember_until(verified.created);
        match self.engine.access().use_nonce(&format!("{of}\n{}", verified.key_id), nonce, until).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(AuthError::Nonce("the nonce was used before; sign again with a new one")),
            Err(error) => {
                tracing::error!(%error, "a nonce cannot be stored, so its request is refused");
                Err(AuthError::Busy)
            }
        }
    }

    fn token_holder(&self, tokens: &TokenIssuer, token: &str) -> Result<Did, AuthError> {
        let did = tokens.verify(token, self.engine.now())?.sub;
        // Whoever stole a key of ours must not live on by the token it earned.
        match self.dids.successor(&did) {
            Some(current) => Err(AuthError::Superseded { requested: did, current }),
            None => Ok(did),
        }
    }

    /// For a retired DID of this server, names the DID in use now instead of its direct successor.
    fn up_to_date(&self, fault: AuthError) -> AuthError {
        match fault {
            AuthError::Superseded { requested, current } => {
                let current = self.dids.successor(&requested).unwrap_or(current);
                AuthError::Superseded { requested, current }
            }
            other => other,
        }
    }

    /// The identity of a bearer token issued by this server; for requests of every protocol.
    #[must_use]
    pub fn by_token(&self, token: &str) -> Option<Identity> {
        // API keys look otherwise, and cost nothing here.
        let service = token.starts_with("eyJ").then(|| self.dids.service()).flatten()?;
        if issuer(token)? != service.did().as_str() {
            return None;
        }
        let holder = self.token_holder(&*self.dids.tokens()?, token);
        Some(match holder {
            Ok(did) => Identity::Known(caller(&did)),
            Err(why) => {
                tracing::debug!(%why, "a token of ours was refused");
                Identity::Invalid
            }
        })
    }
}

fn caller(did: &Did) -> Caller {
    Caller { credential: Credential::Did, ..Caller::new(Principal::Did(did.to_string())) }
}

fn issuer(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Claims {
        iss: String,
    }
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    Some(serde_json::from_slice::<Claims>(&claims).ok()?.iss)
}

impl fmt::Debug for DidAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DidAuth").field("base", &self.base).finish_non_exhaustive()
    }
}
