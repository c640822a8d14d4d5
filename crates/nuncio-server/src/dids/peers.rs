//! Who signs what our agents ask of others.

use std::path::Path;
use std::sync::Arc;

use nuncio_anp::client::{KeySigner, Signers, Signs};
use nuncio_core::ids::AgentName;
use nuncio_engine::ports::Clock;

use super::{Dids, Subject};
use crate::data::DataDir;
use crate::error::StartError;
use crate::system::SystemEntropy;

impl Signers for Dids {
    fn signer(&self, agent: &AgentName) -> Option<Arc<dyn Signs>> {
        let own = self.agent(agent)?;
        let (did, key) = (own.did().clone(), own.key().clone());
        Some(Arc::new(KeySigner::new(did, key, Arc::clone(&self.inner.clock), Arc::new(SystemEntropy))))
    }
}

/// Whoever signs for an agent of a data directory, by its key file: for commands of whoever owns it, whether a
/// server runs there or not. Nothing is made or changed.
///
/// # Errors
/// The agent has no DID there, or its key file cannot be used.
pub fn signer_of(data: &Path, agent: &AgentName, clock: Arc<dyn Clock>) -> Result<Arc<dyn Signs>, StartError> {
    let dids = Dids::left(DataDir::files_of(data)?, clock)?;
    let none = || dids.unavailable(&Subject::Agent(agent.clone()));
    Ok(Signers::signer(&dids, agent).ok_or_else(none)?)
}
