//! Telling callers that their executions are over. What is owed is on disk with the end of the
//! execution itself; how it is said and sent is for the protocol and the server to know.

use std::collections::HashSet;
use std::time::Duration;

use nuncio_core::execution::Execution;
use nuncio_core::ids::ExecutionId;
use nuncio_core::time::Timestamp;

use crate::Engine;
use crate::error::EngineError;
use crate::ports::store::{Callback, Change, Conflict, StoreError};

/// How often a caller is told at most.
const ATTEMPTS: u32 = 12;

/// How long to wait after the first failure; doubled each time.
const PAUSE: Duration = Duration::from_secs(10);

/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(3 * 3600);

impl Engine {
    /// The executions whose callers are to be told now, without the known ones, at most `limit`; with
    /// how often that was tried.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn callbacks_due(
        &self,
        known: &HashSet<ExecutionId>,
        limit: usize,
    ) -> Result<Vec<(Execution, u32)>, EngineError> {
        let all = self.store().callbacks(self.now(), known.len().saturating_add(limit)).await?;
        let mut due = Vec::new();
        for callback in all.into_iter().filter(|callback| !known.contains(&callback.execution)).take(limit) {
            match self.store().execution(&callback.execution).await? {
                Some(execution) => due.push((execution, callback.attempts)),
                None => self.callback_done(&callback.execution).await?,
            }
        }
        Ok(due)
    }

    /// When the next one is due that is not known; none if nobody else is owed anything.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn next_callback(&self, known: &HashSet<ExecutionId>) -> Result<Option<Timestamp>, EngineError> {
        let all = self.store().callbacks(Timestamp::LAST, known.len().saturating_add(1)).await?;
        Ok(all.into_iter().find(|callback| !known.contains(&callback.execution)).map(|callback| callback.due))
    }

    /// An execution whose caller is to be told; none once it is forgotten.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn owed_execution(&self, id: &ExecutionId) -> Result<Option<Execution>, EngineError> {
        Ok(self.store().execution(id).await?)
    }

    /// Waits until an execution with a callback ends.
    pub async fn callback_owed(&self) {
        self.owed().notified().await;
    }

    /// The caller knows, or will never.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn callback_done(&self, execution: &ExecutionId) -> Result<(), EngineError> {
        Ok(self.store().commit(vec![Change::RemoveCallback(execution.clone())]).await?)
    }

    /// The caller could not be told: later again, or given up. Says when.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn callback_failed(
        &self,
        execution: &ExecutionId,
        attempts: u32,
    ) -> Result<Option<Timestamp>, EngineError> {
        let attempts = attempts + 1;
        if attempts >= ATTEMPTS {
            self.callback_done(execution).await?;
            return Ok(None);
        }
        let pause = PAUSE.saturating_mul(2_u32.saturating_pow(attempts - 1)).min(MAX_PAUSE);
        let due = self.now().after(pause);
        let later = Callback { execution: execution.clone(), due, attempts };
        match self.store().commit(vec![Change::PutCallback(later)]).await {
            // Forgotten meanwhile.
            Err(StoreError::Conflict(Conflict::Missing)) => Ok(None),
            other => {
                other?;
                Ok(Some(due))
            }
        }
    }
}
