//! Start of a turn: the request is checked against what the session waits for, and stored before the brain runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::event::TurnEventLog;
use nuncio_core::ids::SessionId;
use nuncio_core::message::{Content, Message};
use nuncio_core::policy::Protocol;
use nuncio_core::session::{AwaitedAnswer, PendingCall, Session};
use nuncio_core::turn::{CallAnswer, StreamMode, TurnInput, TurnState};
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::images;
use super::recent::CachedConversation;
use super::sessions::{IdempotencyKey, remember};
use super::settings::SessionSettingsPatch;
use super::tail::HistoryTail;
use super::turn::{PermissionAnswer, RunningTurn};
use crate::access::Caller;
use crate::call::{CommitResultSender, NotifyWhen};
use crate::converse::ConversationService;
use crate::error::EngineError;
use crate::live_turn::LiveTurn;
use crate::not_found;
use crate::ports::store::{Conflict, SessionChange, StoreError, StoredMessage};

#[derive(Debug, Clone, PartialEq)]
pub struct TurnRequest {
    pub input: TurnInput,
    pub mode: StreamMode,
    pub settings: SessionSettingsPatch,
    pub protocol: Protocol,
    pub prompts: PermissionResponder,
}

/// Who answers permission prompts in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionResponder {
    /// An app prompts its user. Its `trust` settings and answers count for the caller's own person.
    App,
    /// Nobody answers prompts, so no setting of the session counts as an answer.
    Absent,
}

/// History entry of a tool call that the client never answered.
const ABANDONED_RESULT: &str = "Tool call not run: the conversation continued without an answer to it";

impl ConversationService {
    /// Begins a turn, or returns the one that the same request began before. The turn runs whether or not anyone reads
    /// it.
    ///
    /// # Errors
    ///
    /// The caller has no such session or no quota left, a turn is running, the request does not fit the session, or the
    /// store failed. The store is unchanged.
    pub async fn begin_turn(
        self: &Arc<Self>,
        caller: &Caller,
        session: &str,
        request: TurnRequest,
        idempotency: Option<IdempotencyKey>,
    ) -> Result<Arc<LiveTurn>, EngineError> {
        self.start_turn(caller, session, request, idempotency, NotifyWhen::AtOnce).await
    }

    /// Like [`ConversationService::begin_turn`], with the same errors, but returns when the turn is over.
    pub async fn run_turn(
        self: &Arc<Self>,
        caller: &Caller,
        session: &str,
        request: TurnRequest,
        idempotency: Option<IdempotencyKey>,
    ) -> Result<Arc<LiveTurn>, EngineError> {
        let turn = self.start_turn(caller, session, request, idempotency, NotifyWhen::WhenOver).await?;
        turn.finished().await;
        Ok(turn)
    }

    async fn start_turn(
        self: &Arc<Self>,
        caller: &Caller,
        session: &str,
        request: TurnRequest,
        idempotency: Option<IdempotencyKey>,
        notify: NotifyWhen,
    ) -> Result<Arc<LiveTurn>, EngineError> {
        self.context.check_not_closing()?;
        let session_lock = self.live.lock_session(session).await;
        let (mut session, mut history) = self.conversation(caller, session).await?;
        let route = format!("turns/{}", session.id);
        // Both reads at once, because the store may be on another machine.
        let (before, quota) =
            tokio::join!(self.recall(caller, &route, idempotency.as_ref()), self.context.check_quota(caller));
        if let Some(before) = before? {
            return self.turn_of(&session, before.turn).await;
        }
        quota?;
        if session.running {
            return Err(StoreError::Conflict(Conflict::TurnRunning).into());
        }
        let served = self.agents.agent(session.agent.as_str())?;
        check_mode(&served.agent, request.mode)?;
        let changes_settings = !request.settings.is_empty();
        session.settings = self.patched(&served.agent, &session.id, session.settings, request.settings)?;
        let opening = open(&session, request.input)?;
        images::check(&served.agent, &opening.messages)?;

        let number = session.turns + 1;
        let mut changes = vec![
            SessionChange::BeginTurn {
                session: session.id.clone(),
                number,
                node: self.context.incarnation.clone(),
                mode: request.mode,
                protocol: request.protocol,
                at: self.context.now(),
                settings: changes_settings.then(|| session.settings.clone()),
            }
            .into(),
        ];
        if !session.pending.is_empty() {
            changes.push(SessionChange::SetPending { session: session.id.clone(), pending: Vec::new() }.into());
        }
        for message in opening.messages {
            let stored = StoredMessage { number: session.next_message, turn: number, message };
            history.push(&stored);
            changes.push(stored.append_to(&session.id));
            session.next_message += 1;
        }
        changes.extend(idempotency.as_ref().map(|it| remember(caller, &route, it, &session.id, Some(number))));

        let turn = Arc::new(LiveTurn::new(session.id.clone(), number, request.mode).until(&self.context.closed));
        let running = RunningTurn {
            conversations: Arc::clone(self),
            turn: Arc::clone(&turn),
            caller: caller.clone(),
            protocol: request.protocol,
            prompts: request.prompts,
            served,
            session: Session { pending: Vec::new(), turns: number, running: true, ..session },
            history,
            need: None,
            permissions: opening.permissions,
            asked: Vec::new(),
            began: self.context.now(),
            deadline: self.context.now().after(self.context.limits.turn),
        };
        let span =
            tracing::debug_span!("turn", session = %turn.session, turn = number, agent = %running.served.agent.name);
        // Runs in its own task, so that a stored turn continues even if the requester disconnects
        // before the answer.
        let (answer, begun): (CommitResultSender, _) = oneshot::channel();
        self.context.tasks.spawn(running.begin(changes, session_lock, answer, notify).instrument(span));
        begun.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the turn was interrupted".to_owned())))?;
        Ok(turn)
    }

