//! In-memory index of agents with webhooks: notifications to other agents cost nothing, and probes are found quickly.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::ids::AgentId;
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use tokio::sync::Notify;

use crate::ports::store::relay::Webhook;

#[derive(Debug, Default)]
pub(crate) struct WebhookIndex {
    /// Agents with a webhook, and the time of its next probe; `None` while it is reachable.
    agents: Mutex<HashMap<AgentId, Option<Timestamp>>>,
    /// Notified when a delivery may be due.
    pub(super) owed: Notify,
}

impl WebhookIndex {
    /// Wakes the delivery loop if one of the recipients has a webhook.
    pub(crate) fn notify_new_mail(&self, recipients: &[RelayParty]) {
        let has_webhook = |recipient: &RelayParty| match recipient {
            RelayParty::Agent(id) => self.has(id),
            RelayParty::Person(_) => false,
        };
        if recipients.iter().any(has_webhook) {
            self.owed.notify_one();
        }
    }

    pub(super) fn put(&self, webhook: &Webhook) {
        self.lock().insert(webhook.agent.clone(), webhook.probe_at);
        self.owed.notify_one();
    }

    pub(super) fn remove(&self, agent: &AgentId) {
        self.lock().remove(agent);
    }

    pub(super) fn has(&self, agent: &AgentId) -> bool {
        self.lock().contains_key(agent)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(super) fn probes(&self) -> Vec<(AgentId, Timestamp)> {
        self.lock().iter().filter_map(|(agent, probe)| Some((agent.clone(), (*probe)?))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AgentId, Option<Timestamp>>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
