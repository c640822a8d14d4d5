//! Turns and their event logs.

use nuncio_core::ids::SessionId;
use nuncio_core::policy::Protocol;
use nuncio_core::session::SessionSettings;
use nuncio_core::time::Timestamp;
use nuncio_core::turn::{StreamMode, Turn, TurnOutcome, TurnState};
use nuncio_engine::ports::store::Conflict;
use rusqlite::{Connection, Row, params};

use super::problem::SqlProblem;
use super::rows::{self, all, execute, first, to_integer, to_json};
use super::sessions;

pub(super) fn begin(
    connection: &Connection,
    session: &SessionId,
    number: u64,
    (mode, protocol): (StreamMode, Protocol),
    at: Timestamp,
    settings: Option<&SessionSettings>,
) -> Result<(), SqlProblem> {
    let last = first(
        connection,
        "SELECT number, ended_at IS NOT NULL FROM turns WHERE session = ?1 ORDER BY number DESC LIMIT 1",
        [session.as_str()],
        |row| Ok((rows::number(row, 0)?, row.get(1)?)),
    )?;
    let (before, idle) = last.unwrap_or((0, true));
    if !idle || number != before + 1 {
        return Err(sessions::missing_or(connection, session, Conflict::TurnRunning)?);
    }
    execute(
        connection,
        "INSERT INTO turns (session, number, mode, protocol, started_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![session.as_str(), to_integer(number)?, mode.as_str(), protocol.as_str(), at.as_millis()],
    )
    .map_err(SqlProblem::of_no_session)?;
    settings.map_or(Ok(()), |settings| sessions::set_settings(connection, session, settings))
}

pub(super) fn end(
    connection: &Connection,
    session: &SessionId,
    number: u64,
    at: Timestamp,
    stop: &TurnOutcome,
    events: &[u8],
) -> Result<(), SqlProblem> {
    let ended = execute(
        connection,
        "UPDATE turns SET ended_at = ?3, stop = ?4, events = ?5
         WHERE session = ?1 AND number = ?2 AND ended_at IS NULL",
        params![session.as_str(), to_integer(number)?, at.as_millis(), to_json(stop)?, events],
    )?;
    if ended == 0 {
        return Err(sessions::missing_or(connection, session, Conflict::TurnOver)?);
    }
    Ok(())
}

pub(super) fn one(connection: &Connection, session: &SessionId, number: u64) -> Result<Option<Turn>, SqlProblem> {
    // A client may ask for any number; one too large to be kept is not there.
    let Ok(number) = i64::try_from(number) else { return Ok(None) };
    first(
        connection,
        "SELECT session, number, mode, protocol, started_at, ended_at, stop FROM turns WHERE session = ?1 AND number = ?2",
        params![session.as_str(), number],
        read,
    )
}

pub(super) fn events(connection: &Connection, session: &SessionId, number: u64) -> Result<Option<Vec<u8>>, SqlProblem> {
    let Ok(number) = i64::try_from(number) else { return Ok(None) };
    let events = first(
        connection,
        "SELECT events FROM turns WHERE session = ?1 AND number = ?2",
        params![session.as_str(), number],
        |row| Ok(row.get(0)?),
    )?;
    Ok(events.flatten())
}

pub(super) fn running(connection: &Connection) -> Result<Vec<Turn>, SqlProblem> {
    all(
        connection,
        "SELECT session, number, mode, protocol, started_at, ended_at, stop FROM turns WHERE ended_at IS NULL
         ORDER BY session, number",
        [],
        read,
    )
}

fn read(row: &Row<'_>) -> Result<Turn, SqlProblem> {
    Ok(Turn {
        session: rows::text_form(row, 0)?,
        number: rows::number(row, 1)?,
        mode: rows::text_form(row, 2)?,
        protocol: rows::text_form(row, 3)?,
        started_at: rows::moment(row, 4)?,
        state: match rows::optional(row, 5, rows::moment)? {
            None => TurnState::Running,
            Some(at) => TurnState::Stopped { at, stop: rows::json(row, 6)? },
        },
    })
}
