//! Notifications, and the position of each reader.

use async_trait::async_trait;
use nuncio_core::ids::ConversationId;
use nuncio_core::notification::{Notification, QueuedNotification, RelayParty};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{NotificationStore, StoreError};
use tokio_postgres::Row;

use super::PostgresStore;
use super::problem::SqlError;
use super::rows::{self, clamped, to_json, to_limit};
use super::writes::{CounterRow, SqlValue, SqlWrite, Translated, Writes, params};
use crate::common::delivery_lane;

/// Page size up to which mail is read as a short read.
const FEW_MAILS: usize = 32;

/// Number that stands for the message number while a notification is encoded; PostgreSQL replaces it.
const NUMBER_TO_COME: u64 = u64::MAX;

/// Statement that stores a notification in the mailbox of `$1` at the time `$2`, with the content that it selects. It
/// creates the job of a delivery in the lane `$3` if the recipient is an agent (`$4`) with a webhook that is not disabled.
macro_rules! add_mail {
    ($content:literal) => {
        concat!(
            "WITH numbered AS (
                 INSERT INTO mailboxes (recipient, seq) VALUES ($1, 1)
                 ON CONFLICT (recipient) DO UPDATE SET seq = mailboxes.seq + 1 RETURNING seq),
               added AS (
                 INSERT INTO mail (recipient, seq, at, happening) SELECT $1, numbered.seq, $2, ",
            $content,
            " RETURNING seq)
             INSERT INTO jobs (kind, key, receiver, lane, seq, due, attempts, term)
             SELECT 'delivery', $1 || '/' || added.seq, $1, $3::TEXT, added.seq, $2, 0, 0 FROM added, webhooks
             WHERE $4 = 1::BIGINT AND recipient = $1 AND state <> 'disabled'"
        )
    };
}

/// Adds the same notification for several recipients.
pub(super) fn put(
    recipients: &[RelayParty],
    at: Timestamp,
    notification: &Notification,
    out: &mut Writes,
) -> Translated {
    let content = params![to_json(notification)?];
    add(recipients, at, notification, add_mail!("$5 FROM numbered"), &content, out)
}

/// Notifies the recipients of the message of a conversation that the same commit has numbered.
pub(super) fn put_of_message(
    recipients: &[RelayParty],
    at: Timestamp,
    conversation: &ConversationId,
    out: &mut Writes,
) -> Translated {
    let notification = Notification::Message { conversation: conversation.clone(), seq: NUMBER_TO_COME };
    let content = to_json(&notification)?;
    let Some((before, after)) = content.split_once(&NUMBER_TO_COME.to_string()) else {
        return Err(SqlError::Unusable("a notification does not contain its number".to_owned()));
    };
    let sql = add_mail!("$5::TEXT || last_seq || $6::TEXT FROM numbered, relay_conversations WHERE id = $7");
    let content = params![before, after, conversation.as_str()];
    add(recipients, at, &notification, sql, &content, out)
}

fn add(
    recipients: &[RelayParty],
    at: Timestamp,
    notification: &Notification,
    sql: &'static str,
    content: &[SqlValue],
    out: &mut Writes,
) -> Translated {
    // In the order in which the mailboxes are locked.
    let mut recipients: Vec<_> = recipients.iter().map(|recipient| (recipient.to_string(), recipient)).collect();
    recipients.sort();
    for (name, recipient) in recipients {
        let is_agent = matches!(recipient, RelayParty::Agent(_));
        let mut params = params![&name, at, delivery_lane(notification), is_agent];
        params.extend_from_slice(content);
        out.push(SqlWrite::any(sql, params).counting(CounterRow::Mailbox(name)));
    }
    Ok(())
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
