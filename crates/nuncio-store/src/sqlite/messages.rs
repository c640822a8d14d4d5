use nuncio_core::ids::SessionId;
use nuncio_core::message::Message;
use nuncio_engine::ports::store::{Conflict, StoredMessage};
use rusqlite::{Connection, Row, params};

use super::problem::SqlProblem;
use super::rows::{self, all, execute_or, to_integer, to_json, to_limit};

pub(super) fn append(
    connection: &Connection,
    session: &SessionId,
    turn: u64,
    number: u64,
    message: &Message,
) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO messages (session, number, turn, message) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (session, number) DO NOTHING",
        params![session.as_str(), to_integer(number)?, to_integer(turn)?, to_json(message)?],
    )
    .map_err(SqlProblem::of_no_session)
}

pub(super) fn of(connection: &Connection, session: &SessionId, from: u64) -> Result<Vec<StoredMessage>, SqlProblem> {
    let sql = "SELECT number, turn, message FROM messages WHERE session = ?1 AND number >= ?2 ORDER BY number";
    all(connection, sql, params![session.as_str(), to_integer(from)?], read)
}

/// Like [`of`]; `None` if there are more than `most`.
pub(super) fn of_short(
    connection: &Connection,
    session: &SessionId,
    from: u64,
    most: usize,
) -> Result<Option<Vec<StoredMessage>>, SqlProblem> {
    let sql = "SELECT number, turn, message FROM messages WHERE session = ?1 AND number >= ?2 ORDER BY number LIMIT ?3";
    let found = all(connection, sql, params![session.as_str(), to_integer(from)?, to_limit(most + 1)], read)?;
    Ok((found.len() <= most).then_some(found))
}

fn read(row: &Row<'_>) -> Result<StoredMessage, SqlProblem> {
    Ok(StoredMessage { number: rows::number(row, 0)?, turn: rows::number(row, 1)?, message: rows::json(row, 2)? })
}
