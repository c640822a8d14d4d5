//! What a store says about itself, such as where it was copied to.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::StoreError;

/// Entry with the store that this one was copied from.
pub const ORIGIN: &str = "origin";
/// Entry with the store that this one was copied to; this one is not used any more.
pub const MOVED_TO: &str = "moved_to";
/// Entry with the store that is being copied to this one, which is not complete.
pub const COPYING_FROM: &str = "copying_from";
/// Entry with the time of a restore, in milliseconds, until the restore is in the audit record.
pub const REWOUND_AT: &str = "rewound_at";
/// Entry with the time, in milliseconds, before which signatures are refused, because their nonces are not known.
pub const SIGNATURES_SINCE: &str = "signatures_since";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreInfoChange {
    /// Adds or replaces an entry.
    Put { name: String, value: String },
    /// Removes an entry. `Missing` if there is none.
    Remove { name: String },
}

#[async_trait]
pub trait StoreInfoStore: Send + Sync {
    async fn store_info(&self) -> Result<BTreeMap<String, String>, StoreError>;
}
