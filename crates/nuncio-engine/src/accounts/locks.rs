//! One lock per agent. The store would refuse the second of two concurrent changes; waiting avoids the retries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nuncio_core::ids::AgentId;
use tokio::sync::{Mutex as Turnstile, OwnedMutexGuard};

#[derive(Debug, Default)]
pub(crate) struct AgentLocks {
    agents: Mutex<HashMap<AgentId, Weak<Turnstile<()>>>>,
}

impl AgentLocks {
    pub(crate) async fn enter(&self, agent: &AgentId) -> OwnedMutexGuard<()> {
        let turnstile = {
            let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
            match agents.get(agent).and_then(Weak::upgrade) {
                Some(turnstile) => turnstile,
                None => {
                    agents.retain(|_, left| left.strong_count() > 0);
                    let turnstile = Arc::new(Turnstile::new(()));
                    agents.insert(agent.clone(), Arc::downgrade(&turnstile));
                    turnstile
                }
            }
        };
        turnstile.lock_owned().await
    }
}
