//! The skill descriptor (§3).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    AccessPolicy, AuthType, CapabilityType, EXECUTION_ID, LenientNumber, SkillHttpMethod, SkillVersion, document,
    present,
};

document! {
    /// Description of one skill: what it does, how it is invoked and who may invoke it.
    published struct SkillDescriptor {
        /// Protocol version that the descriptor follows.
        protocol: ProtocolVersion,
        /// Globally unique identifier of the skill.
        id: String,
        /// Display name of the skill.
        name: String,
        /// Version of the skill: MAJOR.MINOR.PATCH.
        version: SkillVersion,
        /// Capability type of the skill.
        capability_type: CapabilityType,
        /// What the skill does, for people.
        description: String,
        /// Person or organisation that provides the skill.
        provider: Provider,
        /// Endpoint at which the skill is invoked.
        endpoint: InvocationEndpoint,
        /// Input parameters of the skill.
        inputs: Vec<ParameterDefinition>,
        /// Output of the skill.
        output: OutputDefinition,
        /// Authentication that the skill requires of its callers.
        auth: AuthConfig,
        /// Who may find and invoke the skill.
        access: AccessPolicy,
        /// Keywords for searching.
        tags: Option<Vec<String>>,
        /// URL of the documentation of the skill.
        documentation_url: Option<String>,
        /// Time at which the skill was created (ISO 8601).
        created_at: Option<String>,
        /// Time of the last change of the skill (ISO 8601).
        updated_at: Option<String>,
    }
}

document! {
    /// Version of the Skill Sharing protocol.
    published struct ProtocolVersion {
        /// Version number: MAJOR.MINOR.PATCH.
        version: SkillVersion,
        /// URL of the list of changes of the protocol version.
        changelog_url: Option<String>,
    }
}

impl From<SkillVersion> for ProtocolVersion {
    fn from(version: SkillVersion) -> Self {
        Self { version, changelog_url: None, extra: Map::new() }
    }
}

document! {
    /// Person or organisation that provides a skill.
    nested struct Provider {
        /// Name of the person or organisation.
        name: String,
        /// Website of the provider.
        url: Option<String>,
        /// Contact address of the provider.
        contact: Option<String>,
    }
}

document! {
    /// Endpoint at which a skill is invoked.
    published struct InvocationEndpoint {
        /// URL to which invocations are sent.
        url: String,
        /// HTTP method of an invocation.
        method: SkillHttpMethod,
        /// Content type of the request body; `application/json` if absent.
        content_type: Option<String>,
        /// URL of the status of an execution; `{execution_id}` stands for the execution's id.
        status_url: Option<String>,
        /// URL of the result of an execution; `{execution_id}` stands for the execution's id.
        result_url: Option<String>,
        /// Longest duration of an invocation, in milliseconds.
        timeout_ms: Option<LenientNumber>,
        /// Retries of a request that was not delivered.
        retry: Option<EndpointRetry>,
    }
}

impl InvocationEndpoint {
    #[must_use]
    pub fn content_type(&self) -> &str {
        self.content_type.as_deref().unwrap_or("application/json")
    }

    /// Status URL of an execution, if the endpoint declares one.
    #[must_use]
    pub fn status_of(&self, execution: &str) -> Option<String> {
        self.status_url.as_deref().map(|template| fill(template, execution))
    }

    /// Result URL of an execution, if the endpoint declares one.
    #[must_use]
    pub fn result_of(&self, execution: &str) -> Option<String> {
        self.result_url.as_deref().map(|template| fill(template, execution))
    }
}

/// Replaces every placeholder of a template with the id; appends the id to the path if there is no placeholder.
fn fill(template: &str, execution: &str) -> String {
    let id = percent_encode(execution);
    if template.contains(EXECUTION_ID) {
        return template.replace(EXECUTION_ID, &id);
    }
    let (path, rest) = template.split_at(template.find(['?', '#']).unwrap_or(template.len()));
    format!("{}/{id}{rest}", path.trim_end_matches('/'))
}

