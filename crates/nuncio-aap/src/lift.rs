//! Parses AAP requests strictly into requests of the engine. Errors name the JSON path.

use nuncio_core::message::Message;
use nuncio_core::policy::Protocol;
use nuncio_core::session::{ClientTool, EnabledTool};
use nuncio_core::turn::{StreamMode, TurnInput};
use nuncio_engine::EngineError;
use nuncio_engine::converse::{NewSession, SessionSettingsPatch, TurnRequest};
use nuncio_http::front::ProtocolFront as _;
use serde_json::Value;

mod messages;
mod shape;

use shape::{JsonLocation, JsonObjectReader};

use crate::server::AapFront;

/// Parses `PostSessionsRequest`.
pub(crate) fn new_session(body: Value) -> Result<NewSession, EngineError> {
    let mut body = JsonObjectReader::of(JsonLocation::root(), body)?;
    let mut agent = body.required_object("agent")?;
    let name = agent.required_text("name")?;
    let settings = settings(&mut body, Some(agent))?;
    let messages = body.optional_list("messages")?.unwrap_or_default();
    let messages =
        messages.into_iter().map(|(at, value)| messages::history(&at, value)).collect::<Result<Vec<Message>, _>>()?;
    Ok(NewSession { agent: name, settings, messages })
}

/// Parses `PostSessionTurnRequest`.
pub(crate) fn turn_request(body: Value) -> Result<TurnRequest, EngineError> {
    let mut body = JsonObjectReader::of(JsonLocation::root(), body)?;
    let mode = match body.optional_text("stream")? {
        None => StreamMode::default(),
        Some(text) => StreamMode::parse(&text).ok_or_else(|| {
            body.at("stream").wrong(&format!("expected \"none\", \"delta\" or \"message\", found {text:?}"))
        })?,
    };
    let agent = body.optional_object("agent")?;
    let settings = settings(&mut body, agent)?;
    let list = body.optional_list("messages")?.ok_or_else(|| body.at("messages").wrong("it is missing"))?;
    let input: TurnInput = messages::turn_input(&body.at("messages"), list)?;
    Ok(TurnRequest { input, mode, settings, protocol: Protocol::Aap, prompts: AapFront.permission_prompts() })
}

/// Parses `agent.tools`, `agent.options` and `tools`. A turn's `agent.name` is ignored: a session keeps its agent.
fn settings(body: &mut JsonObjectReader, agent: Option<JsonObjectReader>) -> Result<SessionSettingsPatch, EngineError> {
    let mut patch = SessionSettingsPatch::default();
    if let Some(mut agent) = agent {
        let tools = agent.optional_list("tools")?;
        patch.tools =
            tools.map(|list| list.into_iter().map(|(at, value)| tool_ref(at, value)).collect()).transpose()?;
        if let Some(options) = agent.optional_object("options")? {
            patch.options = options.all_texts()?;
        }
    }
    let tools = body.optional_list("tools")?;
    patch.client_tools =
        tools.map(|list| list.into_iter().map(|(at, value)| client_tool(at, value)).collect()).transpose()?;
    Ok(patch)
}

/// Parses `ServerToolRef`.
fn tool_ref(at: JsonLocation, value: Value) -> Result<EnabledTool, EngineError> {
    let mut fields = JsonObjectReader::of(at, value)?;
    Ok(EnabledTool { name: fields.required_name("name")?, trust: fields.optional_bool("trust")? })
}

/// Parses `ToolSpec`.
fn client_tool(at: JsonLocation, value: Value) -> Result<ClientTool, EngineError> {
    let mut fields = JsonObjectReader::of(at, value)?;
    let name = fields.required_name("name")?;
    let title = fields.optional_text("title")?;
    let description = fields.required_text("description")?;
    let parameters = Value::Object(fields.required_object("parameters")?.rest());
    Ok(ClientTool { name, title, description, parameters, extra: fields.rest() })
}
