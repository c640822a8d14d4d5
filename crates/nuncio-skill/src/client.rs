//! Calling other people's skills: discover, describe, validate, invoke, follow.
//!
//! ```text
//! Target ── discover ──► SkillIndex ── describe ──► Described ── submit ──► Execution ── follow ──► output
//! ```
//!
//! Nothing a provider says is believed before it was checked: documents against the published schema,
//! versions by the seed's rule, ids against what was asked for, states against the order they come in,
//! outputs against the descriptor. Everything outbound goes through [`Fetch`], within limits of size and
//! time; addresses in documents are a stranger's unless they are on the host that was named.

mod backoff;
mod credential;
mod describe;
mod discover;
mod error;
mod exchange;
mod execution;
mod follow;
mod inputs;
pub mod oauth;
mod progress;
mod submit;
mod target;

use std::sync::Arc;
use std::time::Duration;

use nuncio_engine::ports::{Clock, Entropy, Fetch};
use serde_json::Value;

pub(crate) use backoff::retry_after;
pub use credential::{Credential, Secret};
pub use describe::Described;
pub use discover::Discovery;
pub(crate) use discover::next_page;
pub use error::{ConsumerError, Failure, FailureCode, Reason};
pub(crate) use error::{plain, shown};
pub use execution::Execution;
pub use inputs::{check as check_inputs, typed as typed_input};
pub use progress::{Progress, Watcher};
pub use submit::Call;
pub use target::Target;

use crate::validate::VersionRule;
use oauth::{MemoryTokens, TokenStore};

/// Calls other people's skills. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Consumer {
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    tokens: Arc<dyn TokenStore>,
    watcher: Watcher,
    options: Options,
}

/// How a consumer behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who we say we are.
    pub caller_id: String,
    /// What sort of caller we are, such as `service` or `user`.
    pub caller_type: String,
    /// Which versions of the protocol we read.
    pub rule: VersionRule,
    /// How long one request and its answer may take.
    pub exchange: Duration,
    /// How long a provider is asked to hold back its answer while the skill is at work; it may ignore it.
    pub hold: Duration,
    /// How many pages of an index are read at most.
    pub pages: usize,
    /// How long an execution is waited for when neither the caller nor the descriptor says; for ever if
    /// nothing is said here either.
    pub patience: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            caller_id: "nuncio".to_owned(),
            caller_type: "service".to_owned(),
            rule: VersionRule::Seed,
            exchange: Duration::from_secs(30),
            hold: Duration::from_secs(10),
            pages: 100,
            patience: None,
        }
    }
}

impl Consumer {
    /// A consumer that remembers tokens while it lives, with nobody watching.
    #[must_use]
    pub fn new(fetch: Arc<dyn Fetch>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>, options: Options) -> Self {
        let tokens = Arc::new(MemoryTokens::default());
        Self { fetch, clock, entropy, tokens, watcher: Watcher::default(), options }
    }

    /// The same consumer with its tokens kept there.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Arc<dyn TokenStore>) -> Self {
        self.tokens = tokens;
        self
    }

    /// The same consumer with someone watching.
    #[must_use]
    pub fn watched_by(mut self, watcher: Watcher) -> Self {
        self.watcher = watcher;
        self
    }

    /// The whole way: from what was named to the checked output.
    ///
    /// # Errors
    /// Whatever stopped it, with the protocol's code.
    pub async fn invoke(&self, target: &Target, call: &Call) -> Result<Value, ConsumerError> {
        let described = self.describe(target, &call.credential).await?;
        let mut execution = self.submit(&described, call).await?;
        self.follow(&mut execution).await
    }
}
