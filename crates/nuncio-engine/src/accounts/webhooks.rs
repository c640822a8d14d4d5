//! Webhook delivery of notifications to agents: in order within a conversation, with retries. Deliveries are stored
//! with the event; the protocol formats and the server sends them.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::account::{AgentAccount, AgentConnection};
use nuncio_core::backoff;
use nuncio_core::conversation::{ConversationMessage, MessageRef};
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentId;
use nuncio_core::notification::{Notification, QueuedNotification, RelayParty, WebhookState};
use nuncio_core::time::Timestamp;
use url::Url;

use crate::accounts::{AgentLocks, NotificationService};
use crate::context::{CommitResultExt as _, EngineContext};
use crate::error::EngineError;
use crate::jobs::JobService;
use crate::ports::store::relay::{Webhook, WebhookDelivery, WebhookDeliveryLogEntry};
use crate::ports::store::{
    AgentAccountStore, Change, ClaimedJob, Conflict, Job, JobChange, JobKind, JobLane, JobSelection, RelayChange,
    RelayStore, WebhookStore,
};

mod index;
mod owner;
mod secret;

pub(crate) use index::WebhookIndex;
pub(crate) use owner::{ConnectionModeChange, webhook_secret_context};
pub use owner::{WaitingDelivery, WebhookStatusView};
pub use secret::WebhookSecret;

use owner::reachable;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Pause after each failed delivery attempt; after one more failure the delivery is given up.
const RETRY_PAUSES: [Duration; 8] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    MINUTE.saturating_mul(5),
    MINUTE.saturating_mul(30),
    HOUR.saturating_mul(2),
    HOUR.saturating_mul(6),
    HOUR.saturating_mul(12),
    HOUR.saturating_mul(24),
];

/// Random length of each pause in percent, so that deliveries that failed together are not retried together.
const PAUSE_VARIATION_PERCENT: std::ops::RangeInclusive<u32> = 90..=110;

/// Time of uninterrupted failure after which a webhook counts as unreachable.
const UNREACHABLE_AFTER: Duration = HOUR.saturating_mul(72);

/// Interval of probes of an unreachable webhook.
const PROBE_INTERVAL: Duration = MINUTE.saturating_mul(5);

/// Time after which a delivery to an unreachable or disabled webhook is looked at again. They become due at once when the
/// webhook is reachable.
const UNUSABLE_PAUSE: Duration = HOUR;

/// Maximum length of a logged outcome, in characters.
const MAX_OUTCOME: usize = 300;

/// A webhook request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookCall {
    pub job: ClaimedJob,
    pub delivery: WebhookDelivery,
    /// UUID version 7, the same for every attempt.
    pub delivery_id: String,
    pub url: Url,
    /// Signing secret; `None` if it cannot be decrypted here.
    pub secret: Option<WebhookSecret>,
    /// The message of the notification, if it still exists.
    pub message: Option<ConversationMessage>,
}

/// Result of a webhook request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookResponse {
    /// The webhook accepted the delivery with this HTTP status.
    Arrived(u16),
    /// The endpoint answered 410 Gone; its owner must set a new URL.
    Gone,
    /// The webhook answered with another HTTP status.
    Refused(u16),
    /// The webhook gave no response, for this reason.
    Nothing(String),
    /// The message was deleted before delivery.
    Forgotten,
}

/// State of a delivery after an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryNextStep {
    /// The delivery is finished and logged.
    Over,
    /// The delivery is retried at this time, if the webhook is reachable.
    Again(Timestamp),
    GivenUp,
    /// The webhook is disabled; its deliveries wait until the owner sets a new URL.
    Disabled,
}

/// Service for webhooks of agents and the deliveries that wait for them.
pub struct WebhookService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn WebhookStore>,
    pub(crate) jobs: Arc<JobService>,
    pub(crate) account_store: Arc<dyn AgentAccountStore>,
    pub(crate) relay_store: Arc<dyn RelayStore>,
    pub(crate) mailbox: Arc<NotificationService>,
    pub(crate) index: Arc<WebhookIndex>,
    pub(crate) locks: Arc<AgentLocks>,
}

impl WebhookService {
    /// Loads the index of webhooks. Called once.
    pub async fn resume_webhooks(&self) -> Result<usize, EngineError> {
        let webhooks = self.store.webhooks().await?;
        let count = webhooks.len();
        webhooks.into_iter().for_each(|webhook| self.index.put(webhook.agent));
        Ok(count)
    }

    /// Whether an agent uses a webhook rather than a connection.
    #[must_use]
    pub fn has_webhook(&self, agent: &AgentId) -> bool {
        self.index.has(agent)
    }

