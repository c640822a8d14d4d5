//! Store of executions.

use async_trait::async_trait;
use nuncio_core::digest::Digest;
use nuncio_core::execution::{CallAuthorization, Execution, ExecutionState};
use nuncio_core::ids::{ExecutionId, Incarnation, SkillId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;

use super::StoreError;

#[derive(Debug, Clone, PartialEq)]
pub enum ExecutionChange {
    /// Stores an accepted execution, which may have begun already. `Exists` if the id is taken or the caller used the
    /// idempotency key for the skill before.
    Create {
        execution: Box<Execution>,
        /// Incarnation that runs the execution.
        owner: Incarnation,
        /// Idempotency key and digest of the request body.
        idempotency: Option<(String, Digest)>,
        /// Authorisation of the call that the execution began with, if it has begun.
        call: Option<CallAuthorization>,
    },
    /// Transfers an execution to another incarnation. `OwnerChanged` unless it is unfinished, at attempt `attempt` and
    /// owned by `from`.
    Claim { id: ExecutionId, attempt: u32, from: Incarnation, to: Incarnation },
    /// Begins an attempt. `OwnerChanged` unless `owner` has the execution, unfinished, at the previous attempt.
    Start {
        id: ExecutionId,
        owner: Incarnation,
        /// Number of the execution's attempt, counted from one.
        attempt: u32,
        at: Timestamp,
        /// Authorisation of the call, stored so that an interrupted call is found after a crash.
        call: Option<CallAuthorization>,
    },
    /// Marks that the program of an attempt started. Ignored unless `owner` has the execution at `attempt` with a
    /// running call.
    MarkStarted { id: ExecutionId, owner: Incarnation, attempt: u32 },
    /// Ends the call of an attempt but not the execution. `OwnerChanged` unless `owner` has the execution, unfinished,
    /// at `attempt` with a running call, so that of two nodes that close a dead node's call only one records its end.
    FinishAttempt {
        id: ExecutionId,
        owner: Incarnation,
        attempt: u32,
        /// Whether the program had started; only then the attempt counts towards the limit.
        started: bool,
    },
    /// Ends an execution. `OwnerChanged` unless `owner` has it, unfinished, at `attempt`.
    End {
        id: ExecutionId,
        owner: Incarnation,
        attempt: u32,
        state: ExecutionState,
        at: Timestamp,
        kept_until: Timestamp,
    },
    /// Deletes at most `limit` executions whose retention ended at `at` or earlier, with their idempotency keys.
    Forget { at: Timestamp, limit: usize },
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
    /// Unfinished executions of an incarnation, oldest first.
    async fn unfinished_executions(&self, owner: &Incarnation) -> Result<Vec<Execution>, StoreError>;
    /// Whether the retention of any execution ended at `at` or earlier.
    async fn is_any_execution_to_forget(&self, at: Timestamp) -> Result<bool, StoreError>;
}
