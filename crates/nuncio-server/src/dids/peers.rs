//! The signer of requests that agents of this server send to other servers.

use std::path::Path;
use std::sync::Arc;

use nuncio_anp::client::{AgentSigners, KeySigner, RequestSigner};
use nuncio_core::ids::AgentName;
use nuncio_engine::ports::Clock;

use super::{DidSubject, Dids};
use crate::data::DataDir;
use crate::error::StartError;
use crate::system::SystemEntropy;

impl AgentSigners for Dids {
    fn signer(&self, agent: &AgentName) -> Option<Arc<dyn RequestSigner>> {
        let own = self.agent(agent)?;
        let (did, key) = (own.did().clone(), own.key().clone());
        Some(Arc::new(KeySigner::new(did, key, Arc::clone(&self.inner.clock), Arc::new(SystemEntropy))))
    }
}

/// A signer with the key file of an agent in a data directory, for commands of its owner. Works whether a server runs
/// or not, and changes nothing.
pub fn signer_of(data: &Path, agent: &AgentName, clock: Arc<dyn Clock>) -> Result<Arc<dyn RequestSigner>, StartError> {
    let dids = Dids::open_offline(DataDir::files_of(data)?, clock)?;
    let none = || dids.unavailable(&DidSubject::Agent(agent.clone()));
    Ok(AgentSigners::signer(&dids, agent).ok_or_else(none)?)
}
