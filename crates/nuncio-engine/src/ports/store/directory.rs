//! Store of followed domains and directory listings.

use async_trait::async_trait;

use super::StoreError;
use crate::directory_listing::{DirectoryListing, ListingId};
use crate::followed_domain::{FollowedDomain, ServerOrigin};

#[derive(Debug, Clone, PartialEq)]
pub enum AgentDirectoryChange {
    /// Follows a domain. `Exists` if it is already followed.
    Follow(FollowedDomain),
    /// Updates a followed domain. `Missing` if it is not followed.
    UpdateFollowed {
        followed: FollowedDomain,
        /// New offers of the domain; `None` leaves the stored offers as they are.
        offers: Option<String>,
    },
    /// Stops following a domain and deletes its offers. `Missing` if it is not followed.
    Unfollow(ServerOrigin),
    /// Creates or replaces a directory listing.
    PutListing {
        entry: DirectoryListing,
        /// Agent description of the listing, as stored.
        description: String,
    },
    /// Updates a listing but not its description. `Missing` if it does not exist.
    UpdateListing(DirectoryListing),
    /// Removes a listing. `Missing` if it does not exist.
    RemoveListing(ListingId),
}

#[async_trait]
pub trait AgentDirectoryStore: Send + Sync {
    async fn followed(&self) -> Result<Vec<FollowedDomain>, StoreError>;
    /// A followed domain with its stored offers.
    async fn followed_domain(
        &self,
        domain: &ServerOrigin,
    ) -> Result<Option<(FollowedDomain, Option<String>)>, StoreError>;
    /// All listings with their stored descriptions, ordered by id.
    async fn directory(&self) -> Result<Vec<(DirectoryListing, String)>, StoreError>;
}
