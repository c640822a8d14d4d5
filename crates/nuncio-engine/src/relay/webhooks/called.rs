//! Who is called, in memory: so that a word to anyone else costs nothing, and nobody looks for a webhook
//! that is to be asked whether it is back.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::happening::Recipient;
use nuncio_core::ids::AgentId;
use nuncio_core::time::Timestamp;
use tokio::sync::Notify;

use crate::ports::store::relay::Webhook;

/// The agents that are called.
#[derive(Debug, Default)]
pub(crate) struct Called {
    /// When each is asked whether it is back; none while it can be reached.
    agents: Mutex<HashMap<AgentId, Option<Timestamp>>>,
    owed: Notify,
}

impl Called {
    /// Someone was told something: if it is one of those who are called, there is something to do.
    pub(crate) fn were_told(&self, recipients: &[Recipient]) {
        let is_called = |recipient: &Recipient| match recipient {
            Recipient::Agent(id) => self.has(id),
            Recipient::Person(_) => false,
        };
        if recipients.iter().any(is_called) {
            self.owed.notify_one();
        }
    }

    /// An agent is called so from now on.
    pub(super) fn put(&self, webhook: &Webhook) {
        self.lock().insert(webhook.agent.clone(), webhook.probe_at);
        self.owed.notify_one();
    }

    /// An agent is called no more.
    pub(super) fn remove(&self, agent: &AgentId) {
        self.lock().remove(agent);
    }

    pub(super) fn has(&self, agent: &AgentId) -> bool {
        self.lock().contains_key(agent)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Who is to be asked whether it is back, and when.
    pub(super) fn probes(&self) -> Vec<(AgentId, Timestamp)> {
        self.lock().iter().filter_map(|(agent, probe)| Some((agent.clone(), (*probe)?))).collect()
    }

    /// Waits until there may be something to do.
    pub(super) async fn owed(&self) {
        self.owed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AgentId, Option<Timestamp>>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
