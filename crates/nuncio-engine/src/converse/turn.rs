//! The turn loop: history → brain → events → tools, until it stops. Each step is stored before the next begins.

use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::ids::SessionId;
use nuncio_core::policy::Protocol;
use nuncio_core::session::{PendingCall, Session};
use nuncio_core::time::Timestamp;
use nuncio_core::turn::{CallAnswer, StopReason, TokenUsage, TurnError, TurnOutcome, turn_id};
use tokio::sync::OwnedMutexGuard;
use tracing::Instrument as _;

use super::begin::PermissionResponder;
use super::recent::CachedConversation;
use super::step::BrainStepCallOutcome;
use super::tail::HistoryTail;
use super::unstored::UnstoredTurnEnd;
use crate::access::Caller;
use crate::call::{ClientDecision, CommitResultSender, NotifyWhen};
use crate::converse::ConversationService;
use crate::error::EngineError;
use crate::live_turn::LiveTurn;
use crate::ports::brain::HistoryNeed;
use crate::ports::store::{
    Change, Conflict, JobChange, JobKind, JobSelection, SessionChange, StoreError, StoredMessage,
};
use crate::publish::PublishedAgent;

pub(super) struct RunningTurn {
    pub(super) conversations: Arc<ConversationService>,
    pub(super) turn: Arc<LiveTurn>,
    pub(super) caller: Caller,
    pub(super) protocol: Protocol,
    pub(super) prompts: PermissionResponder,
    pub(super) served: Arc<PublishedAgent>,
    /// The session as stored, apart from what the end of this turn changes.
    pub(super) session: Session,
    pub(super) history: HistoryTail,
    /// What the brain needed of the history in its last step.
    pub(super) need: Option<HistoryNeed>,
    pub(super) permissions: Vec<PermissionAnswer>,
    /// The app's decisions on calls that the brain runs itself.
    pub(super) asked: Vec<CallAnswer>,
    pub(super) began: Timestamp,
    pub(super) deadline: Timestamp,
}

/// The app's decision on a pending call.
#[derive(Debug)]
pub(super) struct PermissionAnswer {
    pub(super) call: PendingCall,
    pub(super) granted: bool,
    pub(super) reason: Option<String>,
}

pub(super) struct TurnEnding {
    pub(super) reason: StopReason,
    pub(super) cancelled: bool,
    pub(super) error: Option<TurnError>,
    pub(super) pending: Vec<PendingCall>,
    /// Last message, committed together with the end of the turn.
    pub(super) last: Option<StoredMessage>,
}

impl TurnEnding {
    pub(super) fn stop(reason: StopReason) -> Self {
        Self { reason, cancelled: false, error: None, pending: Vec::new(), last: None }
    }

    pub(super) fn error(code: ErrorCode, message: impl Into<String>) -> Self {
        let error = Some(TurnError { code, message: message.into() });
        Self { reason: StopReason::Error, cancelled: false, error, pending: Vec::new(), last: None }
    }

    pub(super) fn cancelled() -> Self {
        Self { reason: StopReason::EndTurn, cancelled: true, error: None, pending: Vec::new(), last: None }
    }
}

impl RunningTurn {
    /// Commits the begin of a turn, reports it and runs the turn. `session_lock` is held until the turn is in memory.
    pub(super) async fn begin(
        self,
        changes: Vec<Change>,
        session_lock: OwnedMutexGuard<()>,
        answer: CommitResultSender,
        notify: NotifyWhen,
    ) {
        let begun = self.conversations.context.commit(changes).await;
        if begun.is_ok() {
            self.conversations.live.put(&self.turn);
            self.conversations.context.meter.turn_began(&self.served.agent.name);
        }
        drop(session_lock);
        // Send errors are ignored: the requester disconnected.
        match (begun, notify) {
            (Ok(()), NotifyWhen::WhenOver) => {
                let unstored = self.run().await;
                let _ = answer.send(Ok(()));
                UnstoredTurnEnd::store_later(unstored).await;
            }
            (Ok(()), NotifyWhen::AtOnce) => {
                let _ = answer.send(Ok(()));
                UnstoredTurnEnd::store_later(self.run().await).await;
            }
            (refused, _) => drop(answer.send(refused)),
        }
    }

