use nuncio_core::ids::SessionId;
use nuncio_core::message::Message;
use nuncio_core::principal::Principal;
use nuncio_core::session::{HistorySummary, PendingCall, Session, SessionSettings};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{Conflict, SessionCursor};
use rusqlite::{Connection, Row, params};

use super::messages;
use super::problem::SqlProblem;
use super::rows::{self, all, execute_or, first, run, to_json, to_limit};

pub(super) fn create(connection: &Connection, session: &Session, messages: &[Message]) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO sessions (id, owner, agent, created_at, pending, settings, summary)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO NOTHING",
        params![
            session.id.as_str(),
            session.owner.to_string(),
            session.agent.as_str(),
            session.created_at.as_millis(),
            to_json(&session.pending)?,
            to_json(&session.settings)?,
            session.summary.as_ref().map(to_json).transpose()?,
        ],
    )?;
    (0..).zip(messages).try_for_each(|(number, message)| messages::append(connection, &session.id, 0, number, message))
}

/// Deletes a session; foreign keys delete its messages, turns and idempotency records.
pub(super) fn delete(connection: &Connection, id: &SessionId) -> Result<(), SqlProblem> {
    execute_or(Conflict::NoSession, connection, "DELETE FROM sessions WHERE id = ?1", [id.as_str()])
}

/// Condition of a session without a turn since a time.
const IDLE: &str = "created_at < ?1 AND NOT EXISTS
    (SELECT 1 FROM turns WHERE session = sessions.id AND (ended_at IS NULL OR ended_at >= ?1))";

pub(super) fn idle(connection: &Connection, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, SqlProblem> {
    let sql = format!("SELECT id FROM sessions WHERE {IDLE} ORDER BY created_at, id LIMIT ?2");
    let read = |row: &Row<'_>| rows::text_form(row, 0);
    all(connection, &sql, params![before.as_millis(), to_limit(limit)], read)
}

/// Deletes the sessions that are still idle.
pub(super) fn prune(connection: &Connection, ids: &[SessionId], before: Timestamp) -> Result<(), SqlProblem> {
    let sql = format!("DELETE FROM sessions WHERE {IDLE} AND id = ?2");
    ids.iter().try_for_each(|id| run(connection, &sql, params![before.as_millis(), id.as_str()]))
}

pub(super) fn set_pending(connection: &Connection, id: &SessionId, pending: &[PendingCall]) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::NoSession,
        connection,
        "UPDATE sessions SET pending = ?2 WHERE id = ?1",
        params![id.as_str(), to_json(pending)?],
    )
}

/// Stores the settings of a session, unless they are unchanged.
pub(super) fn set_settings(
    connection: &Connection,
    id: &SessionId,
    settings: &SessionSettings,
) -> Result<(), SqlProblem> {
    run(
        connection,
        "UPDATE sessions SET settings = ?2 WHERE id = ?1 AND settings <> ?2",
        params![id.as_str(), to_json(settings)?],
    )
}

pub(super) fn set_summary(connection: &Connection, id: &SessionId, summary: &HistorySummary) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::NoSession,
        connection,
        "UPDATE sessions SET summary = ?2 WHERE id = ?1",
        params![id.as_str(), to_json(summary)?],
    )
}

/// `NoSession` if the session is missing, or else the given conflict.
pub(super) fn missing_or(connection: &Connection, id: &SessionId, reason: Conflict) -> Result<SqlProblem, SqlProblem> {
    let there = first(connection, "SELECT 1 FROM sessions WHERE id = ?1", [id.as_str()], |_| Ok(()))?;
    Ok(there.map_or(Conflict::NoSession, |()| reason).into())
}

const SELECT: &str = "SELECT id, owner, agent, turns, running, next_message, created_at, pending, settings, summary
    FROM session_states";

pub(super) fn one(connection: &Connection, id: &SessionId) -> Result<Option<Session>, SqlProblem> {
    first(connection, &format!("{SELECT} WHERE id = ?1"), [id.as_str()], read)
}

pub(super) fn of(
    connection: &Connection,
    owner: &Principal,
    after: Option<&SessionCursor>,
    limit: usize,
) -> Result<Vec<Session>, SqlProblem> {
    let (owner, limit) = (owner.to_string(), to_limit(limit));
    let order = "ORDER BY created_at DESC, id DESC LIMIT ?2";
    match after {
        None => all(connection, &format!("{SELECT} WHERE owner = ?1 {order}"), params![owner, limit], read),
        Some(cursor) => {
            let sql = format!("{SELECT} WHERE owner = ?1 AND (created_at, id) < (?3, ?4) {order}");
            all(connection, &sql, params![owner, limit, cursor.created_at.as_millis(), cursor.id.as_str()], read)
        }
    }
}

fn read(row: &Row<'_>) -> Result<Session, SqlProblem> {
    Ok(Session {
        id: rows::text_form(row, 0)?,
        owner: rows::text_form(row, 1)?,
        agent: rows::text_form(row, 2)?,
        turns: rows::number(row, 3)?,
        running: row.get(4)?,
        next_message: rows::number(row, 5)?,
        created_at: rows::moment(row, 6)?,
        pending: rows::json(row, 7)?,
        settings: rows::json(row, 8)?,
        summary: rows::optional(row, 9, rows::json)?,
    })
}
