//! Callbacks that report the end of an execution. A pending callback is stored with that end; the protocol formats it
//! and the server sends it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

use nuncio_core::backoff::Backoff;
use nuncio_core::execution::Execution;
use nuncio_core::ids::ExecutionId;
use nuncio_core::time::Timestamp;

use crate::context::{CommitResultExt as _, EngineContext};
use crate::error::EngineError;
use crate::ports::store::{Conflict, ExecutionCallback, ExecutionChange, ExecutionStore};

/// Maximum number of delivery attempts per callback.
const MAX_ATTEMPTS: u32 = 12;

const BACKOFF: Backoff = Backoff::doubling(Duration::from_secs(10), Duration::from_secs(3 * 3600));

/// Service for callbacks that report the end of executions.
pub struct CallbackService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn ExecutionStore>,
    pub(crate) owed: Notify,
}

impl CallbackService {
    /// Executions whose callback is due, without those in `known`, each with its attempt count; at most `limit`.
    /// Removes callbacks whose execution was deleted.
    pub async fn callbacks_due(
        &self,
        known: &HashSet<ExecutionId>,
        limit: usize,
    ) -> Result<Vec<(Execution, u32)>, EngineError> {
        let all = self.store.callbacks(self.context.now(), known.len().saturating_add(limit)).await?;
        let mut due = Vec::new();
        for callback in all.into_iter().filter(|callback| !known.contains(&callback.execution)).take(limit) {
            match self.store.execution(&callback.execution).await? {
                Some(execution) => due.push((execution, callback.attempts)),
                None => self.callback_done(&callback.execution).await?,
            }
        }
        Ok(due)
    }

    /// Due time of the next callback that is not in `known`.
    pub async fn next_callback(&self, known: &HashSet<ExecutionId>) -> Result<Option<Timestamp>, EngineError> {
        let all = self.store.callbacks(Timestamp::LAST, known.len().saturating_add(1)).await?;
        Ok(all.into_iter().find(|callback| !known.contains(&callback.execution)).map(|callback| callback.due))
    }

    /// The execution of a callback; `None` once it was deleted.
    pub async fn owed_execution(&self, id: &ExecutionId) -> Result<Option<Execution>, EngineError> {
        Ok(self.store.execution(id).await?)
    }

    pub async fn callback_owed(&self) {
        self.owed.notified().await;
    }

    /// Removes a callback that was delivered or given up.
    pub async fn callback_done(&self, execution: &ExecutionId) -> Result<(), EngineError> {
        Ok(self.context.commit_one(ExecutionChange::RemoveCallback(execution.clone())).await?)
    }

    /// Schedules the next attempt and returns its time. `attempts` counts those before this failure. After the 12th
    /// attempt the callback is removed; the result is then `None`, as for a deleted execution.
    pub async fn callback_failed(
        &self,
        execution: &ExecutionId,
        attempts: u32,
    ) -> Result<Option<Timestamp>, EngineError> {
        let attempts = attempts + 1;
        if attempts >= MAX_ATTEMPTS {
            self.callback_done(execution).await?;
            return Ok(None);
        }
        let due = self.context.now().after(BACKOFF.after(attempts));
        let later = ExecutionCallback { execution: execution.clone(), due, attempts };
        // The execution may have been deleted meanwhile.
        let made = self.context.commit_one(ExecutionChange::PutCallback(later)).await.made_unless(Conflict::Missing)?;
        Ok(made.then_some(due))
    }
}
