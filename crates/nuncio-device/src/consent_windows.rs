//! Consent windows: after a yes to a call of medium sensitivity the person is not asked again for 24 hours since the
//! last use, for one agent, agent device, scope and conversation.

use std::time::Duration;

use nuncio_core::ids::{AgentId, ConversationId, DeviceId, ScopeId};
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{KeyStoreError, RecordChange};
use serde::{Deserialize, Serialize};

use crate::record_store::RecordStore;

pub(crate) const WINDOW: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct ConsentWindow {
    used: Timestamp,
    /// Number of the ledger entry that the consent window depends on; a newer entry closes the window.
    ledger: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ConsentWindowKey<'a> {
    pub(crate) agent: &'a AgentId,
    /// The agent's device that called; a call of another device of the agent, which the relay could have added, opens
    /// its own window.
    pub(crate) by: &'a DeviceId,
    pub(crate) conversation: &'a ConversationId,
    pub(crate) scope: &'a ScopeId,
}

impl ConsentWindowKey<'_> {
    fn name(&self) -> String {
        format!("window/{}/{}/{}/{}", self.agent, self.by, self.conversation, self.scope)
    }
}

/// Whether the person recently allowed such a call under the current ledger entry.
pub(crate) fn is_open(
    records: &RecordStore,
    window_key: ConsentWindowKey<'_>,
    ledger: u64,
    now: Timestamp,
) -> Result<bool, KeyStoreError> {
    let window: Option<ConsentWindow> = records.get(&window_key.name())?;
    // Setting the clock back opens no window.
    let fresh =
        |window: ConsentWindow| window.ledger == ledger && window.used <= now && now < window.used.after(WINDOW);
    Ok(window.is_some_and(fresh))
}

pub(crate) fn used(window_key: ConsentWindowKey<'_>, ledger: u64, now: Timestamp) -> RecordChange {
    RecordStore::put(&window_key.name(), &ConsentWindow { used: now, ledger })
}

pub(crate) fn close(records: &RecordStore, agent: &AgentId) -> Result<Vec<RecordChange>, KeyStoreError> {
    let names = records.names(&format!("window/{agent}/"))?;
    Ok(names.iter().map(|name| RecordStore::delete(name)).collect())
}

#[cfg(test)]
mod tests;
