//! The judge of change: what was allowed before, is it still?

mod bare;
mod manifest;
pub mod schema;
mod verdict;

/// Maps with a hash that is seeded by chance and quick on the small keys here.
type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
/// The same for sets.
type HashSet<T> = std::collections::HashSet<T, foldhash::fast::RandomState>;

pub use bare::schemas;
pub use manifest::manifests;
pub use verdict::{ChangePolicy, ChangeRule, Finding, Notice, NoticeRule, Verdict};
