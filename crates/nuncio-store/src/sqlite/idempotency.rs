//! Idempotency records.

use nuncio_core::principal::Principal;
use nuncio_engine::ports::store::{Conflict, IdempotencyRecord};
use rusqlite::{Connection, Row, params};

use super::problem::SqlProblem;
use super::rows::{self, execute_or, first, to_integer};

pub(super) fn insert(connection: &Connection, record: &IdempotencyRecord) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO remembered (owner, request, key, body, session, turn) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (owner, request, key) DO NOTHING",
        params![
            record.owner.to_string(),
            record.request,
            record.key,
            record.body.to_string(),
            record.session.as_str(),
            record.turn.map(to_integer).transpose()?,
        ],
    )
    .map_err(SqlProblem::of_no_session)
}

pub(super) fn one(
    connection: &Connection,
    owner: &Principal,
    request: &str,
    key: &str,
) -> Result<Option<IdempotencyRecord>, SqlProblem> {
    first(
        connection,
        "SELECT owner, request, key, body, session, turn FROM remembered
         WHERE owner = ?1 AND request = ?2 AND key = ?3",
        params![owner.to_string(), request, key],
        read,
    )
}

fn read(row: &Row<'_>) -> Result<IdempotencyRecord, SqlProblem> {
    Ok(IdempotencyRecord {
        owner: rows::text_form(row, 0)?,
        request: row.get(1)?,
        key: row.get(2)?,
        body: rows::digest(row, 3)?,
        session: rows::text_form(row, 4)?,
        turn: rows::optional(row, 5, rows::number)?,
    })
}
