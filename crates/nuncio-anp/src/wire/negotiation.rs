//! `anp.negotiate` (ANP-06 §7, §8). The specification mixes snake_case and camelCase names.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::open;

open! {
    #[derive(Default)]
    struct NegotiateBody {
        #[serde(rename = "negotiation_id")]
        negotiation_id?: String,
        mode?: String,
        intent: Intent,
        /// Capability ids the interface must have.
        required_capabilities[]: String,
        caller_capabilities?: CallerCapabilities,
        constraints?: Constraints,
        /// Ids of the interfaces to choose from.
        candidate_interface_refs[]: String,
        /// Profiles, protocols or artifacts to choose from.
        candidate_protocols[]: CandidateProtocol,
    }
}

open! {
    /// Task of the caller, described with minimal disclosure.
    #[derive(Default)]
    struct Intent {
        name?: String,
        description?: String,
        intent_tags[]: String,
        /// Summary of the input that the later call will have.
        input_summary?: Value,
    }
}

open! {
    #[derive(Default)]
    struct CallerCapabilities {
        supported_profiles?: Vec<String>,
        supported_security_profiles?: Vec<String>,
        supported_content_types?: Vec<String>,
        supported_execution_modes?: Vec<String>,
        limits?: Map<String, Value>,
    }
}

open! {
    #[derive(Default)]
    struct Constraints {
        /// Preferred interface types, best first.
        preferred_interface_types[]: String,
        /// `true` requires approval by a person, `false` excludes it.
        requires_human_authorization?: bool,
        max_latency_ms?: u64,
        /// Whether a conversation interface is acceptable.
        allow_natural_language_fallback?: bool,
        required_security_profile?: String,
        /// Preferred content types, best first.
        preferred_content_types[]: String,
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
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let keys = ["protocol_id", "protocol_uri", "protocol", "profile", "uri", "url", "id"];
        let names: Vec<&str> = match self {
            Self::Name(name) => vec![name],
            Self::Described(fields) => keys.into_iter().filter_map(|key| fields.get(key)?.as_str()).collect(),
        };
        names.into_iter()
    }
}

open! {
    /// Result of a negotiation. The result grants no permission.
    struct NegotiationResult {
        negotiation_id: String,
        status: NegotiationStatus,
        selected?: SelectedInterface,
        execution?: InterfaceExecution,
        schemas?: InterfaceSchemas,
        /// End of the result's validity, RFC 3339.
        valid_until?: String,
        /// Interfaces that were not chosen, with reasons.
        alternatives[]: Alternative,
        score?: Score,
        /// Reason of a rejection, for people.
        reason?: String,
        /// `sha-256:` and the base64url SHA-256 of the canonical form of the other members.
        negotiation_digest?: String,
    }
}

impl NegotiationResult {
    /// Computes the digest over all members except `negotiationDigest`.
    #[must_use]
    pub fn digest(&self) -> String {
        super::digest_without(self, "negotiationDigest")
    }

    /// Returns the result with its digest set.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.negotiation_digest = Some(self.digest());
        self
    }

    /// Whether the digest is absent or correct.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.negotiation_digest.as_ref().is_none_or(|digest| *digest == self.digest())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NegotiationStatus {
    Accepted,
    Rejected,
    NeedsMoreInformation,
}

open! {
    /// The chosen interface.
    struct SelectedInterface {
        capability?: String,
        /// Id of the interface.
        interface?: String,
        protocol?: String,
        profile?: String,
        security_profile?: String,
        content_type?: String,
        /// URL of the interface or of its document.
        url?: String,
        /// Protocol artifact, as an object, a URL or a digest.
        protocol_artifact?: Value,
    }
}

open! {
    /// How to use the chosen interface.
    struct InterfaceExecution {
        mode: String,
        requires_human_authorization?: bool,
        timeout_ms?: u64,
    }
}

open! {
    /// Schemas of the request and the response: a URL or inline.
    struct InterfaceSchemas {
        request_schema?: Value,
        response_schema?: Value,
    }
}

open! {
    /// An interface that was not chosen.
    struct Alternative {
        /// Id of the interface.
        interface?: String,
        capability?: String,
        protocol?: String,
        profile?: String,
        /// URL of the interface or of its document.
        url?: String,
        score?: Score,
        unsupported_constraints[]: String,
        reason?: String,
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
