//! Callers known by their DID (ANP-02): by a signature over the request, by the header of older clients, or by
//! a token that a good signature earned here.
//!
//! What costs nothing is checked first, then the document is looked up, then the signature, and only then is
//! the nonce used up: nobody can burn another's.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Uri};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::access::Credential;
use nuncio_engine::ports::Clock;
use nuncio_engine::{Caller, Identity};
use nuncio_identity::challenge::AccessGrant;
use nuncio_identity::{
    AuthError, Credentials, Did, Policy, ReplayMemory, Schemes, SignedRequest, TokenIssuer, Verified, http_signature,
    moment,
};
use serde::Deserialize;

use crate::dids::Dids;

mod answer;
mod resolver;

pub use resolver::{LocalPeers, Resolver};

/// How many nonces are remembered: more signed requests than that in five minutes are refused.
const REMEMBERED: usize = 100_000;

/// Finds out which DID a request comes from.
pub struct DidAuth {
    dids: Dids,
    resolver: Resolver,
    clock: Arc<dyn Clock>,
    /// What the addresses callers sign begin with.
    base: String,
    realm: String,
    policy: Policy,
    /// What was signed before may have been used before, and nobody would remember.
    since: Timestamp,
    memory: Mutex<ReplayMemory>,
}

/// The head of a request.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The address, as it was asked for.
    pub uri: &'a Uri,
    /// The header fields.
    pub headers: &'a HeaderMap,
}

/// What a request's credentials came to.
#[derive(Debug)]
pub enum Outcome {
    /// It has none of those that count here.
    Absent,
    /// It is from this caller, who gets this token for a signature.
    Known(Caller, Option<AccessGrant>),
    /// It has some, and they are not good. [`DidAuth::answer`] says so.
    Refused(AuthError),
}

impl DidAuth {
    /// Checks requests to addresses that begin with `base`, from now on.
    #[must_use]
    pub fn new(dids: Dids, resolver: Resolver, clock: Arc<dyn Clock>, base: &str) -> Self {
        let since = moment::from_seconds(moment::seconds(clock.now()));
        Self {
            dids,
            resolver,
            clock,
            base: base.trim_end_matches('/').to_owned(),
            realm: http_signature::host(base).unwrap_or_else(|| "nuncio".to_owned()),
            policy: Policy::default(),
            since,
            memory: Mutex::new(ReplayMemory::new(REMEMBERED)),
        }
    }

    /// The same with room for so many nonces.
    #[must_use]
    pub fn remembering(mut self, most: usize) -> Self {
        self.memory = Mutex::new(ReplayMemory::new(most));
        self
    }

    /// Who finds the documents of others, also for proofs that are not of requests.
    #[must_use]
    pub const fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// The DIDs of this server.
    #[must_use]
    pub const fn dids(&self) -> &Dids {
        &self.dids
    }

    /// Finds out who sent a request with that body. A good signature is used up by this.
    pub async fn check(&self, head: Head<'_>, body: &[u8]) -> Outcome {
        let credentials = match Credentials::read(head.headers, Schemes::default()) {
            Ok(credentials) => credentials,
            Err(AuthError::Missing) => return Outcome::Absent,
            Err(fault) => return Outcome::Refused(fault),
        };
        match self.authenticate(&credentials, head, body).await {
            Ok((did, grant)) => Outcome::Known(caller(&did), grant),
            Err(fault) => Outcome::Refused(self.up_to_date(fault)),
        }
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        head: Head<'_>,
        body: &[u8],
    ) -> Result<(Did, Option<AccessGrant>), AuthError> {
        let none = AuthError::Did("this server has no DID, and takes nothing that is signed with one".to_owned());
        let tokens = self.dids.tokens().ok_or(none)?;
        let target = format!("{}{}", self.base, head.uri.path_and_query().map_or("/", PathAndQuery::as_str));
        let Head { method, headers, .. } = head;
        let request = || SignedRequest { method: method.as_str(), target_uri: &target, headers, body };
        let now = self.clock.now();
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
        self.use_up(&verified)?;
        let grant = tokens.issue(&verified.did, now);
        Ok((verified.did, Some(grant)))
    }

    /// Takes the nonce of what was verified.
    fn use_up(&self, verified: &Verified) -> Result<(), AuthError> {
        if verified.created < self.since {
            return Err(AuthError::Timestamp("it was signed before this server started; sign again"));
        }
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(memory.remember_caller(verified, &self.policy, self.clock.now())?)
    }

    fn token_holder(&self, tokens: &TokenIssuer, token: &str) -> Result<Did, AuthError> {
        let did = tokens.verify(token, self.clock.now())?.sub;
        // Whoever stole a key of ours must not live on by the token it earned.
        match self.dids.successor(&did) {
            Some(current) => Err(AuthError::Superseded { requested: did, current }),
            None => Ok(did),
        }
    }

    /// Of our own DIDs we know the last in the line, not only the next.
    fn up_to_date(&self, fault: AuthError) -> AuthError {
        match fault {
            AuthError::Superseded { requested, current } => {
                let current = self.dids.successor(&requested).unwrap_or(current);
                AuthError::Superseded { requested, current }
            }
            other => other,
        }
    }

    /// The identity behind a bearer token, where it is one of ours; for requests of every protocol.
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

/// Who made a token, as it says itself.
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
