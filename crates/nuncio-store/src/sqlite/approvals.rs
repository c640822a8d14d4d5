use nuncio_core::approval::Approval;
use nuncio_core::ids::ApprovalId;
use nuncio_engine::ports::store::Conflict;
use rusqlite::{Connection, params};

use super::problem::SqlProblem;
use super::rows::{self, all, changed_or, execute, execute_or, first, to_json};

pub(super) fn create(connection: &Connection, approval: &Approval) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO approvals (id, state, asked_at, content) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO NOTHING",
        params![approval.id.as_str(), approval.state.as_str(), approval.asked_at.as_millis(), to_json(approval)?],
    )
}

pub(super) fn move_on(connection: &Connection, approval: &Approval, from: &str) -> Result<(), SqlProblem> {
    let moved = execute(
        connection,
        "UPDATE approvals SET state = ?3, asked_at = ?4, content = ?5 WHERE id = ?1 AND state = ?2",
        params![approval.id.as_str(), from, approval.state.as_str(), approval.asked_at.as_millis(), to_json(approval)?],
    )?;
    changed_or(Conflict::ApprovalMoved, connection, moved, "approvals", approval.id.as_str())
}

pub(super) fn one(connection: &Connection, id: &ApprovalId) -> Result<Option<Approval>, SqlProblem> {
    first(connection, "SELECT content FROM approvals WHERE id = ?1", [id.as_str()], |row| rows::json(row, 0))
}

pub(super) fn pending(connection: &Connection) -> Result<Vec<Approval>, SqlProblem> {
    let sql = "SELECT content FROM approvals WHERE state = 'pending' ORDER BY asked_at, id";
    all(connection, sql, [], |row| rows::json(row, 0))
}
