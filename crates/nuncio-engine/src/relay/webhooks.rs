//! Webhook delivery of notifications to agents: in order within a conversation, with retries. Deliveries are stored
//! with the event; the protocol formats and the server sends them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::account::{AgentAccount, AgentConnection};
use nuncio_core::backoff;
use nuncio_core::conversation::{ConversationMessage, MessageRef};
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentId;
use nuncio_core::notification::{Notification, QueuedNotification, WebhookState};
use nuncio_core::time::Timestamp;
use url::Url;

use crate::consent::{AgentLocks, NotificationService};
use crate::context::EngineContext;
use crate::error::EngineError;
use crate::ports::store::relay::{Webhook, WebhookDelivery, WebhookDeliveryLogEntry};
use crate::ports::store::{AgentAccountStore, Change, RelayChange, RelayStore, WebhookStore};

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

/// Maximum length of a logged outcome, in characters.
const MAX_OUTCOME: usize = 300;

/// Identifies a delivery: agent and notification number.
pub type WebhookDeliveryId = (AgentId, u64);

/// A webhook request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookCall {
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

/// How to probe an unreachable webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookProbe {
    /// Request the health check URL of the agent.
    Health(Url),
    /// Send the oldest waiting delivery.
    Call(Box<WebhookCall>),
}

/// Service for webhooks of agents and the deliveries that wait for them.
pub struct WebhookService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn WebhookStore>,
    pub(crate) account_store: Arc<dyn AgentAccountStore>,
    pub(crate) relay_store: Arc<dyn RelayStore>,
    pub(crate) mailbox: Arc<NotificationService>,
    pub(crate) index: Arc<WebhookIndex>,
    pub(crate) locks: Arc<AgentLocks>,
}

impl WebhookService {
    /// Loads the webhooks. Called once; no delivery is sent before.
    pub async fn resume_webhooks(&self) -> Result<usize, EngineError> {
        let webhooks = self.store.webhooks().await?;
        webhooks.iter().for_each(|webhook| self.index.put(webhook));
        Ok(webhooks.len())
    }

    /// Whether an agent uses a webhook rather than a connection.
    #[must_use]
    pub fn has_webhook(&self, agent: &AgentId) -> bool {
        self.index.has(agent)
    }

    /// Waits until a delivery may be due.
    pub async fn wait_for_delivery(&self) {
        self.index.owed.notified().await;
    }

    /// Due deliveries, without those in `known` and of agents in `except`; only the first of each conversation.
    pub async fn deliveries_due(
        &self,
        known: &HashSet<WebhookDeliveryId>,
        except: &[AgentId],
        limit: usize,
    ) -> Result<Vec<WebhookDelivery>, EngineError> {
        self.deliveries_until(self.context.now(), known, except, limit).await
    }

    /// Due time of the next delivery that is not in `known`.
    pub async fn next_delivery_due(
        &self,
        known: &HashSet<WebhookDeliveryId>,
        except: &[AgentId],
    ) -> Result<Option<Timestamp>, EngineError> {
        Ok(self.deliveries_until(Timestamp::LAST, known, except, 1).await?.first().map(|delivery| delivery.due))
    }

    async fn deliveries_until(
        &self,
        by: Timestamp,
        known: &HashSet<WebhookDeliveryId>,
        except: &[AgentId],
        limit: usize,
    ) -> Result<Vec<WebhookDelivery>, EngineError> {
        if self.index.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = self.store.deliveries(by, except, known.len().saturating_add(limit)).await?;
        found.retain(|delivery| !known.contains(&(delivery.agent.clone(), delivery.mailed.seq)));
        found.truncate(limit);
        Ok(found)
    }

    #[must_use]
    pub fn probes(&self) -> Vec<(AgentId, Timestamp)> {
        self.index.probes()
    }

    /// The webhook request of a delivery; `None` if the webhook is not reachable now.
    pub async fn webhook_call(&self, delivery: WebhookDelivery) -> Result<Option<WebhookCall>, EngineError> {
        self.webhook_call_in_state(WebhookState::Reachable, delivery).await
    }

