//! Tools taken over from MCP servers as they are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::agent::{Agent, McpImport, McpServer, Run, Tool};
use nuncio_core::ids::{BackendName, ToolName};
use nuncio_core::schema::Schema;
use serde_json::Value;

use crate::runners::Offer;

/// How long one call of an imported tool may take: as long as one that says nothing about it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What one server has, and what of it the agent wants.
pub(super) type Wanted = (BackendName, McpImport, Vec<rmcp::model::Tool>);

/// Adds the imported tools to an agent. A tool the agent declares itself wins over an imported one.
pub(super) fn add(mut agent: Agent, offers: &[Wanted]) -> Result<Agent, String> {
    let mut imported: BTreeMap<ToolName, &BackendName> = BTreeMap::new();
    for (server, import, offered) in offers {
        for tool in wanted(server, import, offered)? {
            let tool = take_over(server, import, tool)?;
            if let Some(other) = imported.get(&tool.name) {
                return Err(format!(
                    "the MCP servers `{other}` and `{server}` both have a tool `{}`; say with `only` which of them to import it from",
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

/// The tools of a server that can be taken over, and what keeps the others from it.
pub(super) fn offer(server: &McpServer, listed: &[rmcp::model::Tool]) -> Offer {
    let import = McpImport { only: None, scope: None, exposed: true, human_authorization: false };
    let mut offer = Offer::default();
    for tool in listed {
        match take_over(&server.name, &import, tool) {
            Ok(tool) if offer.tools.iter().any(|before| before.name == tool.name) => {}
            Ok(tool) => offer.tools.push(tool),
            Err(why) => offer.unusable.push(why),
        }
    }
    offer
}

/// The names of tools, for a message.
pub(super) fn names(tools: &[rmcp::model::Tool]) -> String {
    let names: Vec<String> = tools.iter().take(50).map(|tool| format!("`{}`", tool.name)).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn wanted<'a>(
    server: &BackendName,
    import: &McpImport,
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

fn take_over(server: &BackendName, import: &McpImport, tool: &rmcp::model::Tool) -> Result<Tool, String> {
    let place = || format!("the tool `{}` of the MCP server `{server}` cannot be imported", tool.name);
    let name = ToolName::parse(&tool.name)
        .map_err(|error| format!("{}: {error}; name those you need with `only`", place()))?;
    let input = Schema::compile_arguments(Value::Object((*tool.input_schema).clone()))
        .map_err(|error| format!("{}, since its input schema does not compile: {error}", place()))?;
    let output = match &tool.output_schema {
        Some(schema) => Some(
            Schema::compile(Value::Object((**schema).clone()))
                .map_err(|error| format!("{}, since its output schema does not compile: {error}", place()))?,
        ),
        None => None,
    };
    let hinted = tool.annotations.as_ref().and_then(|hints| hints.title.clone());
    Ok(Tool {
        title: tool.title.clone().or(hinted),
        description: tool.description.as_deref().unwrap_or_default().to_owned(),
        scope: import.scope.clone(),
        input,
        output,
        run: Run::Mcp { server: server.clone(), tool: name.clone() },
        name,
        exposed: import.exposed,
        human_authorization: import.human_authorization,
        timeout: TIMEOUT,
        skill: None,
    })
}
