//! Protocol artifacts (ANP-06 §10.2): a written protocol that both sides must accept before use. An artifact is data
//! and never executed.

use serde_json::Value;

use super::open;

open! {
    "snake_case" struct ProtocolArtifact {
        protocol_id?: String,
        protocol_uri?: String,
        version?: String,
        description?: String,
        /// Profiles on which the drafted protocol builds.
        depends_on_profiles[]: String,
        methods[]: ArtifactMethod,
        content_types[]: String,
        security_profiles[]: String,
        examples[]: Value,
        /// Example requests, each with whether it must be valid or invalid.
        test_cases[]: Value,
        /// DID of the protocol's author.
        publisher?: String,
        /// `sha-256:` and the base64url SHA-256 of the canonical form of the other members.
        digest?: String,
    }
}

open! {
    "snake_case" struct ArtifactMethod {
        name: String,
        description?: String,
        request_schema_uri?: String,
        response_schema_uri?: String,
        request_schema?: Value,
        response_schema?: Value,
    }
}

impl ProtocolArtifact {
    /// Computes the digest over all members except `digest`.
    #[must_use]
    pub fn computed_digest(&self) -> String {
        super::digest_without(self, "digest")
    }

    /// Returns the artifact with its digest set.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.digest = Some(self.computed_digest());
        self
    }

    /// Returns whether the digest is present and correct.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.digest.as_ref().is_some_and(|digest| *digest == self.computed_digest())
    }
}
