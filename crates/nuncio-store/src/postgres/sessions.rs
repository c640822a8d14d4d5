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
use tokio_postgres::Row;

use super::PostgresStore;
use super::problem::SqlError;
use super::rows::{self, to_integer, to_json, to_limit};
use super::writes::{SqlWrite, Translated, Writes, params};

/// Page size up to which messages are read as a short read.
const SHORT_HISTORY: usize = 32;

const SESSION_EXISTS: &str = "SELECT 1 FROM sessions WHERE id = $1";

/// SQL condition for sessions without a turn since the time `$1`.
const IDLE: &str = "created_at < $1 AND NOT EXISTS
    (SELECT 1 FROM turns WHERE session = sessions.id AND (ended_at IS NULL OR ended_at >= $1))";

pub(super) fn translate(change: &SessionChange, out: &mut Writes) -> Translated {
    let write = match change {
        SessionChange::Create { session, messages } => return create(session, messages, out),
        // Foreign keys delete the session's messages, turns and idempotency records.
        SessionChange::Delete(id) => {
            SqlWrite::one_or(Conflict::NoSession, "DELETE FROM sessions WHERE id = $1", params![id.as_str()])
        }
        SessionChange::BeginTurn { session, number, node, mode, protocol, at, settings } => {
            // The number must be the next one, and the turn before it must be over.
            let begin = SqlWrite::found_or(
                Conflict::TurnRunning,
                Conflict::NoSession,
                SESSION_EXISTS,
                "INSERT INTO turns (session, number, mode, protocol, started_at, node)
                 SELECT $1::TEXT, $2::BIGINT, $3::TEXT, $4::TEXT, $5::BIGINT, $6::TEXT
                 WHERE $2::BIGINT = 1 OR EXISTS
                     (SELECT 1 FROM turns WHERE session = $1 AND number = $2::BIGINT - 1 AND ended_at IS NOT NULL)
                 ON CONFLICT (session, number) DO NOTHING",
                params![session.as_str(), to_integer(*number)?, mode.as_str(), protocol.as_str(), *at, node.as_str()],
            );
            out.push(begin.of_no_owner(Conflict::NoSession));
            let Some(settings) = settings else { return Ok(()) };
            let sql = "UPDATE sessions SET settings = $2 WHERE id = $1 AND settings <> $2";
            SqlWrite::any(sql, params![session.as_str(), to_json(settings)?])
        }
        SessionChange::AppendMessage { session, turn, number, message } => {
            append_message(session, *turn, *number, message)?
        }
        SessionChange::SetPending { session, pending } => {
            let sql = "UPDATE sessions SET pending = $2 WHERE id = $1";
            SqlWrite::one_or(Conflict::NoSession, sql, params![session.as_str(), to_json(pending)?])
        }
        SessionChange::SetSummary { session, summary } => {
            let sql = "UPDATE sessions SET summary = $2 WHERE id = $1";
            SqlWrite::one_or(Conflict::NoSession, sql, params![session.as_str(), to_json(summary)?])
        }
        SessionChange::EndTurn { session, number, at, stop, events } => SqlWrite::found_or(
            Conflict::TurnOver,
            Conflict::NoSession,
            SESSION_EXISTS,
            "UPDATE turns SET ended_at = $3, stop = $4, events = $5
             WHERE session = $1 AND number = $2 AND ended_at IS NULL",
            params![session.as_str(), to_integer(*number)?, *at, to_json(stop)?, events.as_slice()],
        ),
        SessionChange::Remember(record) => SqlWrite::one_or(
            Conflict::Exists,
            "INSERT INTO remembered (owner, request, key, body, session, turn) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (owner, request, key) DO NOTHING",
            params![
                record.owner.to_string(),
                &record.request,
                &record.key,
                record.body.to_string(),
                record.session.as_str(),
                record.turn.map(to_integer).transpose()?,
            ],
        )
        .of_no_owner(Conflict::NoSession),
        // Deletes the sessions that are still idle.
        SessionChange::Prune { ids, before } => {
            let sql = "DELETE FROM sessions WHERE id = ANY($2) AND created_at < $1 AND NOT EXISTS
                 (SELECT 1 FROM turns WHERE session = sessions.id AND (ended_at IS NULL OR ended_at >= $1))";
            SqlWrite::any(sql, params![*before, ids.iter().map(ToString::to_string).collect::<Vec<_>>()])
        }
    };
    out.push(write);
    Ok(())
}

fn create(session: &Session, messages: &[Message], out: &mut Writes) -> Translated {
    out.push(SqlWrite::one_or(
        Conflict::Exists,
        "INSERT INTO sessions (id, owner, agent, created_at, pending, settings, summary)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING",
        params![
            session.id.as_str(),
            session.owner.to_string(),
            session.agent.as_str(),
            session.created_at,
            to_json(&session.pending)?,
            to_json(&session.settings)?,
            session.summary.as_ref().map(to_json).transpose()?,
        ],
    ));
    for (number, message) in (0..).zip(messages) {
        out.push(append_message(&session.id, 0, number, message)?);
    }
    Ok(())
}

fn append_message(session: &SessionId, turn: u64, number: u64, message: &Message) -> Result<SqlWrite, SqlError> {
    let append = SqlWrite::one_or(
        Conflict::Exists,
        "INSERT INTO messages (session, number, turn, message) VALUES ($1, $2, $3, $4)
         ON CONFLICT (session, number) DO NOTHING",
        params![session.as_str(), to_integer(number)?, to_integer(turn)?, to_json(message)?],
    );
    Ok(append.of_no_owner(Conflict::NoSession))
}

