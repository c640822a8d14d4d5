//! Who belongs to a person: a DID that the operator says is theirs. Keys say so themselves.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use nuncio_core::Code;
use nuncio_core::ids::PersonName;
use nuncio_core::principal::Principal;

use super::{Caller, Credential};
use crate::Engine;
use crate::error::EngineError;
use crate::ports::bus::Notice;
use crate::ports::peers::Link;
use crate::ports::store::{Change, Conflict, StoreError};

/// The links, at hand for every request.
#[derive(Debug, Default)]
pub(crate) struct Links(RwLock<HashMap<Principal, PersonName>>);

impl Links {
    pub(crate) fn replace(&self, links: Vec<Link>) {
        let links = links.into_iter().map(|link| (link.principal, link.person)).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = links;
    }

    fn find(&self, principal: &Principal) -> Option<PersonName> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(principal).cloned()
    }
}

impl Engine {
    /// The caller who showed a DID, and the person it belongs to.
    #[must_use]
    pub fn caller_by_did(&self, did: &str) -> Caller {
        self.linked(Caller { credential: Credential::Did, ..Caller::new(Principal::Did(did.to_owned())) })
    }

    /// The same caller with the person they belong to, where nothing else says so.
    #[must_use]
    pub fn linked(&self, mut caller: Caller) -> Caller {
        caller.person = caller.person.or_else(|| self.person_links().find(&caller.principal));
        caller
    }

    /// Says that a DID belongs to a person, and to no other.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn link_did(&self, did: &str, person: PersonName) -> Result<Link, EngineError> {
        let link = Link { principal: Principal::Did(did.to_owned()), person, since: self.now() };
        self.store().commit(vec![Change::LinkPerson(link.clone())]).await?;
        self.links_changed().await?;
        Ok(link)
    }

    /// Says that a DID belongs to nobody.
    ///
    /// # Errors
    /// It belonged to nobody.
    pub async fn unlink_did(&self, did: &str) -> Result<(), EngineError> {
        match self.store().commit(vec![Change::UnlinkPerson(Principal::Did(did.to_owned()))]).await {
            Err(StoreError::Conflict(Conflict::Missing)) => {
                let message = format!("{did} belongs to nobody; `nuncio did links` lists those that do");
                return Err(EngineError::new(Code::NotFound, message));
            }
            other => other?,
        }
        self.links_changed().await
    }

    /// Which DIDs belong to whom.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn did_links(&self) -> Result<Vec<Link>, EngineError> {
        Ok(self.store().links().await?)
    }

    async fn links_changed(&self) -> Result<(), EngineError> {
        self.reload_access().await?;
        self.bus().publish(Notice::Access).await;
        Ok(())
    }
}
