//! A turn that is going on: its event log, and those who listen.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::event::EventLog;
use nuncio_core::ids::SessionId;
use nuncio_core::turn::StreamMode;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A turn that is going on, or has just ended. Shared by the one who writes it and all who read it.
#[derive(Debug)]
pub struct LiveTurn {
    /// Its conversation.
    pub session: SessionId,
    /// Its number there.
    pub number: u64,
    /// How its client asked to receive it.
    pub mode: StreamMode,
    log: Mutex<EventLog>,
    written: Notify,
    cancel: CancellationToken,
}

impl LiveTurn {
    /// A turn that has just begun.
    #[must_use]
    pub fn new(session: SessionId, number: u64, mode: StreamMode) -> Self {
        Self::with_log(session, number, mode, EventLog::started())
    }

    /// The same, cancelled also when `closed` is.
    pub(crate) fn until(self, closed: &CancellationToken) -> Self {
        Self { cancel: closed.child_token(), ..self }
    }

    /// A turn that is over, as it was kept.
    #[must_use]
    pub fn with_log(session: SessionId, number: u64, mode: StreamMode, log: EventLog) -> Self {
        Self { session, number, mode, log: Mutex::new(log), written: Notify::new(), cancel: CancellationToken::new() }
    }

    /// Writes to the log and wakes the readers.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut EventLog) -> T) -> T {
        let outcome = write(&mut self.lock());
        self.written.notify_waiters();
        outcome
    }

    /// Reads the log.
    pub fn read<T>(&self, read: impl FnOnce(&EventLog) -> T) -> T {
        read(&self.lock())
    }

    /// Ends when there is an event of that number, or when the turn is over.
    pub async fn wait_for(&self, number: usize) {
        loop {
            let written = self.written.notified();
            tokio::pin!(written);
            // Registered before looking, so that nothing written in between is missed.
            written.as_mut().enable();
            if self.read(|log| log.len() > number || log.is_finished()) {
                return;
            }
            written.await;
        }
    }

    /// Ends when the turn is over.
    pub async fn finished(&self) {
        self.wait_for(usize::MAX).await;
    }

    /// Asks the turn to stop.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    pub(crate) fn cancellation(&self) -> &CancellationToken {
        &self.cancel
    }

    fn lock(&self) -> MutexGuard<'_, EventLog> {
        // A panic while writing leaves at worst a missing event, never a torn one.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