    async fn webhook_call_in_state(
        &self,
        state: WebhookState,
        delivery: WebhookDelivery,
    ) -> Result<Option<WebhookCall>, EngineError> {
        let agent = &delivery.agent;
        let Some(webhook) = self.store.webhook(agent).await?.filter(|webhook| webhook.state == state) else {
            return Ok(None);
        };
        let account = self.account_store.account(agent).await?;
        let Some(url) = account.as_ref().and_then(webhook_url).cloned() else {
            // The account has no webhook URL any more.
            self.context.commit_one(RelayChange::RemoveWebhook(agent.clone())).await?;
            self.index.remove(agent);
            return Ok(None);
        };
        let message = match &delivery.mailed.notification {
            Notification::Message { conversation, seq } => {
                self.relay_store.relayed(&MessageRef { conversation: conversation.clone(), seq: *seq }).await?
            }
            _ => None,
        };
        let secret = self.open_secret(&webhook);
        let delivery_id = delivery_id(agent, &delivery.mailed);
        Ok(Some(WebhookCall { delivery_id, url, secret, message, delivery }))
    }

    /// Stores the result of a delivery attempt: finished, retried or given up, and a changed state of the webhook, of
    /// which its owner is notified. `kind` is logged.
    pub async fn delivery_ended(
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
        let mut changes: Vec<Change> = vec![self.written(call, kind, answered, &noted).into()];
        changes.extend(self.move_webhook(&account, &webhook, &noted.webhook));
        self.mailbox.commit_and_notify(changes).await?;
        if noted.webhook != webhook {
            self.index.put(&noted.webhook);
        }
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

    fn written(
        &self,
        call: &WebhookCall,
        kind: &str,
        answered: &WebhookResponse,
        noted: &WebhookUpdate,
    ) -> RelayChange {
        let (agent, seq) = (call.delivery.agent.clone(), call.delivery.mailed.seq);
        let due = match noted.outcome {
            DeliveryNextStep::Again(due) => due,
            DeliveryNextStep::Disabled => self.context.now(),
            DeliveryNextStep::Over | DeliveryNextStep::GivenUp => {
                let logged = WebhookDeliveryLogEntry {
                    seq,
                    delivery_id: call.delivery_id.clone(),
                    kind: kind.to_owned(),
                    at: self.context.now(),
                    attempts: noted.attempts,
                    delivered: matches!(answered, WebhookResponse::Arrived(_)),
                    outcome: answered.outcome(),
                };
                return RelayChange::EndDelivery { agent, seq, logged };
            }
        };
        RelayChange::DelayDelivery { agent, seq, attempts: noted.attempts, due }
    }

    fn jittered(&self, pause: Duration) -> Duration {
        let mut random = [0];
        self.context.entropy.fill(&mut random);
        backoff::vary(pause, PAUSE_VARIATION_PERCENT, random[0])
    }

    /// The probe of an agent's webhook; `None` if none is due.
    pub async fn probe(&self, agent: &AgentId) -> Result<Option<WebhookProbe>, EngineError> {
        let webhook = self.store.webhook(agent).await?;
        let is_due = |webhook: &Webhook| {
            webhook.state == WebhookState::Unreachable && webhook.probe_at.is_none_or(|at| at <= self.context.now())
        };
        if !webhook.as_ref().is_some_and(is_due) {
            // The in-memory index was outdated.
            match webhook {
                Some(webhook) => self.index.put(&webhook),
                None => self.index.remove(agent),
            }
            return Ok(None);
        }
        let account = self.account_store.account(agent).await?;
        if let Some(health) = account.and_then(|account| account.health_check_url) {
            return Ok(Some(WebhookProbe::Health(health)));
        }
        let call = match self.store.first_delivery(agent).await? {
            Some(first) => self.webhook_call_in_state(WebhookState::Unreachable, first).await?,
            None => None,
        };
        if call.is_none() {
            // No health URL and nothing to deliver: probe again later.
            self.health_probed(agent, false).await?;
        }
        Ok(call.map(|call| WebhookProbe::Call(Box::new(call))))
    }

    /// Stores the result of a webhook probe; `healthy` is false also if the probe could not be made.
    pub async fn health_probed(&self, agent: &AgentId, healthy: bool) -> Result<(), EngineError> {
        let _turn = self.locks.enter(agent).await;
        let (Some(webhook), Some(account)) =
            (self.store.webhook(agent).await?, self.account_store.account(agent).await?)
        else {
            self.index.remove(agent);
            return Ok(());
        };
        if webhook.state != WebhookState::Unreachable {
            return Ok(());
        }
        let after = match healthy {
            true => reachable(&webhook),
            false => Webhook { probe_at: Some(self.context.now().after(PROBE_INTERVAL)), ..webhook.clone() },
        };
        self.mailbox.commit_and_notify(self.move_webhook(&account, &webhook, &after)).await?;
        self.index.put(&after);
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
