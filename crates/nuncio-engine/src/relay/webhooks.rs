//! Agents that are called: with everything they are told, in order within a conversation, again and again
//! until it arrives or there is no point. What is owed is on disk with what happened; how it is said and
//! sent is for the protocol and the server to know.

use std::collections::HashSet;
use std::time::Duration;

use nuncio_core::account::{Account, AgentConnection};
use nuncio_core::conversation::{ConversationMessage, MessageRef};
use nuncio_core::digest::Digest;
use nuncio_core::happening::{Notification, QueuedNotification, WebhookState};
use nuncio_core::ids::AgentId;
use nuncio_core::time::Timestamp;
use url::Url;

use crate::Engine;
use crate::error::EngineError;
use crate::ports::store::relay::{Delivery, DeliveryLog, Webhook};
use crate::ports::store::{Change, RelayChange};

mod called;
mod owner;
mod secret;

pub(crate) use called::Called;
pub(crate) use owner::Reconnection;
pub use owner::{WaitingDelivery, WebhookView};
pub use secret::WebhookSecret;

use owner::reachable;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// How long to wait after each failure; after the last there is no other attempt.
const PAUSES: [Duration; 8] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    MINUTE.saturating_mul(5),
    MINUTE.saturating_mul(30),
    HOUR.saturating_mul(2),
    HOUR.saturating_mul(6),
    HOUR.saturating_mul(12),
    HOUR.saturating_mul(24),
];

/// How much longer or shorter each pause may be, in hundredths: those who failed together come back apart.
const JITTER: u64 = 10;

/// After how long of nothing but failures a webhook counts as unreachable.
const PATIENCE: Duration = HOUR.saturating_mul(72);

/// How often one that is unreachable is asked whether it is back.
const PROBE: Duration = MINUTE.saturating_mul(5);

/// The longest reason in the log, in characters.
const MAX_OUTCOME: usize = 300;

/// Names a call: which agent, and the number of what it was told.
pub type CallKey = (AgentId, u64);

/// An agent to be called, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCall {
    /// What is delivered.
    pub delivery: Delivery,
    /// The name of the delivery, the same however often it is tried: a UUID of version 7.
    pub delivery_id: String,
    /// Where.
    pub url: Url,
    /// What it is signed with; none when it cannot be opened here.
    pub secret: Option<WebhookSecret>,
    /// The message it is about, where it is about one that is still kept.
    pub message: Option<ConversationMessage>,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// It arrived, with that status.
    Arrived(u16),
    /// Nobody is to be called there any more.
    Gone,
    /// Another status came back.
    Refused(u16),
    /// Nothing came back; why.
    Nothing(String),
    /// What it was about is forgotten: there is nothing to say.
    Forgotten,
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    /// It is over, and stands in the log.
    Over,
    /// It is tried again then, if the webhook can be reached.
    Again(Timestamp),
    /// It was tried often enough.
    GivenUp,
    /// It waits until the owner says where the agent is.
    Disabled,
}

/// How an agent is asked whether it is back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// By its own page for that.
    Health(Url),
    /// By the oldest that waits for it.
    Call(Box<AgentCall>),
}

