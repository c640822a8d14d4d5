//! Directory listings of agents on other hosts. The engine stores their descriptions as text; the protocol interprets
//! them.

use std::sync::Arc;

use nuncio_core::ErrorCode;

use crate::context::{CommitResultExt as _, EngineContext};
use crate::error::EngineError;
use crate::ports::store::{AgentDirectoryChange, AgentDirectoryStore, Change, Conflict, Job, JobChange, JobKind};

pub use crate::directory_listing::{DirectoryListing, ListingId};

/// Limits on the number of directory listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryLimits {
    pub entries: usize,
    pub per_host: usize,
}

impl DirectoryLimits {
    /// Checks that one more listing of `host` fits the limits.
    pub fn room<'a>(&self, host: &str, there: impl Iterator<Item = &'a DirectoryListing>) -> Result<(), EngineError> {
        let full = |message: String| Err(EngineError::new(ErrorCode::DirectoryFull, message));
        let (mut all, mut of_host) = (0, 0);
        for entry in there {
            all += 1;
            of_host += usize::from(entry.host() == host);
        }
        if of_host >= self.per_host {
            return full(format!("this directory lists {of_host} agents of {host}, the maximum for one host"));
        }
        if all >= self.entries {
            return full(format!("this directory lists {all} agents, the maximum"));
        }
        Ok(())
    }
}

/// Service for directory listings of agents and for followed domains.
pub struct DirectoryService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn AgentDirectoryStore>,
}

impl DirectoryService {
    /// Directory listings with their stored descriptions, by id.
    pub async fn listings(&self) -> Result<Vec<(DirectoryListing, String)>, EngineError> {
        Ok(self.store.directory().await?)
    }

    /// Creates or replaces a directory listing, and schedules its next check.
    pub async fn put_listing(&self, entry: DirectoryListing, description: String) -> Result<(), EngineError> {
        let check = check_job(&entry);
        Ok(self.context.commit(vec![AgentDirectoryChange::PutListing { entry, description }.into(), check]).await?)
    }

    /// Schedules the check of a listing at its `next_check`.
    pub async fn schedule_check(&self, entry: &DirectoryListing) -> Result<(), EngineError> {
        Ok(self.context.commit(vec![check_job(entry)]).await?)
    }

    /// Stores the result of a check; returns false if the listing was removed meanwhile.
    pub async fn record_listing_check(&self, entry: DirectoryListing) -> Result<bool, EngineError> {
        Ok(self.context.commit_one(AgentDirectoryChange::UpdateListing(entry)).await.made_unless(Conflict::Missing)?)
    }

    pub async fn remove_listing(&self, id: &ListingId) -> Result<(), EngineError> {
        let removed = self.context.commit_one(AgentDirectoryChange::RemoveListing(id.clone())).await;
        if removed.made_unless(Conflict::Missing)? { Ok(()) } else { Err(not_registered(id.as_str())) }
    }
}

/// Change that schedules the next check of a listing. The job is removed when it runs after the listing was removed.
fn check_job(entry: &DirectoryListing) -> Change {
    let (key, receiver) = (entry.url.to_string(), entry.url.authority().to_owned());
    JobChange::Put(Job { kind: JobKind::Check, key, receiver, lane: None, due: entry.next_check, attempts: 0 }).into()
}

#[must_use]
pub fn not_registered(what: &str) -> EngineError {
    let what: String = what.chars().take(200).collect();
    let message = format!("{what} is not in this directory; GET /registry/agents lists its entries");
    EngineError::new(ErrorCode::NotRegistered, message)
}

#[cfg(test)]
mod tests {
    use nuncio_core::principal::Principal;

    use super::*;
    use crate::directory_listing::tests::entry;

    #[test]
    fn directory_limits_listings_in_total_and_per_host() {
        let limits = DirectoryLimits { entries: 3, per_host: 2 };
        let urls = ["https://a.example/1", "https://a.example:8443/2", "https://b.example/3"];
        let entries = urls.map(|url| entry(url, Principal::Local));
        let code = |host: &str, count: usize| limits.room(host, entries[..count].iter()).err().map(|error| error.code);
        assert_eq!(code("a.example", 1), None);
        assert_eq!(code("a.example", 2), Some(ErrorCode::DirectoryFull));
        assert_eq!(code("b.example", 2), None);
        assert_eq!(code("c.example", 3), Some(ErrorCode::DirectoryFull));
    }
}
