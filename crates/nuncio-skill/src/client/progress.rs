//! What happens on the way, for whoever watches.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// Something that happened on the way to a result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Progress {
    /// An index was read.
    Discovered {
        /// Where.
        url: String,
        /// How many skills it lists.
        skills: usize,
    },
    /// A descriptor was read and found valid.
    Described {
        /// Where.
        url: String,
        /// Whose it is.
        skill_id: String,
        /// The skill's version.
        version: String,
        /// Where it is invoked.
        endpoint: String,
    },
    /// Something to know that stops nothing.
    Note {
        /// What.
        message: String,
    },
    /// A person must allow it in a browser.
    Authorize {
        /// Where.
        url: String,
    },
    /// The endpoint was not reached; it is tried again.
    Retrying {
        /// How often it was tried.
        attempt: u64,
        /// How long we wait first.
        delay_ms: u64,
        /// What happened.
        why: String,
    },
    /// The provider took it on.
    Accepted {
        /// The execution.
        execution_id: String,
    },
    /// The skill is at work.
    Running {
        /// The execution.
        execution_id: String,
        /// How often it was begun, when the provider says.
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<u64>,
    },
    /// It ended well; the output has been checked.
    Completed {
        /// The execution.
        execution_id: String,
    },
}

/// Whoever watches.
#[derive(Clone)]
pub struct Watcher(Arc<dyn Fn(&Progress) + Send + Sync>);

impl Watcher {
    /// Tells this function.
    pub fn new(tell: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(super) fn tell(&self, progress: &Progress) {
        (self.0)(progress);
    }

    pub(super) fn note(&self, message: impl Into<String>) {
        self.tell(&Progress::Note { message: message.into() });
    }
}

impl Default for Watcher {
    /// Nobody.
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}