impl Engine {
    /// Reads who is called. Before that nobody is.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn resume_webhooks(&self) -> Result<usize, EngineError> {
        let webhooks = self.store().webhooks().await?;
        webhooks.iter().for_each(|webhook| self.called().put(webhook));
        Ok(webhooks.len())
    }

    /// Whether an agent is called, rather than connected.
    #[must_use]
    pub fn is_called(&self, agent: &AgentId) -> bool {
        self.called().has(agent)
    }

    /// Waits until somebody who is called is told something, or is called otherwise.
    pub async fn call_owed(&self) {
        self.called().owed().await;
    }

    /// What agents are to be called with now, without what is known and without the agents in `except`, at
    /// most `limit`. It holds the first of each conversation alone.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn calls_due(
        &self,
        known: &HashSet<CallKey>,
        except: &[AgentId],
        limit: usize,
    ) -> Result<Vec<Delivery>, EngineError> {
        self.calls_by(self.now(), known, except, limit).await
    }

    /// When the next one is due that is not known; none if there is no other.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn next_call(
        &self,
        known: &HashSet<CallKey>,
        except: &[AgentId],
    ) -> Result<Option<Timestamp>, EngineError> {
        Ok(self.calls_by(Timestamp::LAST, known, except, 1).await?.first().map(|delivery| delivery.due))
    }

    async fn calls_by(
        &self,
        by: Timestamp,
        known: &HashSet<CallKey>,
        except: &[AgentId],
        limit: usize,
    ) -> Result<Vec<Delivery>, EngineError> {
        if self.called().is_empty() {
            return Ok(Vec::new());
        }
        let mut found = self.store().deliveries(by, except, known.len().saturating_add(limit)).await?;
        found.retain(|delivery| !known.contains(&(delivery.agent.clone(), delivery.mailed.seq)));
        found.truncate(limit);
        Ok(found)
    }

    /// Who is to be asked whether it is back, and when.
    #[must_use]
    pub fn probes(&self) -> Vec<(AgentId, Timestamp)> {
        self.called().probes()
    }

    /// All that is needed to call an agent; none when it is not to be called now.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn agent_call(&self, delivery: Delivery) -> Result<Option<AgentCall>, EngineError> {
        self.call_while(WebhookState::Reachable, delivery).await
    }

    async fn call_while(&self, state: WebhookState, delivery: Delivery) -> Result<Option<AgentCall>, EngineError> {
        let agent = &delivery.agent;
        let Some(webhook) = self.store().webhook(agent).await?.filter(|webhook| webhook.state == state) else {
            return Ok(None);
        };
        let account = self.store().account(agent).await?;
        let Some(url) = account.as_ref().and_then(called_at).cloned() else {
            // No address and nobody who could say one.
            self.store().commit(vec![RelayChange::RemoveWebhook(agent.clone()).into()]).await?;
            self.called().remove(agent);
            return Ok(None);
        };
        let message = match &delivery.mailed.happening {
            Notification::Message { conversation, seq } => {
                self.store().relayed(&MessageRef { conversation: conversation.clone(), seq: *seq }).await?
            }
            _ => None,
        };
        let secret = self.open_secret(&webhook);
        let delivery_id = delivery_id(agent, &delivery.mailed);
        Ok(Some(AgentCall { delivery_id, url, secret, message, delivery }))
    }

    /// Notes what came of a call: over, later again, or given up. `kind` says in the log what it was about.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn call_ended(
        &self,
        call: &AgentCall,
        kind: &str,
        answered: &Answered,
    ) -> Result<CallOutcome, EngineError> {
        let agent = &call.delivery.agent;
        let _turn = self.agent_locks().enter(agent).await;
        let (Some(webhook), Some(account)) = (self.store().webhook(agent).await?, self.store().account(agent).await?)
        else {
            return Ok(CallOutcome::Over);
        };
        let elsewhere = called_at(&account) != Some(&call.url);
        let noted = match answered {
            // What an address said that nobody is called at any more says nothing about the one of now.
            Answered::Gone | Answered::Refused(_) | Answered::Nothing(_) if elsewhere => Noted {
                webhook: webhook.clone(),
                attempts: call.delivery.attempts,
                outcome: CallOutcome::Again(self.now()),
            },
            _ => self.note(call, &webhook, answered),
        };
        let mut changes: Vec<Change> = vec![self.written(call, kind, answered, &noted).into()];
        changes.extend(self.move_webhook(&account, &webhook, &noted.webhook));
        self.commit_telling(changes).await?;
        if noted.webhook != webhook {
            self.called().put(&noted.webhook);
        }
        Ok(noted.outcome)
    }

    /// What a call says about its webhook, and about itself.
    fn note(&self, call: &AgentCall, webhook: &Webhook, answered: &Answered) -> Noted {
        let now = self.now();
        let tried = call.delivery.attempts + 1;
        let answer_came = match answered {
            Answered::Forgotten => {
                return Noted {
                    webhook: webhook.clone(),
                    attempts: call.delivery.attempts,
                    outcome: CallOutcome::Over,
                };
            }
            Answered::Arrived(_) => {
                let gone = webhook.state == WebhookState::Disabled;
                let webhook = if gone { webhook.clone() } else { reachable(webhook) };
                return Noted { webhook, attempts: tried, outcome: CallOutcome::Over };
            }
            Answered::Gone => {
                let webhook = Webhook { state: WebhookState::Disabled, probe_at: None, ..webhook.clone() };
                return Noted { webhook, attempts: tried, outcome: CallOutcome::Disabled };
            }
            Answered::Refused(_) => true,
            Answered::Nothing(_) => false,
        };
        let since = webhook.failing_since.unwrap_or(now);
        let mut after = Webhook { failing_since: Some(since), ..webhook.clone() };
        let mut attempts = tried;
        match webhook.state {
            WebhookState::Reachable if now >= since.after(PATIENCE) => {
                after.state = WebhookState::Unreachable;
                after.probe_at = Some(now.after(PROBE));
            }
            WebhookState::Unreachable => {
                after.probe_at = Some(now.after(PROBE));
                // However long nobody is there, nothing is given up for it. But one message that is always
                // refused must not keep the others from being tried.
                attempts = if answer_came { tried } else { call.delivery.attempts };
            }
            WebhookState::Reachable | WebhookState::Disabled => {}
        }
        let outcome = match attempts.checked_sub(1).map(|failed| usize::try_from(failed).unwrap_or(usize::MAX)) {
            None => CallOutcome::Again(now),
            Some(failed) => match PAUSES.get(failed) {
                Some(pause) => CallOutcome::Again(now.after(self.jittered(*pause))),
                None => CallOutcome::GivenUp,
            },
        };
        Noted { webhook: after, attempts, outcome }
    }

    fn written(&self, call: &AgentCall, kind: &str, answered: &Answered, noted: &Noted) -> RelayChange {
        let (agent, seq) = (call.delivery.agent.clone(), call.delivery.mailed.seq);
        let due = match noted.outcome {
            CallOutcome::Again(due) => due,
            CallOutcome::Disabled => self.now(),
            CallOutcome::Over | CallOutcome::GivenUp => {
                let logged = DeliveryLog {
                    seq,
                    delivery_id: call.delivery_id.clone(),
                    kind: kind.to_owned(),
                    at: self.now(),
                    attempts: noted.attempts,
                    delivered: matches!(answered, Answered::Arrived(_)),
                    outcome: answered.outcome(),
                };
                return RelayChange::EndDelivery { agent, seq, logged };
            }
        };
        RelayChange::DelayDelivery { agent, seq, attempts: noted.attempts, due }
    }

    fn jittered(&self, pause: Duration) -> Duration {
        let mut bytes = [0; 4];
        self.entropy().fill(&mut bytes);
        let percent = f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX);
        let shortest = pause * u32::try_from(100 - JITTER).unwrap_or(100) / 100;
        shortest + (pause * u32::try_from(2 * JITTER).unwrap_or(0) / 100).mul_f64(percent)
    }

    /// How an agent is asked whether it is back; none when it is not to be asked now.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn probe(&self, agent: &AgentId) -> Result<Option<Probe>, EngineError> {
        let webhook = self.store().webhook(agent).await?;
        let is_due = |webhook: &Webhook| {
            webhook.state == WebhookState::Unreachable && webhook.probe_at.is_none_or(|at| at <= self.now())
        };
        if !webhook.as_ref().is_some_and(is_due) {
            // Otherwise than was thought.
            match webhook {
                Some(webhook) => self.called().put(&webhook),
                None => self.called().remove(agent),
            }
            return Ok(None);
        }
        let account = self.store().account(agent).await?;
        if let Some(health) = account.and_then(|account| account.health_check_url) {
            return Ok(Some(Probe::Health(health)));
        }
        let call = match self.store().first_delivery(agent).await? {
            Some(first) => self.call_while(WebhookState::Unreachable, first).await?,
            None => None,
        };
        if call.is_none() {
            // Nothing to say and no page to ask: it is seen when there is something.
            self.probed(agent, Health::Unknown).await?;
        }
        Ok(call.map(|call| Probe::Call(Box::new(call))))
    }

    /// Notes what an agent's own page said about it.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn health_probed(&self, agent: &AgentId, healthy: bool) -> Result<(), EngineError> {
        self.probed(agent, if healthy { Health::Back } else { Health::Unknown }).await
    }

    async fn probed(&self, agent: &AgentId, health: Health) -> Result<(), EngineError> {
        let _turn = self.agent_locks().enter(agent).await;
        let (Some(webhook), Some(account)) = (self.store().webhook(agent).await?, self.store().account(agent).await?)
        else {
            self.called().remove(agent);
            return Ok(());
        };
        if webhook.state != WebhookState::Unreachable {
            return Ok(());
        }
        let after = match health {
            Health::Back => reachable(&webhook),
            Health::Unknown => Webhook { probe_at: Some(self.now().after(PROBE)), ..webhook.clone() },
        };
        self.commit_telling(self.move_webhook(&account, &webhook, &after)).await?;
        self.called().put(&after);
        Ok(())
    }
}

