//! Requests that carried an idempotency key.

use nuncio_core::ids::SessionId;
use nuncio_core::principal::Principal;
use nuncio_engine::ports::store::{Conflict, Remembered};
use rusqlite::{Connection, Row, params};

use super::problem::Problem;
use super::rows::{self, execute_or, first, to_integer};

pub(super) fn insert(connection: &Connection, remembered: &Remembered) -> Result<(), Problem> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO remembered (owner, request, key, body, session, turn) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (owner, request, key) DO NOTHING",
        params![
            remembered.owner.to_string(),
            remembered.request,
            remembered.key,
            remembered.body.to_string(),
            remembered.session.as_str(),
            remembered.turn.map(to_integer).transpose()?,
        ],
    )
    .map_err(Problem::of_no_session)
}

pub(super) fn one(
    connection: &Connection,
    owner: &Principal,
    request: &str,
    key: &str,
) -> Result<Option<Remembered>, Problem> {
    first(
        connection,
        "SELECT owner, request, key, body, session, turn FROM remembered
         WHERE owner = ?1 AND request = ?2 AND key = ?3",
        params![owner.to_string(), request, key],
        read,
    )
}

fn read(row: &Row<'_>) -> Result<Remembered, Problem> {
    Ok(Remembered {
        owner: rows::parsed(row, 0, Principal::parse)?,
        request: row.get(1)?,
        key: row.get(2)?,
        body: rows::digest(row, 3)?,
        session: rows::parsed(row, 4, |text| SessionId::parse(text).ok())?,
        turn: rows::optional(row, 5, rows::number)?,
    })
}
