//! Webhooks, waiting deliveries and the delivery log.

use async_trait::async_trait;
use nuncio_core::ids::AgentId;
use nuncio_core::notification::{Notification, QueuedNotification, RelayParty};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::relay::{Webhook, WebhookDelivery, WebhookDeliveryLogEntry};
use nuncio_engine::ports::store::{StoreError, WebhookStore};
use rusqlite::{Connection, Row, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{self, clamped, execute, run, to_json, to_limit};

pub(super) fn put(connection: &Connection, webhook: &Webhook) -> Result<(), SqlError> {
    run(
        connection,
        "INSERT INTO webhooks (recipient, state, failing_since, probe_at, secret) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (recipient) DO UPDATE SET state = excluded.state, failing_since = excluded.failing_since,
         probe_at = excluded.probe_at, secret = excluded.secret",
        params![
            recipient(&webhook.agent),
            webhook.state.as_str(),
            webhook.failing_since.map(Timestamp::as_millis),
            webhook.probe_at.map(Timestamp::as_millis),
            webhook.secret
        ],
    )
}

/// Removes a webhook; its waiting deliveries are deleted with it.
pub(super) fn remove(connection: &Connection, agent: &AgentId) -> Result<(), SqlError> {
    run(connection, "DELETE FROM webhooks WHERE recipient = ?1", [recipient(agent)])
}

/// Creates a delivery for a notification if the agent has a webhook that is not disabled. It is deleted with the
/// notification.
pub(super) fn deliver(
    connection: &Connection,
    recipient: &str,
    seq: i64,
    at: Timestamp,
    notification: &Notification,
) -> Result<(), SqlError> {
    run(
        connection,
        "INSERT INTO deliveries (recipient, seq, lane, is_first, attempts, due)
         SELECT ?1, ?2, ?3, NOT EXISTS (SELECT 1 FROM deliveries WHERE recipient = ?1 AND lane = ?3), 0, ?4
         FROM webhooks WHERE recipient = ?1 AND state <> 'disabled'",
        params![recipient, seq, lane(notification), at.as_millis()],
    )
}

/// Group of notifications whose deliveries keep their order: a conversation, or everything outside conversations.
fn lane(notification: &Notification) -> &str {
    match notification {
        Notification::Message { conversation, .. }
        | Notification::Read { conversation, .. }
        | Notification::Claimed { conversation, .. }
        | Notification::ConversationChanged { conversation } => conversation.as_str(),
        Notification::ReauthRequired { .. }
        | Notification::Restored { .. }
        | Notification::RelationEstablished { .. }
        | Notification::ConsentChanged { .. }
        | Notification::RelationRevoked { .. }
        | Notification::DevicesChanged { .. }
        | Notification::KeysChanged { .. }
        | Notification::WebhookMoved { .. } => "",
    }
}

pub(super) fn end(
    connection: &Connection,
    agent: &AgentId,
    seq: u64,
    logged: &WebhookDeliveryLogEntry,
) -> Result<(), SqlError> {
    let (recipient, seq) = (recipient(agent), clamped(seq));
    let sql = "DELETE FROM deliveries WHERE recipient = ?1 AND seq = ?2";
    if execute(connection, sql, params![recipient, seq])? > 0 {
        execute(
            connection,
            "INSERT INTO delivery_log (recipient, seq, at, content) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
            params![recipient, seq, logged.at.as_millis(), to_json(logged)?],
        )?;
    }
    Ok(())
}

pub(super) fn delay(
    connection: &Connection,
    agent: &AgentId,
    seq: u64,
    attempts: u32,
    due: Timestamp,
) -> Result<(), SqlError> {
    let sql = "UPDATE deliveries SET attempts = ?3, due = ?4 WHERE recipient = ?1 AND seq = ?2";
    run(connection, sql, params![recipient(agent), clamped(seq), attempts, due.as_millis()])
}

/// Makes the waiting deliveries of an agent due at `due`; those due earlier stay as they are.
pub(super) fn hasten(connection: &Connection, agent: &AgentId, due: Timestamp) -> Result<(), SqlError> {
    let sql = "UPDATE deliveries SET due = ?2 WHERE recipient = ?1 AND due > ?2";
    run(connection, sql, params![recipient(agent), due.as_millis()])
}

pub(super) fn forget_log(connection: &Connection, before: Timestamp, limit: usize) -> Result<(), SqlError> {
    run(
        connection,
        "DELETE FROM delivery_log WHERE (recipient, seq) IN
         (SELECT recipient, seq FROM delivery_log WHERE at < ?1 ORDER BY at LIMIT ?2)",
        params![before.as_millis(), to_limit(limit)],
    )
}

const WEBHOOK: &str = "SELECT recipient, state, failing_since, probe_at, secret FROM webhooks";
const DELIVERY: &str = "SELECT deliveries.recipient, deliveries.seq, attempts, due, at, happening
    FROM deliveries JOIN mail ON mail.recipient = deliveries.recipient AND mail.seq = deliveries.seq";

#[async_trait]
impl WebhookStore for SqliteStore {
    async fn webhook(&self, agent: &AgentId) -> Result<Option<Webhook>, StoreError> {
        self.readers.first(&format!("{WEBHOOK} WHERE recipient = ?1"), [recipient(agent)], read)
    }

    async fn webhooks(&self) -> Result<Vec<Webhook>, StoreError> {
        self.readers.all(format!("{WEBHOOK} ORDER BY recipient"), [], read).await
    }

    async fn deliveries(
        &self,
        by: Timestamp,
        except: &[AgentId],
        limit: usize,
    ) -> Result<Vec<WebhookDelivery>, StoreError> {
        let sql = format!(
            "{DELIVERY} JOIN webhooks ON webhooks.recipient = deliveries.recipient
             WHERE is_first = 1 AND due <= ?1 AND state = 'reachable'
             AND deliveries.recipient NOT IN (SELECT value FROM json_each(?2))
             ORDER BY due, deliveries.recipient, deliveries.seq LIMIT ?3"
        );
        let except = to_json(&except.iter().map(recipient).collect::<Vec<_>>())?;
        self.readers.all(sql, (by.as_millis(), except, to_limit(limit)), read_delivery).await
    }

    async fn first_delivery(&self, agent: &AgentId) -> Result<Option<WebhookDelivery>, StoreError> {
        let sql = format!("{DELIVERY} WHERE deliveries.recipient = ?1 ORDER BY deliveries.seq LIMIT 1");
        self.readers.first(&sql, [recipient(agent)], read_delivery)
    }

    async fn delivery_log(
        &self,
        agent: &AgentId,
        before: u64,
        limit: usize,
    ) -> Result<Vec<WebhookDeliveryLogEntry>, StoreError> {
        let sql = "SELECT content FROM delivery_log WHERE recipient = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3";
        self.readers.all(sql, (recipient(agent), clamped(before), to_limit(limit)), rows::json_row).await
    }

    async fn is_any_delivery_logged_before(&self, time: Timestamp) -> Result<bool, StoreError> {
        self.readers.exists("SELECT 1 FROM delivery_log WHERE at < ?1 LIMIT 1", [time.as_millis()])
    }
}

fn read(row: &Row<'_>) -> Result<Webhook, SqlError> {
    Ok(Webhook {
        agent: rows::parsed(row, 0, agent)?,
        state: rows::text_form(row, 1)?,
        failing_since: rows::optional(row, 2, rows::moment)?,
        probe_at: rows::optional(row, 3, rows::moment)?,
        secret: row.get(4)?,
    })
}

fn read_delivery(row: &Row<'_>) -> Result<WebhookDelivery, SqlError> {
    Ok(WebhookDelivery {
        agent: rows::parsed(row, 0, agent)?,
        mailed: QueuedNotification {
            seq: rows::number(row, 1)?,
            at: rows::moment(row, 4)?,
            notification: rows::json(row, 5)?,
        },
        attempts: row.get(2)?,
        due: rows::moment(row, 3)?,
    })
}

fn recipient(agent: &AgentId) -> String {
    RelayParty::Agent(agent.clone()).to_string()
}

fn agent(recipient: &str) -> Option<AgentId> {
    AgentId::parse(recipient.strip_prefix("agent:")?).ok()
}
