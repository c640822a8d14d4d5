//! `anp.negotiate` (ANP-06 §7, §8). Names in requests are mixed on purpose, as the specification has them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::open;

open! {
    /// What a caller asks for.
    struct NegotiateBody {
        /// Names the negotiation.
        #[serde(rename = "negotiation_id", default, skip_serializing_if = "Option::is_none")]
        negotiation_id: Option<String>,
        /// How to negotiate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
        /// What the caller wants done.
        intent: Intent,
        /// What the interface must be able to do.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        required_capabilities: Vec<String>,
        /// What the caller can do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        caller_capabilities: Option<CallerCapabilities>,
        /// What else the caller asks for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        constraints: Option<Constraints>,
        /// The interfaces to choose among.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        candidate_interface_refs: Vec<String>,
        /// The profiles, protocols or artifacts to choose among.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        candidate_protocols: Vec<CandidateProtocol>,
    }
}

open! {
    /// What a caller wants done: no more than is needed to find who can do it.
    struct Intent {
        /// A name for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// In words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// By tags.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        intent_tags: Vec<String>,
        /// What it will be about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input_summary: Option<Value>,
    }
}

open! {
    /// What a caller can do.
    struct CallerCapabilities {
        /// The profiles it speaks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supported_profiles: Option<Vec<String>>,
        /// How it can protect what it says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supported_security_profiles: Option<Vec<String>>,
        /// What it can send and read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supported_content_types: Option<Vec<String>>,
        /// How it can use an interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supported_execution_modes: Option<Vec<String>>,
        /// What is too much for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Map<String, Value>>,
    }
}

open! {
    /// What else a caller asks for.
    struct Constraints {
        /// The interface types it likes, best first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        preferred_interface_types: Vec<String>,
        /// Whether a person must, or must not, be asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requires_human_authorization: Option<bool>,
        /// How long an answer may take.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_latency_ms: Option<u64>,
        /// Whether talking will do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allow_natural_language_fallback: Option<bool>,
        /// The one way it must be protected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        required_security_profile: Option<String>,
        /// The content types it likes, best first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        preferred_content_types: Vec<String>,
    }
}

/// A profile, protocol or artifact: its name or address, or a description that has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CandidateProtocol {
    /// By name or address.
    Name(String),
    /// By description.
    Described(Map<String, Value>),
}

impl CandidateProtocol {
    /// The names and addresses it goes by.
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
    /// What was agreed. It says how to go on, and allows nothing.
    struct NegotiationResult {
        /// Names the negotiation.
        negotiation_id: String,
        /// How it ended.
        status: Status,
        /// What to use.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        selected: Option<Selected>,
        /// How to use it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        execution: Option<Execution>,
        /// The shapes of requests and answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schemas: Option<Schemas>,
        /// Until when it holds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        valid_until: Option<String>,
        /// What was not chosen, each with why.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        alternatives: Vec<Alternative>,
        /// The points of what was chosen, part by part.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        score: Option<Score>,
        /// Why not, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// `sha-256:` and the base64url SHA-256 of the canonical form of all the rest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        negotiation_digest: Option<String>,
    }
}

impl NegotiationResult {
    /// The digest over everything but the digest.
    ///
    /// # Panics
    /// Never: what these types hold can be written as JSON.
    #[must_use]
    pub fn digest(&self) -> String {
        let value = serde_json::to_value(self).expect("a result's names are texts and its values JSON");
        super::digest_without(value, "negotiationDigest")
    }

    /// The same result with its digest.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.negotiation_digest = Some(self.digest());
        self
    }

    /// Whether its digest, if it has one, is right.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.negotiation_digest.as_ref().is_none_or(|digest| *digest == self.digest())
    }
}

/// How a negotiation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// With something to use.
    Accepted,
    /// With nothing.
    Rejected,
    /// With a question.
    NeedsMoreInformation,
}

open! {
    /// What to use.
    struct Selected {
        /// For which capability.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        capability: Option<String>,
        /// The interface's id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// What it speaks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol: Option<String>,
        /// The profile it follows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
        /// How it is protected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        security_profile: Option<String>,
        /// What is sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content_type: Option<String>,
        /// Where it, or its description, is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The address or digest of an artifact.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol_artifact: Option<Value>,
    }
}

open! {
    /// How to use it.
    struct Execution {
        /// In which way.
        mode: String,
        /// Whether a person must agree to the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requires_human_authorization: Option<bool>,
        /// How long to wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    }
}

open! {
    /// The shapes of requests and answers.
    struct Schemas {
        /// Of requests.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_schema: Option<Value>,
        /// Of answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_schema: Option<Value>,
    }
}

open! {
    /// What was not chosen.
    struct Alternative {
        /// The interface's id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// For which capability.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        capability: Option<String>,
        /// What it speaks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol: Option<String>,
        /// The profile it follows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
        /// Where it, or its description, is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Its points.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        score: Option<Score>,
        /// What it does not satisfy.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unsupported_constraints: Vec<String>,
        /// Why it lost, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
}

open! {
    /// Points, part by part; `nuncio_core::negotiation::Score` says how they are counted.
    struct Score {
        /// How well it does what is wanted.
        intent: u32,
        /// By what that was seen: `tags`, `words` or `nothing`.
        intent_by: String,
        /// How much the caller likes its type.
        interface_type: u32,
        /// How much the caller likes its content type.
        content_type: u32,
        /// How fast it is.
        latency: u32,
        /// All of it.
        total: u32,
    }
}
