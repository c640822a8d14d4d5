//! From the core's agent and the results of its tools to MCP's documents.

use nuncio_core::agent::{Agent, Tool, ToolEffect, ToolHints};
use nuncio_core::execution::ExecutionFailure;
use nuncio_core::message::{Block, DESCRIBED_CONTENT_KEY};
use nuncio_engine::call::FinishedCall;
use nuncio_engine::ports::runner::ToolOutput;
use serde_json::{Map, Value, json};

use crate::wire::{STATELESS_REVISION, meta};

mod inexpressible;

pub(crate) use inexpressible::inexpressible;

/// The two forms in which results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultForm {
    /// 2025-11-25 and older: schemas of results and structured results are objects.
    Session,
    /// 2026-07-28: each result says what it is and which server made it.
    Stateless,
}

/// How long a client may use a cached list or description, in milliseconds.
const CACHE_MILLIS: u64 = 30_000;

/// `Implementation` of an agent.
pub(crate) fn server_info(agent: &Agent) -> Value {
    let mut info = json!({"name": agent.name, "version": agent.version.to_string()});
    if let Some(title) = &agent.title {
        info["title"] = json!(title.in_english());
    }
    if let Some(description) = &agent.description {
        info["description"] = json!(description.in_english());
    }
    info
}

fn capabilities() -> Value {
    json!({"tools": {}})
}

/// Result of `initialize`.
pub(crate) fn initialize_result(agent: &Agent, revision: &str) -> Value {
    let mut result =
        json!({"protocolVersion": revision, "capabilities": capabilities(), "serverInfo": server_info(agent)});
    add_instructions(&mut result, agent);
    result
}

/// Result of `server/discover`; it is the same for all callers.
pub(crate) fn discover_result(agent: &Agent) -> Value {
    let mut result = json!({
        "supportedVersions": [STATELESS_REVISION],
        "capabilities": capabilities(),
        "ttlMs": CACHE_MILLIS,
        "cacheScope": "public",
    });
    add_instructions(&mut result, agent);
    result
}

fn add_instructions(result: &mut Value, agent: &Agent) {
    if let Some(description) = &agent.description {
        result["instructions"] = json!(description.in_english());
    }
}

/// Result of `tools/list` with one page of tools, which depend on the caller.
pub(crate) fn tools_result(form: ResultForm, tools: &[Value], next: Option<String>) -> Value {
    let mut result = json!({"tools": tools});
    if let Some(next) = next {
        result["nextCursor"] = json!(next);
    }
    if form == ResultForm::Stateless {
        result["ttlMs"] = json!(CACHE_MILLIS);
        result["cacheScope"] = json!("private");
    }
    result
}

/// `Tool` of a declared tool, with its schemas unchanged.
pub(crate) fn tool(form: ResultForm, tool: &Tool) -> Value {
    let mut described = json!({"name": tool.name});
    if let Some(title) = &tool.title {
        described["title"] = json!(title.in_english());
    }
    described["description"] = json!(tool.description);
    described["inputSchema"] = arguments_schema(tool.input.source());
    let output = tool.output.as_ref().map(nuncio_core::schema::Schema::source);
    if let Some(output) = output.filter(|schema| form == ResultForm::Stateless || schema["type"] == "object") {
        described["outputSchema"] = output.clone();
    }
    described["annotations"] = annotations(tool.hints);
    described
}

/// Name of the tool that is the whole agent.
pub(crate) const ASK: &str = "ask";

/// Whether the whole agent is a tool; a tool with the same name takes its place.
pub(crate) fn offers_ask(agent: &Agent) -> bool {
    agent.ask && agent.exposed_tools().all(|tool| tool.name.as_str() != ASK)
}

