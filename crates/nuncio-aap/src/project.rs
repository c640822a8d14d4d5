//! Converts agents and sessions to bodies of AAP responses.

use std::sync::Arc;

use nuncio_core::agent::{Agent, AgentOption, OptionValueType, Tool};
use nuncio_core::ids::OptionName;
use nuncio_core::session::{ClientTool, Session, StoredOptionValue};
use nuncio_core::text::TextByLanguage;
use nuncio_engine::converse::REDACTED;
use serde_json::Map;

use crate::wire::meta::{AgentInfo, MetaResponse, OptionInfo, ToolSpec, VERSION};
use crate::wire::session::{AgentConfig, SessionInfo};

/// Body of `GET /meta`.
pub(crate) fn meta<'a>(agents: impl Iterator<Item = &'a Agent>) -> MetaResponse {
    MetaResponse { version: VERSION, agents: agents.map(agent_info).collect() }
}

fn agent_info(agent: &Agent) -> AgentInfo {
    let tool = |tool: &Arc<Tool>| ToolSpec {
        name: tool.name.to_string(),
        title: english(tool.title.as_ref()),
        description: tool.description.clone(),
        parameters: tool.input.source().clone(),
        extra: Map::new(),
    };
    AgentInfo {
        name: agent.name.to_string(),
        title: english(agent.title.as_ref()),
        version: agent.version.to_string(),
        description: english(agent.description.as_ref()),
        tools: agent.exposed_tools().map(tool).collect(),
        options: agent.options.iter().map(option_info).collect(),
        capabilities: agent.capabilities.clone(),
    }
}

/// The English text, or any other: `GET /meta` has one text for all readers.
fn english(text: Option<&TextByLanguage>) -> Option<String> {
    text.map(|text| text.in_english().to_owned())
}

fn option_info(option: &AgentOption) -> OptionInfo {
    let (kind, options) = match &option.kind {
        OptionValueType::Text => ("text", Vec::new()),
        OptionValueType::Secret => ("secret", Vec::new()),
        OptionValueType::Select(values) => ("select", values.clone()),
    };
    // The default of a secret option is left out, because `GET /meta` is public.
    let default = if option.kind == OptionValueType::Secret { String::new() } else { option.default.clone() };
    OptionInfo {
        name: option.name.to_string(),
        kind: kind.to_owned(),
        title: option.title.clone(),
        description: option.description.clone(),
        options,
        default,
    }
}

/// Warnings about parts of an agent declaration that AAP cannot express.
pub(crate) fn inexpressible(agent: &Agent) -> Vec<String> {
    let mut inexpressible = Vec::new();
    if agent.owner.is_some() {
        inexpressible.push("agent.owner: the owner is not published to clients".to_owned());
    }
    if !agent.scopes.is_empty() {
        inexpressible.push(
            "scope: the permission that a tool needs and its sensitivity are not published to clients".to_owned(),
        );
    }
    for text in agent.translated_texts() {
        inexpressible.push(format!("{text}: only the English text is published"));
    }
    for tool in agent.exposed_tools() {
        if tool.output.is_some() {
            inexpressible.push(format!("tool {}: the schema of its result is not published to clients", tool.name));
        }
        if tool.human_authorization {
            inexpressible.push(format!(
                "tool {}: that an operator must approve each call is not published to clients",
                tool.name
            ));
        }
    }
    inexpressible
}

/// Builds `SessionInfo`; the values of secret options are redacted.
pub(crate) fn session_info(session: &Session) -> SessionInfo {
    let settings = &session.settings;
    let option = |(name, value): (&OptionName, &StoredOptionValue)| match value {
        StoredOptionValue::Plain(text) => (name.to_string(), text.clone()),
        StoredOptionValue::Sealed(_) => (name.to_string(), REDACTED.to_owned()),
    };
    let tool = |tool: &ClientTool| ToolSpec {
        name: tool.name.to_string(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
        extra: tool.extra.clone(),
    };
    SessionInfo {
        session_id: session.id.to_string(),
        agent: AgentConfig {
            name: session.agent.to_string(),
            tools: settings.tools.clone(),
            options: settings.options.iter().map(option).collect(),
        },
        tools: settings.client_tools.iter().map(tool).collect(),
        created_at: Some(session.created_at.to_string()),
    }
}