/// Percent-encodes a text as one path segment. Dots are encoded if the id consists of dots only, because `..` would
/// change the path.
fn percent_encode(text: &str) -> String {
    let dots_alone = text.bytes().all(|byte| byte == b'.');
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') || (byte == b'.' && !dots_alone);
        if plain {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

document! {
    /// Retries of a request that was not delivered.
    nested struct EndpointRetry {
        /// Highest number of attempts.
        max_attempts: LenientNumber,
        /// Delay before the next attempt, in milliseconds.
        backoff_ms: LenientNumber,
    }
}

document! {
    /// One parameter of a skill.
    published struct ParameterDefinition {
        /// Name of the parameter.
        name: String,
        /// JSON Schema type of the parameter, such as `string`, `number` or `object`.
        r#type: String,
        /// Meaning of the parameter, for people.
        description: String,
        /// Whether the parameter must be given.
        required: bool,
        /// Value of the parameter if it is not given.
        #[serde(default, deserialize_with = "present")]
        default: Option<Value>,
        /// JSON Schema of the parameter.
        schema: Option<Map<String, Value>>,
    }
}

document! {
    /// Output of a skill.
    published struct OutputDefinition {
        /// MIME type of the output, such as `application/json`.
        content_type: String,
        /// JSON Schema of the output.
        schema: Option<Map<String, Value>>,
        /// Meaning of the output, for people.
        description: Option<String>,
    }
}

document! {
    /// Authentication that a skill requires of its callers.
    published struct AuthConfig {
        /// Authentication scheme.
        r#type: AuthType,
        /// What callers must do to authenticate, for people.
        description: Option<String>,
        /// Name of the header that carries the API key.
        header: Option<String>,
        /// OAuth 2.0 endpoints and scopes; required if the type is `oauth2`.
        oauth2: Option<OAuth2Config>,
        /// Custom authentication scheme; required if the type is `custom`.
        custom: Option<CustomAuth>,
    }
}

document! {
    /// OAuth 2.0 endpoints and scopes.
    nested struct OAuth2Config {
        /// Authorization endpoint.
        authorization_url: String,
        /// Token endpoint.
        token_url: String,
        /// Available scopes, each with a description of what it allows.
        scopes: BTreeMap<String, String>,
    }
}

document! {
    /// Authentication scheme that the protocol does not define.
    nested struct CustomAuth {
        /// Instructions for authenticating, for people.
        instructions: String,
        /// Parameters that the authentication scheme needs.
        parameters: Option<Vec<ParameterDefinition>>,
    }
}

impl CustomAuth {
    /// Name of an extension field: machine-readable signature scheme. The protocol has only instructions for people.
    pub const SCHEME: &str = "scheme";
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn execution_id_is_inserted_into_url_template_as_one_escaped_path_segment() {
        for (template, id, url) in [
            ("https://a.example/s/{execution_id}", "e-1", "https://a.example/s/e-1"),
            ("https://a.example/{execution_id}/{execution_id}?x={y}", "e", "https://a.example/e/e?x={y}"),
            ("https://a.example/{execution_id}", "a/b?c#d%e f", "https://a.example/a%2Fb%3Fc%23d%25e%20f"),
            ("https://a.example/{execution_id}", "é{execution_id}", "https://a.example/%C3%A9%7Bexecution_id%7D"),
            ("https://a.example/{execution_id}/result", "..", "https://a.example/%2E%2E/result"),
            ("https://a.example/{execution_id}", "v1.2", "https://a.example/v1.2"),
            ("https://a.example/s/", "e", "https://a.example/s/e"),
            ("https://a.example/s?key=1#top", "e", "https://a.example/s/e?key=1#top"),
        ] {
            assert_eq!(fill(template, id), url);
        }
    }
}
