//! Client for skills of other hosts: discover, describe, validate, invoke, follow.
//!
//! ```text
//! Target ── discover ──► SkillIndex ── describe ──► Described ── submit ──► Execution ── follow ──► output
//! ```
//!
//! Every response of a provider is checked: documents against the published schema, versions by §6.3, ids against the
//! request, status changes against their order, outputs against the descriptor. All requests go through [`Fetch`] with
//! limits of size and time. Addresses in documents are untrusted unless they are on the host that the user named.

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
pub use credential::{SecretString, SkillInvocationCredential};
pub use describe::ResolvedSkill;
pub use discover::DiscoveredIndex;
pub(crate) use discover::next_page;
pub use error::{ConsumerErrorReason, ConsumerFailure, ConsumerFailureCode, SkillConsumerError};
pub(crate) use error::{display_url, plain};
pub use execution::RemoteExecution;
pub use inputs::{check as check_inputs, typed as typed_input};
pub use progress::{InvocationProgress, ProgressCallback};
pub use submit::SkillCall;
pub use target::SkillTarget;

use crate::validate::ProtocolVersionRule;
use oauth::{MemoryOAuthTokenStore, OAuthTokenStore};

/// Client for skills of other hosts. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SkillConsumer {
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    tokens: Arc<dyn OAuthTokenStore>,
    progress: ProgressCallback,
    options: SkillConsumerOptions,
}

#[derive(Debug, Clone)]
pub struct SkillConsumerOptions {
    /// Value of `caller.id` in each invocation.
    pub caller_id: String,
    /// Value of `caller.type` in each invocation, such as `service` or `user`.
    pub caller_type: String,
    /// Rule for the accepted protocol versions.
    pub rule: ProtocolVersionRule,
    /// Timeout of one HTTP request and its response.
    pub exchange: Duration,
    /// How long the provider may hold its response while the skill runs, sent as `Prefer: wait`. The provider may
    /// ignore the value.
    pub hold: Duration,
    /// Maximum number of pages read from one skill index.
    pub pages: usize,
    /// Timeout for an execution when neither the caller nor the descriptor sets one; `None` waits without limit.
    pub patience: Option<Duration>,
}

impl Default for SkillConsumerOptions {
    fn default() -> Self {
        Self {
            caller_id: "nuncio".to_owned(),
            caller_type: "service".to_owned(),
            rule: ProtocolVersionRule::Seed,
            exchange: Duration::from_secs(30),
            hold: Duration::from_secs(10),
            pages: 100,
            patience: None,
        }
    }
}

impl SkillConsumer {
    /// Creates a consumer that keeps OAuth tokens in memory and reports no progress.
    #[must_use]
    pub fn new(
        fetch: Arc<dyn Fetch>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        options: SkillConsumerOptions,
    ) -> Self {
        let tokens = Arc::new(MemoryOAuthTokenStore::default());
        Self { fetch, clock, entropy, tokens, progress: ProgressCallback::default(), options }
    }

    #[must_use]
    pub fn with_tokens(mut self, tokens: Arc<dyn OAuthTokenStore>) -> Self {
        self.tokens = tokens;
        self
    }

    #[must_use]
    pub fn with_progress(mut self, progress: ProgressCallback) -> Self {
        self.progress = progress;
        self
    }

    /// Invokes a skill: resolves the target, fetches the descriptor, submits, follows the execution, checks the output.
    pub async fn invoke(&self, target: &SkillTarget, call: &SkillCall) -> Result<Value, SkillConsumerError> {
        let described = self.describe(target, &call.credential).await?;
        let mut execution = self.submit(&described, call).await?;
        self.follow(&mut execution).await
    }
}
