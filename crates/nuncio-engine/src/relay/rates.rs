//! Rate limit of tool calls per agent.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nuncio_core::ids::AgentId;
use nuncio_core::rate::{Rate, RateUsage};
use nuncio_core::time::Timestamp;

/// Table size at which idle agents are removed.
const SWEEP: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct ToolCallRates(Mutex<HashMap<AgentId, RateUsage>>);

impl ToolCallRates {
    /// Takes one call from the limit, or returns the time to wait.
    pub(super) fn take(&self, agent: &AgentId, per_minute: u32, now: Timestamp) -> Result<(), Duration> {
        let mut agents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if agents.len() >= SWEEP {
            agents.retain(|_, used| !used.is_over(now));
        }
        let used = Rate::per_minute(per_minute.max(1)).take(agents.get(agent).copied(), now)?;
        agents.insert(agent.clone(), used);
        Ok(())
    }

    /// Returns a call that was not used.
    pub(super) fn give_back(&self, agent: &AgentId, per_minute: u32) {
        let mut agents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = agents.get_mut(agent) {
            *used = Rate::per_minute(per_minute.max(1)).give_back(*used);
        }
    }
}
