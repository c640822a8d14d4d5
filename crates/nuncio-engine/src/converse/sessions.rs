//! Sessions: made, read, listed, deleted. To anyone but its owner a session does not exist.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_core::ids::SessionId;
use nuncio_core::message::Message;
use nuncio_core::session::{Session, SessionSettings};
use nuncio_core::time::Timestamp;

use super::history::{HistoryKind, compact};
use super::images;
use super::recent::Conversation;
use super::settings::SettingsPatch;
use crate::Engine;
use crate::access::Caller;
use crate::error::EngineError;
use crate::ports::entropy::timed_name;
use crate::ports::store::{Change, Conflict, Remembered, SessionCursor, StoreError, StoredMessage};

/// A conversation to be started.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    /// With which agent.
    pub agent: String,
    /// Under which settings.
    pub settings: SettingsPatch,
    /// What was said before.
    pub messages: Vec<Message>,
}

/// A request that may be sent again without being done again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The key its sender chose.
    pub key: String,
    /// The digest of its body.
    pub body: Digest,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page begins; none on the last.
    pub next: Option<String>,
}

const PAGE: usize = 50;
const CREATE: &str = "sessions";

impl Engine {
    /// Starts a conversation. Nothing is thought yet.
    ///
    /// # Errors
    /// The agent is unknown, the settings do not fit it, or the store cannot be written.
    pub async fn create_session(
        &self,
        caller: &Caller,
        new: NewSession,
        idempotency: Option<Idempotency>,
    ) -> Result<SessionId, EngineError> {
        if let Some(before) = self.recall(caller, CREATE, idempotency.as_ref()).await? {
            return Ok(before.session);
        }
        self.check_quota(caller).await?;
        let served = self.agent(&new.agent)?;
        images::check(&served.agent, &new.messages)?;
        let id = SessionId::parse(&timed_name(self.entropy(), "ses_", self.now()))?;
        let settings = self.patched(&served.agent, &id, SessionSettings::default(), new.settings)?;
        let session = Session {
            id: id.clone(),
            owner: caller.principal.clone(),
            agent: served.agent.name.clone(),
            settings,
            pending: Vec::new(),
            turns: 0,
            running: false,
            next_message: new.messages.len() as u64,
            summary: None,
            created_at: self.now(),
        };
        let placed = |(number, message): (u64, &Message)| StoredMessage { number, turn: 0, message: message.clone() };
        let history = (0..).zip(&new.messages).map(placed).collect::<Vec<_>>().into();
        let conversation = Conversation { session: session.clone(), history };
        let mut changes = vec![Change::CreateSession { session, messages: new.messages }];
        changes.extend(idempotency.as_ref().map(|it| remember(caller, CREATE, it, &id, None)));
        match self.store().commit(changes).await {
            Ok(()) => {
                self.recent().put(conversation);
                Ok(id)
            }
            // The same request came twice at once, and the other was first.
            Err(StoreError::Conflict(Conflict::Exists)) if idempotency.is_some() => {
                let before = self.recall(caller, CREATE, idempotency.as_ref()).await?;
                before.map(|it| it.session).ok_or_else(|| EngineError::new(Code::Internal, "the session id was taken"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A session of the caller's.
    ///
    /// # Errors
    /// There is none of that id, or it is someone else's.
    pub async fn session(&self, caller: &Caller, id: &str) -> Result<Session, EngineError> {
        let found = match SessionId::parse(id) {
            Ok(id) => self.store().session(&id).await?,
            Err(_) => None,
        };
        found.filter(|session| session.owner == caller.principal).ok_or_else(|| {
            EngineError::new(
                Code::SessionNotFound,
                format!("there is no session {:?}", id.chars().take(64).collect::<String>()),
            )
        })
    }

    /// The caller's sessions, newest first, a page at a time.
    ///
    /// # Errors
    /// The cursor is not one of ours.
    pub async fn sessions(&self, caller: &Caller, after: Option<&str>) -> Result<Page<Session>, EngineError> {
        let after = after.map(read_cursor).transpose()?;
        let mut items = self.store().sessions(&caller.principal, after.as_ref(), PAGE + 1).await?;
        let more = items.len() > PAGE;
        items.truncate(PAGE);
        let next = items.last().filter(|_| more).map(write_cursor);
        Ok(Page { items, next })
    }

    /// Ends a conversation and forgets it. A turn that is running is stopped.
    ///
    /// # Errors
    /// There is no such session.
    pub async fn delete_session(&self, caller: &Caller, id: &str) -> Result<(), EngineError> {
        let session = self.session(caller, id).await?;
        let _settled = self.live().settle(session.id.as_str()).await;
        self.store().commit(vec![Change::DeleteSession(session.id.clone())]).await?;
        if let Some(turn) = self.live().find(&session.id) {
            turn.cancel();
        }
        self.recent().forget(&session.id);
        Ok(())
    }

    /// What has been said.
    ///
    /// # Errors
    /// There is no such session, or its agent does not offer that history.
    pub async fn history(&self, caller: &Caller, id: &str, kind: HistoryKind) -> Result<Vec<Message>, EngineError> {
        let session = self.session(caller, id).await?;
        let served = self.agent(session.agent.as_str());
        let offered = served.as_ref().is_ok_and(|served| match kind {
            HistoryKind::Compacted => served.agent.capabilities.compacted_history,
            HistoryKind::Full => served.agent.capabilities.full_history,
        });
        if !offered {
            let message = match &served {
                Ok(_) => format!("agent {} does not offer that history; see its capabilities", session.agent),
                Err(_) => format!("agent {} is not served here now; its histories come back with it", session.agent),
            };
            return Err(EngineError::new(Code::HistoryNotOffered, message));
        }
        let messages = self.store().messages(&session.id, 0).await?;
        Ok(match kind {
            HistoryKind::Full => messages.into_iter().map(|stored| stored.message).collect(),
            HistoryKind::Compacted => {
                let window = served.ok().and_then(|served| served.brain.window());
                compact(&messages, session.summary.as_ref(), window).with(session.summary.as_ref())
            }
        })
    }

    /// What an earlier request with the same key made; an error if its body was another.
    pub(crate) async fn recall(
        &self,
        caller: &Caller,
        request: &str,
        idempotency: Option<&Idempotency>,
    ) -> Result<Option<Remembered>, EngineError> {
        let Some(idempotency) = idempotency else { return Ok(None) };
        let before = self.store().remembered(&caller.principal, request, &idempotency.key).await?;
        if before.as_ref().is_some_and(|before| before.body != idempotency.body) {
            let message = "this Idempotency-Key came before with another body; use a new key for a new request";
            return Err(EngineError::new(Code::IdempotencyMismatch, message));
        }
        Ok(before)
    }
}

pub(crate) fn remember(
    caller: &Caller,
    request: &str,
    idempotency: &Idempotency,
    session: &SessionId,
    turn: Option<u64>,
) -> Change {
    Change::Remember(Remembered {
        owner: caller.principal.clone(),
        request: request.to_owned(),
        key: idempotency.key.clone(),
        body: idempotency.body,
        session: session.clone(),
        turn,
    })
}

fn write_cursor(session: &Session) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}/{}", session.created_at.as_millis(), session.id))
}

fn read_cursor(text: &str) -> Result<SessionCursor, EngineError> {
    let parse = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let (millis, id) = text.split_once('/')?;
        Some(SessionCursor { created_at: Timestamp::from_millis(millis.parse().ok()?), id: SessionId::parse(id).ok()? })
    };
    parse().ok_or_else(|| {
        EngineError::new(
            Code::BadCursor,
            "`after` is not a cursor of this server; pass the `next` of a page, or leave it out",
        )
    })
}