    /// The webhook request of a delivery that is due. `None` if there is nothing to send now: the job is then stored as
    /// ended or postponed.
    pub async fn delivery_call(&self, job: &ClaimedJob) -> Result<Option<WebhookCall>, EngineError> {
        let Some(delivery) = self.delivery(job).await? else {
            self.jobs.end(job).await?;
            return Ok(None);
        };
        let agent = &delivery.agent;
        let (Some(webhook), Some(account)) =
            (self.store.webhook(agent).await?, self.account_store.account(agent).await?)
        else {
            self.jobs.end(job).await?;
            return Ok(None);
        };
        let Some(url) = webhook_url(&account).cloned() else {
            // The account has no webhook URL any more.
            self.context.commit_one(RelayChange::RemoveWebhook(agent.clone())).await?;
            self.index.remove(agent);
            return Ok(None);
        };
        let is_sent = match webhook.state {
            WebhookState::Reachable => true,
            WebhookState::Unreachable => self.is_probe(&webhook, &account, &delivery).await?,
            WebhookState::Disabled => false,
        };
        if !is_sent {
            self.jobs.postpone(job, self.context.now().after(UNUSABLE_PAUSE)).await?;
            return Ok(None);
        }
        let message = match &delivery.mailed.notification {
            Notification::Message { conversation, seq } => {
                self.relay_store.relayed(&MessageRef { conversation: conversation.clone(), seq: *seq }).await?
            }
            _ => None,
        };
        let secret = self.open_secret(&webhook);
        let delivery_id = delivery_id(agent, &delivery.mailed);
        Ok(Some(WebhookCall { job: job.clone(), delivery_id, url, secret, message, delivery }))
    }

    /// The delivery of a job; `None` if its notification was deleted.
    async fn delivery(&self, job: &ClaimedJob) -> Result<Option<WebhookDelivery>, EngineError> {
        let Job { receiver, lane, due, attempts, .. } = &job.job;
        let (Some(agent), Some(JobLane { seq, .. })) = (agent(receiver), lane) else { return Ok(None) };
        let recipient = RelayParty::Agent(agent.clone());
        let found = self.mailbox.mail(&recipient, seq.saturating_sub(1), 1).await?.into_iter();
        let mailed = found.into_iter().find(|mailed| mailed.seq == *seq);
        Ok(mailed.map(|mailed| WebhookDelivery { agent, mailed, attempts: *attempts, due: *due }))
    }

    /// Whether a delivery probes an unreachable webhook: the oldest one does, if the agent has no health check URL.
    async fn is_probe(
        &self,
        webhook: &Webhook,
        account: &AgentAccount,
        delivery: &WebhookDelivery,
    ) -> Result<bool, EngineError> {
        if account.health_check_url.is_some() || webhook.probe_at.is_some_and(|at| at > self.context.now()) {
            return Ok(false);
        }
        let first = self.store.first_delivery(&delivery.agent).await?;
        Ok(first.is_some_and(|first| first.mailed.seq == delivery.mailed.seq))
    }

    /// Stores the result of a delivery attempt: finished, retried or given up, and a changed state of the webhook, of
    /// which its owner is notified. `kind` is logged.
    pub async fn delivery_ended(
        &self,
        call: &WebhookCall,
        kind: &str,
        answered: &WebhookResponse,
    ) -> Result<DeliveryNextStep, EngineError> {
        self.context.until_available(|| self.store_delivery_result(call, kind, answered)).await
    }

    async fn store_delivery_result(
        &self,
        call: &WebhookCall,
        kind: &str,
        answered: &WebhookResponse,
    ) -> Result<DeliveryNextStep, EngineError> {
        let agent = &call.delivery.agent;
        let _turn = self.locks.enter(agent).await;
        let (Some(webhook), Some(account)) =
            (self.store.webhook(agent).await?, self.account_store.account(agent).await?)
        else {
            return Ok(DeliveryNextStep::Over);
        };
        let elsewhere = webhook_url(&account) != Some(&call.url);
        let noted = match answered {
            // A failure of the previous URL says nothing about the current one.
            WebhookResponse::Gone | WebhookResponse::Refused(_) | WebhookResponse::Nothing(_) if elsewhere => {
                WebhookUpdate::unchanged(call, &webhook, DeliveryNextStep::Again(self.context.now()))
            }
            _ => self.note(call, &webhook, answered),
        };
        let mut changes = self.job_changes(call, kind, answered, &noted);
        changes.extend(self.move_webhook(&account, &webhook, &noted.webhook));
        // The job has moved if the webhook was removed, or if another node has it.
        self.mailbox.commit_and_notify(changes).await.made_unless(Conflict::Moved)?;
        Ok(noted.outcome)
    }

