//! The skill descriptor (§3).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    AccessPolicy, AuthType, CapabilityType, EXECUTION_ID, Quantity, SkillMethod, SkillVersion, document, present,
};

document! {
    /// Everything there is to know about one skill: what it is, how it is called, and who may call it.
    published struct SkillDescriptor {
        /// The version of the protocol this descriptor follows.
        protocol: ProtocolVersion,
        /// The skill's globally unique identifier.
        id: String,
        /// The skill's name for people.
        name: String,
        /// The skill's version: MAJOR.MINOR.PATCH.
        version: SkillVersion,
        /// What sort of thing the skill is.
        capability_type: CapabilityType,
        /// What the skill does, for people.
        description: String,
        /// Who provides the skill.
        provider: Provider,
        /// Where and how the skill is invoked.
        endpoint: InvocationEndpoint,
        /// The parameters it takes.
        inputs: Vec<ParameterDefinition>,
        /// What it answers.
        output: OutputDefinition,
        /// How its callers say who they are.
        auth: AuthConfig,
        /// Who may find and invoke it.
        access: AccessPolicy,
        /// Words to find it by.
        tags: Option<Vec<String>>,
        /// Where more is written about it.
        documentation_url: Option<String>,
        /// When it was made (ISO 8601).
        created_at: Option<String>,
        /// When it last changed (ISO 8601).
        updated_at: Option<String>,
    }
}

document! {
    /// A version of the protocol.
    published struct ProtocolVersion {
        /// MAJOR.MINOR.PATCH.
        version: SkillVersion,
        /// Where the changes of that version are listed.
        changelog_url: Option<String>,
    }
}

impl From<SkillVersion> for ProtocolVersion {
    fn from(version: SkillVersion) -> Self {
        Self { version, changelog_url: None, extra: Map::new() }
    }
}

document! {
    /// Who provides a skill.
    nested struct Provider {
        /// A person or an organisation.
        name: String,
        /// Their page.
        url: Option<String>,
        /// How to reach them.
        contact: Option<String>,
    }
}

document! {
    /// Where and how a skill is invoked.
    published struct InvocationEndpoint {
        /// Where requests are sent.
        url: String,
        /// The HTTP method.
        method: SkillMethod,
        /// The type of a request's body; `application/json` when it is not said.
        content_type: Option<String>,
        /// Where an execution's status is; `{execution_id}` stands for its id.
        status_url: Option<String>,
        /// Where an execution's result is; `{execution_id}` stands for its id.
        result_url: Option<String>,
        /// How long an invocation may take, in milliseconds.
        timeout_ms: Option<Quantity>,
        /// How a request that did not arrive is tried again.
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
    /// How a request that did not arrive is tried again.
    nested struct EndpointRetry {
        /// How often it is tried at most.
        max_attempts: Quantity,
        /// How long to wait before the next try, in milliseconds.
        backoff_ms: Quantity,
    }
}

document! {
    /// One parameter.
    published struct ParameterDefinition {
        /// Its name.
        name: String,
        /// Its JSON Schema type, such as `string`, `number` or `object`.
        r#type: String,
        /// What it means, for people.
        description: String,
        /// Whether it must be given.
        required: bool,
        /// What is taken when it is not given.
        #[serde(default, deserialize_with = "present")]
        default: Option<Value>,
        /// A JSON Schema that says more about it.
        schema: Option<Map<String, Value>>,
    }
}

document! {
    /// What a skill answers.
    published struct OutputDefinition {
        /// Its MIME type, such as `application/json`.
        content_type: String,
        /// A JSON Schema of it.
        schema: Option<Map<String, Value>>,
        /// What it means, for people.
        description: Option<String>,
    }
}

document! {
    /// How callers of a skill say who they are.
    published struct AuthConfig {
        /// In which way.
        r#type: AuthType,
        /// What callers must do, for people.
        description: Option<String>,
        /// The header an API key is sent in.
        header: Option<String>,
        /// Where tokens are had; required when the type is `oauth2`.
        oauth2: Option<OAuth2Config>,
        /// What to do; required when the type is `custom`.
        custom: Option<CustomAuth>,
    }
}

document! {
    /// Where OAuth 2.0 tokens are had.
    nested struct OAuth2Config {
        /// Where a person allows it.
        authorization_url: String,
        /// Where tokens are given out.
        token_url: String,
        /// The scopes there are, each with what it allows.
        scopes: BTreeMap<String, String>,
    }
}

document! {
    /// A way of its own to say who one is.
    nested struct CustomAuth {
        /// What to do, for people.
        instructions: String,
        /// What is needed for it.
        parameters: Option<Vec<ParameterDefinition>>,
    }
}

impl CustomAuth {
    /// Extension: machine-readable name of the signature scheme. The protocol itself has only instructions for people.
    pub const SCHEME: &str = "scheme";
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn execution_id_is_inserted_into_template_as_one_segment() {
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
