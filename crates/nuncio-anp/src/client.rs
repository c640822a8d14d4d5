//! Reading, negotiating with and calling other people's agents.
//!
//! ```text
//! Target ── describe ──► Described ── negotiate ──► Agreement ── call ──► result
//!    └───── list ──► Listing      └── operation ──────────────────┘
//! ```
//!
//! Nothing an agent says of itself is believed because it says so: what was checked and what could not be is
//! told with every description, and what was found untrue stops every call. Everything outbound goes through
//! [`Fetch`], within limits of size and time; addresses in documents are a stranger's unless they are on the
//! host that was named.

mod capabilities;
mod describe;
mod error;
mod exchange;
mod invoke;
mod list;
mod negotiate;
mod operation;
mod register;
mod resolve;
mod rpc;
mod sign;
mod target;
mod tokens;
mod verify;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nuncio_engine::ports::{Clock, Entropy, Fetch};

pub use capabilities::Runtime;
pub use describe::Described;
pub use error::{ClientError, Failure, Reason};
pub use invoke::{Invocation, Way};
pub use list::{Listed, Listing};
pub use negotiate::{Agreement, Decided, DraftWord, Wish};
pub use operation::Operation;
pub use register::Receipt;
pub use sign::{KeySigner, Signers, Signs};
pub use target::{LocalDids, Target};
pub use verify::{Check, Checks, Outcome, Subject};

pub(crate) use error::plain;
pub(crate) use target::authority;

use invoke::Known;
use negotiate::Agreements;
use tokens::Tokens;

/// Reads and calls other people's agents. Cheap to clone; clones share tokens and agreements.
#[derive(Debug, Clone)]
pub struct AnpClient {
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    signer: Option<Arc<dyn Signs>>,
    bearer: Option<Bearer>,
    tokens: Arc<Tokens>,
    agreements: Arc<Agreements>,
    known: Arc<Known>,
    options: Options,
}

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long one request and its answer may take.
    pub exchange: Duration,
    /// How many pages of a host's list are read at most.
    pub pages: usize,
    /// How DIDs of this machine are looked up.
    pub local: LocalDids,
    /// What the proof of a description must show, where we asked its publisher for that.
    pub challenge: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { exchange: Duration::from_secs(30), pages: 100, local: LocalDids::Https, challenge: None }
    }
}

/// A token that the user has for the host they named. Never shown.
#[derive(Clone)]
struct Bearer(String);

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(hidden)")
    }
}

impl AnpClient {
    /// A client that says nothing of who it is.
    #[must_use]
    pub fn new(fetch: Arc<dyn Fetch>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>, options: Options) -> Self {
        let (tokens, agreements, known) = (Arc::default(), Arc::default(), Arc::default());
        Self { fetch, clock, entropy, signer: None, bearer: None, tokens, agreements, known, options }
    }

    /// The same client with a DID to sign with; with none if there is none. Tokens and agreements are shared and
    /// kept apart by DID.
    #[must_use]
    pub fn signed_by(mut self, signer: Option<Arc<dyn Signs>>) -> Self {
        self.signer = signer;
        self
    }

    /// The same client with a token for the host that is named, and for no other.
    #[must_use]
    pub fn with_bearer(mut self, token: Option<String>) -> Self {
        self.bearer = token.map(Bearer);
        self
    }
}
