//! What an agent's owner does about its webhook: where it is, with which secret, and how it went.

use nuncio_core::Code;
use nuncio_core::account::{Account, AccountOwner, AgentConnection};
use nuncio_core::audit::{AuditEvent, AuditEventRecord};
use nuncio_core::happening::{Notification, Recipient, WebhookState};
use nuncio_core::ids::AgentId;
use nuncio_core::time::Timestamp;

use super::WebhookSecret;
use crate::Engine;
use crate::access::Caller;
use crate::consent::ConsentError;
use crate::ports::store::relay::{DeliveryLog, Webhook};
use crate::ports::store::{Change, ConsentChange, RelayChange, StoreError};

/// How much of the log is read at once, at most.
const PAGE: usize = 100;

/// A webhook as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookView {
    /// Whether it can be reached.
    pub state: WebhookState,
    /// Since when every call failed.
    pub failing_since: Option<Timestamp>,
    /// When it is asked whether it is back.
    pub probe_at: Option<Timestamp>,
    /// The oldest that waits, if anything does.
    pub waiting: Option<WaitingDelivery>,
}

/// Something an agent is to be called with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingDelivery {
    /// The name under which it is called.
    pub delivery_id: String,
    /// When it happened.
    pub created_at: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
    /// When it is tried next, if the webhook can be reached.
    pub due: Timestamp,
}

/// What has to be written when an agent is reached in another way.
#[derive(Debug, Default)]
pub(crate) struct Reconnection {
    pub(crate) changes: Vec<Change>,
    /// The secret, where there is a new one.
    pub(crate) secret: Option<WebhookSecret>,
    now: Way,
}

/// How an agent is reached afterwards.
#[derive(Debug, Default)]
enum Way {
    #[default]
    AsBefore,
    Called(Webhook),
    NotCalled(AgentId),
}

impl Engine {
    /// Makes the secret anew that an agent's calls are signed with; the one before is worth nothing from now
    /// on. It is returned here and nowhere else.
    ///
    /// # Errors
    /// There is no such agent, the caller does not own it, or it is not called.
    pub async fn rotate_webhook_secret(&self, by: &Caller, id: &AgentId) -> Result<WebhookSecret, ConsentError> {
        let _turn = self.agent_locks().enter(id).await;
        let account = self.owned(by, id).await?;
        if account.connection == AgentConnection::Websocket {
            let message =
                format!("agent {id} is not called: its connection_mode is \"websocket\", so it has no secret");
            return Err(ConsentError::new(Code::BadRequest, message));
        }
        let (fresh, secret) = self.fresh_webhook(id);
        let stored = self.store().webhook(id).await?;
        let webhook = stored.map_or_else(|| fresh.clone(), |stored| Webhook { secret: fresh.secret.clone(), ..stored });
        let record =
            AuditEventRecord { agent: Some(id.clone()), ..self.happened(AuditEvent::WebhookSecretRotated, by) };
        let changes = vec![RelayChange::PutWebhook(webhook.clone()).into(), ConsentChange::Record(record).into()];
        self.store().commit(changes).await?;
        self.called().put(&webhook);
        Ok(secret)
    }

    /// How an agent's webhook is; none when it is not called.
    ///
    /// # Errors
    /// There is no such agent, or the caller does not own it.
    pub async fn webhook(&self, by: &Caller, id: &AgentId) -> Result<Option<WebhookView>, ConsentError> {
        self.owned(by, id).await?;
        let Some(webhook) = self.store().webhook(id).await? else { return Ok(None) };
        let waiting = self.store().first_delivery(id).await?.map(|delivery| WaitingDelivery {
            delivery_id: super::delivery_id(id, &delivery.mailed),
            created_at: delivery.mailed.at,
            attempts: delivery.attempts,
            due: delivery.due,
        });
        let Webhook { state, failing_since, probe_at, .. } = webhook;
        Ok(Some(WebhookView { state, failing_since, probe_at, waiting }))
    }

