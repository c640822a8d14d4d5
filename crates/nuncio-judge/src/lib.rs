//! The change judge: decides whether a new manifest or schema still accepts what the old one accepted.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

mod bare;
mod manifest;
pub mod name_history;
pub mod schema;
mod verdict;

/// Hash map with a fast, randomly seeded hash for small keys.
type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
type HashSet<T> = std::collections::HashSet<T, foldhash::fast::RandomState>;

pub use bare::schemas;
pub use manifest::manifests;
pub use verdict::{
    BreakingChangeFinding, BreakingChangeRule, ChangeJudgingPolicy, ManifestChangeVerdict, NonBreakingChangeNotice,
    NonBreakingChangeRule,
};
