//! Webhook management by an agent's owner.

use std::fmt;

use nuncio_core::ErrorCode;
use nuncio_core::account::{AccountOwner, AgentAccount, AgentConnection};
use nuncio_core::audit::AuditEvent;
use nuncio_core::ids::AgentId;
use nuncio_core::notification::{Notification, RelayParty, WebhookState};
use nuncio_core::time::Timestamp;

use super::{WebhookSecret, recipient};
use crate::access::Caller;
use crate::accounts::AgentAccountService;
use crate::accounts::WebhookService;
use crate::consent_error::ConsentError;
use crate::ports::store::relay::{Webhook, WebhookDeliveryLogEntry};
use crate::ports::store::{Change, Job, JobChange, JobKind, JobSelection, RelayChange, StoreError};

const MAX_PAGE_SIZE: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookStatusView {
    pub state: WebhookState,
    /// Time of the first failed delivery since the last successful one.
    pub failing_since: Option<Timestamp>,
    /// Time of the next probe of an unreachable webhook.
    pub probe_at: Option<Timestamp>,
    /// Oldest waiting delivery of the webhook.
    pub waiting: Option<WaitingDelivery>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingDelivery {
    pub delivery_id: String,
    pub created_at: Timestamp,
    /// Number of delivery attempts so far.
    pub attempts: u32,
    /// Time of the next delivery attempt, if the webhook is reachable.
    pub due: Timestamp,
}

/// Changes for an agent whose connection mode changes.
#[derive(Debug, Default)]
pub(crate) struct ConnectionModeChange {
    pub(crate) changes: Vec<Change>,
    /// New signing secret of the webhook, if one was created.
    pub(crate) secret: Option<WebhookSecret>,
    now: WebhookIndexEffect,
}

/// Update of the in-memory webhook index after the commit.
#[derive(Debug, Default)]
enum WebhookIndexEffect {
    #[default]
    AsBefore,
    Called(AgentId),
    NotCalled(AgentId),
}

impl WebhookService {
    /// Changes that set up the connection mode of a new agent.
    pub(crate) fn plan_first_connection(&self, id: &AgentId, wanted: &AgentConnection) -> ConnectionModeChange {
        match wanted {
            AgentConnection::Websocket => ConnectionModeChange::default(),
            AgentConnection::Webhook { .. } => self.begin_calling(id),
        }
    }

    /// Changes for a new connection mode of an agent. Setting a URL, even the same, marks the webhook as reachable.
    pub(crate) async fn plan_connection(
        &self,
        account: &AgentAccount,
        wanted: &AgentConnection,
    ) -> Result<ConnectionModeChange, StoreError> {
        let id = &account.id;
        let stored = self.store.webhook(id).await?;
        Ok(match (wanted, stored) {
            (AgentConnection::Websocket, None) => ConnectionModeChange::default(),
            (AgentConnection::Websocket, Some(_)) => ConnectionModeChange {
                changes: vec![RelayChange::RemoveWebhook(id.clone()).into()],
                secret: None,
                now: WebhookIndexEffect::NotCalled(id.clone()),
            },
            (AgentConnection::Webhook { .. }, None) => self.begin_calling(id),
            (AgentConnection::Webhook { .. }, Some(stored)) => {
                let webhook = reachable(&stored);
                let mut changes = self.move_webhook(account, &stored, &webhook);
                if stored.state == WebhookState::Reachable {
                    changes.push(self.hasten_deliveries(id));
                }
                ConnectionModeChange { changes, secret: None, now: WebhookIndexEffect::Called(id.clone()) }
            }
        })
    }

    /// Updates the in-memory webhook index after the commit.
    pub(crate) fn reconnected(&self, reconnection: ConnectionModeChange) -> Option<WebhookSecret> {
        match reconnection.now {
            WebhookIndexEffect::AsBefore => {}
            WebhookIndexEffect::Called(agent) => self.index.put(agent),
            WebhookIndexEffect::NotCalled(agent) => self.index.remove(&agent),
        }
        reconnection.secret
    }

    fn begin_calling(&self, id: &AgentId) -> ConnectionModeChange {
        let (webhook, secret) = self.fresh_webhook(id);
        let changes = vec![RelayChange::PutWebhook(webhook).into()];
        ConnectionModeChange { changes, secret: Some(secret), now: WebhookIndexEffect::Called(id.clone()) }
    }

    fn fresh_webhook(&self, id: &AgentId) -> (Webhook, WebhookSecret) {
        let secret = WebhookSecret::random(&*self.context.entropy);
        let sealed = self.context.seal(&webhook_secret_context(id), &secret.text());
        let webhook = Webhook {
            agent: id.clone(),
            secret: sealed,
            state: WebhookState::Reachable,
            failing_since: None,
            probe_at: None,
        };
        (webhook, secret)
    }

    /// Changes for a new webhook state: notifies the owner, and makes waiting deliveries due once it is reachable.
    pub(super) fn move_webhook(&self, account: &AgentAccount, before: &Webhook, after: &Webhook) -> Vec<Change> {
        let mut changes = Vec::new();
        if before == after {
            return changes;
        }
        changes.push(RelayChange::PutWebhook(after.clone()).into());
        if before.state == after.state {
            return changes;
        }
        if after.state == WebhookState::Reachable {
            changes.push(self.hasten_deliveries(&after.agent));
        }
        if let (WebhookState::Unreachable, Some(due)) = (after.state, after.probe_at) {
            let receiver = recipient(&after.agent);
            let (kind, key) = (JobKind::Probe, receiver.clone());
            changes.push(JobChange::Put(Job { kind, key, receiver, lane: None, due, attempts: 0 }).into());
        }
        if let AccountOwner::Person(owner) = &account.owner {
            let notification = Notification::WebhookMoved { agent: after.agent.clone(), state: after.state };
            changes.push(self.mailbox.mail_change(&RelayParty::Person(owner.clone()), notification));
        }
        changes
    }

    /// Makes all waiting deliveries of an agent due now.
    fn hasten_deliveries(&self, agent: &AgentId) -> Change {
        let jobs = JobSelection::Receiver(recipient(agent));
        JobChange::Hasten { kind: JobKind::Delivery, jobs, due: self.context.now() }.into()
    }

    /// Decrypted signing secret; `None` if another server encrypted it.
    pub(super) fn open_secret(&self, webhook: &Webhook) -> Option<WebhookSecret> {
        WebhookSecret::read(&self.context.cipher.open(&webhook_secret_context(&webhook.agent), &webhook.secret)?)
    }
}

pub(super) fn reachable(webhook: &Webhook) -> Webhook {
    Webhook { state: WebhookState::Reachable, failing_since: None, probe_at: None, ..webhook.clone() }
}

/// Name to which the encryption of the webhook secret is bound.
pub(crate) fn webhook_secret_context(agent: &(impl fmt::Display + ?Sized)) -> String {
    format!("webhook/{agent}")
}

impl AgentAccountService {
    /// Replaces the signing secret of a webhook, which is returned only here. The previous one stops working at once.
    pub async fn rotate_webhook_secret(&self, by: &Caller, id: &AgentId) -> Result<WebhookSecret, ConsentError> {
        let _turn = self.locks.enter(id).await;
        let account = self.owned(by, id).await?;
        if account.connection == AgentConnection::Websocket {
            let message = format!("agent {id} has no webhook secret, because its connection_mode is \"websocket\"");
            return Err(ConsentError::new(ErrorCode::BadRequest, message));
        }
        let (fresh, secret) = self.webhooks.fresh_webhook(id);
        let stored = self.webhooks.store.webhook(id).await?;
        let webhook = stored.map_or_else(|| fresh.clone(), |stored| Webhook { secret: fresh.secret.clone(), ..stored });
        let record = self.context.agent_event(AuditEvent::WebhookSecretRotated, by, id);
        self.context.commit(vec![RelayChange::PutWebhook(webhook).into(), record]).await?;
        self.webhooks.index.put(id.clone());
        Ok(secret)
    }

    /// State of an agent's webhook; `None` if the agent has none.
    pub async fn webhook(&self, by: &Caller, id: &AgentId) -> Result<Option<WebhookStatusView>, ConsentError> {
        self.owned(by, id).await?;
        let Some(webhook) = self.webhooks.store.webhook(id).await? else { return Ok(None) };
        let waiting = self.webhooks.store.first_delivery(id).await?.map(|delivery| WaitingDelivery {
            delivery_id: super::delivery_id(id, &delivery.mailed),
            created_at: delivery.mailed.at,
            attempts: delivery.attempts,
            due: delivery.due,
        });
        let Webhook { state, failing_since, probe_at, .. } = webhook;
        Ok(Some(WebhookStatusView { state, failing_since, probe_at, waiting }))
    }

    /// Delivery log entries of an agent with a number below `before`, newest first; at most `limit`, and never more
    /// than 100.
    pub async fn delivery_log(
        &self,
        by: &Caller,
        id: &AgentId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<WebhookDeliveryLogEntry>, ConsentError> {
        self.owned(by, id).await?;
        Ok(self.webhooks.store.delivery_log(id, before.unwrap_or(u64::MAX), limit.min(MAX_PAGE_SIZE)).await?)
    }
}