/// `Tool` of the whole agent.
pub(crate) fn ask_tool(agent: &Agent) -> Value {
    let title = agent.title_in("en");
    let about = agent.description.as_ref().map(|text| format!(" {}", text.in_english())).unwrap_or_default();
    let effects = agent.tools.iter().map(|tool| tool.hints.effect.unwrap_or(ToolEffect::Destroys));
    let hints = ToolHints { effect: Some(effects.max().unwrap_or(ToolEffect::ReadOnly)), ..ToolHints::default() };
    json!({
        "name": ASK,
        "title": format!("Ask {title}"),
        "description": format!(
            "Sends a text to the agent {title} and returns its answer.{about} The result contains `conversation`; send it \
             again to continue the same conversation, or leave it out to begin a new one."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "What to ask or tell the agent."},
                "conversation": {"type": "string", "description": "Handle of the conversation to continue."},
            },
            "required": ["text"],
            "additionalProperties": false,
        },
        "outputSchema": {
            "type": "object",
            "properties": {"answer": {"type": "string"}, "conversation": {"type": "string"}},
            "required": ["answer", "conversation"],
        },
        "annotations": annotations(hints),
    })
}

/// The schema of arguments; `type` is required there, and authors may leave it out.
fn arguments_schema(source: &Value) -> Value {
    let Value::Object(members) = source else { return json!({"type": "object"}) };
    if members.contains_key("type") {
        return source.clone();
    }
    let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
    schema.extend(members.clone());
    schema.into()
}

/// Explicit values for all hints, since clients assume the worst of a missing one.
fn annotations(hints: ToolHints) -> Value {
    json!({
        "readOnlyHint": hints.effect == Some(ToolEffect::ReadOnly),
        "destructiveHint": hints.effect.is_none_or(|effect| effect == ToolEffect::Destroys),
        "idempotentHint": hints.idempotent.unwrap_or(false),
        "openWorldHint": hints.open_world.unwrap_or(true),
    })
}

/// `CallToolResult` of the whole agent.
pub(crate) fn answer_result(answer: &Result<String, ExecutionFailure>, conversation: &str) -> Value {
    match answer {
        Ok(text) => json!({
            "content": [{"type": "text", "text": text}],
            "structuredContent": {"answer": text, "conversation": conversation},
        }),
        Err(failure) => {
            let mut result = failed_call(&failure.message);
            result["_meta"] = json!({"nuncio/code": failure.code, "nuncio/conversation": conversation});
            result
        }
    }
}

/// MCP `CallToolResult` of a finished tool call. The text of a failed one tells a model what to do.
pub(crate) fn call_result(form: ResultForm, ended: &FinishedCall) -> Value {
    match &ended.result {
        Ok(output) => output_result(form, output),
        Err(failure) => {
            let mut result = failed_call(&ended.content().text());
            result["_meta"] = json!({"nuncio/code": failure.code});
            result
        }
    }
}

pub(crate) fn failed_call(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": true})
}

fn output_result(form: ResultForm, output: &ToolOutput) -> Value {
    let content: Vec<_> = match output.content.as_slice() {
        [] => vec![json!({"type": "text", "text": output.message_content().text()})],
        blocks => blocks.iter().filter_map(content_block).collect(),
    };
    let mut result = json!({"content": content});
    let structured = output.structured.as_ref();
    if let Some(structured) = structured.filter(|value| form == ResultForm::Stateless || value.is_object()) {
        result["structuredContent"] = structured.clone();
    }
    result
}

/// `ContentBlock` of a block; `None` for blocks that only a conversation has.
fn content_block(block: &Block) -> Option<Value> {
    if let Block::Text { extra, .. } | Block::Image { extra, .. } = block
        && let Some(content) = extra.get(DESCRIBED_CONTENT_KEY)
    {
        return Some(content.clone());
    }
    match block {
        Block::Text { text, .. } => Some(json!({"type": "text", "text": text})),
        Block::Image { url, .. } => Some(image(url)),
        Block::Thinking { .. } | Block::ToolUse { .. } => None,
    }
}

/// An image with its data, or a link to an image elsewhere.
fn image(url: &str) -> Value {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((media_type, data)) => json!({"type": "image", "data": data, "mimeType": media_type}),
        None => json!({"type": "resource_link", "uri": url, "name": "image"}),
    }
}

/// Makes a result complete in the sense of its revision.
pub(crate) fn completed(form: ResultForm, agent: &Agent, mut result: Value) -> Value {
    if form == ResultForm::Stateless {
        if result.get("resultType").is_none() {
            result["resultType"] = json!("complete");
        }
        if !result["_meta"].is_object() {
            result["_meta"] = json!({});
        }
        result["_meta"][meta::SERVER_INFO] = json!({"name": agent.name, "version": agent.version.to_string()});
    }
    result
}
