//! What the device can do, each under a permission. A tool of an agent's manifest is found here by its name, or else by
//! the permission it needs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::ids::{ScopeId, ToolName};
use serde_json::Value;

mod files;
mod place;
mod programs;

pub use files::Folders;
pub use place::Place;
pub use programs::{Clipboard, Notify, ProgramTool};

/// Why a tool has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolFailure {
    /// The device has no such thing.
    #[error("{0}")]
    Unavailable(String),
    /// The arguments ask for what it does not do.
    #[error("{0}")]
    Arguments(String),
    /// It failed.
    #[error("{0}")]
    Failed(String),
}

/// Something the device can do.
#[async_trait]
pub trait LocalTool: fmt::Debug + Send + Sync + 'static {
    /// Does it, within the time. It is dropped when that is over.
    async fn run(&self, arguments: &Value, time: Duration) -> Result<Value, ToolFailure>;
}

/// What the device can do.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    by_scope: BTreeMap<ScopeId, Arc<dyn LocalTool>>,
    by_name: BTreeMap<ToolName, (ScopeId, Arc<dyn LocalTool>)>,
}

impl Tools {
    /// Does whatever needs that permission with this.
    #[must_use]
    pub fn under(mut self, scope: ScopeId, tool: Arc<dyn LocalTool>) -> Self {
        self.by_scope.insert(scope, tool);
        self
    }

    /// Does what has that name, under that permission.
    #[must_use]
    pub fn named(mut self, name: ToolName, scope: ScopeId, tool: Arc<dyn LocalTool>) -> Self {
        self.by_name.insert(name, (scope, tool));
        self
    }

    /// The one for a tool of a manifest, which says by which permission it runs.
    #[must_use]
    pub fn find(&self, name: &ToolName, scope: &ScopeId) -> Option<Arc<dyn LocalTool>> {
        match self.by_name.get(name) {
            Some((needs, tool)) if needs == scope => Some(Arc::clone(tool)),
            // A tool of that name under another permission is not this one.
            Some(_) => None,
            None => self.by_scope.get(scope).map(Arc::clone),
        }
    }
}
