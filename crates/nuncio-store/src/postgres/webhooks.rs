//! Webhooks, waiting deliveries and the delivery log.

use async_trait::async_trait;
use nuncio_core::ids::AgentId;
use nuncio_core::notification::{Notification, QueuedNotification, RelayParty};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::relay::{Webhook, WebhookDelivery, WebhookDeliveryLogEntry};
use nuncio_engine::ports::store::{StoreError, WebhookStore};
use tokio_postgres::Row;

use super::PostgresStore;
use super::problem::SqlError;
use super::rows::{self, clamped, to_json, to_limit};
use super::writes::{SqlWrite, Translated, Writes, params};

pub(super) fn put(webhook: &Webhook, out: &mut Writes) -> Translated {
    out.push(SqlWrite::any(
        "INSERT INTO webhooks (recipient, state, failing_since, probe_at, secret) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (recipient) DO UPDATE SET state = excluded.state, failing_since = excluded.failing_since,
         probe_at = excluded.probe_at, secret = excluded.secret",
        params![
            recipient(&webhook.agent),
            webhook.state.as_str(),
            webhook.failing_since,
            webhook.probe_at,
            &webhook.secret
        ],
    ));
    Ok(())
}

/// Removes a webhook; its waiting deliveries are deleted with it.
pub(super) fn remove(agent: &AgentId, out: &mut Writes) -> Translated {
    out.push(SqlWrite::any("DELETE FROM webhooks WHERE recipient = $1", params![recipient(agent)]));
    Ok(())
}

/// Group of notifications whose deliveries keep their order: a conversation, or everything outside conversations.
pub(super) fn lane(notification: &Notification) -> &str {
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

pub(super) fn end(agent: &AgentId, seq: u64, logged: &WebhookDeliveryLogEntry, out: &mut Writes) -> Translated {
    out.push(SqlWrite::any(
        "WITH ended AS (DELETE FROM deliveries WHERE recipient = $1 AND seq = $2 RETURNING recipient, seq)
         INSERT INTO delivery_log (recipient, seq, at, content) SELECT recipient, seq, $3::BIGINT, $4::TEXT FROM ended
         ON CONFLICT DO NOTHING",
        params![recipient(agent), clamped(seq), logged.at, to_json(logged)?],
    ));
    Ok(())
}

pub(super) fn delay(agent: &AgentId, seq: u64, attempts: u32, due: Timestamp, out: &mut Writes) -> Translated {
    let sql = "UPDATE deliveries SET attempts = $3, due = $4 WHERE recipient = $1 AND seq = $2";
    out.push(SqlWrite::any(sql, params![recipient(agent), clamped(seq), attempts, due]));
    Ok(())
}

/// Makes the waiting deliveries of an agent due at `due`; those due earlier stay as they are.
pub(super) fn hasten(agent: &AgentId, due: Timestamp, out: &mut Writes) -> Translated {
    let sql = "UPDATE deliveries SET due = $2 WHERE recipient = $1 AND due > $2";
    out.push(SqlWrite::any(sql, params![recipient(agent), due]));
    Ok(())
}

pub(super) fn forget_log(before: Timestamp, limit: usize, out: &mut Writes) -> Translated {
    out.push(SqlWrite::any(
        "DELETE FROM delivery_log WHERE (recipient, seq) IN
         (SELECT recipient, seq FROM delivery_log WHERE at < $1 ORDER BY at LIMIT $2)",
        params![before, to_limit(limit)],
    ));
    Ok(())
}

const WEBHOOK: &str = "SELECT recipient, state, failing_since, probe_at, secret FROM webhooks";
const DELIVERY: &str = "SELECT deliveries.recipient, deliveries.seq, attempts, due, at, happening
    FROM deliveries JOIN mail ON mail.recipient = deliveries.recipient AND mail.seq = deliveries.seq";

#[async_trait]
impl WebhookStore for PostgresStore {
    async fn webhook(&self, agent: &AgentId) -> Result<Option<Webhook>, StoreError> {
        self.readers.first(&format!("{WEBHOOK} WHERE recipient = $1"), params![recipient(agent)], read).await
    }

    async fn webhooks(&self) -> Result<Vec<Webhook>, StoreError> {
        self.readers.all(&format!("{WEBHOOK} ORDER BY recipient"), Vec::new(), read).await
    }

    async fn deliveries(
        &self,
        by: Timestamp,
        except: &[AgentId],
        limit: usize,
    ) -> Result<Vec<WebhookDelivery>, StoreError> {
        // Only the first delivery of a lane. The first row is computed, because two transactions that change the same
        // lane do not see each other.
        let sql = format!(
            "{DELIVERY} JOIN webhooks ON webhooks.recipient = deliveries.recipient
             WHERE due <= $1 AND state = 'reachable' AND deliveries.recipient <> ALL($2)
             AND NOT EXISTS (SELECT 1 FROM deliveries AS before WHERE before.recipient = deliveries.recipient
                             AND before.lane = deliveries.lane AND before.seq < deliveries.seq)
             ORDER BY due, deliveries.recipient, deliveries.seq LIMIT $3"
        );
        let except: Vec<_> = except.iter().map(recipient).collect();
        self.readers.all(&sql, params![by, except, to_limit(limit)], read_delivery).await
    }

    async fn first_delivery(&self, agent: &AgentId) -> Result<Option<WebhookDelivery>, StoreError> {
        let sql = format!("{DELIVERY} WHERE deliveries.recipient = $1 ORDER BY deliveries.seq LIMIT 1");
        self.readers.first(&sql, params![recipient(agent)], read_delivery).await
    }

    async fn delivery_log(
        &self,
        agent: &AgentId,
        before: u64,
        limit: usize,
    ) -> Result<Vec<WebhookDeliveryLogEntry>, StoreError> {
        let sql = "SELECT content FROM delivery_log WHERE recipient = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3";
        let params = params![recipient(agent), clamped(before), to_limit(limit)];
        self.readers.all(sql, params, rows::json_row).await
    }

    async fn is_any_delivery_logged_before(&self, time: Timestamp) -> Result<bool, StoreError> {
        self.readers.exists("SELECT 1 FROM delivery_log WHERE at < $1 LIMIT 1", params![time]).await
    }
}

fn read(row: &Row) -> Result<Webhook, SqlError> {
    Ok(Webhook {
        agent: rows::parsed(row, 0, agent)?,
        state: rows::text_form(row, 1)?,
        failing_since: rows::optional(row, 2, rows::moment)?,
        probe_at: rows::optional(row, 3, rows::moment)?,
        secret: rows::get(row, 4)?,
    })
}

fn read_delivery(row: &Row) -> Result<WebhookDelivery, SqlError> {
    Ok(WebhookDelivery {
        agent: rows::parsed(row, 0, agent)?,
        mailed: QueuedNotification {
            seq: rows::number(row, 1)?,
            at: rows::moment(row, 4)?,
            notification: rows::json(row, 5)?,
        },
        attempts: rows::small(row, 2)?,
        due: rows::moment(row, 3)?,
    })
}

fn recipient(agent: &AgentId) -> String {
    RelayParty::Agent(agent.clone()).to_string()
}

fn agent(recipient: &str) -> Option<AgentId> {
    AgentId::parse(recipient.strip_prefix("agent:")?).ok()
}
