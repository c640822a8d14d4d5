//! The judge of change: what was allowed before, is it still?

mod bare;
mod manifest;
pub mod schema;
mod verdict;

pub use bare::schemas;
pub use manifest::manifests;
pub use verdict::{ChangePolicy, ChangeRule, Finding, Notice, NoticeRule, Verdict};
