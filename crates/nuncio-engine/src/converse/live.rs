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
    shared: Mutex<Shared>,
    written: Notify,
    ended: Notify,
    cancel: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    log: EventLog,
    /// Whether a reader has seen all there is and sleeps.
    awaited: bool,
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
        let (written, ended) = (Notify::new(), Notify::new());
        let shared = Mutex::new(Shared { log, awaited: false });
        Self { session, number, mode, shared, written, ended, cancel: CancellationToken::new() }
    }

    /// Writes to the log and wakes the readers.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut EventLog) -> T) -> T {
        let outcome = self.write_quietly(write);
        self.wake();
        outcome
    }

    /// Writes to the log. The readers sleep on until [`Self::wake`].
    pub(crate) fn write_quietly<T>(&self, write: impl FnOnce(&mut EventLog) -> T) -> T {
        write(&mut self.lock().log)
    }

    /// Wakes the readers, if any sleeps.
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

    /// Reads the log.
    pub fn read<T>(&self, read: impl FnOnce(&EventLog) -> T) -> T {
        read(&self.lock().log)
    }

    /// Ends when there is an event of that number, or when the turn is over.
    pub async fn wait_for(&self, number: usize) {
        loop {
            let written = self.written.notified();
            tokio::pin!(written);
            // Registered before looking, so that nothing written in between is missed.
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

    /// Ends when the turn is over. Wakes nobody for what is said until then.
    pub async fn finished(&self) {
        let ended = self.ended.notified();
        tokio::pin!(ended);
        ended.as_mut().enable();
        if !self.read(EventLog::is_finished) {
            ended.await;
        }
    }

    /// Asks the turn to stop.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    pub(crate) fn cancellation(&self) -> &CancellationToken {
        &self.cancel
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic while writing leaves at worst a missing event, never a torn one.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
