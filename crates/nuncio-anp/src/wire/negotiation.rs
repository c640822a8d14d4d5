//! `anp.negotiate` (ANP-06 §7, §8). The specification mixes snake_case and camelCase names.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::open;

open! {
    /// Body of a negotiation request.
    struct NegotiateBody {
        #[serde(rename = "negotiation_id", default, skip_serializing_if = "Option::is_none")]
        negotiation_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
        intent: Intent,
        /// Capability ids the interface must have.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        required_capabilities: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        caller_capabilities: Option<CallerCapabilities>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        constraints: Option<Constraints>,
        /// Ids of the interfaces to choose from.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        candidate_interface_refs: Vec<String>,
        /// Profiles, protocols or artifacts to choose from.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        candidate_protocols: Vec<CandidateProtocol>,
    }
}

open! {
    /// What the caller wants done, with minimal disclosure.
    #[derive(Default)]
    struct Intent {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        intent_tags: Vec<String>,
        /// Summary of the later input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input_summary: Option<Value>,
    }
}

open! {
    #[derive(Default)]
    struct CallerCapabilities {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supported_profiles: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supported_security_profiles: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supported_content_types: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supported_execution_modes: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Map<String, Value>>,
    }
}

open! {
    #[derive(Default)]
    struct Constraints {
        /// Best first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        preferred_interface_types: Vec<String>,
        /// Whether approval by a person is required or excluded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requires_human_authorization: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_latency_ms: Option<u64>,
        /// Whether a conversation interface is acceptable.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allow_natural_language_fallback: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        required_security_profile: Option<String>,
        /// Best first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        preferred_content_types: Vec<String>,
    }
}

/// A profile, protocol or artifact: its name or URL, or an object that contains one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CandidateProtocol {
    Name(String),
    Described(Map<String, Value>),
}

impl CandidateProtocol {
    /// The names and URLs that identify it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (name, described) = match self {
            Self::Name(name) => (Some(name.as_str()), None),
            Self::Described(described) => (None, Some(described)),
        };
        let keys = ["protocol_id", "protocol_uri", "protocol", "profile", "uri", "url", "id"];
        let described =
            described.into_iter().flat_map(move |it| keys.into_iter().filter_map(|key| it.get(key)?.as_str()));
        name.into_iter().chain(described)
    }
}

open! {
    /// Result of a negotiation. It grants no permission.
    struct NegotiationResult {
        negotiation_id: String,
        status: Status,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        selected: Option<Selected>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        execution: Option<Execution>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schemas: Option<Schemas>,
        /// RFC 3339 timestamp.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        valid_until: Option<String>,
        /// Interfaces that were not chosen, with reasons.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        alternatives: Vec<Alternative>,
        /// Score of the chosen interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        score: Option<Score>,
        /// Reason of a rejection, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// `sha-256:` and the base64url SHA-256 of the canonical form of the other members.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        negotiation_digest: Option<String>,
    }
}

impl NegotiationResult {
    /// Computes the digest over all members except `negotiationDigest`.
    ///
    /// # Panics
    /// Never: these types always serialise to JSON.
    #[must_use]
    pub fn digest(&self) -> String {
        let value = serde_json::to_value(self).expect("a result's names are texts and its values JSON");
        super::digest_without(value, "negotiationDigest")
    }

    /// Sets the digest.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.negotiation_digest = Some(self.digest());
        self
    }

    /// Returns whether the digest is absent or correct.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.negotiation_digest.as_ref().is_none_or(|digest| *digest == self.digest())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Accepted,
    Rejected,
    NeedsMoreInformation,
}

open! {
    /// The chosen interface.
    struct Selected {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        capability: Option<String>,
        /// Id of the interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        security_profile: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content_type: Option<String>,
        /// URL of the interface or of its document.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The artifact, its URL or its digest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol_artifact: Option<Value>,
    }
}

open! {
    /// How to use the chosen interface.
    struct Execution {
        mode: String,
        /// Whether a person must approve the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requires_human_authorization: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    }
}

open! {
    /// Schemas of the request and the response: a URL or inline.
    struct Schemas {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_schema: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_schema: Option<Value>,
    }
}

open! {
    /// An interface that was not chosen.
    struct Alternative {
        /// Id of the interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        capability: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
        /// URL of the interface or of its document.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        score: Option<Score>,
        /// Names of the constraints it does not satisfy.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unsupported_constraints: Vec<String>,
        /// Why it was not chosen, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
}

open! {
    /// Score by criterion; see `crate::negotiation::Score` for the points.
    struct Score {
        intent: u32,
        /// Basis of the intent score: `tags`, `words` or `nothing`.
        intent_by: String,
        interface_type: u32,
        content_type: u32,
        latency: u32,
        total: u32,
    }
}
