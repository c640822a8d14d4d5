//! Store of sessions: settings, history, turns and idempotency records.

use std::fmt;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{Incarnation, SessionId};
use nuncio_core::message::Message;
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_core::session::{HistorySummary, PendingCall, Session, SessionSettings};
use nuncio_core::time::Timestamp;
use nuncio_core::turn::{StreamMode, Turn, TurnOutcome};

use super::{Change, StoreError};

#[derive(Debug, Clone, PartialEq)]
pub enum SessionChange {
    /// Creates a session with its first messages, numbered from zero. `Exists` if its id is taken.
    Create {
        /// Session whose `next_message` is the number of `messages`.
        session: Session,
        messages: Vec<Message>,
    },
    /// Deletes a session with history, turns and idempotency records. `NoSession` if it does not exist.
    Delete(SessionId),
    /// Begins a turn. `NoSession` without session; `TurnRunning` unless it had `number - 1` turns and none runs.
    BeginTurn {
        session: SessionId,
        number: u64,
        /// Incarnation that runs the turn.
        node: Incarnation,
        mode: StreamMode,
        protocol: Protocol,
        at: Timestamp,
        /// New settings of the session, if they change.
        settings: Option<SessionSettings>,
    },
    /// Adds a message to the history. `NoSession` if there is no such session; `Exists` if the number is taken. The
    /// session's `next_message` becomes at least `number + 1`.
    AppendMessage {
        session: SessionId,
        turn: u64,
        /// Position in the history; positions may be filled out of order.
        number: u64,
        message: Message,
    },
    /// Replaces the calls that wait for the client's answer. `NoSession` if there is no such session.
    SetPending { session: SessionId, pending: Vec<PendingCall> },
    /// Replaces the summary of the oldest messages. `NoSession` if there is no such session.
    SetSummary { session: SessionId, summary: HistorySummary },
    /// Ends a turn. `NoSession` if there is no such session; `TurnOver` unless the turn runs.
    EndTurn {
        session: SessionId,
        number: u64,
        at: Timestamp,
        stop: TurnOutcome,
        /// Encoded event log of the turn.
        events: Vec<u8>,
    },
    /// Stores the result of a request with an idempotency key. `NoSession` if there is no such session; `Exists` if the
    /// owner used the key for the same `request` before.
    Remember(IdempotencyRecord),
    /// Deletes those sessions of `ids` that were created before `before` and had no turn since.
    Prune { ids: Vec<SessionId>, before: Timestamp },
}

/// Result of a request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRecord {
    pub owner: Principal,
    /// Kind and object of the request: `sessions`, or `turns/SESSION`.
    pub request: String,
    pub key: String,
    pub body: Digest,
    /// Session that the request created or belongs to; the record is deleted with the session.
    pub session: SessionId,
    pub turn: Option<u64>,
}

/// A message with its position in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredMessage {
    pub number: u64,
    /// Number of the turn; zero for messages that the session began with.
    pub turn: u64,
    pub message: Message,
}

/// A message with its position in the history, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedMessage {
    pub number: u64,
    pub turn: u64,
    /// JSON of the message.
    pub json: Box<str>,
}

impl EncodedMessage {
    /// # Errors
    ///
    /// `Damaged` if the JSON is not a message; the text has no content of the message.
    pub fn decode(&self) -> Result<StoredMessage, StoreError> {
        let message = serde_json::from_str(&self.json).map_err(|error: serde_json::Error| {
            let (number, line, column) = (self.number, error.line(), error.column());
            StoreError::Damaged(format!("message {number} of a session: unreadable at line {line} column {column}"))
        })?;
        Ok(StoredMessage { number: self.number, turn: self.turn, message })
    }
}

impl StoredMessage {
    /// The message in its stored form.
    pub(crate) fn encode(&self) -> EncodedMessage {
        let json = serde_json::to_string(&self.message).expect("a message is JSON").into_boxed_str();
        EncodedMessage { number: self.number, turn: self.turn, json }
    }

    /// The change that adds the message to the history of a session.
    pub(crate) fn append_to(self, session: &SessionId) -> Change {
        let Self { number, turn, message } = self;
        SessionChange::AppendMessage { session: session.clone(), turn, number, message }.into()
    }
}

/// Cursor in a principal's list of sessions, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCursor {
    /// Creation time of the last listed session.
    pub created_at: Timestamp,
    pub id: SessionId,
}

impl SessionCursor {
    /// The cursor of the page that begins after `session`.
    #[must_use]
    pub fn after(session: &Session) -> Self {
        Self { created_at: session.created_at, id: session.id.clone() }
    }

    /// Parses a cursor as [`fmt::Display`] writes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let (millis, id) = text.split_once('/')?;
        Some(Self { created_at: Timestamp::from_millis(millis.parse().ok()?), id: SessionId::parse(id).ok()? })
    }
}

impl fmt::Display for SessionCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(format!("{}/{}", self.created_at.as_millis(), self.id)))
    }
}

#[async_trait]
pub trait MessageStore: Send + Sync {
    /// Messages of a session numbered `from` and above, in order.
    async fn messages(&self, session: &SessionId, from: u64) -> Result<Vec<EncodedMessage>, StoreError>;
    /// At most `limit` messages of a session numbered below `before`, newest first.
    async fn messages_before(
        &self,
        session: &SessionId,
        before: u64,
        limit: usize,
    ) -> Result<Vec<EncodedMessage>, StoreError>;
    /// System messages numbered below `before` among the messages that a session began with, in order. A read costs as
    /// much as these messages, not as all that the session began with.
    async fn system_messages(&self, session: &SessionId, before: u64) -> Result<Vec<EncodedMessage>, StoreError>;
}

#[async_trait]
pub trait SessionStore: MessageStore {
    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError>;
    /// Sessions of a principal that follow the cursor, newest first.
    async fn sessions(
        &self,
        owner: &Principal,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError>;
    async fn turn(&self, session: &SessionId, number: u64) -> Result<Option<Turn>, StoreError>;
    /// Encoded event log of a finished turn; `None` while it runs.
    async fn turn_events(&self, session: &SessionId, number: u64) -> Result<Option<Vec<u8>>, StoreError>;
    /// At most `limit` sessions created before `before` that had no turn since.
    async fn idle_sessions(&self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, StoreError>;
    async fn running_turns(&self, node: &Incarnation) -> Result<Vec<Turn>, StoreError>;
    async fn idempotency_record(
        &self,
        owner: &Principal,
        request: &str,
        key: &str,
    ) -> Result<Option<IdempotencyRecord>, StoreError>;
}
