//! A running turn: its event log and readers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::event::TurnEventLog;
use nuncio_core::ids::SessionId;
use nuncio_core::turn::StreamMode;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A running or finished turn, shared by its writer and its readers.
#[derive(Debug)]
pub struct LiveTurn {
    pub session: SessionId,
    pub number: u64,
    pub mode: StreamMode,
    shared: Mutex<LiveTurnState>,
    written: Notify,
    ended: Notify,
    cancel: CancellationToken,
}

#[derive(Debug)]
struct LiveTurnState {
    log: TurnEventLog,
    /// Whether a reader has read all events and waits for more.
    awaited: bool,
}

impl LiveTurn {
    #[must_use]
    pub fn new(session: SessionId, number: u64, mode: StreamMode) -> Self {
        Self::with_log(session, number, mode, TurnEventLog::started())
    }

    /// Cancels the turn when `closed` is cancelled.
    pub(crate) fn until(self, closed: &CancellationToken) -> Self {
        Self { cancel: closed.child_token(), ..self }
    }

    /// A finished turn with its stored event log.
    #[must_use]
    pub fn with_log(session: SessionId, number: u64, mode: StreamMode, log: TurnEventLog) -> Self {
        let (written, ended) = (Notify::new(), Notify::new());
        let shared = Mutex::new(LiveTurnState { log, awaited: false });
        Self { session, number, mode, shared, written, ended, cancel: CancellationToken::new() }
    }

    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut TurnEventLog) -> T) -> T {
        let outcome = self.write_quietly(write);
        self.wake();
        outcome
    }

    /// Writes to the event log without waking readers; call [`Self::wake`] later.
    pub(crate) fn write_quietly<T>(&self, write: impl FnOnce(&mut TurnEventLog) -> T) -> T {
        write(&mut self.lock().log)
    }

    pub(crate) fn wake(&self) {
        let (awaited, over) = {
            let mut shared = self.lock();
            (std::mem::take(&mut shared.awaited), shared.log.is_finished())
        };
        if awaited {
            self.written.notify_waiters();
        }
        if over {
            self.ended.notify_waiters();
        }
    }

    pub fn read<T>(&self, read: impl FnOnce(&TurnEventLog) -> T) -> T {
        read(&self.lock().log)
    }

    /// Waits until event `number` exists or the turn is over.
    pub async fn wait_for(&self, number: usize) {
        loop {
            let written = self.written.notified();
            tokio::pin!(written);
            // Registered before the log is read, so that no event written in between is missed.
            written.as_mut().enable();
            {
                let mut shared = self.lock();
                if shared.log.len() > number || shared.log.is_finished() {
                    return;
                }
                shared.awaited = true;
            }
            written.await;
        }
    }

    /// Waits until the turn is over, without being woken by its events.
    pub async fn finished(&self) {
        let ended = self.ended.notified();
        tokio::pin!(ended);
        ended.as_mut().enable();
        if !self.read(TurnEventLog::is_finished) {
            ended.await;
        }
    }

    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    pub(crate) fn cancellation(&self) -> &CancellationToken {
        &self.cancel
    }

    fn lock(&self) -> MutexGuard<'_, LiveTurnState> {
        // A panic while writing leaves at worst a missing event, never an incomplete one.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
