use nuncio_core::grant::Grant;
use nuncio_core::ids::GrantId;
use nuncio_engine::ports::store::Conflict;
use rusqlite::{Connection, params};

use super::problem::SqlProblem;
use super::relations;
use super::rows::{self, execute_or, to_json};

pub(super) fn create(connection: &Connection, grant: &Grant) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO grants (id, given_at, content) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING",
        params![grant.id.as_str(), grant.given_at.as_millis(), to_json(grant)?],
    )
}

pub(super) fn revoke(connection: &Connection, id: &GrantId) -> Result<(), SqlProblem> {
    remove_or(Conflict::Missing, connection, id)
}

pub(super) fn use_up(connection: &Connection, id: &GrantId) -> Result<(), SqlProblem> {
    match remove_or(Conflict::GrantUsed, connection, id) {
        // A person may have given it as well as an operator.
        Err(SqlProblem::Conflict(Conflict::GrantUsed)) => relations::use_once(connection, id),
        other => other,
    }
}

fn remove_or(conflict: Conflict, connection: &Connection, id: &GrantId) -> Result<(), SqlProblem> {
    execute_or(conflict, connection, "DELETE FROM grants WHERE id = ?1", [id.as_str()])
}

pub(super) fn all(connection: &Connection) -> Result<Vec<Grant>, SqlProblem> {
    rows::all(connection, "SELECT content FROM grants ORDER BY given_at, id", [], |row| rows::json(row, 0))
}
