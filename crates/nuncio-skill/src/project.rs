//! Creates this server's skill documents from declared agents. Creation always succeeds; the validator reports
//! beforehand which skills have no valid description.

use std::collections::BTreeMap;
use std::time::Duration;

use nuncio_core::agent::{Agent, Skill, SkillAuth, SkillHttpMethod, Tool};
use serde_json::{Map, Value, json};

use crate::validate::type_name;
use crate::wire::{
    AuthConfig, AuthType, CustomAuth, EXECUTION_ID, EndpointRetry, IndexProvider, InvocationEndpoint, OAuth2Config,
    OutputDefinition, PROTOCOL_VERSION, ParameterDefinition, Provider, SkillDescriptor, SkillIndex, SkillIndexEntry,
};

mod inexpressible;

pub(crate) use inexpressible::inexpressible;

/// Skills of an agent, each with the tool behind it; `None` for the skill that is the agent itself.
pub fn skills(agent: &Agent) -> impl Iterator<Item = (Option<&Tool>, &Skill)> {
    let whole = agent.skill.as_deref().map(|skill| (None, skill));
    whole.into_iter().chain(agent.tools.iter().filter_map(|tool| Some((Some(&**tool), tool.skill.as_deref()?))))
}

/// Facts about this host that appear in its skill documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillHostInfo {
    /// Prefix of every URL in the documents, without a trailing slash.
    pub base: String,
    /// Provider name for agents without an owner.
    pub name: String,
    /// Web page of the provider.
    pub url: Option<String>,
    pub contact: Option<String>,
}

/// OAuth endpoints of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthEndpoints {
    pub authorization_url: String,
    pub token_url: String,
}

impl SkillHostInfo {
    #[must_use]
    pub fn status_url(&self, execution: &str) -> String {
        format!("{}/executions/{execution}", self.base)
    }

    #[must_use]
    pub fn index(&self, skills: Vec<SkillIndexEntry>) -> SkillIndex {
        let provider = IndexProvider { name: self.name.clone(), url: self.url.clone(), extra: Map::new() };
        SkillIndex { protocol: PROTOCOL_VERSION.into(), provider, skills, extra: Map::new() }
    }

    #[must_use]
    pub fn entry(&self, skill: &Skill) -> SkillIndexEntry {
        SkillIndexEntry {
            id: skill.id.to_string(),
            name: skill.name.clone(),
            capability_type: skill.kind,
            description: skill.description.clone(),
            descriptor_url: format!("{}/skills/{}.json", self.base, skill.id),
            access: skill.access,
            version: skill.version,
            extra: Map::new(),
        }
    }

    /// Descriptor of a skill that is backed by a tool or by the agent itself. `timeout` limits an execution.
    #[must_use]
    pub fn descriptor(
        &self,
        agent: &Agent,
        tool: Option<&Tool>,
        skill: &Skill,
        oauth: Option<&OAuthEndpoints>,
        timeout: Duration,
    ) -> SkillDescriptor {
        SkillDescriptor {
            protocol: PROTOCOL_VERSION.into(),
            id: skill.id.to_string(),
            name: skill.name.clone(),
            version: skill.version,
            capability_type: skill.kind,
            description: skill.description.clone(),
            provider: self.provider(agent),
            endpoint: self.endpoint(skill, timeout),
            inputs: match tool {
                Some(tool) => inputs(tool.input.source()),
                None => vec![required_text("text", "Message to the agent.")],
            },
            output: output(tool),
            auth: auth(agent, tool, skill, oauth),
            access: skill.access,
            tags: (!skill.tags.is_empty()).then(|| skill.tags.clone()),
            documentation_url: skill.documentation.as_ref().map(ToString::to_string),
            created_at: skill.created_at.map(|at| at.to_string()),
            updated_at: skill.updated_at.map(|at| at.to_string()),
            extra: Map::new(),
        }
    }

    fn provider(&self, agent: &Agent) -> Provider {
        let (name, url) = match &agent.owner {
            Some(owner) => (owner.name.clone(), owner.url.as_ref().map(ToString::to_string)),
            None => (self.name.clone(), self.url.clone()),
        };
        Provider { name, url, contact: self.contact.clone(), extra: Map::new() }
    }

    fn endpoint(&self, skill: &Skill, timeout: Duration) -> InvocationEndpoint {
        InvocationEndpoint {
            url: format!("{}/skills/{}/invoke", self.base, skill.id),
            method: skill.method,
            content_type: Some("application/json".to_owned()),
            status_url: Some(self.status_url(EXECUTION_ID)),
            result_url: Some(format!("{}/result", self.status_url(EXECUTION_ID))),
            timeout_ms: Some(timeout.into()),
            retry: skill.retry.map(|retry| EndpointRetry {
                max_attempts: retry.max_attempts.into(),
                backoff_ms: retry.backoff.into(),
                extra: Map::new(),
            }),
            extra: Map::new(),
        }
    }
}

/// Parameters of an argument schema, sorted by name.
fn inputs(schema: &Value) -> Vec<ParameterDefinition> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let definitions = ["$defs", "definitions"].map(|name| (name, schema.get(name)));
    let properties = schema.get("properties").and_then(Value::as_object);
    let parameter = |(name, property): (&String, &Value)| ParameterDefinition {
        name: name.clone(),
        r#type: type_of(property).to_owned(),
        description: text(property, "description").or_else(|| text(property, "title")).unwrap_or_else(|| name.clone()),
        required: required.contains(&name.as_str()),
        default: property.get("default").cloned(),
        schema: nested(property, &definitions),
        extra: Map::new(),
    };
    properties.into_iter().flatten().map(parameter).collect()
}

