//! Builds OpenRPC documents of an agent's tools.

use nuncio_core::agent::{Agent, Tool};
use nuncio_core::text::TextByLanguage;
use serde_json::{Map, Value, json};

use super::refs::SchemaComponents;
use super::{HostDocumentSettings, ToolDocumentKind, description_of, name_of, said};
use crate::wire::{
    ContentDescriptor, Info, Method, OPENRPC_VERSION, OpenRpc, PROTOCOL_TYPE, PROTOCOL_VERSION, ParamStructure, Server,
};

/// JSON-RPC method name for conversation with an agent.
pub const CHAT: &str = "chat";
/// Name of the conversation method if a tool is named `chat`.
const OTHER_CHAT: &str = "agent.chat";

/// Name of an agent's conversation method; `None` if the agent offers no conversation.
#[must_use]
pub fn chat_method(agent: &Agent) -> Option<&'static str> {
    let taken = agent.exposed_tools().any(|tool| tool.name.as_str() == CHAT);
    agent.presence.conversation.then_some(if taken { OTHER_CHAT } else { CHAT })
}

impl HostDocumentSettings {
    #[must_use]
    pub fn openrpc(&self, agent: &Agent, set: ToolDocumentKind) -> OpenRpc {
        let mut components = SchemaComponents::default();
        let mut methods: Vec<_> =
            agent.tools.iter().filter(|tool| set.has(agent, tool)).map(|tool| method(tool, &mut components)).collect();
        if set == ToolDocumentKind::Tools
            && let Some(name) = chat_method(agent)
        {
            methods.push(chat(name, agent, self.drafts_with(agent)));
        }
        let title = match set {
            ToolDocumentKind::Tools => name_of(agent).to_owned(),
            ToolDocumentKind::Authorized => format!("{}, with a person's approval", name_of(agent)),
        };
        OpenRpc {
            openrpc: OPENRPC_VERSION.to_owned(),
            info: Info {
                title,
                version: agent.version.to_string(),
                description: Some(description_of(agent)),
                protocol_type: Some(PROTOCOL_TYPE.to_owned()),
                protocol_version: Some(PROTOCOL_VERSION.to_owned()),
                extra: Map::new(),
            },
            security: Some(json!([{"didwba": []}])),
            servers: Some(vec![Server {
                name: Some(agent.name.to_string()),
                url: self.rpc_url(&agent.name),
                description: Some("JSON-RPC 2.0 over HTTP POST; arguments by name.".to_owned()),
                extra: Map::new(),
            }]),
            methods,
            components: Some(components.into_json(security_schemes())),
            extra: Map::new(),
        }
    }

    /// URL of the schema of a tool's arguments or result.
    pub(super) fn schema_url(&self, agent: &Agent, tool: &Tool, part: &str) -> String {
        let set = ToolDocumentKind::of(agent, tool);
        format!("{}#/components/schemas/{}.{part}", self.interface_url(&agent.name, set), tool.name)
    }
}

fn security_schemes() -> Value {
    json!({"didwba": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "DID-WBA",
        "description": "DID-WBA authentication scheme",
    }})
}

fn method(tool: &Tool, components: &mut SchemaComponents) -> Method {
    let name = tool.name.as_str();
    let summary = tool.title.as_ref().map_or(name, TextByLanguage::in_english).to_owned();
    // Imported tools may have an empty description, which some clients refuse.
    let description = Some(&tool.description).filter(|text| !text.trim().is_empty()).unwrap_or(&summary).clone();
    let input = components.take(&format!("{name}.input"), tool.input.source());
    let undeclared = json!({"description": "The answer: JSON if the tool returns JSON, otherwise text."});
    let output = tool.output.as_ref().map_or(&undeclared, |schema| schema.source());
    let answer = components.take(&format!("{name}.output"), output);
    Method {
        name: name.to_owned(),
        summary: Some(summary),
        params: Some(params(&input)),
        result: Some(ContentDescriptor::new(
            &format!("{name}_result"),
            said(&answer, "description").unwrap_or("Result of the call."),
            object(&answer),
        )),
        description: Some(description),
        param_structure: Some(ParamStructure::ByName),
        extra: Map::new(),
    }
}

/// Parameters of an argument schema: first the required ones, then the optional ones, each sorted by name.
fn params(schema: &Value) -> Vec<ContentDescriptor> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let describe = |(name, property): (&String, &Value)| {
        let description = said(property, "description").or(said(property, "title")).unwrap_or(name);
        let required = Some(required.contains(&name.as_str()));
        ContentDescriptor { required, ..ContentDescriptor::new(name, description, object(property)) }
    };
    let mut params: Vec<_> = properties.into_iter().flatten().map(describe).collect();
    params.sort_by_key(|param| param.required != Some(true));
    params
}

/// Converts a schema to an object, because some clients do not support the schemas `true` and `false`.
fn object(schema: &Value) -> Value {
    match schema {
        Value::Bool(true) => json!({}),
        Value::Bool(false) => json!({"not": {}}),
        other => other.clone(),
    }
}

fn chat(name: &str, agent: &Agent, drafts: bool) -> Method {
    let text = |description: &str| json!({"type": "string", "description": description});
    let session = "Id of the conversation to continue, from an earlier answer; without it, a new conversation begins.";
    let mut answer = json!({
        "type": "object",
        "properties": {
            "text": text("Answer of the agent."),
            "session": text("Id of the conversation, with which it can be continued."),
        },
        "required": ["text", "session"],
    });
    let message = ContentDescriptor::new("message", "Message to the agent.", text("Message to the agent."));
    let mut params = vec![
        ContentDescriptor { required: (!drafts).then_some(true), ..message },
        ContentDescriptor::new("session", session, text(session)),
    ];
    if drafts {
        let about = "A call under a drafted protocol that both sides accepted; sent instead of a message.";
        params.push(ContentDescriptor::new("call", about, drafted_call_schema(about)));
        answer["properties"]["response"] =
            json!({"description": "Response to a call, in the form that its method defines."});
        answer["required"] = json!([]);
    }
    Method {
        name: name.to_owned(),
        summary: Some("Talk to the agent".to_owned()),
        description: Some(format!(
            "Say something to {} in natural language; the reply is the agent's answer.",
            name_of(agent)
        )),
        param_structure: Some(ParamStructure::ByName),
        params: Some(params),
        result: Some(ContentDescriptor::new("answer", "Answer of the agent, and the id of the conversation.", answer)),
        extra: Map::new(),
    }
}

fn drafted_call_schema(about: &str) -> Value {
    json!({
        "type": "object",
        "description": about,
        "properties": {
            "protocol_id": {"type": "string", "description": "Id of the protocol."},
            "digest": {"type": "string", "description": "Digest of the protocol document that both sides accepted."},
            "method": {"type": "string", "description": "Name of a method of the protocol."},
            "params": {"type": "object", "description": "Parameters of the method."},
        },
        "required": ["protocol_id", "digest", "method"],
        "additionalProperties": false,
    })
}
