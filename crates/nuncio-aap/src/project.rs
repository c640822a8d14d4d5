//! JSON representations of agents and sessions.

use nuncio_core::agent::{Agent, AgentOption, Capabilities, OptionKind};
use nuncio_core::session::{OptionValue, Session};
use nuncio_engine::converse::REDACTED;
use serde_json::{Map, Value, json};

/// Body of `GET /meta`.
pub(crate) fn meta<'a>(agents: impl Iterator<Item = &'a Agent>) -> Value {
    json!({"version": 3, "agents": agents.map(agent_info).collect::<Vec<_>>()})
}

fn agent_info(agent: &Agent) -> Value {
    let mut info = Map::new();
    info.insert("name".into(), agent.name.as_str().into());
    insert_some(&mut info, "title", agent.title.as_deref());
    info.insert("version".into(), agent.version.to_string().into());
    insert_some(&mut info, "description", agent.description.as_deref());
    let tools: Vec<_> = agent
        .exposed_tools()
        .map(|tool| {
            let mut spec = Map::new();
            spec.insert("name".into(), tool.name.as_str().into());
            insert_some(&mut spec, "title", tool.title.as_deref());
            spec.insert("description".into(), tool.description.as_str().into());
            spec.insert("parameters".into(), tool.input.source().clone());
            Value::Object(spec)
        })
        .collect();
    insert_list(&mut info, "tools", tools);
    insert_list(&mut info, "options", agent.options.iter().map(option_info).collect());
    info.insert("capabilities".into(), capabilities(&agent.capabilities));
    Value::Object(info)
}

fn option_info(option: &AgentOption) -> Value {
    let mut info = Map::new();
    let kind = match &option.kind {
        OptionKind::Text => "text",
        OptionKind::Secret => "secret",
        OptionKind::Select(_) => "select",
    };
    info.insert("type".into(), kind.into());
    info.insert("name".into(), option.name.as_str().into());
    insert_some(&mut info, "title", option.title.as_deref());
    insert_some(&mut info, "description", option.description.as_deref());
    if let OptionKind::Select(values) = &option.kind {
        info.insert("options".into(), json!(values));
    }
    // The default of a secret option would be public.
    let default = if option.kind == OptionKind::Secret { "" } else { option.default.as_str() };
    info.insert("default".into(), default.into());
    Value::Object(info)
}

/// `AgentCapabilities`: an empty object means supported, an absent key unsupported.
fn capabilities(has: &Capabilities) -> Value {
    let group = |members: &[(&str, bool)]| -> Map<String, Value> {
        members.iter().filter(|(_, has)| *has).map(|(name, _)| ((*name).to_owned(), json!({}))).collect()
    };
    let groups = [
        ("history", group(&[("compacted", has.compacted_history), ("full", has.full_history)])),
        ("stream", group(&[("delta", has.stream_delta), ("message", has.stream_message), ("none", has.stream_none)])),
        ("application", group(&[("tools", has.application_tools)])),
        ("image", group(&[("http", has.image_https), ("data", has.image_data)])),
    ];
    groups
        .into_iter()
        .filter(|(_, members)| !members.is_empty())
        .map(|(name, members)| (name.to_owned(), Value::Object(members)))
        .collect()
}

/// Parts of an agent declaration that AAP cannot express.
pub(crate) fn inexpressible(agent: &Agent) -> Vec<String> {
    let mut inexpressible = Vec::new();
    if agent.owner.is_some() {
        inexpressible.push("agent.owner: clients are not told who answers for the agent".to_owned());
    }
    if !agent.scopes.is_empty() {
        inexpressible
            .push("scope: clients are not told which permission a tool needs, nor how sensitive it is".to_owned());
    }
    for tool in agent.exposed_tools() {
        if tool.output.is_some() {
            inexpressible.push(format!("tool {}: clients are not told the shape of its result", tool.name));
        }
        if tool.human_authorization {
            inexpressible
                .push(format!("tool {}: clients are not told that an operator must approve each call", tool.name));
        }
    }
    inexpressible
}

/// `SessionInfo` with redacted secrets.
pub(crate) fn session_info(session: &Session) -> Value {
    let mut agent = Map::new();
    agent.insert("name".into(), session.agent.as_str().into());
    if let Some(tools) = &session.settings.tools {
        agent.insert("tools".into(), json!(tools));
    }
    let options: Map<String, Value> = session
        .settings
        .options
        .iter()
        .map(|(name, value)| {
            let shown = match value {
                OptionValue::Plain(text) => text.as_str(),
                OptionValue::Sealed(_) => REDACTED,
            };
            (name.to_string(), shown.into())
        })
        .collect();
    if !options.is_empty() {
        agent.insert("options".into(), options.into());
    }
    let mut info = Map::new();
    info.insert("sessionId".into(), session.id.as_str().into());
    info.insert("agent".into(), agent.into());
    if !session.settings.client_tools.is_empty() {
        info.insert("tools".into(), json!(session.settings.client_tools));
    }
    Value::Object(info)
}

fn insert_some(map: &mut Map<String, Value>, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value.into());
    }
}

fn insert_list(map: &mut Map<String, Value>, key: &str, values: Vec<Value>) {
    if !values.is_empty() {
        map.insert(key.to_owned(), values.into());
    }
}
