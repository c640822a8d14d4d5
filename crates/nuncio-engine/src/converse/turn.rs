//! The turn loop: history → brain → events → tools → until it stops. Each finished step is on disk
//! before the next begins.

use std::sync::Arc;

use nuncio_core::Code;
use nuncio_core::policy::Protocol;
use nuncio_core::session::{PendingCall, Session};
use nuncio_core::time::Timestamp;
use nuncio_core::turn::{CallAnswer, Stop, StopReason, TurnError, Usage, turn_id};
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::live::LiveTurn;
use super::recent::{Conversation, History};
use super::step::{Answered, StepEnd};
use super::unstored::UnstoredEnd;
use crate::Engine;
use crate::access::Caller;
use crate::call::ClientSays;
use crate::error::EngineError;
use crate::ports::store::{Change, Conflict, StoreError, StoredMessage};
use crate::publish::Served;

/// A turn with everything it needs to go on by itself.
pub(super) struct RunningTurn {
    pub(super) engine: Engine,
    pub(super) turn: Arc<LiveTurn>,
    pub(super) caller: Caller,
    pub(super) protocol: Protocol,
    pub(super) served: Arc<Served>,
    /// The session as it is now, but for what this turn's end changes.
    pub(super) session: Session,
    /// What was said in it; nothing when that has to be read.
    pub(super) history: Option<History>,
    pub(super) permissions: Vec<Permission>,
    /// The app's word on calls that the brain runs itself.
    pub(super) asked: Vec<CallAnswer>,
    pub(super) began: Timestamp,
    pub(super) deadline: Timestamp,
}

/// When whoever asked for a turn is told that it has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// As soon as that is on disk.
    WhenBegun,
    /// When it is over: they wait for that anyway, and are woken once.
    WhenOver,
}

/// The app's word on a call that was waiting for it.
#[derive(Debug)]
pub(super) struct Permission {
    pub(super) call: PendingCall,
    pub(super) granted: bool,
    pub(super) reason: Option<String>,
}

/// How a turn came to its end.
pub(super) struct Ending {
    pub(super) reason: StopReason,
    pub(super) cancelled: bool,
    pub(super) error: Option<TurnError>,
    pub(super) pending: Vec<PendingCall>,
    /// The last message of the turn, put on disk together with its end.
    pub(super) last: Option<StoredMessage>,
}

impl Ending {
    pub(super) fn stop(reason: StopReason) -> Self {
        Self { reason, cancelled: false, error: None, pending: Vec::new(), last: None }
    }

    pub(super) fn error(code: Code, message: impl Into<String>) -> Self {
        let error = Some(TurnError { code, message: message.into() });
        Self { reason: StopReason::Error, cancelled: false, error, pending: Vec::new(), last: None }
    }

    pub(super) fn cancelled() -> Self {
        Self { reason: StopReason::EndTurn, cancelled: true, error: None, pending: Vec::new(), last: None }
    }
}

impl RunningTurn {
    /// Puts the beginning on disk, says so, and runs the turn. `settled` keeps others from looking
    /// in between.
    pub(super) async fn begin(
        self,
        changes: Vec<Change>,
        settled: OwnedMutexGuard<()>,
        answer: oneshot::Sender<Result<(), StoreError>>,
        told: Told,
    ) {
        let begun = self.engine.store().commit(changes).await;
        if begun.is_ok() {
            self.engine.live().put(&self.turn);
            self.engine.meter().turn_began(&self.served.agent.name);
        }
        drop(settled);
        // Whoever has hung up is not told.
        match (begun, told) {
            (Ok(()), Told::WhenOver) => {
                let unstored = self.run().await;
                let _ = answer.send(Ok(()));
                UnstoredEnd::store_later(unstored).await;
            }
            (Ok(()), Told::WhenBegun) => {
                let _ = answer.send(Ok(()));
                UnstoredEnd::store_later(self.run().await).await;
            }
            (refused, _) => drop(answer.send(refused)),
        }
    }

    /// Runs the turn to its end, whatever that is. Returns what is left to do when the end cannot be stored.
    async fn run(mut self) -> Option<UnstoredEnd> {
        let mut usage = None;
        let ending = match self.steps(&mut usage).await {
            Ok(ending) => ending,
            // Its session was deleted under it, which is a way of cancelling it.
            Err(error) if error.code == Code::SessionNotFound => Ending::cancelled(),
            // Calls may have started whose results are not in the history; they are closed with the turn.
            Err(error) if error.code == Code::StoreUnavailable => return Some(self.end_unstored(usage)),
            Err(error) => Ending::error(error.code, error.message),
        };
        let (engine, turn) = (self.engine.clone(), Arc::clone(&self.turn));
        let unstored = self.end(ending, usage).await;
        if unstored.is_none() {
            engine.live().remove(&turn);
        }
        unstored
    }

