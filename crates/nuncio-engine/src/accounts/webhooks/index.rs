//! In-memory index of agents with webhooks, so that notifications to other agents cost nothing.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::ids::AgentId;
use nuncio_core::notification::RelayParty;

#[derive(Debug, Default)]
pub(crate) struct WebhookIndex {
    agents: Mutex<HashSet<AgentId>>,
}

impl WebhookIndex {
    /// Whether one of the recipients has a webhook.
    pub(crate) fn has_any(&self, recipients: &[RelayParty]) -> bool {
        recipients.iter().any(|recipient| match recipient {
            RelayParty::Agent(id) => self.has(id),
            RelayParty::Person(_) => false,
        })
    }

    pub(super) fn put(&self, agent: AgentId) {
        self.lock().insert(agent);
    }

    pub(super) fn remove(&self, agent: &AgentId) {
        self.lock().remove(agent);
    }

    pub(super) fn has(&self, agent: &AgentId) -> bool {
        self.lock().contains(agent)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<AgentId>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
