//! Sessions, their messages and turns, and idempotency records of their requests.

use async_trait::async_trait;
use nuncio_core::ids::{Incarnation, SessionId};
use nuncio_core::message::Message;
use nuncio_core::principal::Principal;
use nuncio_core::session::Session;
use nuncio_core::time::Timestamp;
use nuncio_core::turn::{Turn, TurnState};
use nuncio_engine::ports::store::{
    Conflict, EncodedMessage, IdempotencyRecord, MessageStore, SessionChange, SessionCursor, SessionStore, StoreError,
};
use rusqlite::{Connection, Row, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{self, all, execute, execute_or, exists, first, run, to_integer, to_json, to_limit};

#[cfg(test)]
mod tests;

/// Number of messages up to which a history is read on the calling thread.
const SHORT_HISTORY: usize = 32;

/// SQL condition for sessions without a turn since the time `?1`.
const IDLE: &str = "created_at < ?1 AND NOT EXISTS
    (SELECT 1 FROM turns WHERE session = sessions.id AND (ended_at IS NULL OR ended_at >= ?1))";

pub(super) fn apply(connection: &Connection, change: &SessionChange) -> Result<(), SqlError> {
    match change {
        SessionChange::Create { session, messages } => create(connection, session, messages),
        // Foreign keys delete the session's messages, turns and idempotency records.
        SessionChange::Delete(id) => {
            execute_or(Conflict::NoSession, connection, "DELETE FROM sessions WHERE id = ?1", [id.as_str()])
        }
        SessionChange::BeginTurn { session, number, node, mode, protocol, at, settings } => {
            check_next_turn(connection, session, *number)?;
            execute(
                connection,
                "INSERT INTO turns (session, number, mode, protocol, started_at, node) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![
                    session.as_str(),
                    to_integer(*number)?,
                    mode.as_str(),
                    protocol.as_str(),
                    at.as_millis(),
                    node.as_str()
                ],
            )
            .map_err(SqlError::of_no_session)?;
            let Some(settings) = settings else { return Ok(()) };
            let sql = "UPDATE sessions SET settings = ?2 WHERE id = ?1 AND settings <> ?2";
            run(connection, sql, params![session.as_str(), to_json(settings)?])
        }
        SessionChange::AppendMessage { session, turn, number, message } => {
            append_message(connection, session, *turn, *number, message)
        }
        SessionChange::SetPending { session, pending } => {
            let sql = "UPDATE sessions SET pending = ?2 WHERE id = ?1";
            execute_or(Conflict::NoSession, connection, sql, params![session.as_str(), to_json(pending)?])
        }
        SessionChange::SetSummary { session, summary } => {
            let sql = "UPDATE sessions SET summary = ?2 WHERE id = ?1";
            execute_or(Conflict::NoSession, connection, sql, params![session.as_str(), to_json(summary)?])
        }
        SessionChange::EndTurn { session, number, at, stop, events } => {
            let sql = "UPDATE turns SET ended_at = ?3, stop = ?4, events = ?5
                 WHERE session = ?1 AND number = ?2 AND ended_at IS NULL";
            let params = params![session.as_str(), to_integer(*number)?, at.as_millis(), to_json(stop)?, events];
            match execute(connection, sql, params)? {
                0 => Err(missing_or(connection, session, Conflict::TurnOver)?),
                _ => Ok(()),
            }
        }
        SessionChange::Remember(record) => execute_or(
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
        .map_err(SqlError::of_no_session),
        // Deletes the sessions that are still idle.
        SessionChange::Prune { ids, before } => {
            let sql = format!("DELETE FROM sessions WHERE {IDLE} AND id = ?2");
            ids.iter().try_for_each(|id| run(connection, &sql, params![before.as_millis(), id.as_str()]))
        }
    }
}

fn create(connection: &Connection, session: &Session, messages: &[Message]) -> Result<(), SqlError> {
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
    (0..).zip(messages).try_for_each(|(number, message)| append_message(connection, &session.id, 0, number, message))
}

fn append_message(
    connection: &Connection,
    session: &SessionId,
    turn: u64,
    number: u64,
    message: &Message,
) -> Result<(), SqlError> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO messages (session, number, turn, message) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (session, number) DO NOTHING",
        params![session.as_str(), to_integer(number)?, to_integer(turn)?, to_json(message)?],
    )
    .map_err(SqlError::of_no_session)
}

/// Checks that no turn runs and that this number comes next.
fn check_next_turn(connection: &Connection, session: &SessionId, number: u64) -> Result<(), SqlError> {
    let sql = "SELECT number, ended_at IS NOT NULL FROM turns WHERE session = ?1 ORDER BY number DESC LIMIT 1";
    let last = first(connection, sql, [session.as_str()], |row| Ok((rows::number(row, 0)?, row.get(1)?)))?;
    let (before, idle) = last.unwrap_or((0, true));
    if !idle || number != before + 1 {
        return Err(missing_or(connection, session, Conflict::TurnRunning)?);
    }
    Ok(())
}

/// `NoSession` if the session is missing, or else the given conflict.
fn missing_or(connection: &Connection, id: &SessionId, conflict: Conflict) -> Result<SqlError, SqlError> {
    let is_there = exists(connection, "SELECT 1 FROM sessions WHERE id = ?1", [id.as_str()])?;
    Ok(if is_there { conflict } else { Conflict::NoSession }.into())
}

const SESSION: &str = "SELECT id, owner, agent, turns, running, next_message, created_at, pending, settings, summary
    FROM session_states";
