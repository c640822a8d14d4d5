//! Imports tools of MCP servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::agent::{Agent, McpImportRules, McpServerSpec, Tool, ToolEffect, ToolHints, ToolRunSpec};
use nuncio_core::ids::{BackendName, ToolName};
use nuncio_core::schema::Schema;
use nuncio_core::text::TextByLanguage;
use serde_json::Value;

use crate::runners::{McpOfferedTool, McpServerTools};

/// Timeout of an imported tool; equal to the default of declared tools.
const TOOL_TIMEOUT: Duration = Duration::from_secs(30);

/// MCP server name, its import rules and the tools it lists.
pub(super) type McpServerImport = (BackendName, McpImportRules, Vec<rmcp::model::Tool>);

/// Adds imported tools to an agent. A tool that the agent file declares takes precedence.
pub(super) fn add(mut agent: Agent, offers: &[McpServerImport]) -> Result<Agent, String> {
    let mut imported: BTreeMap<ToolName, &BackendName> = BTreeMap::new();
    for (server, import, offered) in offers {
        for tool in selected_tools(server, import, offered)? {
            let tool = import_tool(server, import, tool)?;
            if let Some(other) = imported.get(&tool.name) {
                return Err(format!(
                    "the MCP servers `{other}` and `{server}` both have a tool `{}`; name the tools to import from one of them, such as `import = [\"search\"]`, instead of `import = true`",
                    tool.name
                ));
            }
            if agent.tool(tool.name.as_str()).is_none() {
                imported.insert(tool.name.clone(), server);
                agent.tools.push(Arc::new(tool));
            }
        }
    }
    Ok(agent)
}

/// Tools of an MCP server that can be imported, and reasons why others cannot.
pub(super) fn offer(server: &McpServerSpec, listed: &[rmcp::model::Tool]) -> McpServerTools {
    let import = McpImportRules { only: None, scope: None, exposed: true, human_authorization: false };
    let mut offer = McpServerTools::default();
    for tool in listed {
        match import_tool(&server.name, &import, tool) {
            Ok(tool) if offer.tools.iter().any(|before| before.tool.name == tool.name) => {}
            Ok(imported) => {
                // A tool without annotations may change something.
                let effect = imported.hints.effect.unwrap_or(ToolEffect::Writes);
                offer.tools.push(McpOfferedTool { tool: imported, effect });
            }
            Err(why) => offer.unusable.push(why),
        }
    }
    offer
}

/// What the server says about a tool by annotations. A tool that changes something without saying whether it destroys
/// counts as one that says nothing.
fn hints(tool: &rmcp::model::Tool) -> ToolHints {
    let Some(given) = &tool.annotations else { return ToolHints::default() };
    let effect = match (given.read_only_hint, given.destructive_hint) {
        (Some(true), _) => Some(ToolEffect::ReadOnly),
        (_, Some(true)) => Some(ToolEffect::Destroys),
        (_, Some(false)) => Some(ToolEffect::Writes),
        _ => None,
    };
    ToolHints { effect, idempotent: given.idempotent_hint, open_world: given.open_world_hint }
}

/// Names of up to 50 tools, for an error message.
pub(super) fn names(tools: &[rmcp::model::Tool]) -> String {
    let names: Vec<String> = tools.iter().take(50).map(|tool| format!("`{}`", tool.name)).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn selected_tools<'a>(
    server: &BackendName,
    import: &McpImportRules,
    offered: &'a [rmcp::model::Tool],
) -> Result<Vec<&'a rmcp::model::Tool>, String> {
    let Some(only) = &import.only else {
        return Ok(offered.iter().collect());
    };
    only.iter()
        .map(|name| {
            offered.iter().find(|tool| tool.name == name.as_str()).ok_or_else(|| {
                format!("the MCP server `{server}` has no tool `{name}` to import; it has {}", names(offered))
            })
        })
        .collect()
}

fn import_tool(server: &BackendName, import: &McpImportRules, tool: &rmcp::model::Tool) -> Result<Tool, String> {
    let place = || format!("the tool `{}` of the MCP server `{server}` cannot be imported", tool.name);
    let name = ToolName::parse(&tool.name).map_err(|error| {
        format!("{}: {error}; name the tools to import instead, such as `import = [\"search\"]`", place())
    })?;
    let input = Schema::compile_arguments(Value::Object((*tool.input_schema).clone()))
        .map_err(|error| format!("{}, since its input schema does not compile: {error}", place()))?;
    let output = tool.output_schema.as_deref().map(|schema| Schema::compile(Value::Object(schema.clone())));
    let output = output
        .transpose()
        .map_err(|error| format!("{}, since its output schema does not compile: {error}", place()))?;
    let hinted = tool.annotations.as_ref().and_then(|hints| hints.title.clone());
    Ok(Tool {
        title: tool.title.clone().or(hinted).map(TextByLanguage::english),
        description: tool.description.as_deref().unwrap_or_default().to_owned(),
        scope: import.scope.clone(),
        input,
        output,
        run: ToolRunSpec::Mcp { server: server.clone(), tool: name.clone() },
        name,
        exposed: import.exposed,
        human_authorization: import.human_authorization,
        timeout: TOOL_TIMEOUT,
        skill: None,
        hints: hints(tool),
    })
}
