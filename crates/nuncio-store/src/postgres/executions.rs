//! Executions and their idempotency keys.

use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::digest::Digest;
use nuncio_core::execution::{CallAuthorization, Execution, ExecutionState};
use nuncio_core::ids::{ExecutionId, Incarnation, SkillId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{Conflict, ExecutionChange, ExecutionStore, StoreError};
use tokio_postgres::Row;

use super::PostgresStore;
use super::problem::SqlError;
use super::rows::{self, to_json, to_limit};
use super::writes::{SqlWrite, Translated, Writes, params};

pub(super) fn translate(change: &ExecutionChange, out: &mut Writes) -> Translated {
    out.push(match change {
        ExecutionChange::Create { execution, owner, idempotency, call } => {
            return create(execution, owner, idempotency.as_ref(), call.as_ref(), out);
        }
        ExecutionChange::Claim { id, attempt, from, to } => SqlWrite::one_or(
            Conflict::OwnerChanged,
            "UPDATE executions SET owner = $4 WHERE id = $1 AND attempt = $2 AND owner = $3",
            params![id.as_str(), *attempt, from.as_str(), to.as_str()],
        ),
        ExecutionChange::Start { id, owner, attempt, at, call } => SqlWrite::one_or(
            Conflict::OwnerChanged,
            "UPDATE executions SET state = 'running', attempt = $3::BIGINT, updated_at = GREATEST(updated_at, $4),
                 call = $5
             WHERE id = $1 AND owner = $2 AND attempt = $3::BIGINT - 1",
            params![id.as_str(), owner.as_str(), *attempt, *at, call.as_ref().map(to_json).transpose()?],
        ),
        ExecutionChange::MarkStarted { id, owner, attempt } => SqlWrite::any(
            "UPDATE executions SET call = (call::JSONB || '{\"started\": true}')::TEXT
             WHERE id = $1 AND owner = $2 AND attempt = $3 AND call IS NOT NULL",
            params![id.as_str(), owner.as_str(), *attempt],
        ),
        ExecutionChange::FinishAttempt { id, owner, attempt, started } => SqlWrite::one_or(
            Conflict::OwnerChanged,
            "UPDATE executions SET call = NULL, unstarted = unstarted + $4
             WHERE id = $1 AND owner = $2 AND attempt = $3 AND call IS NOT NULL",
            params![id.as_str(), owner.as_str(), *attempt, !started],
        ),
        ExecutionChange::End { id, owner, attempt, state, at, kept_until } => SqlWrite::one_or(
            Conflict::OwnerChanged,
            "UPDATE executions SET state = $4, outcome = $5, updated_at = GREATEST(updated_at, $6), kept_until = $7,
                 owner = NULL, call = NULL
             WHERE id = $1 AND owner = $2 AND attempt = $3",
            params![id.as_str(), owner.as_str(), *attempt, state.as_str(), to_json(state)?, *at, *kept_until],
        ),
        ExecutionChange::Forget { at, limit } => SqlWrite::any(
            "DELETE FROM executions WHERE id IN (
                 SELECT id FROM executions WHERE kept_until IS NOT NULL AND kept_until <= $1
                 ORDER BY kept_until LIMIT $2)",
            params![*at, to_limit(*limit)],
        ),
    });
    Ok(())
}

fn create(
    execution: &Execution,
    owner: &Incarnation,
    idempotency: Option<&(String, Digest)>,
    call: Option<&CallAuthorization>,
    out: &mut Writes,
) -> Translated {
    let (id, caller) = (execution.id.as_str(), execution.order.caller.principal.to_string());
    out.push(SqlWrite::one_or(
        Conflict::Exists,
        "INSERT INTO executions (id, state, attempt, updated_at, owner, content, call, caller)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING",
        params![
            id,
            execution.state.as_str(),
            execution.attempt,
            execution.updated_at,
            owner.as_str(),
            to_json(&*execution.order)?,
            call.map(to_json).transpose()?,
            &caller,
        ],
    ));
    let Some((key, body)) = idempotency else { return Ok(()) };
    let sql = "INSERT INTO execution_keys (caller, skill, key, body, execution) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (caller, skill, key) DO NOTHING";
    let params = params![caller, execution.order.skill.as_str(), key, body.to_string(), id];
    out.push(SqlWrite::one_or(Conflict::Exists, sql, params));
    Ok(())
}

#[async_trait]
impl ExecutionStore for PostgresStore {
    async fn execution(&self, id: &ExecutionId) -> Result<Option<Execution>, StoreError> {
        let sql = "SELECT id, state, attempt, unstarted, updated_at, outcome, content FROM executions WHERE id = $1";
        self.readers.first(sql, params![id.as_str()], read).await
    }

    async fn execution_by_key(
        &self,
        caller: &Principal,
        skill: &SkillId,
        key: &str,
    ) -> Result<Option<(ExecutionId, Digest)>, StoreError> {
        let sql = "SELECT execution, body FROM execution_keys WHERE caller = $1 AND skill = $2 AND key = $3";
        let read = |row: &Row| Ok((rows::text_form(row, 0)?, rows::digest(row, 1)?));
        self.readers.first(sql, params![caller.to_string(), skill.as_str(), key], read).await
    }

    async fn unfinished_executions(&self, owner: &Incarnation) -> Result<Vec<Execution>, StoreError> {
        let sql = "SELECT id, state, attempt, unstarted, updated_at, outcome, content FROM executions
             WHERE owner = $1 ORDER BY id";
        self.readers.all(sql, params![owner.as_str()], read).await
    }

    async fn is_any_execution_to_forget(&self, at: Timestamp) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM executions WHERE kept_until IS NOT NULL AND kept_until <= $1 LIMIT 1";
        self.readers.exists(sql, params![at]).await
    }
}

/// SQL that selects the executions of an incarnation whose attempt has begun a call.
pub(super) const BEGUN: &str = "SELECT id, state, attempt, unstarted, updated_at, outcome, content, call
    FROM executions WHERE owner = $1 AND call IS NOT NULL ORDER BY id";

pub(super) fn read_begun(row: &Row) -> Result<(Execution, CallAuthorization), SqlError> {
    Ok((read(row)?, rows::json(row, 7)?))
}

fn read(row: &Row) -> Result<Execution, SqlError> {
    let state = match rows::optional(row, 5, rows::json)? {
        Some(over) => over,
        None => rows::parsed(row, 1, |word| match word {
            "accepted" => Some(ExecutionState::Accepted),
            "running" => Some(ExecutionState::Running),
            _ => None,
        })?,
    };
    Ok(Execution {
        id: rows::text_form(row, 0)?,
        attempt: rows::small(row, 2)?,
        unstarted: rows::small(row, 3)?,
        updated_at: rows::moment(row, 4)?,
        order: Arc::new(rows::json(row, 6)?),
        state,
    })
}
