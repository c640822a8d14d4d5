//! Who vouches for a caller beside our own keys: issuers of access tokens, signatures over requests,
//! DIDs, and the tokens of people's devices and of agents. What none of them vouches for is refused; it is never taken for a request without credentials.

mod cache;
pub mod did;
mod introspect;
mod issuers;
mod jwks;
mod kept;
mod metadata;
pub(crate) mod person;
mod signature;
mod token;

use std::sync::Arc;

pub use did::DidAuth;
pub use issuers::{Checked, Issuers, OAuthEndpoints};
pub use person::People;
pub use signature::{Signatures, Signed};

/// All of them, for whoever asks who is calling.
#[derive(Debug, Clone)]
pub struct Auth {
    /// Access tokens.
    pub issuers: Arc<Issuers>,
    /// Signatures.
    pub signatures: Arc<Signatures>,
    /// DIDs.
    pub dids: Arc<DidAuth>,
    /// People and agents with an account here.
    pub people: Arc<People>,
}
