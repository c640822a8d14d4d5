//! Sessions: creation, reading, listing and deletion. For anyone but its owner a session does not exist.

use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_core::ids::SessionId;
use nuncio_core::message::Message;
use nuncio_core::session::{Session, SessionSettings};

use super::history::{HistoryKind, compact};
use super::images;
use super::recent::CachedConversation;
use super::settings::SessionSettingsPatch;
use super::tail::HistoryTail;
use crate::access::Caller;
use crate::converse::ConversationService;
use crate::error::EngineError;
use crate::not_found;
use crate::ports::brain::HistoryNeed;
use crate::ports::store::{
    Change, Conflict, IdempotencyRecord, SessionChange, SessionCursor, StoreError, StoredMessage,
};

#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    pub agent: String,
    pub settings: SessionSettingsPatch,
    /// Earlier messages that the new session starts with.
    pub messages: Vec<Message>,
}

/// Idempotency key of a request: a repeated request returns the first result instead of running again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The `Idempotency-Key` that the caller chose.
    pub key: String,
    pub body: Digest,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ListPage<T> {
    pub items: Vec<T>,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

const MAX_PAGE_SIZE: usize = 50;
const CREATE_REQUEST: &str = "sessions";

impl ConversationService {
    /// Creates a session, or returns the one that the same idempotency key created. The brain does not run yet.
    pub async fn create_session(
        &self,
        caller: &Caller,
        new: NewSession,
        idempotency: Option<IdempotencyKey>,
    ) -> Result<SessionId, EngineError> {
        if let Some(before) = self.recall(caller, CREATE_REQUEST, idempotency.as_ref()).await? {
            return Ok(before.session);
        }
        self.context.check_quota(caller).await?;
        let served = self.agents.agent(&new.agent)?;
        images::check(&served.agent, &new.messages)?;
        let id = SessionId::parse(&self.context.timed_name("ses_"))?;
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
            created_at: self.context.now(),
        };
        let mut history = HistoryTail::empty(0);
        for (number, message) in (0..).zip(&new.messages) {
            history.push(&StoredMessage { number, turn: 0, message: message.clone() });
        }
        let conversation = CachedConversation { session: session.clone(), history };
        let mut changes = vec![SessionChange::Create { session, messages: new.messages }.into()];
        changes.extend(idempotency.as_ref().map(|it| remember(caller, CREATE_REQUEST, it, &id, None)));
        match self.context.commit(changes).await {
            Ok(()) => {
                self.recent.put(conversation);
                Ok(id)
            }
            // A concurrent copy of the same request was stored first.
            Err(StoreError::Conflict(Conflict::Exists)) if idempotency.is_some() => {
                let before = self.recall(caller, CREATE_REQUEST, idempotency.as_ref()).await?;
                before
                    .map(|it| it.session)
                    .ok_or_else(|| EngineError::new(ErrorCode::Internal, "the session id is already used"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The session with this id, if the caller owns it.
    pub async fn session(&self, caller: &Caller, id: &str) -> Result<Session, EngineError> {
        let found = match SessionId::parse(id) {
            Ok(id) => self.store.session(&id).await?,
            Err(_) => None,
        };
        found.filter(|session| session.owner == caller.principal).ok_or_else(|| not_found::session(id))
    }

    /// Sessions of the caller, newest first, in pages of 50.
    pub async fn sessions(&self, caller: &Caller, after: Option<&str>) -> Result<ListPage<Session>, EngineError> {
        let after = after.map(read_cursor).transpose()?;
        let mut items = self.store.sessions(&caller.principal, after.as_ref(), MAX_PAGE_SIZE + 1).await?;
        let more = items.len() > MAX_PAGE_SIZE;
        items.truncate(MAX_PAGE_SIZE);
        let next = items.last().filter(|_| more).map(|session| SessionCursor::after(session).to_string());
        Ok(ListPage { items, next })
    }

    /// Deletes a session. A running turn is cancelled.
    pub async fn delete_session(&self, caller: &Caller, id: &str) -> Result<(), EngineError> {
        let session = self.session(caller, id).await?;
        let _session_lock = self.live.lock_session(session.id.as_str()).await;
        self.context.commit_one(SessionChange::Delete(session.id.clone())).await?;
        if let Some(turn) = self.live.find(&session.id) {
            turn.cancel();
        }
        self.recent.forget(&session.id);
        Ok(())
    }

    pub async fn history(&self, caller: &Caller, id: &str, kind: HistoryKind) -> Result<Vec<Message>, EngineError> {
        let session = self.session(caller, id).await?;
        let served = self.agents.agent(session.agent.as_str());
        let offered = served.as_ref().is_ok_and(|served| match kind {
            HistoryKind::Compacted => served.agent.capabilities.compacted_history,
            HistoryKind::Full => served.agent.capabilities.full_history,
        });
        if !offered {
            let message = match &served {
                Ok(_) => format!("agent {} does not offer that history; see its capabilities", session.agent),
                Err(_) => format!(
                    "agent {} is not served here at the moment; its histories are available again when it is",
                    session.agent
                ),
            };
            return Err(EngineError::new(ErrorCode::HistoryNotOffered, message));
        }
        let need = match (kind, &served) {
            (HistoryKind::Compacted, Ok(served)) => served.brain.history_need(&[]),
            (HistoryKind::Compacted, Err(_)) | (HistoryKind::Full, _) => HistoryNeed::Everything,
        };
        let mut history = HistoryTail::empty(session.next_message);
        if let HistoryNeed::Window(window) | HistoryNeed::SummarizedWindow(window) = need {
            let summary = session.summary.as_ref();
            let from = summary.map_or(0, |summary| summary.until);
            let messages = history.window(&*self.store, &session.id, window, from).await?;
            return Ok(compact(&messages, summary, window).with(summary));
        }
        let messages = history.everything(&*self.store, &session.id).await?;
        Ok(messages.into_iter().map(|stored| stored.message).collect())
    }

    /// Result of an earlier request with the same idempotency key; an error if its body differed.
    pub(crate) async fn recall(
        &self,
        caller: &Caller,
        request: &str,
        idempotency: Option<&IdempotencyKey>,
    ) -> Result<Option<IdempotencyRecord>, EngineError> {
        let Some(idempotency) = idempotency else { return Ok(None) };
        let before = self.store.idempotency_record(&caller.principal, request, &idempotency.key).await?;
        if before.as_ref().is_some_and(|before| before.body != idempotency.body) {
            let message = "this Idempotency-Key was already used with another body; use a new key for a new request";
            return Err(EngineError::new(ErrorCode::IdempotencyMismatch, message));
        }
        Ok(before)
    }
}

pub(crate) fn remember(
    caller: &Caller,
    request: &str,
    idempotency: &IdempotencyKey,
    session: &SessionId,
    turn: Option<u64>,
) -> Change {
    SessionChange::Remember(IdempotencyRecord {
        owner: caller.principal.clone(),
        request: request.to_owned(),
        key: idempotency.key.clone(),
        body: idempotency.body,
        session: session.clone(),
        turn,
    })
    .into()
}

fn read_cursor(text: &str) -> Result<SessionCursor, EngineError> {
    let message = "`after` is not a cursor of this server; pass the `next` of a page, or leave it out";
    SessionCursor::parse(text).ok_or_else(|| EngineError::new(ErrorCode::BadCursor, message))
}
