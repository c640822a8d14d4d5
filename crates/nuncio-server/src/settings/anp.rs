//! `[anp]`

use nuncio_core::drafting::DraftingPolicy;
use serde::Deserialize;

/// `[anp]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnpSettings {
    /// Whether agents make up protocols with callers for whom nothing fits, and who accepts them for our side.
    pub drafting: DraftingPolicy,
}
