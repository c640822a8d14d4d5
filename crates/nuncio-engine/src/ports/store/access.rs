//! Store of keys, grants and the links of principals to people.

use async_trait::async_trait;
use nuncio_core::digest::Digest;
use nuncio_core::grant::Grant;
use nuncio_core::ids::{GrantId, KeyId, PersonName};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ApiKey, StoreError};

#[derive(Debug, Clone, PartialEq)]
pub enum AccessChange {
    CreateKey(ApiKey),
    /// Revokes a key. `Missing` if the key does not exist or is already revoked.
    RevokeKey {
        id: KeyId,
        at: Timestamp,
    },
    /// Replaces secret, expiry and previous secret of a key by those of `key`. `Moved` if the key does not exist, is
    /// revoked, or its stored secret is not `replaced`.
    RotateKey {
        key: ApiKey,
        /// Digest of the secret that the key had when it was read.
        replaced: Digest,
    },
    CreateGrant(Grant),
    /// Revokes a grant. `Missing` if it does not exist.
    RevokeGrant(GrantId),
    /// Uses up a one-time grant. `GrantUsed` if it was used before.
    UseGrant(GrantId),
    /// Links a principal to a person, replacing an earlier link.
    LinkPerson(PersonLink),
    /// Removes the person link of a principal. `Missing` if there is no link.
    UnlinkPerson(Principal),
}

/// Record that a principal, such as a DID, belongs to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonLink {
    pub principal: Principal,
    pub person: PersonName,
    pub since: Timestamp,
}

#[async_trait]
pub trait AccessStore: Send + Sync {
    /// All API keys, including revoked ones, oldest first.
    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError>;
    /// All grants, oldest first.
    async fn grants(&self) -> Result<Vec<Grant>, StoreError>;
    /// Links from principals to people.
    async fn links(&self) -> Result<Vec<PersonLink>, StoreError>;
}