/// What an agent's own page said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Back,
    Unknown,
}

/// What follows from a call.
struct Noted {
    webhook: Webhook,
    attempts: u32,
    outcome: CallOutcome,
}

impl Answered {
    /// In the words of the log.
    fn outcome(&self) -> String {
        match self {
            Self::Arrived(status) | Self::Refused(status) => format!("it answered {status}"),
            Self::Gone => "it answered 410".to_owned(),
            Self::Nothing(why) => why.chars().take(MAX_OUTCOME).collect(),
            Self::Forgotten => "the message was forgotten before it could be delivered".to_owned(),
        }
    }
}

/// Where an agent is called; none when it is not.
fn called_at(account: &Account) -> Option<&Url> {
    match &account.connection {
        AgentConnection::Webhook { url } => Some(url.url()),
        AgentConnection::Websocket => None,
    }
}

/// A UUID of version 7 that follows from what it names: nothing has to be kept for the next attempt to bear
/// the same.
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
    fn a_delivery_is_named_by_its_time_its_agent_and_its_number() {
        let mailed = |seq, at| QueuedNotification {
            seq,
            at: Timestamp::from_millis(at),
            happening: Notification::KeysChanged {
                owner: nuncio_core::happening::Recipient::Agent(AgentId::parse("agt_1").unwrap()),
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
