//! Webhooks, the first delivery of each, and the delivery log.

use async_trait::async_trait;
use nuncio_core::ids::AgentId;
use nuncio_core::notification::{QueuedNotification, RelayParty};
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

/// Removes a webhook with the jobs of its deliveries and probes.
pub(super) fn remove(agent: &AgentId, out: &mut Writes) -> Translated {
    let jobs = "DELETE FROM jobs WHERE kind IN ('delivery', 'probe') AND receiver = $1";
    out.push(SqlWrite::any(jobs, params![recipient(agent)]));
    out.push(SqlWrite::any("DELETE FROM webhooks WHERE recipient = $1", params![recipient(agent)]));
    Ok(())
}

pub(super) fn log(agent: &AgentId, logged: &WebhookDeliveryLogEntry, out: &mut Writes) -> Translated {
    out.push(SqlWrite::any(
        "INSERT INTO delivery_log (recipient, seq, at, content) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
        params![recipient(agent), clamped(logged.seq), logged.at, to_json(logged)?],
    ));
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
const FIRST_DELIVERY: &str = "SELECT jobs.receiver, jobs.seq, attempts, due, at, happening
    FROM jobs JOIN mail ON mail.recipient = jobs.receiver AND mail.seq = jobs.seq
    WHERE jobs.kind = 'delivery' AND jobs.receiver = $1
    AND NOT EXISTS (SELECT 1 FROM jobs AS before WHERE before.kind = jobs.kind AND before.receiver = jobs.receiver
                    AND before.lane = jobs.lane AND before.seq < jobs.seq)
    ORDER BY jobs.seq LIMIT 1";

#[async_trait]
impl WebhookStore for PostgresStore {
    async fn webhook(&self, agent: &AgentId) -> Result<Option<Webhook>, StoreError> {
        self.readers.first(&format!("{WEBHOOK} WHERE recipient = $1"), params![recipient(agent)], read).await
    }

    async fn webhooks(&self) -> Result<Vec<Webhook>, StoreError> {
        self.readers.all(&format!("{WEBHOOK} ORDER BY recipient"), Vec::new(), read).await
    }

    async fn first_delivery(&self, agent: &AgentId) -> Result<Option<WebhookDelivery>, StoreError> {
        self.readers.first(FIRST_DELIVERY, params![recipient(agent)], read_delivery).await
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
