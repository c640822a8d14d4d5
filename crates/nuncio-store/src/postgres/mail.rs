//! Notifications, and the position of each reader.

use async_trait::async_trait;
use nuncio_core::notification::{Notification, QueuedNotification, RelayParty};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{NotificationStore, StoreError};
use tokio_postgres::Row;

use super::PostgresStore;
use super::problem::SqlError;
use super::rows::{self, clamped, to_json, to_limit};
use super::writes::{CounterRow, SqlWrite, Translated, Writes, params};
use crate::common::delivery_lane;

/// Page size up to which mail is read as a short read.
const FEW_MAILS: usize = 32;

/// Adds the same notification for several recipients.
pub(super) fn put(
    recipients: &[RelayParty],
    at: Timestamp,
    notification: &Notification,
    out: &mut Writes,
) -> Translated {
    let content = to_json(notification)?;
    for recipient in sorted(recipients) {
        let is_agent = matches!(recipient, RelayParty::Agent(_));
        let name = recipient.to_string();
        // Numbers the notification, and creates the job of a delivery if the recipient is an agent with a webhook that is not
        // disabled.
        let put = SqlWrite::any(
            "WITH numbered AS (
                 INSERT INTO mailboxes (recipient, seq) VALUES ($1, 1)
                 ON CONFLICT (recipient) DO UPDATE SET seq = mailboxes.seq + 1 RETURNING seq),
               added AS (
                 INSERT INTO mail (recipient, seq, at, happening) SELECT $1, seq, $2, $3 FROM numbered RETURNING seq)
             INSERT INTO jobs (kind, key, receiver, lane, seq, due, attempts, term)
             SELECT 'delivery', $1 || '/' || added.seq, $1, $4, added.seq, $2, 0, 0 FROM added, webhooks
             WHERE $5 = 1::BIGINT AND recipient = $1 AND state <> 'disabled'",
            params![&name, at, &content, delivery_lane(notification), is_agent],
        );
        out.push(put.counting(CounterRow::Mailbox(name)));
    }
    Ok(())
}

/// Recipients in the order in which their mailboxes are locked.
pub(super) fn sorted(recipients: &[RelayParty]) -> Vec<&RelayParty> {
    let mut sorted: Vec<_> = recipients.iter().collect();
    sorted.sort_by_key(ToString::to_string);
    sorted
}

pub(super) fn mark_read(recipient: &RelayParty, reader: &str, seq: u64, out: &mut Writes) -> Translated {
    // The read position never exceeds the last number.
    out.push(SqlWrite::any(
        "INSERT INTO mail_read (recipient, reader, seq)
         SELECT recipient, $2::TEXT, LEAST($3::BIGINT, seq) FROM mailboxes WHERE recipient = $1 AND LEAST($3, seq) > 0
         ON CONFLICT (recipient, reader) DO UPDATE SET seq = GREATEST(mail_read.seq, excluded.seq)",
        params![recipient.to_string(), reader, clamped(seq)],
    ));
    Ok(())
}

pub(super) fn forget(before: Timestamp, limit: usize, out: &mut Writes) -> Translated {
    out.push(SqlWrite::any(
        "DELETE FROM mail WHERE (recipient, seq) IN (SELECT recipient, seq FROM mail WHERE at < $1 ORDER BY at LIMIT $2)",
        params![before, to_limit(limit)],
    ));
    Ok(())
}

#[async_trait]
impl NotificationStore for PostgresStore {
    async fn mail(
        &self,
        recipient: &RelayParty,
        seq: u64,
        limit: usize,
    ) -> Result<Vec<QueuedNotification>, StoreError> {
        let sql = "SELECT seq, at, happening FROM mail WHERE recipient = $1 AND seq > $2 ORDER BY seq LIMIT $3";
        let params = params![recipient.to_string(), clamped(seq), to_limit(limit)];
        match limit <= FEW_MAILS {
            true => self.readers.few(sql, params, read).await,
            false => self.readers.all(sql, params, read).await,
        }
    }

    async fn mail_head(&self, recipient: &RelayParty) -> Result<u64, StoreError> {
        let sql = "SELECT seq FROM mailboxes WHERE recipient = $1";
        let head = self.readers.first(sql, params![recipient.to_string()], |row| rows::number(row, 0)).await?;
        Ok(head.unwrap_or(0))
    }

    async fn mail_read(&self, recipient: &RelayParty, reader: &str) -> Result<u64, StoreError> {
        let sql = "SELECT seq FROM mail_read WHERE recipient = $1 AND reader = $2";
        let params = params![recipient.to_string(), reader];
        Ok(self.readers.first(sql, params, |row| rows::number(row, 0)).await?.unwrap_or(0))
    }

    async fn is_any_mail_before(&self, time: Timestamp) -> Result<bool, StoreError> {
        self.readers.exists("SELECT 1 FROM mail WHERE at < $1 LIMIT 1", params![time]).await
    }
}

fn read(row: &Row) -> Result<QueuedNotification, SqlError> {
    Ok(QueuedNotification { seq: rows::number(row, 0)?, at: rows::moment(row, 1)?, notification: rows::json(row, 2)? })
}