const MESSAGES: &str = "SELECT number, turn, message FROM messages WHERE session = ?1 AND number >= ?2 ORDER BY number";
/// The index is named because the planner prefers the table, which it would read from the first message on.
const SYSTEM_MESSAGES: &str = r#"SELECT number, turn, message FROM messages INDEXED BY system_messages
    WHERE session = ?1 AND number < ?2 AND turn = 0 AND substr(message, 1, 16) = '{"role":"system"' ORDER BY number"#;
const TURN: &str = "SELECT session, number, mode, protocol, started_at, ended_at, stop FROM turns";

#[async_trait]
impl MessageStore for SqliteStore {
    async fn messages(&self, session: &SessionId, from: u64) -> Result<Vec<EncodedMessage>, StoreError> {
        self.messages_in_order(MESSAGES, session, to_integer(from)?).await
    }

    async fn messages_before(
        &self,
        session: &SessionId,
        before: u64,
        limit: usize,
    ) -> Result<Vec<EncodedMessage>, StoreError> {
        let (before, sql) = (
            to_integer(before)?,
            "SELECT number, turn, message FROM messages
             WHERE session = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3",
        );
        if limit <= SHORT_HISTORY {
            let params = params![session.as_str(), before, to_limit(limit)];
            return self.readers.point(|connection| all(connection, sql, params, read_message));
        }
        self.readers.all(sql, (session.to_string(), before, to_limit(limit)), read_message).await
    }

    async fn system_messages(&self, session: &SessionId, before: u64) -> Result<Vec<EncodedMessage>, StoreError> {
        self.messages_in_order(SYSTEM_MESSAGES, session, to_integer(before)?).await
    }
}

impl SqliteStore {
    /// Messages that a query finds for a session and a number, on the calling thread if they are few.
    async fn messages_in_order(
        &self,
        sql: &'static str,
        session: &SessionId,
        number: i64,
    ) -> Result<Vec<EncodedMessage>, StoreError> {
        let few = self.readers.point(|connection| {
            let params = params![session.as_str(), number, to_limit(SHORT_HISTORY + 1)];
            all(connection, &format!("{sql} LIMIT ?3"), params, read_message)
        })?;
        if few.len() <= SHORT_HISTORY {
            return Ok(few);
        }
        self.readers.all(sql, (session.to_string(), number), read_message).await
    }
}

#[async_trait]
impl SessionStore for SqliteStore {
    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        self.readers.first(&format!("{SESSION} WHERE id = ?1"), [id.as_str()], read_session)
    }

    async fn sessions(
        &self,
        owner: &Principal,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        let (owner, limit) = (owner.to_string(), to_limit(limit));
        let order = "ORDER BY created_at DESC, id DESC LIMIT ?2";
        match after {
            None => self.readers.all(format!("{SESSION} WHERE owner = ?1 {order}"), (owner, limit), read_session).await,
            Some(cursor) => {
                let sql = format!("{SESSION} WHERE owner = ?1 AND (created_at, id) < (?3, ?4) {order}");
                let params = (owner, limit, cursor.created_at.as_millis(), cursor.id.to_string());
                self.readers.all(sql, params, read_session).await
            }
        }
    }

    async fn turn(&self, session: &SessionId, number: u64) -> Result<Option<Turn>, StoreError> {
        // A client may ask for any number; a turn number above `i64::MAX` cannot exist.
        let Ok(number) = i64::try_from(number) else { return Ok(None) };
        let sql = format!("{TURN} WHERE session = ?1 AND number = ?2");
        self.readers.first(&sql, params![session.as_str(), number], read_turn)
    }

    async fn turn_events(&self, session: &SessionId, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let Ok(number) = i64::try_from(number) else { return Ok(None) };
        let sql = "SELECT events FROM turns WHERE session = ?1 AND number = ?2";
        let mut events = self.readers.all(sql, (session.to_string(), number), |row| Ok(row.get(0)?)).await?;
        Ok(events.pop().flatten())
    }

    async fn idle_sessions(&self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        let sql = format!("SELECT id FROM sessions WHERE {IDLE} ORDER BY created_at, id LIMIT ?2");
        self.readers.all(sql, (before.as_millis(), to_limit(limit)), |row| rows::text_form(row, 0)).await
    }

    async fn running_turns(&self, node: &Incarnation) -> Result<Vec<Turn>, StoreError> {
        let sql = format!("{TURN} WHERE ended_at IS NULL AND node = ?1 ORDER BY session, number");
        self.readers.all(sql, [node.to_string()], read_turn).await
    }

    async fn idempotency_record(
        &self,
        owner: &Principal,
        request: &str,
        key: &str,
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        let sql = "SELECT owner, request, key, body, session, turn FROM remembered
             WHERE owner = ?1 AND request = ?2 AND key = ?3";
        self.readers.first(sql, params![owner.to_string(), request, key], |row| {
            Ok(IdempotencyRecord {
                owner: rows::text_form(row, 0)?,
                request: row.get(1)?,
                key: row.get(2)?,
                body: rows::digest(row, 3)?,
                session: rows::text_form(row, 4)?,
                turn: rows::optional(row, 5, rows::number)?,
            })
        })
    }
}

fn read_session(row: &Row<'_>) -> Result<Session, SqlError> {
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

fn read_message(row: &Row<'_>) -> Result<EncodedMessage, SqlError> {
    let json: String = row.get(2)?;
    Ok(EncodedMessage { number: rows::number(row, 0)?, turn: rows::number(row, 1)?, json: json.into() })
}

fn read_turn(row: &Row<'_>) -> Result<Turn, SqlError> {
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
