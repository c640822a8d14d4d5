//! Who signs what our agents ask of others.

use std::sync::Arc;

use nuncio_anp::client::{KeySigner, Signers, Signs};
use nuncio_core::ids::AgentName;

use super::Dids;
use crate::system::SystemEntropy;

impl Signers for Dids {
    fn signer(&self, agent: &AgentName) -> Option<Arc<dyn Signs>> {
        let own = self.agent(agent)?;
        let (did, key) = (own.did().clone(), own.key().clone());
        Some(Arc::new(KeySigner::new(did, key, Arc::clone(&self.inner.clock), Arc::new(SystemEntropy))))
    }
}
