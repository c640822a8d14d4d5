//! Progress events of an invocation.

use std::sync::Arc;

use nuncio_core::opaque_debug;
use serde::Serialize;

/// Step of an invocation that is reported to the caller.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum InvocationProgress {
    Discovered {
        url: String,
        /// Number of listed skills.
        skills: usize,
    },
    /// A descriptor was fetched and is valid.
    Described {
        url: String,
        skill_id: String,
        version: String,
        /// URL at which the skill is invoked.
        endpoint: String,
    },
    /// A warning that does not stop the invocation.
    Note { message: String },
    /// A person must authorize the client at `url`.
    Authorize { url: String },
    /// The endpoint could not be reached; the next attempt follows after `delay_ms`.
    Retrying { attempt: u64, delay_ms: u64, why: String },
    /// The provider accepted the invocation.
    Accepted { execution_id: String },
    Running {
        execution_id: String,
        /// Number of attempts of the execution, if the provider reports it.
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<u64>,
    },
    /// The execution succeeded and its output was checked.
    Completed { execution_id: String },
}

/// Callback for progress events.
#[derive(Clone)]
pub struct ProgressCallback(Arc<dyn Fn(&InvocationProgress) + Send + Sync>);

impl ProgressCallback {
    pub fn new(report: impl Fn(&InvocationProgress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }

    pub(super) fn report(&self, progress: &InvocationProgress) {
        (self.0)(progress);
    }

    pub(super) fn note(&self, message: impl Into<String>) {
        self.report(&InvocationProgress::Note { message: message.into() });
    }
}

impl Default for ProgressCallback {
    /// A callback that ignores all progress events.
    fn default() -> Self {
        Self::new(|_| {})
    }
}

opaque_debug!(ProgressCallback);