const SESSION: &str = "SELECT id, owner, agent, turns, running, next_message, created_at, pending, settings, summary
    FROM session_states";
const MESSAGES: &str = "SELECT number, turn, message FROM messages WHERE session = $1 AND number >= $2 ORDER BY number";
const TURN: &str = "SELECT session, number, mode, protocol, started_at, ended_at, stop FROM turns";

#[async_trait]
impl MessageStore for PostgresStore {
    async fn messages(&self, session: &SessionId, from: u64) -> Result<Vec<EncodedMessage>, StoreError> {
        self.readers.all(MESSAGES, params![session.as_str(), to_integer(from)?], read_message).await
    }

    async fn messages_before(
        &self,
        session: &SessionId,
        before: u64,
        limit: usize,
    ) -> Result<Vec<EncodedMessage>, StoreError> {
        let sql = "SELECT number, turn, message FROM messages
             WHERE session = $1 AND number < $2 ORDER BY number DESC LIMIT $3";
        let params = params![session.as_str(), to_integer(before)?, to_limit(limit)];
        match limit <= SHORT_HISTORY {
            true => self.readers.few(sql, params, read_message).await,
            false => self.readers.all(sql, params, read_message).await,
        }
    }

    async fn system_messages(&self, session: &SessionId, before: u64) -> Result<Vec<EncodedMessage>, StoreError> {
        // As in the predicate of the index `system_messages`.
        let sql = r#"SELECT number, turn, message FROM messages
             WHERE session = $1 AND number < $2 AND turn = 0 AND substr(message, 1, 16) = '{"role":"system"'
             ORDER BY number"#;
        self.readers.all(sql, params![session.as_str(), to_integer(before)?], read_message).await
    }
}

#[async_trait]
impl SessionStore for PostgresStore {
    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        self.readers.first(&format!("{SESSION} WHERE id = $1"), params![id.as_str()], read_session).await
    }

    async fn sessions(
        &self,
        owner: &Principal,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        let (owner, limit) = (owner.to_string(), to_limit(limit));
        let order = "ORDER BY created_at DESC, id DESC LIMIT $2";
        match after {
            None => {
                let sql = format!("{SESSION} WHERE owner = $1 {order}");
                self.readers.all(&sql, params![owner, limit], read_session).await
            }
            Some(cursor) => {
                let sql = format!("{SESSION} WHERE owner = $1 AND (created_at, id) < ($3, $4) {order}");
                let params = params![owner, limit, cursor.created_at, cursor.id.as_str()];
                self.readers.all(&sql, params, read_session).await
            }
        }
    }

    async fn turn(&self, session: &SessionId, number: u64) -> Result<Option<Turn>, StoreError> {
        // A client may ask for any number; a turn number above `i64::MAX` cannot exist.
        let Ok(number) = i64::try_from(number) else { return Ok(None) };
        let sql = format!("{TURN} WHERE session = $1 AND number = $2");
        self.readers.first(&sql, params![session.as_str(), number], read_turn).await
    }

    async fn turn_events(&self, session: &SessionId, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let Ok(number) = i64::try_from(number) else { return Ok(None) };
        let sql = "SELECT events FROM turns WHERE session = $1 AND number = $2";
        let mut events = self.readers.all(sql, params![session.as_str(), number], |row| rows::get(row, 0)).await?;
        Ok(events.pop().flatten())
    }

    async fn idle_sessions(&self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        let sql = format!("SELECT id FROM sessions WHERE {IDLE} ORDER BY created_at, id LIMIT $2");
        self.readers.all(&sql, params![before, to_limit(limit)], |row| rows::text_form(row, 0)).await
    }

    async fn running_turns(&self, node: &Incarnation) -> Result<Vec<Turn>, StoreError> {
        let sql = format!("{TURN} WHERE ended_at IS NULL AND node = $1 ORDER BY session, number");
        self.readers.all(&sql, params![node.as_str()], read_turn).await
    }

    async fn idempotency_record(
        &self,
        owner: &Principal,
        request: &str,
        key: &str,
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        let sql = "SELECT owner, request, key, body, session, turn FROM remembered
             WHERE owner = $1 AND request = $2 AND key = $3";
        let read = |row: &Row| {
            Ok(IdempotencyRecord {
                owner: rows::text_form(row, 0)?,
                request: rows::get(row, 1)?,
                key: rows::get(row, 2)?,
                body: rows::digest(row, 3)?,
                session: rows::text_form(row, 4)?,
                turn: rows::optional(row, 5, rows::number)?,
            })
        };
        self.readers.first(sql, params![owner.to_string(), request, key], read).await
    }
}

fn read_session(row: &Row) -> Result<Session, SqlError> {
    Ok(Session {
        id: rows::text_form(row, 0)?,
        owner: rows::text_form(row, 1)?,
        agent: rows::text_form(row, 2)?,
        turns: rows::number(row, 3)?,
        running: rows::get(row, 4)?,
        next_message: rows::number(row, 5)?,
        created_at: rows::moment(row, 6)?,
        pending: rows::json(row, 7)?,
        settings: rows::json(row, 8)?,
        summary: rows::optional(row, 9, rows::json)?,
    })
}

fn read_message(row: &Row) -> Result<EncodedMessage, SqlError> {
    let json: String = rows::get(row, 2)?;
    Ok(EncodedMessage { number: rows::number(row, 0)?, turn: rows::number(row, 1)?, json: json.into() })
}

fn read_turn(row: &Row) -> Result<Turn, SqlError> {
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