    /// What became of an agent's calls, the newest event first, those before a number.
    ///
    /// # Errors
    /// There is no such agent, or the caller does not own it.
    pub async fn delivery_log(
        &self,
        by: &Caller,
        id: &AgentId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeliveryLog>, ConsentError> {
        self.owned(by, id).await?;
        Ok(self.store().delivery_log(id, before.unwrap_or(u64::MAX), limit.min(PAGE)).await?)
    }

    /// What has to be written for an agent that was not there before.
    pub(crate) fn plan_first_connection(&self, id: &AgentId, wanted: &AgentConnection) -> Reconnection {
        match wanted {
            AgentConnection::Websocket => Reconnection::default(),
            AgentConnection::Webhook { .. } => self.begin_calling(id),
        }
    }

    /// What has to be written when an owner says how an agent is reached. To name an address, the same or
    /// another, is to say that it can be called there.
    pub(crate) async fn plan_connection(
        &self,
        account: &Account,
        wanted: &AgentConnection,
    ) -> Result<Reconnection, StoreError> {
        let id = &account.id;
        let stored = self.store().webhook(id).await?;
        Ok(match (wanted, stored) {
            (AgentConnection::Websocket, None) => Reconnection::default(),
            (AgentConnection::Websocket, Some(_)) => Reconnection {
                changes: vec![RelayChange::RemoveWebhook(id.clone()).into()],
                secret: None,
                now: Way::NotCalled(id.clone()),
            },
            (AgentConnection::Webhook { .. }, None) => self.begin_calling(id),
            (AgentConnection::Webhook { .. }, Some(stored)) => {
                let webhook = reachable(&stored);
                let mut changes = self.move_webhook(account, &stored, &webhook);
                if stored.state == WebhookState::Reachable {
                    changes.push(RelayChange::HastenDeliveries { agent: id.clone(), due: self.now() }.into());
                }
                Reconnection { changes, secret: None, now: Way::Called(webhook) }
            }
        })
    }

    /// The same is true in memory once it is on disk.
    pub(crate) fn reconnected(&self, reconnection: Reconnection) -> Option<WebhookSecret> {
        match reconnection.now {
            Way::AsBefore => {}
            Way::Called(webhook) => self.called().put(&webhook),
            Way::NotCalled(agent) => self.called().remove(&agent),
        }
        reconnection.secret
    }

    fn begin_calling(&self, id: &AgentId) -> Reconnection {
        let (webhook, secret) = self.fresh_webhook(id);
        let changes = vec![RelayChange::PutWebhook(webhook.clone()).into()];
        Reconnection { changes, secret: Some(secret), now: Way::Called(webhook) }
    }

    fn fresh_webhook(&self, id: &AgentId) -> (Webhook, WebhookSecret) {
        let secret = WebhookSecret::random(self.entropy());
        let sealed = self.vault().seal(self.entropy(), &place(id), &secret.text());
        let webhook = Webhook {
            agent: id.clone(),
            secret: sealed,
            state: WebhookState::Reachable,
            failing_since: None,
            probe_at: None,
        };
        (webhook, secret)
    }

    /// What has to be written when a webhook is otherwise than before: its owner is told when it can be
    /// reached no more, or again, and then what waits is tried at once.
    pub(super) fn move_webhook(&self, account: &Account, before: &Webhook, after: &Webhook) -> Vec<Change> {
        let mut changes = Vec::new();
        if before == after {
            return changes;
        }
        changes.push(RelayChange::PutWebhook(after.clone()).into());
        if before.state == after.state {
            return changes;
        }
        if after.state == WebhookState::Reachable {
            changes.push(RelayChange::HastenDeliveries { agent: after.agent.clone(), due: self.now() }.into());
        }
        if let AccountOwner::Person(owner) = &account.owner {
            let happening = Notification::WebhookMoved { agent: after.agent.clone(), state: after.state };
            changes.push(self.tell(&Recipient::Person(owner.clone()), happening));
        }
        changes
    }

    /// The secret of a webhook; none when it was sealed by another server.
    pub(super) fn open_secret(&self, webhook: &Webhook) -> Option<WebhookSecret> {
        WebhookSecret::read(&self.vault().open(&place(&webhook.agent), &webhook.secret)?)
    }
}

/// The same webhook, as one that can be reached.
pub(super) fn reachable(webhook: &Webhook) -> Webhook {
    Webhook { state: WebhookState::Reachable, failing_since: None, probe_at: None, ..webhook.clone() }
}

/// Where a secret belongs.
fn place(agent: &AgentId) -> String {
    format!("webhook/{agent}")
}
