//! Links between DIDs and people, set by the operator. API keys carry their person themselves.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use nuncio_core::ErrorCode;
use nuncio_core::ids::PersonName;
use nuncio_core::principal::Principal;

use super::{AccessControl, AuthenticationMethod, Caller};
use crate::context::CommitResultExt as _;
use crate::error::EngineError;
use crate::ports::store::{AccessChange, Conflict, PersonLink};

/// In-memory copy of the links, because every request reads them.
#[derive(Debug, Default)]
pub(crate) struct PersonLinkTable(RwLock<HashMap<Principal, PersonName>>);

impl PersonLinkTable {
    pub(crate) fn replace(&self, links: Vec<PersonLink>) {
        let links = links.into_iter().map(|link| (link.principal, link.person)).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = links;
    }

    fn find(&self, principal: &Principal) -> Option<PersonName> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(principal).cloned()
    }
}

impl AccessControl {
    /// Caller that authenticated with a DID, with the linked person.
    #[must_use]
    pub fn caller_by_did(&self, did: &str) -> Caller {
        self.linked(Caller { authentication: AuthenticationMethod::Did, ..Caller::new(Principal::Did(did.to_owned())) })
    }

    /// Fills in the linked person of a caller that has none.
    #[must_use]
    pub fn linked(&self, mut caller: Caller) -> Caller {
        caller.person = caller.person.or_else(|| self.links.find(&caller.principal));
        caller
    }

    /// Links a DID to a person, replacing an earlier link.
    pub async fn link_did(&self, did: &str, person: PersonName) -> Result<PersonLink, EngineError> {
        let link = PersonLink { principal: Principal::Did(did.to_owned()), person, since: self.context.now() };
        self.context.commit_one(AccessChange::LinkPerson(link.clone())).await?;
        self.access_changed().await?;
        Ok(link)
    }

    pub async fn unlink_did(&self, did: &str) -> Result<(), EngineError> {
        let change = AccessChange::UnlinkPerson(Principal::Did(did.to_owned()));
        if !self.context.commit_one(change).await.made_unless(Conflict::Missing)? {
            let message = format!("{did} is not linked to a person; `nuncio did links` lists the linked DIDs");
            return Err(EngineError::new(ErrorCode::NotFound, message));
        }
        self.access_changed().await
    }

    pub async fn did_links(&self) -> Result<Vec<PersonLink>, EngineError> {
        Ok(self.store.links().await?)
    }
}
