//! Waiters for notifications. One task subscribes to the bus for all of them, so that a notification wakes only its
//! recipient however many are connected.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

use futures_util::StreamExt as _;
use nuncio_core::notification::RelayParty;
use tokio::sync::Notify;

use crate::accounts::NotificationService;
use crate::ports::bus::BusNotice;

/// Table size at which unused waiters are removed for the first time.
const FIRST_SWEEP: usize = 1024;

/// One `Notify` per recipient with a waiting reader.
#[derive(Debug)]
pub(crate) struct NotificationWaiters {
    table: Mutex<NotificationWaiterTable>,
    listening: Once,
}

#[derive(Debug)]
struct NotificationWaiterTable {
    by_recipient: HashMap<RelayParty, Weak<Notify>>,
    /// Table size at which unused waiters are removed next.
    sweep_at: usize,
}

impl Default for NotificationWaiters {
    fn default() -> Self {
        let table = NotificationWaiterTable { by_recipient: HashMap::new(), sweep_at: FIRST_SWEEP };
        Self { table: Mutex::new(table), listening: Once::new() }
    }
}

impl NotificationWaiters {
    /// The `Notify` of a recipient, which fires for every notification from now on.
    pub(crate) fn enter(&self, mailbox: &Arc<NotificationService>, recipient: &RelayParty) -> Arc<Notify> {
        self.listening.call_once(|| listen(mailbox));
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiter) = table.by_recipient.get(recipient).and_then(Weak::upgrade) {
            return waiter;
        }
        if table.by_recipient.len() >= table.sweep_at {
            table.by_recipient.retain(|_, waiter| waiter.strong_count() > 0);
            table.sweep_at = (table.by_recipient.len() * 2).max(FIRST_SWEEP);
        }
        let waiter = Arc::new(Notify::new());
        table.by_recipient.insert(recipient.clone(), Arc::downgrade(&waiter));
        waiter
    }

    /// Wakes the waiters of these recipients; all waiters if the list is empty.
    fn wake(&self, recipients: &[RelayParty]) {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let wake = |waiter: &Weak<Notify>| {
            if let Some(waiter) = waiter.upgrade() {
                waiter.notify_waiters();
            }
        };
        match recipients {
            [] => table.by_recipient.values().for_each(wake),
            named => named.iter().filter_map(|recipient| table.by_recipient.get(recipient)).for_each(wake),
        }
    }
}

/// Wakes the waiting readers of recipients that the bus names, until the server stops.
fn listen(mailbox: &Arc<NotificationService>) {
    let mut notices = mailbox.context.bus.subscribe();
    let listener = mailbox.clone();
    mailbox.context.tasks.spawn(async move {
        while let Some(Some(notice)) = listener.context.closing.run_until_cancelled(notices.next()).await {
            if let BusNotice::Mail(recipients) = notice {
                listener.waiters.wake(&recipients);
            }
        }
    });
}
