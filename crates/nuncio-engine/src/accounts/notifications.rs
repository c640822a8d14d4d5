//! Notifications to people and agents, stored until they are too old.

use crate::accounts::NotificationWaiters;
use crate::accounts::WebhookIndex;
use crate::context::EngineContext;
use nuncio_core::notification::{Notification, QueuedNotification, RelayParty};
use std::sync::Arc;

use crate::error::EngineError;
use crate::ports::bus::BusNotice;
use crate::ports::store::{Change, ConsentChange, NotificationStore, RelayChange, StoreError};

const MAX_PAGE_SIZE: usize = 500;

const DELETIONS_PER_COMMIT: usize = 1000;

/// Service for notifications to people and agents.
pub struct NotificationService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn NotificationStore>,
    pub(crate) waiters: NotificationWaiters,
    pub(crate) index: Arc<WebhookIndex>,
}

impl NotificationService {
    /// Notifications to a recipient with a number above `after`, in order; at most `limit`, and never more than 500.
    pub async fn mail(
        &self,
        recipient: &RelayParty,
        after: u64,
        limit: usize,
    ) -> Result<Vec<QueuedNotification>, EngineError> {
        Ok(self.store.mail(recipient, after, limit.min(MAX_PAGE_SIZE)).await?)
    }

    /// Like [`NotificationService::mail`], but waits for the next notification. Returns an empty list when the server stops.
    pub async fn next_mail(
        self: &Arc<Self>,
        recipient: &RelayParty,
        after: u64,
        limit: usize,
    ) -> Result<Vec<QueuedNotification>, EngineError> {
        let waiter = self.waiters.enter(self, recipient);
        loop {
            // Registered before reading, so that no notification is missed.
            let mut called = std::pin::pin!(waiter.notified());
            called.as_mut().enable();
            let mail = self.mail(recipient, after, limit).await?;
            if !mail.is_empty() {
                return Ok(mail);
            }
            if self.context.closing.run_until_cancelled(called).await.is_none() {
                return Ok(Vec::new());
            }
        }
    }

    pub(crate) fn mail_change(&self, recipient: &RelayParty, notification: Notification) -> Change {
        ConsentChange::PutMail { recipient: recipient.clone(), at: self.context.now(), notification }.into()
    }

    /// Commits changes and wakes every recipient that they notify.
    pub(crate) async fn commit_and_notify(self: &Arc<Self>, changes: Vec<Change>) -> Result<(), StoreError> {
        let recipients: Vec<_> = changes.iter().flat_map(mail_recipients).cloned().collect();
        if recipients.is_empty() {
            return self.context.commit(changes).await;
        }
        // Runs in its own task: a request that is dropped after the commit must still wake the recipients.
        let mailbox = Arc::clone(self);
        let telling = self.context.tasks.spawn(async move {
            mailbox.context.commit(changes).await?;
            if mailbox.index.has_any(&recipients) {
                mailbox.context.jobs_changed.notify_one();
            }
            mailbox.context.bus.publish(BusNotice::Mail(recipients.into())).await;
            Ok(())
        });
        telling.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the commit was interrupted".to_owned())))
    }

    /// Number of a recipient's last notification; zero for none.
    pub async fn mail_head(&self, recipient: &RelayParty) -> Result<u64, EngineError> {
        Ok(self.store.mail_head(recipient).await?)
    }

    /// Number of the last notification that a reader, such as one device, has read; zero for none.
    pub async fn mail_read(&self, recipient: &RelayParty, reader: &str) -> Result<u64, EngineError> {
        Ok(self.store.mail_read(recipient, reader).await?)
    }

    pub async fn mark_mail_read(&self, recipient: &RelayParty, reader: &str, seq: u64) -> Result<(), EngineError> {
        let change = ConsentChange::ReadMail { recipient: recipient.clone(), reader: reader.to_owned(), seq };
        Ok(self.context.commit_one(change).await?)
    }

    /// Deletes old notifications. Pending consent questions are not lost: the relation stores them.
    pub async fn forget_old_mail(&self) -> Result<(), EngineError> {
        let before = self.context.now().before(self.context.limits.consent.mail_kept);
        while self.store.is_any_mail_before(before).await? {
            self.context.commit_one(ConsentChange::ForgetMail { before, limit: DELETIONS_PER_COMMIT }).await?;
        }
        Ok(())
    }
}

/// Recipients that a change notifies.
fn mail_recipients(change: &Change) -> &[RelayParty] {
    match change {
        Change::Consent(ConsentChange::PutMail { recipient, .. }) => std::slice::from_ref(recipient),
        Change::Relay(RelayChange::PostMessage { to, .. }) => to,
        _ => &[],
    }
}
