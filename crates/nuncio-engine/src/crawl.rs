//! Documents of other hosts that are read regularly, shared by the protocols.

use std::time::Duration;

mod catalogue;

pub use catalogue::{CatalogueQuery, CrawledCatalogue};

/// Time without a successful visit after which documents of a host are no longer listed.
pub const STALE_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);