fn text(schema: &Value, key: &str) -> Option<String> {
    schema.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Type name of a parameter; its nested schema has the exact definition.
fn type_of(schema: &Value) -> &str {
    match &schema["type"] {
        Value::String(name) => name,
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or("null"),
        _ => {
            let example = schema.get("const").or_else(|| schema["enum"].as_array().and_then(|values| values.first()));
            example.map_or("object", type_name)
        }
    }
}

/// Schema of a parameter if it says more than the type, together with the definitions it references.
fn nested(property: &Value, definitions: &[(&str, Option<&Value>)]) -> Option<Map<String, Value>> {
    let expressed = ["type", "description", "title", "default"];
    let mut schema = property.as_object()?.clone();
    let simple_type = schema.get("type").is_some_and(Value::is_string);
    if simple_type && schema.keys().all(|key| expressed.contains(&key.as_str())) {
        return None;
    }
    if names_definitions(property) {
        let wanted = definitions.iter().filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.clone())));
        schema.extend(wanted.collect::<Vec<_>>());
    }
    Some(schema)
}

fn names_definitions(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => {
            object.get("$ref").is_some_and(Value::is_string) || object.values().any(names_definitions)
        }
        Value::Array(values) => values.iter().any(names_definitions),
        _ => false,
    }
}

fn required_text(name: &str, description: &str) -> ParameterDefinition {
    ParameterDefinition {
        name: name.to_owned(),
        r#type: "string".to_owned(),
        description: description.to_owned(),
        required: true,
        default: None,
        schema: None,
        extra: Map::new(),
    }
}

fn output(tool: Option<&Tool>) -> OutputDefinition {
    let json = "application/json".to_owned();
    let answer = || json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let schema = match tool {
        Some(tool) => tool.output.as_ref().map(|schema| schema.source().clone()),
        None => Some(answer()),
    };
    let description = schema.as_ref().and_then(|schema| text(schema, "description"));
    let schema = schema.and_then(|schema| schema.as_object().cloned());
    OutputDefinition { content_type: json, schema, description, extra: Map::new() }
}

fn auth(agent: &Agent, tool: Option<&Tool>, skill: &Skill, oauth: Option<&OAuthEndpoints>) -> AuthConfig {
    let (kind, description) = match &skill.auth {
        SkillAuth::None => (AuthType::None, None),
        SkillAuth::ApiKey { header } => {
            (AuthType::ApiKey, Some(format!("Provide your API key in the {header} header.")))
        }
        SkillAuth::OAuth2 { .. } => {
            (AuthType::OAuth2, Some("Provide an OAuth 2.0 access token as `Authorization: Bearer`.".to_owned()))
        }
        SkillAuth::Custom => (AuthType::Custom, Some("HMAC-SHA256 signed requests.".to_owned())),
    };
    let header = match &skill.auth {
        SkillAuth::ApiKey { header } => Some(header.clone()),
        _ => None,
    };
    let scopes = || {
        let scope = tool.and_then(|tool| agent.scope(tool.scope.as_ref()?));
        scope
            .map(|scope| (scope.id.to_string(), scope.label.in_language("en").to_owned()))
            .into_iter()
            .collect::<BTreeMap<_, _>>()
    };
    AuthConfig {
        r#type: kind,
        description,
        header,
        oauth2: oauth.filter(|_| kind == AuthType::OAuth2).map(|oauth| OAuth2Config {
            authorization_url: oauth.authorization_url.clone(),
            token_url: oauth.token_url.clone(),
            scopes: scopes(),
            extra: Map::new(),
        }),
        custom: (kind == AuthType::Custom).then(|| signature(skill.method)),
        extra: Map::new(),
    }
}

/// Version of the reference signature that a skill with this HTTP method requires. Version 2 also covers method and
/// URL, for requests without a body.
pub(crate) fn signature_version(method: SkillHttpMethod) -> &'static str {
    if method.has_query() { "v2" } else { "v1" }
}

fn signature(method: SkillHttpMethod) -> CustomAuth {
    let version = signature_version(method);
    let (signed, target, reading) = match method.has_query() {
        true => (
            "TIMESTAMP LF NONCE LF METHOD LF TARGET LF BODY",
            ", LF a line feed, METHOD the method in capitals, TARGET the path and query as sent",
            "",
        ),
        false => (
            "TIMESTAMP \".\" NONCE \".\" BODY",
            "",
            " Requests by GET or DELETE, such as those for an execution's status, need version 2: `v2=` over TIMESTAMP LF \
             NONCE LF METHOD LF TARGET LF BODY, where LF is a line feed and TARGET the path and query as sent.",
        ),
    };
    let instructions = format!(
        "Choose a nonce of 8 to 128 characters. Compute HMAC-SHA256 with your secret key over {signed}, where TIMESTAMP is \
         the time in seconds since 1970{target} and BODY the exact bytes of the request's body (empty if there is none). \
         Send `X-Signature: {version}=` and the result in hex, `X-Signature-Timestamp` and `X-Signature-Nonce`. A request \
         is accepted once, within five minutes.{reading}"
    );
    let secret = required_text("secret_key", "Your HMAC secret key.");
    let extra = Map::from_iter([(CustomAuth::SCHEME.to_owned(), json!(format!("hmac-sha256-{version}")))]);
    CustomAuth { instructions, parameters: Some(vec![secret]), extra }
}
