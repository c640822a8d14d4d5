//! The settings section `[anp]`.

use nuncio_engine::drafting::DraftingPolicy;
use serde::Deserialize;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnpSettings {
    /// Whether agents draft protocols with callers that no interface fits, and who accepts the drafts for the agent.
    pub drafting: DraftingPolicy,
}
