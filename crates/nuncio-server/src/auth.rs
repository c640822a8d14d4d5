//! Who vouches for a caller beside our own keys: issuers of access tokens, signatures over requests,
//! DIDs, and the tokens of people's devices and of agents. What none of them vouches for is refused; it is never taken for a request without credentials.

pub mod did;
mod fetch_cache;
mod introspect;
mod issuers;
mod jwks;
mod metadata;
pub(crate) mod person;
mod signature;
mod token;

use std::sync::Arc;

pub use did::DidAuth;
pub use issuers::{Issuers, OAuthEndpoints, TokenCheck};
pub use person::PersonTokens;
pub use signature::{SignatureCheck, Signatures};

/// Every means of authentication, for the identity layer.
#[derive(Debug, Clone)]
pub struct Auth {
    /// Access tokens.
    pub issuers: Arc<Issuers>,
    pub signatures: Arc<Signatures>,
    pub dids: Arc<DidAuth>,
    /// People and agents with an account here.
    pub people: Arc<PersonTokens>,
}
