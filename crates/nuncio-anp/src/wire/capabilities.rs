//! The response to `anp.get_capabilities` (P1 §8).

use std::collections::BTreeMap;

use super::open;

open! {
    /// Current capabilities of a message service; they override those in documents.
    "snake_case" struct ServiceCapabilities {
        service_did: String,
        supported_profiles: Vec<String>,
        supported_security_profiles: Vec<String>,
        supported_content_types[]: String,
        /// Limits by name; numbers are decimal strings.
        #[serde(default)]
        limits: BTreeMap<String, String>,
    }
}
