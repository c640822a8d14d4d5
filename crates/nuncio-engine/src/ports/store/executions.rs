//! Store of executions and their callbacks.

use async_trait::async_trait;
use nuncio_core::digest::Digest;
use nuncio_core::execution::{CallAuthorization, Execution, ExecutionLease, ExecutionState};
use nuncio_core::ids::{ExecutionId, SkillId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;

use super::StoreError;

#[derive(Debug, Clone, PartialEq)]
pub enum ExecutionChange {
    /// Stores an accepted execution, which may have begun already. `Exists` if the id is taken or the caller used the
    /// idempotency key for the skill before.
    Create {
        execution: Box<Execution>,
        /// Lease of the process that runs the execution.
        lease: ExecutionLease,
        /// Idempotency key and digest of the request body.
        idempotency: Option<(String, Digest)>,
        /// Authorisation of the call that the execution began with, if it has begun.
        call: Option<CallAuthorization>,
    },
    /// Transfers an execution to another process. `LeaseLost` unless it is unfinished, at attempt `attempt` and held
    /// by `from`.
    Claim { id: ExecutionId, attempt: u32, from: String, lease: ExecutionLease },
    /// Begins an attempt. `LeaseLost` unless `owner` holds the execution, unfinished, at the previous attempt.
    Start {
        id: ExecutionId,
        owner: String,
        /// Number of the execution's attempt, counted from one.
        attempt: u32,
        at: Timestamp,
        /// Authorisation of the call, stored so that an interrupted call is found after a crash.
        call: Option<CallAuthorization>,
    },
    /// Marks that the program of an attempt started. Ignored unless `owner` holds the execution at `attempt` with a
    /// running call.
    MarkStarted { id: ExecutionId, owner: String, attempt: u32 },
    /// Ends the call of an attempt but not the execution. `LeaseLost` unless `owner` holds the execution, unfinished,
    /// at `attempt`.
    FinishAttempt {
        id: ExecutionId,
        owner: String,
        attempt: u32,
        /// Whether the program had started; only then the attempt counts towards the limit.
        started: bool,
    },
    /// Ends an execution. `LeaseLost` unless `owner` holds it, unfinished, at `attempt`.
    End { id: ExecutionId, owner: String, attempt: u32, state: ExecutionState, at: Timestamp, kept_until: Timestamp },
    /// Extends the leases of all unfinished executions of `lease.owner` to `lease.until`.
    RenewLeases(ExecutionLease),
    /// Deletes at most `limit` executions whose retention ended at `at` or earlier, with their idempotency keys.
    Forget { at: Timestamp, limit: usize },
    /// Schedules a callback. `Missing` if there is no such execution.
    PutCallback(ExecutionCallback),
    /// Removes a callback; no conflict if there is none.
    RemoveCallback(ExecutionId),
}

/// A pending callback for the end of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionCallback {
    pub execution: ExecutionId,
    pub due: Timestamp,
    /// Number of delivery attempts of the callback so far.
    pub attempts: u32,
}

#[async_trait]
pub trait ExecutionStore: Send + Sync {
    async fn execution(&self, id: &ExecutionId) -> Result<Option<Execution>, StoreError>;
    /// Execution that a caller requested with the idempotency key `key`, and the digest of the request body.
    async fn execution_by_key(
        &self,
        caller: &Principal,
        skill: &SkillId,
        key: &str,
    ) -> Result<Option<(ExecutionId, Digest)>, StoreError>;
    /// Unfinished executions with their leases, oldest first.
    async fn unfinished_executions(&self) -> Result<Vec<(Execution, ExecutionLease)>, StoreError>;
    /// Whether the retention of any execution ended at `at` or earlier.
    async fn is_any_execution_to_forget(&self, at: Timestamp) -> Result<bool, StoreError>;
    /// At most `limit` callbacks due at `until` or earlier, earliest first.
    async fn callbacks(&self, until: Timestamp, limit: usize) -> Result<Vec<ExecutionCallback>, StoreError>;
}
