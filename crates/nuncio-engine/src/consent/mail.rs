//! What people and agents are told, kept until it is too old.

use nuncio_core::happening::{QueuedNotification, Recipient};

use crate::Engine;
use crate::error::EngineError;
use crate::ports::bus::Notice;
use crate::ports::store::{Change, ConsentChange, RelayChange, StoreError};

/// How much is read at once, at most.
const PAGE: usize = 500;

/// How much is forgotten in one commit.
const FORGET: usize = 1000;

impl Engine {
    /// What a recipient was told after `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn mail(
        &self,
        recipient: &Recipient,
        after: u64,
        limit: usize,
    ) -> Result<Vec<QueuedNotification>, EngineError> {
        Ok(self.store().mail(recipient, after, limit.min(PAGE)).await?)
    }

    /// The same, but waits until there is something, or the server stops: then there is nothing.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn next_mail(
        &self,
        recipient: &Recipient,
        after: u64,
        limit: usize,
    ) -> Result<Vec<QueuedNotification>, EngineError> {
        let room = self.mailrooms().enter(self, recipient);
        loop {
            // Listening before looking, so that nothing is missed.
            let mut called = std::pin::pin!(room.notified());
            called.as_mut().enable();
            let mail = self.mail(recipient, after, limit).await?;
            if !mail.is_empty() {
                return Ok(mail);
            }
            tokio::select! {
                () = called => {}
                () = self.closing().cancelled() => return Ok(Vec::new()),
            }
        }
    }

    /// Makes the changes, and wakes everyone who is told something by them.
    pub(crate) async fn commit_telling(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        let told: Vec<_> = changes.iter().flat_map(told_by).cloned().collect();
        if told.is_empty() {
            return self.store().commit(changes).await;
        }
        // A task of its own: whoever hangs up in between must not leave others asleep over what is on disk.
        let engine = self.clone();
        let telling = self.tasks().spawn(async move {
            engine.store().commit(changes).await?;
            engine.called().were_told(&told);
            engine.bus().publish(Notice::Mail(told.into())).await;
            Ok(())
        });
        telling.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the commit was given up".to_owned())))
    }

    /// The number of the last thing a recipient was told; zero for none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn mail_head(&self, recipient: &Recipient) -> Result<u64, EngineError> {
        Ok(self.store().mail_head(recipient).await?)
    }

    /// Up to which number a reader, such as one device, has read; zero for none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn mail_read(&self, recipient: &Recipient, reader: &str) -> Result<u64, EngineError> {
        Ok(self.store().mail_read(recipient, reader).await?)
    }

    /// A reader has read up to that number.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn mark_mail_read(&self, recipient: &Recipient, reader: &str, seq: u64) -> Result<(), EngineError> {
        let change = ConsentChange::ReadMail { recipient: recipient.clone(), reader: reader.to_owned(), seq };
        Ok(self.store().commit(vec![change.into()]).await?)
    }

    /// Forgets what is too old. What waits for a person's yes is not lost with it: their relation says so.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn forget_old_mail(&self) -> Result<(), EngineError> {
        let kept = i64::try_from(self.limits().consent.mail_kept.as_millis()).unwrap_or(i64::MAX);
        let before = nuncio_core::time::Timestamp::from_millis(self.now().as_millis().saturating_sub(kept));
        while self.store().is_any_mail_before(before).await? {
            self.store().commit(vec![ConsentChange::ForgetMail { before, limit: FORGET }.into()]).await?;
        }
        Ok(())
    }
}

/// Who is told something by a change.
fn told_by(change: &Change) -> &[Recipient] {
    match change {
        Change::Consent(change) => match &**change {
            ConsentChange::PutMail { recipient, .. } => std::slice::from_ref(recipient),
            _ => &[],
        },
        Change::Relay(change) => match &**change {
            RelayChange::PostMessage { to, .. } => to,
            _ => &[],
        },
        _ => &[],
    }
}
