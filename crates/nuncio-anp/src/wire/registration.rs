//! `POST /registry/agents`: registers an agent with a directory (ANP-08 §5).

use serde::{Deserialize, Serialize};

/// The agent to register: by the URL of its description, or by its DID.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistrationRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did: Option<String>,
}
