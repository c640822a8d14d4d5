//! The answer to `anp.get_capabilities` (P1 §8).

use std::collections::BTreeMap;

use super::open;

open! {
    /// What an endpoint can do at this moment. It beats what documents say.
    "snake_case" struct ServiceCapabilities {
        /// Who answers there.
        service_did: String,
        /// The profiles it speaks.
        supported_profiles: Vec<String>,
        /// How what is said can be protected.
        supported_security_profiles: Vec<String>,
        /// What can be sent.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        supported_content_types: Vec<String>,
        /// What is too much; numbers are decimal texts.
        #[serde(default)]
        limits: BTreeMap<String, String>,
    }
}
