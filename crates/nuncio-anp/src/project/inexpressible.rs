//! Parts of a declared agent that ANP cannot express.

use nuncio_core::agent::Agent;
use nuncio_core::schema::Schema;
use serde_json::Value;

/// Lists the parts of a declared agent that ANP cannot express, as sentences for its author.
pub(crate) fn inexpressible(agent: &Agent) -> Vec<String> {
    let mut inexpressible = Vec::new();
    for option in &agent.options {
        inexpressible.push(format!("option {}: callers cannot set it", option.name));
    }
    if !agent.scopes.is_empty() {
        inexpressible.push(
            "scope: the permission that a tool needs and its sensitivity are not published to callers".to_owned(),
        );
    }
    for text in agent.translated_texts() {
        inexpressible.push(format!("{text}: only the English text is published"));
    }
    let speaks_mcp = agent.interfaces.iter().any(|it| it.protocol.eq_ignore_ascii_case("MCP"));
    if agent.exposed_tools().next().is_some() && !speaks_mcp {
        inexpressible.push(
            "tool: no MCP interface is described; if another server offers the tools over MCP, name it in [[interface]]"
                .to_owned(),
        );
    }
    for tool in agent.exposed_tools() {
        let schemas = std::iter::once(tool.input.source()).chain(tool.output.as_ref().map(Schema::source));
        if schemas.into_iter().any(refers_by_anchor) {
            inexpressible.push(format!(
                "tool {}: references by $id, $anchor or $dynamicRef cannot be resolved in OpenRPC",
                tool.name
            ));
        }
    }
    inexpressible
}

fn refers_by_anchor(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => {
            let anchored = |key: &String, value: &Value| {
                matches!(key.as_str(), "$id" | "$anchor" | "$dynamicRef" | "$dynamicAnchor") && value.is_string()
            };
            object.iter().any(|(key, value)| anchored(key, value) || refers_by_anchor(value))
        }
        Value::Array(items) => items.iter().any(refers_by_anchor),
        _ => false,
    }
}
