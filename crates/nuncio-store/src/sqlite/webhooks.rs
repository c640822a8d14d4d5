//! Webhooks, the jobs of their deliveries, and the delivery log.

use async_trait::async_trait;
use nuncio_core::ids::AgentId;
use nuncio_core::notification::{Notification, QueuedNotification, RelayParty};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::relay::{Webhook, WebhookDelivery, WebhookDeliveryLogEntry};
use nuncio_engine::ports::store::{Job, JobKind, JobLane, StoreError, WebhookStore};
use rusqlite::{Connection, Row, params};

use super::problem::SqlError;
use super::rows::{self, clamped, exists, run, to_json, to_limit};
use super::{SqliteStore, jobs};
use crate::common::delivery_lane;

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

/// Removes a webhook with the jobs of its deliveries and probes.
pub(super) fn remove(connection: &Connection, agent: &AgentId) -> Result<(), SqlError> {
    let recipient = recipient(agent);
    jobs::remove_all(connection, JobKind::Delivery, &recipient)?;
    jobs::remove_all(connection, JobKind::Probe, &recipient)?;
    run(connection, "DELETE FROM webhooks WHERE recipient = ?1", [recipient])
}

/// Creates the job that delivers a notification, if the agent has a webhook that is not disabled.
pub(super) fn deliver(
    connection: &Connection,
    recipient: &str,
    seq: u64,
    at: Timestamp,
    notification: &Notification,
) -> Result<(), SqlError> {
    let sql = "SELECT 1 FROM webhooks WHERE recipient = ?1 AND state <> 'disabled'";
    if !exists(connection, sql, [recipient])? {
        return Ok(());
    }
    let job = Job {
        kind: JobKind::Delivery,
        key: format!("{recipient}/{seq}"),
        receiver: recipient.to_owned(),
        lane: Some(JobLane { name: delivery_lane(notification).to_owned(), seq }),
        due: at,
        attempts: 0,
    };
    jobs::put(connection, &job)
}

pub(super) fn log(connection: &Connection, agent: &AgentId, logged: &WebhookDeliveryLogEntry) -> Result<(), SqlError> {
    run(
        connection,
        "INSERT INTO delivery_log (recipient, seq, at, content) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        params![recipient(agent), clamped(logged.seq), logged.at.as_millis(), to_json(logged)?],
    )
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
const FIRST_DELIVERY: &str = "SELECT jobs.receiver, jobs.seq, attempts, due, at, happening
    FROM jobs JOIN mail ON mail.recipient = jobs.receiver AND mail.seq = jobs.seq
    WHERE jobs.kind = 'delivery' AND jobs.receiver = ?1 AND is_first = 1 ORDER BY jobs.seq LIMIT 1";

#[async_trait]
impl WebhookStore for SqliteStore {
    async fn webhook(&self, agent: &AgentId) -> Result<Option<Webhook>, StoreError> {
        self.readers.first(&format!("{WEBHOOK} WHERE recipient = ?1"), [recipient(agent)], read)
    }

    async fn webhooks(&self) -> Result<Vec<Webhook>, StoreError> {
        self.readers.all(format!("{WEBHOOK} ORDER BY recipient"), [], read).await
    }

    async fn first_delivery(&self, agent: &AgentId) -> Result<Option<WebhookDelivery>, StoreError> {
        self.readers.first(FIRST_DELIVERY, [recipient(agent)], read_delivery)
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
