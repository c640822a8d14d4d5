//! Client for remote ANP agents: discovery, verification, negotiation and calls.
//!
//! ```text
//! AgentTarget ── describe ──► VerifiedAgentDescription ── negotiate ──► NegotiationAgreement ── call ──► result
//!      └───── list ──► HostAgentList    └── operation ──────────────────┘
//! ```
//!
//! No statement of an agent about itself is trusted unchecked: every description carries the result of each check, and
//! a failed check prevents every call. All requests go through [`Fetch`] with limits on size and time. URLs found in
//! documents are untrusted unless they are on the host that the user named.

mod capabilities;
mod describe;
mod error;
mod exchange;
mod invoke;
mod list;
mod negotiate;
mod register;
mod remote_method;
mod resolve;
mod rpc;
mod sign;
mod target;
mod tokens;
mod verify;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::bounded_cache::BoundedCache;
use nuncio_engine::ports::{Clock, Entropy, Fetch};
use nuncio_identity::proof::AcceptedProofForms;

pub use capabilities::RemoteMessageService;
pub use describe::VerifiedAgentDescription;
pub use error::{ClientError, ClientErrorDetails, ClientErrorReason};
pub use invoke::{Invocation, InvocationDelegate, InvocationStep, MethodChoice};
pub use list::{HostAgentList, HostAgentListEntry};
pub use negotiate::{ChosenBy, NegotiationAgreement, NegotiationRequest, ProtocolDraftDecision};
pub use register::DirectoryRegistrationReceipt;
pub use remote_method::RemoteMethod;
pub use sign::{AgentSignerLookup, KeySigner, RequestSigner};
pub use target::{AgentTarget, LocalDidUrlScheme};
pub use verify::{DescriptionCheckOutcome, DescriptionCheckResult, DescriptionCheckResults, DescriptionClaim};

pub(crate) use error::plain;
pub(crate) use target::{authority, did_authority};

use exchange::AuthenticatingHttpClient;
use invoke::MAX_CACHED_DESCRIPTIONS;
use negotiate::AgreementCache;

/// Client for remote agents. Clones are cheap and share tokens and agreements.
#[derive(Debug, Clone)]
pub struct AnpClient {
    http: AuthenticatingHttpClient,
    entropy: Arc<dyn Entropy>,
    agreements: Arc<AgreementCache>,
    descriptions: Arc<BoundedCache<String, Arc<VerifiedAgentDescription>>>,
    options: AnpClientOptions,
}

#[derive(Debug, Clone)]
pub struct AnpClientOptions {
    /// Time limit for one request with its response.
    pub exchange: Duration,
    /// Maximum number of pages read from a host's list of agents.
    pub pages: usize,
    /// Whether `localhost` DIDs are resolved over https or http.
    pub local: LocalDidUrlScheme,
    /// Challenge that the proof of a description must contain, if this client sent one to the publisher.
    pub challenge: Option<String>,
    /// Forms of proofs that are accepted on descriptions. With the literal form, descriptions are fetched with
    /// `?proof=literal`.
    pub proof_forms: AcceptedProofForms,
}

impl Default for AnpClientOptions {
    fn default() -> Self {
        Self {
            exchange: Duration::from_secs(30),
            pages: 100,
            local: LocalDidUrlScheme::Https,
            challenge: None,
            proof_forms: AcceptedProofForms::default(),
        }
    }
}

/// The user's bearer token for the host that the user named. `Debug` hides the token.
#[derive(Clone)]
struct BearerToken(String);

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(hidden)")
    }
}

impl AnpClient {
    /// Creates a client without a DID, which cannot sign requests.
    #[must_use]
    pub fn new(
        fetch: Arc<dyn Fetch>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        options: AnpClientOptions,
    ) -> Self {
        let (tokens, agreements) = (Arc::default(), Arc::default());
        let descriptions = Arc::new(BoundedCache::new(MAX_CACHED_DESCRIPTIONS));
        let http =
            AuthenticatingHttpClient { fetch, clock, signer: None, bearer: None, tokens, timeout: options.exchange };
        Self { http, entropy, agreements, descriptions, options }
    }

    /// Sets the DID that signs requests, if any. Tokens and agreements stay shared and are separated by DID.
    #[must_use]
    pub fn signed_by(mut self, signer: Option<Arc<dyn RequestSigner>>) -> Self {
        self.http.signer = signer;
        self
    }

    /// Keeps agreements in this file too, which need not exist. The file is private to its user, bounded, and ignored
    /// if it is damaged.
    #[must_use]
    pub fn with_agreement_file(mut self, path: PathBuf) -> Self {
        self.agreements = Arc::new(AgreementCache::stored_at(path, self.http.clock.now()));
        self
    }

    /// Sets a bearer token for the named host; no other host receives the token.
    #[must_use]
    pub fn with_bearer(mut self, token: Option<String>) -> Self {
        self.http.bearer = token.map(BearerToken);
        self
    }
}
