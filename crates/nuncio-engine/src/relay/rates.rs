//! How many tools an agent calls.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nuncio_core::ids::AgentId;
use nuncio_core::rate::{Rate, RateUsage};
use nuncio_core::time::Timestamp;

/// How many agents there are before those that call no more are looked for.
const SWEEP: usize = 4096;

/// What each agent has used of its calls.
#[derive(Debug, Default)]
pub(crate) struct ToolCallRates(Mutex<HashMap<AgentId, RateUsage>>);

impl ToolCallRates {
    /// Takes one, or says how long to wait.
    pub(super) fn take(&self, agent: &AgentId, per_minute: u32, now: Timestamp) -> Result<(), Duration> {
        let mut agents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if agents.len() >= SWEEP {
            agents.retain(|_, used| !used.is_over(now));
        }
        let used = Rate::per_minute(per_minute.max(1)).take(agents.get(agent).copied(), now)?;
        agents.insert(agent.clone(), used);
        Ok(())
    }

    /// Gives one back that was not used after all.
    pub(super) fn give_back(&self, agent: &AgentId, per_minute: u32) {
        let mut agents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = agents.get_mut(agent) {
            *used = Rate::per_minute(per_minute.max(1)).give_back(*used);
        }
    }
}
