//! Session settings chosen by the client: checked against the agent, merged, secrets encrypted.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use nuncio_core::agent::{Agent, OptionValueType};
use nuncio_core::ids::{OptionName, SessionId};
use nuncio_core::session::{ClientTool, EnabledTool, SessionSettings, StoredOptionValue};
use nuncio_core::{ErrorCode, schema};

use crate::converse::ConversationService;
use crate::error::EngineError;

/// Placeholder for a secret in responses. In a request it means "unchanged".
pub const REDACTED: &str = "***";

/// Maximum number of client tools per session.
const MAX_CLIENT_TOOLS: usize = 256;

/// Changes to session settings; absent fields are unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionSettingsPatch {
    /// Enabled tools of the agent; replaces the previous list.
    pub tools: Option<Vec<EnabledTool>>,
    /// Session options to set; the others keep their values.
    pub options: BTreeMap<String, String>,
    /// Tools that the client runs; replaces the previous list.
    pub client_tools: Option<Vec<ClientTool>>,
}

impl SessionSettingsPatch {
    pub(super) fn is_empty(&self) -> bool {
        let Self { tools, options, client_tools } = self;
        tools.is_none() && options.is_empty() && client_tools.is_none()
    }
}

impl ConversationService {
    /// Applies a patch to the settings; the error describes an invalid patch.
    pub(crate) fn patched(
        &self,
        agent: &Agent,
        session: &SessionId,
        mut settings: SessionSettings,
        patch: SessionSettingsPatch,
    ) -> Result<SessionSettings, EngineError> {
        let changes_tools = patch.tools.is_some() || patch.client_tools.is_some();
        if let Some(tools) = patch.tools {
            check_tools(agent, &tools)?;
            settings.tools = Some(tools);
        }
        if let Some(client_tools) = patch.client_tools {
            check_client_tools(agent, &client_tools)?;
            settings.client_tools = client_tools;
        }
        if changes_tools {
            check_names(agent, &settings)?;
        }
        for (name, value) in patch.options {
            let Some(option) = agent.option(&name) else {
                let names: Vec<_> = agent.options.iter().map(|option| option.name.as_str()).collect();
                let message = format!("agent {} has no option {name:?}; it has: {}", agent.name, listed(&names));
                return Err(EngineError::new(ErrorCode::BadOption, message));
            };
            let value = match &option.kind {
                OptionValueType::Text => StoredOptionValue::Plain(value),
                OptionValueType::Select(allowed) if allowed.contains(&value) => StoredOptionValue::Plain(value),
                OptionValueType::Select(allowed) => {
                    let message = format!("option {name:?} takes one of {}, not {value:?}", listed(allowed));
                    return Err(EngineError::new(ErrorCode::BadOption, message));
                }
                OptionValueType::Secret if value == REDACTED => continue,
                OptionValueType::Secret => {
                    StoredOptionValue::Sealed(self.context.seal(&secret_place(session, &option.name), &value))
                }
            };
            settings.options.insert(option.name.clone(), value);
        }
        Ok(settings)
    }

    /// Values of all options in this session, with secrets decrypted. An option that is not set, or whose secret cannot
    /// be decrypted, has its default.
    pub(crate) fn option_values(
        &self,
        agent: &Agent,
        session: &SessionId,
        settings: &SessionSettings,
    ) -> BTreeMap<OptionName, String> {
        let value = |name: &OptionName, default: &str| {
            match settings.options.get(name) {
            Some(StoredOptionValue::Plain(value)) => value.clone(),
            Some(StoredOptionValue::Sealed(sealed)) => {
                self.context.cipher.open(&secret_place(session, name), sealed).unwrap_or_else(|| {
                    tracing::error!(%session, option = %name, "a secret cannot be decrypted; was the key file replaced?");
                    default.to_owned()
                })
            }
            None => default.to_owned(),
        }
        };
        agent.options.iter().map(|option| (option.name.clone(), value(&option.name, &option.default))).collect()
    }
}

/// Name to which the encryption of a secret option is bound.
pub(crate) fn secret_place(session: &(impl fmt::Display + ?Sized), option: &OptionName) -> String {
    format!("{session}/{option}")
}

fn check_tools(agent: &Agent, tools: &[EnabledTool]) -> Result<(), EngineError> {
    let mut seen = HashSet::new();
    for tool in tools {
        if !agent.exposed_tools().any(|exposed| exposed.name == tool.name) {
            let names: Vec<_> = agent.exposed_tools().map(|tool| tool.name.as_str()).collect();
            let message = format!("agent {} has no tool {}; it has: {}", agent.name, tool.name, listed(&names));
            return Err(EngineError::new(ErrorCode::UnknownTool, message));
        }
        if !seen.insert(&tool.name) {
            let message = format!("tool {} is listed twice; list it once", tool.name);
            return Err(EngineError::new(ErrorCode::ToolNameTaken, message));
        }
    }
    Ok(())
}

fn check_client_tools(agent: &Agent, tools: &[ClientTool]) -> Result<(), EngineError> {
    if !agent.capabilities.application_tools && !tools.is_empty() {
        let message = format!("agent {} does not accept tools from its clients", agent.name);
        return Err(EngineError::new(ErrorCode::CapabilityMissing, message));
    }
    if tools.len() > MAX_CLIENT_TOOLS {
        let message = format!("{} tools are too many; send at most {MAX_CLIENT_TOOLS}", tools.len());
        return Err(EngineError::new(ErrorCode::BadRequest, message));
    }
    let mut seen = HashSet::new();
    for tool in tools {
        if !seen.insert(&tool.name) {
            let message = format!("two tools are named {}; give each its own name", tool.name);
            return Err(EngineError::new(ErrorCode::ToolNameTaken, message));
        }
        // Only the size of a client tool's schema is checked, because the client runs the tool.
        if schema::depth(&tool.parameters) > schema::MAX_DEPTH
            || tool.parameters.to_string().len() > schema::MAX_SCHEMA_BYTES
        {
            let message = format!(
                "the parameters of tool {} are too large: at most {} levels and {} bytes",
                tool.name,
                schema::MAX_DEPTH,
                schema::MAX_SCHEMA_BYTES
            );
            return Err(EngineError::new(ErrorCode::BadToolSchema, message));
        }
    }
    Ok(())
}

/// Refuses a client tool that has the name of one of the agent's tools in the same session. An exposed tool that is not
/// enabled is not in the session, so its name is free; a hidden tool always is in it.
fn check_names(agent: &Agent, settings: &SessionSettings) -> Result<(), EngineError> {
    for ClientTool { name, .. } in &settings.client_tools {
        let message = match agent.tool(name.as_str()) {
            Some(own) if !own.exposed => format!("{name} is one of the agent's own tools; give yours another name"),
            Some(_) if settings.tool(name.as_str()).is_some() => format!(
                "{name} is also an enabled tool of the agent; give yours another name, or leave it out of agent.tools"
            ),
            _ => continue,
        };
        return Err(EngineError::new(ErrorCode::ToolNameTaken, message));
    }
    Ok(())
}

fn listed(names: &[impl AsRef<str>]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}