    /// New state of webhook and delivery after an attempt.
    fn note(&self, call: &WebhookCall, webhook: &Webhook, answered: &WebhookResponse) -> WebhookUpdate {
        let now = self.context.now();
        let tried = call.delivery.attempts + 1;
        let answered_with_status = match answered {
            WebhookResponse::Forgotten => return WebhookUpdate::unchanged(call, webhook, DeliveryNextStep::Over),
            WebhookResponse::Arrived(_) => {
                let gone = webhook.state == WebhookState::Disabled;
                let webhook = if gone { webhook.clone() } else { reachable(webhook) };
                return WebhookUpdate { webhook, attempts: tried, outcome: DeliveryNextStep::Over };
            }
            WebhookResponse::Gone => {
                let webhook = Webhook { state: WebhookState::Disabled, probe_at: None, ..webhook.clone() };
                return WebhookUpdate { webhook, attempts: tried, outcome: DeliveryNextStep::Disabled };
            }
            WebhookResponse::Refused(_) => true,
            WebhookResponse::Nothing(_) => false,
        };
        let since = webhook.failing_since.unwrap_or(now);
        let mut after = Webhook { failing_since: Some(since), ..webhook.clone() };
        let mut attempts = tried;
        match webhook.state {
            WebhookState::Reachable if now >= since.after(UNREACHABLE_AFTER) => {
                after.state = WebhookState::Unreachable;
                after.probe_at = Some(now.after(PROBE_INTERVAL));
            }
            WebhookState::Unreachable => {
                after.probe_at = Some(now.after(PROBE_INTERVAL));
                // Deliveries are not given up while the webhook is unreachable, but one message that is always
                // refused must not block the others.
                attempts = if answered_with_status { tried } else { call.delivery.attempts };
            }
            WebhookState::Reachable | WebhookState::Disabled => {}
        }
        let outcome = match usize::try_from(attempts).unwrap_or(usize::MAX) {
            0 => DeliveryNextStep::Again(now),
            failed => match RETRY_PAUSES.get(failed - 1) {
                Some(pause) => DeliveryNextStep::Again(now.after(self.jittered(*pause))),
                None => DeliveryNextStep::GivenUp,
            },
        };
        WebhookUpdate { webhook: after, attempts, outcome }
    }

    fn job_changes(
        &self,
        call: &WebhookCall,
        kind: &str,
        answered: &WebhookResponse,
        noted: &WebhookUpdate,
    ) -> Vec<Change> {
        let due = match noted.outcome {
            DeliveryNextStep::Again(due) => due,
            DeliveryNextStep::Disabled => self.context.now().after(UNUSABLE_PAUSE),
            DeliveryNextStep::Over | DeliveryNextStep::GivenUp => {
                let logged = WebhookDeliveryLogEntry {
                    seq: call.delivery.mailed.seq,
                    delivery_id: call.delivery_id.clone(),
                    kind: kind.to_owned(),
                    at: self.context.now(),
                    attempts: noted.attempts,
                    delivered: matches!(answered, WebhookResponse::Arrived(_)),
                    outcome: answered.outcome(),
                };
                let agent = call.delivery.agent.clone();
                return vec![call.job.end().into(), RelayChange::LogDelivery { agent, logged }.into()];
            }
        };
        vec![call.job.delay(due, noted.attempts).into()]
    }

    fn jittered(&self, pause: Duration) -> Duration {
        let mut random = [0];
        self.context.entropy.fill(&mut random);
        backoff::vary(pause, PAUSE_VARIATION_PERCENT, random[0])
    }

    /// The health check URL to request for a probe that is due. `None` if there is nothing to request now: the job is
    /// then stored as ended or postponed. An agent without that URL is probed with its oldest delivery, which becomes due.
    pub async fn probe(&self, job: &ClaimedJob) -> Result<Option<Url>, EngineError> {
        let found = match agent(&job.job.receiver) {
            Some(agent) => self.store.webhook(&agent).await?,
            None => None,
        };
        let Some(webhook) = found.filter(|webhook| webhook.state == WebhookState::Unreachable) else {
            self.jobs.end(job).await?;
            return Ok(None);
        };
        let now = self.context.now();
        if let Some(later) = webhook.probe_at.filter(|at| *at > now) {
            self.jobs.postpone(job, later).await?;
            return Ok(None);
        }
        let account = self.account_store.account(&webhook.agent).await?;
        if let Some(health) = account.and_then(|account| account.health_check_url) {
            return Ok(Some(health));
        }
        if let Some(first) = self.store.first_delivery(&webhook.agent).await? {
            let jobs = JobSelection::Key(format!("{}/{}", job.job.receiver, first.mailed.seq));
            let hasten = JobChange::Hasten { kind: JobKind::Delivery, jobs, due: now };
            let again = job.delay(now.after(PROBE_INTERVAL), 0);
            self.context.commit(vec![hasten.into(), again.into()]).await?;
        } else {
            self.health_probed(job, false).await?;
        }
        Ok(None)
    }

