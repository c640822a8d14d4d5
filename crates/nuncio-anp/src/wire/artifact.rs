//! Protocol artifacts (ANP-06 §10.2): a protocol written down, to be used once both sides accepted it. It is
//! data; nothing in it is ever run.

use serde_json::Value;

use super::open;

open! {
    /// A protocol, written down.
    "snake_case" struct ProtocolArtifact {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol_id: Option<String>,
        /// Where it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol_uri: Option<String>,
        /// Its version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// What it is for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The profiles it rests on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        depends_on_profiles: Vec<String>,
        /// What can be called.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        methods: Vec<ArtifactMethod>,
        /// What can be sent.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        content_types: Vec<String>,
        /// How it can be protected.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        security_profiles: Vec<String>,
        /// How it looks when it is used.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        examples: Vec<Value>,
        /// What must fit, and what must not.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        test_cases: Vec<Value>,
        /// Who wrote it down: a DID.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        publisher: Option<String>,
        /// `sha-256:` and the base64url SHA-256 of the canonical form of all the rest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
    }
}

open! {
    /// Something that can be called.
    "snake_case" struct ArtifactMethod {
        /// Its name.
        name: String,
        /// What it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Where the shape of requests is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_schema_uri: Option<String>,
        /// Where the shape of answers is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_schema_uri: Option<String>,
        /// The shape of requests, given here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_schema: Option<Value>,
        /// The shape of answers, given here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_schema: Option<Value>,
    }
}

impl ProtocolArtifact {
    /// The digest over everything but the digest.
    ///
    /// # Panics
    /// Never: what these types hold can be written as JSON.
    #[must_use]
    pub fn computed_digest(&self) -> String {
        let value = serde_json::to_value(self).expect("an artifact's names are texts and its values JSON");
        super::digest_without(value, "digest")
    }

    /// The same artifact with its digest.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.digest = Some(self.computed_digest());
        self
    }

    /// Whether it has a digest and that is right. An artifact without one cannot be told from another.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.digest.as_ref().is_some_and(|digest| *digest == self.computed_digest())
    }
}
