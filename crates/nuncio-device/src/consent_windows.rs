//! Consent windows: after a yes to a call of medium sensitivity the person is not asked again until 24 hours after the
//! last use. Each window is for one agent, agent device, scope, conversation, and source of the call: the app and its own
//! conversation with the agent.

use std::time::Duration;

use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, ConversationId, DeviceId, ScopeId};
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{KeyStoreError, SealedRecordChange};
use serde::{Deserialize, Serialize};

use crate::record_store::RecordStore;

pub(crate) const WINDOW: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct ConsentWindow {
    used: Timestamp,
    /// Number of the last ledger entry when the window was used; a newer entry closes the window.
    ledger: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ConsentWindowKey<'a> {
    pub(crate) agent: &'a AgentId,
    /// Device of the agent that called. The relay could have added other devices, so each has its own window.
    pub(crate) by: &'a DeviceId,
    pub(crate) conversation: &'a ConversationId,
    pub(crate) scope: &'a ScopeId,
    /// Digest of the call's source; calls without a source share one window.
    pub(crate) source: Option<Digest>,
}

impl ConsentWindowKey<'_> {
    fn name(&self) -> String {
        let source = self.source.map(|source| format!("/{source}")).unwrap_or_default();
        format!("window/{}/{}/{}/{}{source}", self.agent, self.by, self.conversation, self.scope)
    }
}

/// Whether the consent window is open, so that the person need not be asked. `ledger` is the last entry's number.
pub(crate) fn is_open(
    records: &RecordStore,
    window_key: ConsentWindowKey<'_>,
    ledger: u64,
    now: Timestamp,
) -> Result<bool, KeyStoreError> {
    let window: Option<ConsentWindow> = records.get(&window_key.name())?;
    // A use in the future does not count, so that setting the clock back opens no window.
    let fresh =
        |window: ConsentWindow| window.ledger == ledger && window.used <= now && now < window.used.after(WINDOW);
    Ok(window.is_some_and(fresh))
}

pub(crate) fn used(window_key: ConsentWindowKey<'_>, ledger: u64, now: Timestamp) -> SealedRecordChange {
    RecordStore::put(&window_key.name(), &ConsentWindow { used: now, ledger })
}

pub(crate) fn close(records: &RecordStore, agent: &AgentId) -> Result<Vec<SealedRecordChange>, KeyStoreError> {
    let names = records.names(&format!("window/{agent}/"))?;
    Ok(names.iter().map(|name| RecordStore::delete(name)).collect())
}

#[cfg(test)]
mod tests;