    /// Stores the result of a webhook probe; `healthy` is false also if the probe could not be made.
    pub async fn health_probed(&self, job: &ClaimedJob, healthy: bool) -> Result<(), EngineError> {
        self.context.until_available(|| self.store_probe_result(job, healthy)).await
    }

    async fn store_probe_result(&self, job: &ClaimedJob, healthy: bool) -> Result<(), EngineError> {
        let Some(agent) = agent(&job.job.receiver) else { return self.jobs.end(job).await };
        let _turn = self.locks.enter(&agent).await;
        let (Some(webhook), Some(account)) =
            (self.store.webhook(&agent).await?, self.account_store.account(&agent).await?)
        else {
            return self.jobs.end(job).await;
        };
        if webhook.state != WebhookState::Unreachable {
            return self.jobs.end(job).await;
        }
        let next = self.context.now().after(PROBE_INTERVAL);
        let (after, outcome) = match healthy {
            true => (reachable(&webhook), job.end()),
            false => (Webhook { probe_at: Some(next), ..webhook.clone() }, job.delay(next, 0)),
        };
        let mut changes = self.move_webhook(&account, &webhook, &after);
        changes.push(outcome.into());
        self.mailbox.commit_and_notify(changes).await.made_unless(Conflict::Moved)?;
        Ok(())
    }
}

struct WebhookUpdate {
    webhook: Webhook,
    attempts: u32,
    outcome: DeliveryNextStep,
}

impl WebhookUpdate {
    fn unchanged(call: &WebhookCall, webhook: &Webhook, outcome: DeliveryNextStep) -> Self {
        Self { webhook: webhook.clone(), attempts: call.delivery.attempts, outcome }
    }
}

impl WebhookResponse {
    /// Text of the delivery result in the delivery log.
    fn outcome(&self) -> String {
        match self {
            Self::Arrived(status) | Self::Refused(status) => format!("it answered {status}"),
            Self::Gone => "it answered 410".to_owned(),
            Self::Nothing(why) => why.chars().take(MAX_OUTCOME).collect(),
            Self::Forgotten => "the message was deleted before it could be delivered".to_owned(),
        }
    }
}

/// Receiver of the jobs for the webhook of an agent: its name as a recipient of notifications.
fn recipient(agent: &AgentId) -> String {
    RelayParty::Agent(agent.clone()).to_string()
}

fn agent(recipient: &str) -> Option<AgentId> {
    AgentId::parse(recipient.strip_prefix("agent:")?).ok()
}

fn webhook_url(account: &AgentAccount) -> Option<&Url> {
    match &account.connection {
        AgentConnection::Webhook { url } => Some(url.url()),
        AgentConnection::Websocket => None,
    }
}

/// UUID version 7 derived from agent, number and time, so that every attempt has the same id without storing it.
fn delivery_id(agent: &AgentId, mailed: &QueuedNotification) -> String {
    let digest = Digest::of_bytes(format!("{agent}\n{}", mailed.seq).as_bytes());
    let mut bytes = [0_u8; 16];
    bytes[..6].copy_from_slice(&mailed.at.as_millis().to_be_bytes()[2..]);
    bytes[6..].copy_from_slice(&digest.as_bytes()[..10]);
    bytes[6] = bytes[6] & 0x0f | 0x70;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_delivery_id_is_a_uuid_v7_from_time_agent_and_sequence_number() {
        let mailed = |seq, at| QueuedNotification {
            seq,
            at: Timestamp::from_millis(at),
            notification: Notification::KeysChanged {
                owner: nuncio_core::notification::RelayParty::Agent(AgentId::parse("agt_1").unwrap()),
            },
        };
        let id = |agent: &str, seq, at| delivery_id(&AgentId::parse(agent).unwrap(), &mailed(seq, at));
        let first = id("agt_1", 1, 1_794_740_400_000);
        assert_eq!(first, id("agt_1", 1, 1_794_740_400_000));
        assert!(first.starts_with("01a1"), "{first}");
        assert_eq!((first.len(), &first[14..15]), (36, "7"));
        assert!("89ab".contains(&first[19..20]), "{first}");
        for other in [id("agt_2", 1, 1_794_740_400_000), id("agt_1", 2, 1_794_740_400_000)] {
            assert_ne!(first, other);
            assert_eq!(first[..13], other[..13], "the same time");
        }
        assert!(first < id("agt_1", 0, 1_794_740_400_001), "later ones sort behind");
    }
}
