//! Executions, their leases and their idempotency keys.

use std::sync::Arc;

use nuncio_core::digest::Digest;
use nuncio_core::execution::{CallAuthorization, Execution, ExecutionLease, ExecutionState};
use nuncio_core::ids::{ExecutionId, SkillId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::Conflict;
use rusqlite::{Connection, Row, params};

use super::problem::SqlProblem;
use super::rows::{self, all, execute_or, first, run, to_json, to_limit};

pub(super) fn create(
    connection: &Connection,
    execution: &Execution,
    lease: &ExecutionLease,
    idempotency: Option<&(String, Digest)>,
    call: Option<&CallAuthorization>,
) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO executions (id, state, attempt, updated_at, owner, lease_until, content, call, caller)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO NOTHING",
        params![
            execution.id.as_str(),
            execution.state.as_str(),
            execution.attempt,
            execution.updated_at.as_millis(),
            lease.owner,
            lease.until.as_millis(),
            to_json(&*execution.order)?,
            call.map(to_json).transpose()?,
            execution.order.caller.principal.to_string(),
        ],
    )?;
    let Some((key, body)) = idempotency else { return Ok(()) };
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO execution_keys (caller, skill, key, body, execution) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (caller, skill, key) DO NOTHING",
        params![
            execution.order.caller.principal.to_string(),
            execution.order.skill.as_str(),
            key,
            body.to_string(),
            execution.id.as_str()
        ],
    )
}

pub(super) fn claim(
    connection: &Connection,
    id: &ExecutionId,
    attempt: u32,
    from: &str,
    lease: &ExecutionLease,
) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::LeaseLost,
        connection,
        "UPDATE executions SET owner = ?4, lease_until = ?5 WHERE id = ?1 AND attempt = ?2 AND owner = ?3",
        params![id.as_str(), attempt, from, lease.owner, lease.until.as_millis()],
    )
}

pub(super) fn start(
    connection: &Connection,
    id: &ExecutionId,
    (owner, attempt): (&str, u32),
    at: Timestamp,
    call: Option<&CallAuthorization>,
) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::LeaseLost,
        connection,
        "UPDATE executions SET state = 'running', attempt = ?3, updated_at = max(updated_at, ?4), call = ?5
         WHERE id = ?1 AND owner = ?2 AND attempt = ?3 - 1",
        params![id.as_str(), owner, attempt, at.as_millis(), call.map(to_json).transpose()?],
    )
}

pub(super) fn end(
    connection: &Connection,
    id: &ExecutionId,
    (owner, attempt): (&str, u32),
    state: &ExecutionState,
    at: Timestamp,
    kept_until: Timestamp,
) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::LeaseLost,
        connection,
        "UPDATE executions SET state = ?4, outcome = ?5, updated_at = max(updated_at, ?6), kept_until = ?7,
             owner = NULL, lease_until = NULL, call = NULL
         WHERE id = ?1 AND owner = ?2 AND attempt = ?3",
        params![id.as_str(), owner, attempt, state.as_str(), to_json(state)?, at.as_millis(), kept_until.as_millis()],
    )
}

pub(super) fn mark_started(
    connection: &Connection,
    id: &ExecutionId,
    owner: &str,
    attempt: u32,
) -> Result<(), SqlProblem> {
    run(
        connection,
        "UPDATE executions SET call = json_set(call, '$.started', json('true'))
         WHERE id = ?1 AND owner = ?2 AND attempt = ?3 AND call IS NOT NULL",
        params![id.as_str(), owner, attempt],
    )
}

pub(super) fn finish_attempt(
    connection: &Connection,
    id: &ExecutionId,
    (owner, attempt): (&str, u32),
    started: bool,
) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::LeaseLost,
        connection,
        "UPDATE executions SET call = NULL, unstarted = unstarted + ?4 WHERE id = ?1 AND owner = ?2 AND attempt = ?3",
        params![id.as_str(), owner, attempt, i64::from(!started)],
    )
}

pub(super) fn begun(
    connection: &Connection,
) -> Result<Vec<(Execution, ExecutionLease, CallAuthorization)>, SqlProblem> {
    let sql =
        "SELECT id, state, attempt, unstarted, updated_at, outcome, content, owner, lease_until, call FROM executions
               WHERE owner IS NOT NULL AND call IS NOT NULL ORDER BY id";
    all(connection, sql, [], |row| Ok((read(row)?, lease(row)?, rows::json(row, 9)?)))
}

pub(super) fn renew(connection: &Connection, lease: &ExecutionLease) -> Result<(), SqlProblem> {
    run(
        connection,
        "UPDATE executions SET lease_until = ?2 WHERE owner IS NOT NULL AND owner = ?1",
        params![lease.owner, lease.until.as_millis()],
    )
}

pub(super) fn forget(connection: &Connection, at: Timestamp, limit: usize) -> Result<(), SqlProblem> {
    run(
        connection,
        "DELETE FROM executions WHERE rowid IN (
             SELECT rowid FROM executions WHERE kept_until IS NOT NULL AND kept_until <= ?1
             ORDER BY kept_until LIMIT ?2)",
        params![at.as_millis(), to_limit(limit)],
    )
}

pub(super) fn is_any_to_forget(connection: &Connection, at: Timestamp) -> Result<bool, SqlProblem> {
    let sql = "SELECT 1 FROM executions WHERE kept_until IS NOT NULL AND kept_until <= ?1 LIMIT 1";
    Ok(first(connection, sql, [at.as_millis()], |_| Ok(()))?.is_some())
}

pub(super) fn one(connection: &Connection, id: &ExecutionId) -> Result<Option<Execution>, SqlProblem> {
    let sql = "SELECT id, state, attempt, unstarted, updated_at, outcome, content FROM executions WHERE id = ?1";
    first(connection, sql, [id.as_str()], read)
}

pub(super) fn bytes_stored(connection: &Connection, owner: &Principal) -> Result<u64, SqlProblem> {
    let sql = "SELECT bytes FROM stored_bytes WHERE owner = ?1";
    Ok(first(connection, sql, [owner.to_string()], |row| rows::number(row, 0))?.unwrap_or_default())
}

pub(super) fn by_key(
    connection: &Connection,
    caller: &Principal,
    skill: &SkillId,
    key: &str,
) -> Result<Option<(ExecutionId, Digest)>, SqlProblem> {
    first(
        connection,
        "SELECT execution, body FROM execution_keys WHERE caller = ?1 AND skill = ?2 AND key = ?3",
        params![caller.to_string(), skill.as_str(), key],
        |row| Ok((rows::text_form(row, 0)?, rows::digest(row, 1)?)),
    )
}

pub(super) fn unfinished(connection: &Connection) -> Result<Vec<(Execution, ExecutionLease)>, SqlProblem> {
    let sql = "SELECT id, state, attempt, unstarted, updated_at, outcome, content, owner, lease_until FROM executions
               WHERE owner IS NOT NULL ORDER BY id";
    all(connection, sql, [], |row| Ok((read(row)?, lease(row)?)))
}

fn lease(row: &Row<'_>) -> Result<ExecutionLease, SqlProblem> {
    Ok(ExecutionLease { owner: row.get(7)?, until: rows::moment(row, 8)? })
}

fn read(row: &Row<'_>) -> Result<Execution, SqlProblem> {
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