    async fn steps(&mut self, usage: &mut Option<Usage>) -> Result<Ending, EngineError> {
        for Permission { call, granted, reason } in std::mem::take(&mut self.permissions) {
            if call.elsewhere {
                self.asked.push(CallAnswer::Permission { call: call.call.id, granted, reason });
                continue;
            }
            let says = if granted { ClientSays::Yes } else { ClientSays::No { reason } };
            let offered = self.session.settings.tool(call.call.name.as_str()).is_some();
            self.answer_permission(call, says, offered).await?;
        }
        for number in 0..self.engine.limits().steps {
            if let Some(ending) = self.interrupted() {
                self.settle(Vec::new()).await?;
                return Ok(ending);
            }
            match self.step(usage).instrument(tracing::debug_span!("step", number)).await? {
                StepEnd::GoOn => {}
                StepEnd::Stop(ending) => return Ok(*ending),
            }
        }
        let message = format!("the turn took {} steps without coming to an end", self.engine.limits().steps);
        Ok(Ending::error(Code::TooManySteps, message))
    }

    /// Runs or refuses a call that the app has decided on.
    async fn answer_permission(
        &mut self,
        pending: PendingCall,
        says: ClientSays,
        offered: bool,
    ) -> Result<(), EngineError> {
        let place = self.place(&pending.call.id);
        match self.call(pending.call, says, offered, Some(place)).await? {
            Answered::Ended { call, content } => {
                self.turn.write(|log| log.tool_result(call.as_str(), &content)).map_err(too_large)
            }
            Answered::AskClient(_) => Err(EngineError::new(Code::Internal, "a decided call asked again")),
        }
    }

    /// Whether the turn must end now: cancelled, or out of time.
    pub(super) fn interrupted(&self) -> Option<Ending> {
        if self.cancel().is_cancelled() {
            return Some(self.stopped());
        }
        (self.engine.now() >= self.deadline).then(|| self.out_of_time())
    }

    /// How it ends when it is cancelled: by somebody, or with the server.
    pub(super) fn stopped(&self) -> Ending {
        match self.engine.closed().is_cancelled() {
            true => Ending::error(Code::ShuttingDown, "the server stopped before the turn was over; try again"),
            false => Ending::cancelled(),
        }
    }

    pub(super) fn out_of_time(&self) -> Ending {
        let message = format!("the turn took longer than {} seconds", self.engine.limits().turn.as_secs());
        Ending::error(Code::TurnDeadline, message)
    }

    pub(super) fn cancel(&self) -> &CancellationToken {
        self.turn.cancellation()
    }

    /// Puts the end on disk, then tells everyone who reads.
    async fn end(self, ending: Ending, usage: Option<Usage>) -> Option<UnstoredEnd> {
        let stop = Stop {
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
        let changes = self.end_changes(ending.last.as_ref(), &ending.pending, &stop, self.engine.now());
        let on_disk = match self.engine.store().commit(changes).await {
            Ok(()) => true,
            Err(StoreError::Conflict(Conflict::NoSession | Conflict::TurnOver)) => false,
            Err(error) => {
                tracing::error!(%error, "store");
                return Some(self.end_unstored(stop.usage));
            }
        };
        let Self { engine, turn, served, session, history, began, .. } = self;
        if let (true, Some(mut history)) = (on_disk, history) {
            history.extend(ending.last);
            let session = Session { pending: ending.pending, running: false, ..session };
            engine.recent().put(Conversation { session, history });
            // Unless it has been deleted meanwhile: whoever deletes the session cancels its turn before
            // forgetting it, so that one of the two sees the other.
            if turn.cancellation().is_cancelled() {
                engine.recent().forget(&turn.session);
            }
        }
        engine.meter().turn_ended(&served.agent.name, &stop, began.until(engine.now()));
        turn.write(|log| log.stopped(&stop));
        None
    }

    /// Tells everyone who reads that the turn failed because it could not be stored. They do not wait for the
    /// store: it may be full for hours.
    fn end_unstored(self, usage: Option<Usage>) -> UnstoredEnd {
        let Self { engine, turn, served, began, .. } = self;
        let stop = UnstoredEnd::stop(&turn, usage);
        tracing::warn!(session = %turn.session, turn = turn.number, "turn failed: it could not be stored");
        engine.meter().turn_ended(&served.agent.name, &stop, began.until(engine.now()));
        turn.write(|log| log.stopped(&stop));
        UnstoredEnd::new(engine, turn, stop)
    }

    /// What puts the end on disk: the last message, the calls that wait, why it stopped and all that was told.
    fn end_changes(
        &self,
        last: Option<&StoredMessage>,
        pending: &[PendingCall],
        stop: &Stop,
        at: Timestamp,
    ) -> Vec<Change> {
        let mut changes = Vec::with_capacity(3);
        changes.extend(last.map(|last| self.appended(last.clone())));
        let (session, number) = (self.turn.session.clone(), self.turn.number);
        if !pending.is_empty() {
            changes.push(Change::SetPending { session: session.clone(), pending: pending.to_vec() });
        }
        let events = self.turn.read(|log| log.to_bytes_stopped(stop));
        changes.push(Change::EndTurn { session, number, at, stop: stop.clone(), events });
        changes
    }
}

pub(super) fn too_large(full: nuncio_core::event::LogFull) -> EngineError {
    EngineError::new(Code::TurnTooLarge, full.to_string())
}