    /// Runs the turn to its end. Returns the remaining work if the end could not be stored.
    async fn run(mut self) -> Option<UnstoredTurnEnd> {
        let mut usage = None;
        let ending = match self.steps(&mut usage).await {
            Ok(ending) => ending,
            // Deleting the session cancels its turn.
            Err(error) if error.code == ErrorCode::SessionNotFound => TurnEnding::cancelled(),
            // Calls may have started whose results are not in the history; they are closed with the turn.
            Err(error) if error.code == ErrorCode::StoreUnavailable => return Some(self.end_unstored(usage)),
            Err(error) => TurnEnding::error(error.code, error.message),
        };
        let (conversations, turn) = (Arc::clone(&self.conversations), Arc::clone(&self.turn));
        let unstored = self.end(ending, usage).await;
        if unstored.is_none() {
            conversations.live.remove(&turn);
        }
        unstored
    }

    async fn steps(&mut self, usage: &mut Option<TokenUsage>) -> Result<TurnEnding, EngineError> {
        for PermissionAnswer { call, granted, reason } in std::mem::take(&mut self.permissions) {
            if call.elsewhere {
                self.asked.push(CallAnswer::Permission { call: call.call.id, granted, reason });
                continue;
            }
            let decision = if granted { ClientDecision::Yes } else { ClientDecision::No { reason } };
            let offered = self.session.settings.tool(call.call.name.as_str()).is_some();
            self.answer_permission(call, decision, offered).await?;
        }
        for number in 0..self.conversations.context.limits.steps {
            if let Some(ending) = self.interrupted() {
                self.store_external_results(Vec::new()).await?;
                return Ok(ending);
            }
            if let Some(ending) = self.step(usage).instrument(tracing::debug_span!("step", number)).await? {
                return Ok(ending);
            }
        }
        let message = format!("the turn took {} steps and did not end", self.conversations.context.limits.steps);
        Ok(TurnEnding::error(ErrorCode::TooManySteps, message))
    }

    async fn answer_permission(
        &mut self,
        pending: PendingCall,
        decision: ClientDecision,
        offered: bool,
    ) -> Result<(), EngineError> {
        let target = self.result_target(&pending.call.id);
        match self.call(pending.call, decision, offered, target).await? {
            BrainStepCallOutcome::Ended { call, content } => {
                self.turn.write(|log| log.tool_result(call.as_str(), &content)).map_err(too_large)
            }
            BrainStepCallOutcome::AskClient(_) => {
                Err(EngineError::new(ErrorCode::Internal, "a decided call asked again"))
            }
        }
    }

    /// Ending of a turn that is cancelled or past its deadline; `None` while it may go on.
    pub(super) fn interrupted(&self) -> Option<TurnEnding> {
        if self.turn.cancellation().is_cancelled() {
            return Some(self.stopped());
        }
        (self.conversations.context.now() >= self.deadline).then(|| self.out_of_time())
    }

    /// Ending of a cancelled turn: by its client, or because the server stops.
    pub(super) fn stopped(&self) -> TurnEnding {
        match self.conversations.context.closed.is_cancelled() {
            true => TurnEnding::error(ErrorCode::ShuttingDown, "the server stopped before the turn ended; try again"),
            false => TurnEnding::cancelled(),
        }
    }

    pub(super) fn out_of_time(&self) -> TurnEnding {
        let message = format!("the turn took longer than {} seconds", self.conversations.context.limits.turn.as_secs());
        TurnEnding::error(ErrorCode::TurnDeadline, message)
    }

