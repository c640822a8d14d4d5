//! Executions and their idempotency keys.

use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::digest::Digest;
use nuncio_core::execution::{CallAuthorization, Execution, ExecutionState};
use nuncio_core::ids::{ExecutionId, Incarnation, SkillId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{Conflict, ExecutionChange, ExecutionStore, StoreError};
use rusqlite::{Connection, Row, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{self, execute_or, run, to_json, to_limit};

pub(super) fn apply(connection: &Connection, change: &ExecutionChange) -> Result<(), SqlError> {
    match change {
        ExecutionChange::Create { execution, owner, idempotency, call } => {
            create(connection, execution, owner, idempotency.as_ref(), call.as_ref())
        }
        ExecutionChange::Claim { id, attempt, from, to } => execute_or(
            Conflict::OwnerChanged,
            connection,
            "UPDATE executions SET owner = ?4 WHERE id = ?1 AND attempt = ?2 AND owner = ?3",
            params![id.as_str(), attempt, from.as_str(), to.as_str()],
        ),
        ExecutionChange::Start { id, owner, attempt, at, call } => execute_or(
            Conflict::OwnerChanged,
            connection,
            "UPDATE executions SET state = 'running', attempt = ?3, updated_at = max(updated_at, ?4), call = ?5
             WHERE id = ?1 AND owner = ?2 AND attempt = ?3 - 1",
            params![id.as_str(), owner.as_str(), attempt, at.as_millis(), call.as_ref().map(to_json).transpose()?],
        ),
        ExecutionChange::MarkStarted { id, owner, attempt } => run(
            connection,
            "UPDATE executions SET call = json_set(call, '$.started', json('true'))
             WHERE id = ?1 AND owner = ?2 AND attempt = ?3 AND call IS NOT NULL",
            params![id.as_str(), owner.as_str(), attempt],
        ),
        ExecutionChange::FinishAttempt { id, owner, attempt, started } => execute_or(
            Conflict::OwnerChanged,
            connection,
            "UPDATE executions SET call = NULL, unstarted = unstarted + ?4
             WHERE id = ?1 AND owner = ?2 AND attempt = ?3 AND call IS NOT NULL",
            params![id.as_str(), owner.as_str(), attempt, i64::from(!started)],
        ),
        ExecutionChange::End { id, owner, attempt, state, at, kept_until } => {
            let sql =
                "UPDATE executions SET state = ?4, outcome = ?5, updated_at = max(updated_at, ?6), kept_until = ?7,
                     owner = NULL, call = NULL
                 WHERE id = ?1 AND owner = ?2 AND attempt = ?3";
            let (at, kept_until) = (at.as_millis(), kept_until.as_millis());
            let params = params![id.as_str(), owner.as_str(), attempt, state.as_str(), to_json(state)?, at, kept_until];
            execute_or(Conflict::OwnerChanged, connection, sql, params)
        }
        ExecutionChange::Forget { at, limit } => run(
            connection,
            "DELETE FROM executions WHERE rowid IN (
                 SELECT rowid FROM executions WHERE kept_until IS NOT NULL AND kept_until <= ?1
                 ORDER BY kept_until LIMIT ?2)",
            params![at.as_millis(), to_limit(*limit)],
        ),
    }
}

fn create(
    connection: &Connection,
    execution: &Execution,
    owner: &Incarnation,
    idempotency: Option<&(String, Digest)>,
    call: Option<&CallAuthorization>,
) -> Result<(), SqlError> {
    let (id, caller) = (execution.id.as_str(), execution.order.caller.principal.to_string());
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO executions (id, state, attempt, updated_at, owner, content, call, caller)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO NOTHING",
        params![
            id,
            execution.state.as_str(),
            execution.attempt,
            execution.updated_at.as_millis(),
            owner.as_str(),
            to_json(&*execution.order)?,
            call.map(to_json).transpose()?,
            caller,
        ],
    )?;
    let Some((key, body)) = idempotency else { return Ok(()) };
    let sql = "INSERT INTO execution_keys (caller, skill, key, body, execution) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (caller, skill, key) DO NOTHING";
    let params = params![caller, execution.order.skill.as_str(), key, body.to_string(), id];
    execute_or(Conflict::Exists, connection, sql, params)
}

#[async_trait]
impl ExecutionStore for SqliteStore {
    async fn execution(&self, id: &ExecutionId) -> Result<Option<Execution>, StoreError> {
        let sql = "SELECT id, state, attempt, unstarted, updated_at, outcome, content FROM executions WHERE id = ?1";
        self.readers.first(sql, [id.as_str()], read)
    }

    async fn execution_by_key(
        &self,
        caller: &Principal,
        skill: &SkillId,
        key: &str,
    ) -> Result<Option<(ExecutionId, Digest)>, StoreError> {
        let sql = "SELECT execution, body FROM execution_keys WHERE caller = ?1 AND skill = ?2 AND key = ?3";
        self.readers.first(sql, params![caller.to_string(), skill.as_str(), key], |row| {
            Ok((rows::text_form(row, 0)?, rows::digest(row, 1)?))
        })
    }

    async fn unfinished_executions(&self, owner: &Incarnation) -> Result<Vec<Execution>, StoreError> {
        let sql = "SELECT id, state, attempt, unstarted, updated_at, outcome, content FROM executions
             WHERE owner = ?1 ORDER BY id";
        self.readers.all(sql, [owner.to_string()], read).await
    }

    async fn is_any_execution_to_forget(&self, at: Timestamp) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM executions WHERE kept_until IS NOT NULL AND kept_until <= ?1 LIMIT 1";
        self.readers.exists(sql, [at.as_millis()])
    }
}

/// SQL that selects the executions of an incarnation whose attempt has begun a call.
pub(super) const BEGUN: &str = "SELECT id, state, attempt, unstarted, updated_at, outcome, content, call
    FROM executions WHERE owner = ?1 AND call IS NOT NULL ORDER BY id";

pub(super) fn read_begun(row: &Row<'_>) -> Result<(Execution, CallAuthorization), SqlError> {
    Ok((read(row)?, rows::json(row, 7)?))
}

fn read(row: &Row<'_>) -> Result<Execution, SqlError> {
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
        attempt: row.get(2)?,
        unstarted: row.get(3)?,
        updated_at: rows::moment(row, 4)?,
        order: Arc::new(rows::json(row, 6)?),
        state,
    })
}
