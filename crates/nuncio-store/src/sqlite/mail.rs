//! Notifications, and the position of each reader.

use async_trait::async_trait;
use nuncio_core::notification::{Notification, QueuedNotification, RelayParty};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{NotificationStore, StoreError};
use rusqlite::{Connection, params};

use super::problem::SqlError;
use super::rows::{self, all, clamped, first, run, to_integer, to_json, to_limit};
use super::{SqliteStore, webhooks};

/// Page size up to which mail is read on the calling thread.
const FEW_MAILS: usize = 32;

/// Adds the same notification for several recipients.
pub(super) fn put(
    connection: &Connection,
    recipients: &[RelayParty],
    at: Timestamp,
    notification: &Notification,
) -> Result<(), SqlError> {
    let content = to_json(notification)?;
    for recipient in recipients {
        let name = recipient.to_string();
        let seq = next(connection, &name)?;
        run(
            connection,
            "INSERT INTO mail (recipient, seq, at, happening) VALUES (?1, ?2, ?3, ?4)",
            params![name, to_integer(seq)?, at.as_millis(), content],
        )?;
        if matches!(recipient, RelayParty::Agent(_)) {
            webhooks::deliver(connection, &name, seq, at, notification)?;
        }
    }
    Ok(())
}

fn next(connection: &Connection, recipient: &str) -> Result<u64, SqlError> {
    let sql = "INSERT INTO mailboxes (recipient, seq) VALUES (?1, 1)
         ON CONFLICT (recipient) DO UPDATE SET seq = seq + 1 RETURNING seq";
    let seq = first(connection, sql, [recipient], |row| rows::number(row, 0))?;
    seq.ok_or_else(|| SqlError::Damaged("a mailbox has no number".to_owned()))
}

pub(super) fn mark_read(
    connection: &Connection,
    recipient: &RelayParty,
    reader: &str,
    seq: u64,
) -> Result<(), SqlError> {
    // The read position never exceeds the last number.
    let seq = to_integer(seq.min(head(connection, recipient)?))?;
    if seq == 0 {
        return Ok(());
    }
    run(
        connection,
        "INSERT INTO mail_read (recipient, reader, seq) VALUES (?1, ?2, ?3)
         ON CONFLICT (recipient, reader) DO UPDATE SET seq = max(seq, excluded.seq)",
        params![recipient.to_string(), reader, seq],
    )
}

pub(super) fn forget(connection: &Connection, before: Timestamp, limit: usize) -> Result<(), SqlError> {
    run(
        connection,
        "DELETE FROM mail WHERE (recipient, seq) IN (SELECT recipient, seq FROM mail WHERE at < ?1 ORDER BY at LIMIT ?2)",
        params![before.as_millis(), to_limit(limit)],
    )
}

/// Reads at most `limit` notifications after a number.
fn after(
    connection: &Connection,
    recipient: &str,
    after: u64,
    limit: usize,
) -> Result<Vec<QueuedNotification>, SqlError> {
    let sql = "SELECT seq, at, happening FROM mail WHERE recipient = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
    all(connection, sql, params![recipient, clamped(after), to_limit(limit)], |row| {
        Ok(QueuedNotification {
            seq: rows::number(row, 0)?,
            at: rows::moment(row, 1)?,
            notification: rows::json(row, 2)?,
        })
    })
}

fn head(connection: &Connection, recipient: &RelayParty) -> Result<u64, SqlError> {
    let sql = "SELECT seq FROM mailboxes WHERE recipient = ?1";
    Ok(first(connection, sql, [recipient.to_string()], |row| rows::number(row, 0))?.unwrap_or(0))
}

#[async_trait]
impl NotificationStore for SqliteStore {
    async fn mail(
        &self,
        recipient: &RelayParty,
        seq: u64,
        limit: usize,
    ) -> Result<Vec<QueuedNotification>, StoreError> {
        let (recipient, few) = (recipient.to_string(), limit.min(FEW_MAILS));
        let mail = self.readers.point(|connection| after(connection, &recipient, seq, few))?;
        if few == limit || mail.len() < few {
            return Ok(mail);
        }
        self.readers.list(move |connection| after(connection, &recipient, seq, limit)).await
    }

    async fn mail_head(&self, recipient: &RelayParty) -> Result<u64, StoreError> {
        self.readers.point(|connection| head(connection, recipient))
    }

    async fn mail_read(&self, recipient: &RelayParty, reader: &str) -> Result<u64, StoreError> {
        let sql = "SELECT seq FROM mail_read WHERE recipient = ?1 AND reader = ?2";
        let read = self.readers.first(sql, params![recipient.to_string(), reader], |row| rows::number(row, 0))?;
        Ok(read.unwrap_or(0))
    }

    async fn is_any_mail_before(&self, time: Timestamp) -> Result<bool, StoreError> {
        self.readers.exists("SELECT 1 FROM mail WHERE at < ?1 LIMIT 1", [time.as_millis()])
    }
}