    /// Commits the end of the turn, then reports it to the readers and caches the conversation. Returns the remaining
    /// work if the end could not be stored; the readers then get an error.
    async fn end(self, ending: TurnEnding, usage: Option<TokenUsage>) -> Option<UnstoredTurnEnd> {
        let stop = TurnOutcome {
            stop_reason: ending.reason,
            turn_id: turn_id(&self.turn.session, self.turn.number),
            cancelled: ending.cancelled,
            usage,
            error: ending.error,
        };
        if let Some(error) = &stop.error {
            let request = self.caller.request.as_deref();
            tracing::warn!(request, session = %self.turn.session, turn = self.turn.number, code = %error.code, error = %error.message, "turn failed");
        }
        let changes = self.end_changes(ending.last.as_ref(), &ending.pending, &stop, self.conversations.context.now());
        let on_disk = match self.conversations.context.commit(changes).await {
            Ok(()) => true,
            Err(StoreError::Conflict(Conflict::NoSession | Conflict::TurnOver)) => false,
            Err(error) => {
                tracing::error!(%error, "store");
                return Some(self.end_unstored(stop.usage));
            }
        };
        let Self { conversations, turn, served, session, mut history, need, began, .. } = self;
        if on_disk {
            if let Some(last) = &ending.last {
                history.push(last);
            }
            history.trim(need.unwrap_or(HistoryNeed::NewestExchange), !ending.pending.is_empty());
            let session = Session { pending: ending.pending, running: false, ..session };
            conversations.recent.put(CachedConversation { session, history });
            // A session deleted meanwhile must not stay cached. Deletion cancels the turn before it removes the cache
            // entry, so that one of the two sees the other.
            if turn.cancellation().is_cancelled() {
                conversations.recent.forget(&turn.session);
            }
        }
        conversations.context.meter.turn_ended(&served.agent.name, &stop, began.until(conversations.context.now()));
        turn.write(|log| log.stopped(&stop));
        None
    }

    /// Reports to the readers that the turn failed because it could not be stored. They do not wait for the store,
    /// which may be full for hours.
    fn end_unstored(self, usage: Option<TokenUsage>) -> UnstoredTurnEnd {
        let Self { conversations, turn, served, began, .. } = self;
        let message = "the server's store is unavailable, so the end of the turn could not be stored; the history \
                       contains what was stored before";
        let stop = failed(&turn.session, turn.number, usage, ErrorCode::StoreUnavailable, message);
        tracing::warn!(session = %turn.session, turn = turn.number, "turn failed: it could not be stored");
        conversations.context.meter.turn_ended(&served.agent.name, &stop, began.until(conversations.context.now()));
        turn.write(|log| log.stopped(&stop));
        UnstoredTurnEnd { conversations, turn, stop }
    }

    /// Changes that end the turn: last message, pending calls, stop reason and event log.
    fn end_changes(
        &self,
        last: Option<&StoredMessage>,
        pending: &[PendingCall],
        stop: &TurnOutcome,
        at: Timestamp,
    ) -> Vec<Change> {
        let mut changes = Vec::with_capacity(3);
        changes.extend(last.map(|last| last.clone().append_to(&self.turn.session)));
        let (session, number) = (self.turn.session.clone(), self.turn.number);
        if !pending.is_empty() {
            changes.push(SessionChange::SetPending { session: session.clone(), pending: pending.to_vec() }.into());
        }
        let events = self.turn.read(|log| log.to_bytes_stopped(stop));
        if self.prompts == PermissionResponder::Absent {
            changes.push(reply_is_due(&session, at));
        }
        changes.push(SessionChange::EndTurn { session, number, at, stop: stop.clone(), events }.into());
        changes
    }
}

/// Change that makes the replies to direct messages due whose turn ends.
pub(super) fn reply_is_due(session: &SessionId, at: Timestamp) -> Change {
    let (kind, jobs) = (JobKind::Reply, JobSelection::Receiver(session.to_string()));
    JobChange::Hasten { kind, jobs, due: at }.into()
}

pub(super) fn failed(
    session: &SessionId,
    number: u64,
    usage: Option<TokenUsage>,
    code: ErrorCode,
    message: &str,
) -> TurnOutcome {
    TurnOutcome {
        stop_reason: StopReason::Error,
        turn_id: turn_id(session, number),
        cancelled: false,
        usage,
        error: Some(TurnError { code, message: message.to_owned() }),
    }
}

pub(super) fn too_large(full: nuncio_core::event::TurnEventLogFullError) -> EngineError {
    EngineError::new(ErrorCode::TurnTooLarge, full.to_string())
}
