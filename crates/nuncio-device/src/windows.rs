//! What was allowed a while ago and is not asked again: 24 hours from the last time, for one agent, one permission, in
//! one conversation, on this device, to the keys that were shown when the person said yes.

use std::time::Duration;

use nuncio_core::ids::{AgentId, ConversationId, DeviceId, ScopeId};
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{Change, KeepError};
use serde::{Deserialize, Serialize};

use crate::records::Records;

/// How long it is.
pub(crate) const WINDOW: Duration = Duration::from_secs(24 * 3600);

/// A window that was opened by a yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Window {
    /// When it was last used.
    used: Timestamp,
    /// The number of the ledger's entry it rests on: a new yes closes it.
    ledger: u64,
}

/// For what a window is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pane<'a> {
    pub(crate) agent: &'a AgentId,
    /// The agent's device that called: another may have been slipped in by the relay.
    pub(crate) by: &'a DeviceId,
    pub(crate) conversation: &'a ConversationId,
    pub(crate) scope: &'a ScopeId,
}

impl Pane<'_> {
    fn name(&self) -> String {
        format!("window/{}/{}/{}/{}", self.agent, self.by, self.conversation, self.scope)
    }
}

/// Whether the person said yes lately, to what the ledger says now.
pub(crate) fn is_open(records: &Records, pane: Pane<'_>, ledger: u64, now: Timestamp) -> Result<bool, KeepError> {
    let window: Option<Window> = records.get(&pane.name())?;
    // A clock set back opens nothing.
    let fresh = |window: Window| window.ledger == ledger && window.used <= now && now < window.used.after(WINDOW);
    Ok(window.is_some_and(fresh))
}

/// It was used now.
pub(crate) fn used(pane: Pane<'_>, ledger: u64, now: Timestamp) -> Change {
    Records::put(&pane.name(), &Window { used: now, ledger })
}

/// Closes every window of an agent.
pub(crate) fn close(records: &Records, agent: &AgentId) -> Result<Vec<Change>, KeepError> {
    let names = records.names(&format!("window/{agent}/"))?;
    Ok(names.iter().map(|name| Records::gone(name)).collect())
}

#[cfg(test)]
mod tests;