    /// The caller's session, taken out of the cache with the cached part of its history, or read from the store.
    async fn conversation(&self, caller: &Caller, id: &str) -> Result<(Session, HistoryTail), EngineError> {
        let kept = SessionId::parse(id).ok().and_then(|id| self.recent.take(&id, &caller.principal));
        match kept {
            Some(CachedConversation { session, history }) => Ok((session, history)),
            None => {
                let session = self.session(caller, id).await?;
                let history = HistoryTail::empty(session.next_message);
                Ok((session, history))
            }
        }
    }

    /// The turn `number` of a session, running or over; the last turn if `number` is `None`.
    pub async fn turn(
        &self,
        caller: &Caller,
        session: &str,
        number: Option<u64>,
    ) -> Result<Arc<LiveTurn>, EngineError> {
        let _session_lock = self.live.lock_session(session).await;
        let session = self.session(caller, session).await?;
        self.turn_of(&session, number).await
    }

    /// Cancels the running turn and returns it when it is over.
    pub async fn cancel_turn(&self, caller: &Caller, session: &str) -> Result<Arc<LiveTurn>, EngineError> {
        let session = self.session(caller, session).await?;
        let live = {
            let _session_lock = self.live.lock_session(session.id.as_str()).await;
            self.live.find(&session.id)
        };
        let turn = live.ok_or_else(not_found::running_turn)?;
        turn.cancel();
        turn.finished().await;
        Ok(turn)
    }

    async fn turn_of(&self, session: &Session, number: Option<u64>) -> Result<Arc<LiveTurn>, EngineError> {
        let number = number.unwrap_or(session.turns);
        if let Some(live) = self.live.find(&session.id).filter(|live| live.number == number) {
            return Ok(live);
        }
        let missing = || {
            let message = format!("session {} has had {} turns; there is no turn {number}", session.id, session.turns);
            EngineError::new(ErrorCode::TurnNotFound, message)
        };
        let turn = self.store.turn(&session.id, number).await?.ok_or_else(missing)?;
        if turn.state == TurnState::Running {
            return Err(missing());
        }
        let bytes = self.store.turn_events(&session.id, number).await?.ok_or_else(missing)?;
        let log = TurnEventLog::from_bytes(&bytes)
            .ok_or_else(|| EngineError::new(ErrorCode::Internal, "the stored events of this turn are damaged"))?;
        Ok(Arc::new(LiveTurn::with_log(session.id.clone(), number, turn.mode, log)))
    }
}

/// Messages that a request adds to the history, and the calls it decides.
struct CheckedTurnInput {
    messages: Vec<Message>,
    permissions: Vec<PermissionAnswer>,
}

fn open(session: &Session, input: TurnInput) -> Result<CheckedTurnInput, EngineError> {
    match input {
        TurnInput::User(message) => {
            let abandoned = session
                .pending
                .iter()
                .map(|pending| Message::tool(pending.call.id.clone(), Content::from(ABANDONED_RESULT)));
            Ok(CheckedTurnInput { messages: abandoned.chain([message]).collect(), permissions: Vec::new() })
        }
        TurnInput::Answers(answers) => answer(&session.pending, answers),
    }
}

/// Matches answers with pending calls: each call exactly once, with the expected kind, all in one request.
fn answer(pending: &[PendingCall], answers: Vec<CallAnswer>) -> Result<CheckedTurnInput, EngineError> {
    let wrong = |message: String| Err(EngineError::new(ErrorCode::BadAnswer, message));
    let mut waiting: BTreeMap<&str, &PendingCall> = pending.iter().map(|call| (call.call.id.as_str(), call)).collect();
    if waiting.is_empty() {
        return wrong("no tool call is waiting for an answer; send a user message".to_owned());
    }
    let mut opening = CheckedTurnInput { messages: Vec::new(), permissions: Vec::new() };
    for answer in answers {
        let Some(call) = waiting.remove(answer.call().as_str()) else {
            return wrong(format!("no tool call {} is waiting for an answer", answer.call()));
        };
        match (call.awaits, answer) {
            (AwaitedAnswer::Result, CallAnswer::Result { call, content, extra }) => {
                opening.messages.push(Message::Tool { tool_call_id: call, content, extra });
            }
            (AwaitedAnswer::Permission, CallAnswer::Permission { granted, reason, .. }) => {
                opening.permissions.push(PermissionAnswer { call: call.clone(), granted, reason });
            }
            (AwaitedAnswer::Result, CallAnswer::Permission { call, .. }) => {
                return wrong(format!(
                    "tool call {call} waits for a `tool` message with its result, not for a permission"
                ));
            }
            (AwaitedAnswer::Permission, CallAnswer::Result { call, .. }) => {
                return wrong(format!(
                    "tool call {call} waits for a `tool_permission` message; this server runs it, not you"
                ));
            }
        }
    }
    if !waiting.is_empty() {
        let missing: Vec<_> = waiting.into_keys().collect();
        return wrong(format!("answer all waiting tool calls in one turn; missing: {}", missing.join(", ")));
    }
    Ok(opening)
}

fn check_mode(agent: &nuncio_core::agent::Agent, mode: StreamMode) -> Result<(), EngineError> {
    let capabilities = &agent.capabilities;
    let offered = match mode {
        StreamMode::Delta => capabilities.stream_delta,
        StreamMode::Message => capabilities.stream_message,
        StreamMode::None => capabilities.stream_none,
    };
    if offered {
        return Ok(());
    }
    let message =
        format!("agent {} does not offer the stream mode {:?}; see its capabilities", agent.name, mode.as_str());
    Err(EngineError::new(ErrorCode::CapabilityMissing, message))
}
