//! The `[[mcp]]` sections: MCP servers that run tools.

use std::collections::BTreeSet;

use toml::de::DeValue;

use super::agent::web_address;
use super::command;
use super::http;
use super::names::DeclaredNames;
use super::reader::{LocatedTomlValue, TomlTableReader};
use super::templates::TemplateUse;
use nuncio_core::agent::{McpImportRules, McpServerSpec, McpTransport};
use nuncio_core::ids::{BackendName, ToolName};

pub(super) fn read(root: &TomlTableReader<'_>, names: &DeclaredNames<'_>) -> Vec<McpServerSpec> {
    let tables = root.tables("mcp", "name");
    let mut taken = BTreeSet::new();
    tables.iter().filter_map(|table| server(table, names, &mut taken)).collect()
}

fn server(
    table: &TomlTableReader<'_>,
    names: &DeclaredNames<'_>,
    taken: &mut BTreeSet<ToolName>,
) -> Option<McpServerSpec> {
    let name = table.name("name", BackendName::parse);
    let transport = transport(table, names);
    let import = import(table, names, taken);
    table.finish();
    Some(McpServerSpec { name: name?, transport: transport?, import })
}

fn transport(table: &TomlTableReader<'_>, names: &DeclaredNames<'_>) -> Option<McpTransport> {
    let kind = table.one_of(&["command", "url"]);
    let command_line = table.item("command");
    let command_line = command_line.and_then(|item| command::read(&item, TemplateUse::ServerStart, names));
    let url = table.item("url").and_then(|item| web_address(&item));
    match kind? {
        "command" => {
            table.refuse("headers", "allowed only with \"url\"");
            let env = table.table("env").map(|table| command::env(&table, TemplateUse::ServerStart, names));
            Some(McpTransport::Stdio { command: command_line?, env: env.unwrap_or_default() })
        }
        _ => {
            table.refuse("env", "allowed only with \"command\"");
            let headers = table.table("headers").map(|table| http::headers(&table, TemplateUse::ServerStart, names));
            Some(McpTransport::Http { url: url?, headers: headers.unwrap_or_default() })
        }
    }
}

fn import(
    table: &TomlTableReader<'_>,
    names: &DeclaredNames<'_>,
    taken: &mut BTreeSet<ToolName>,
) -> Option<McpImportRules> {
    let item = table.item("import").filter(|item| item.value.as_bool() != Some(false));
    let Some(item) = item else {
        for key in ["scope", "expose", "human_authorization"] {
            table.refuse(key, "applies only to imported tools, and the server has no \"import\"");
        }
        return None;
    };
    let scope = table.item("scope").and_then(|item| names.scope(&item));
    let exposed = table.flag("expose").unwrap_or(true);
    let human_authorization = table.flag("human_authorization").unwrap_or(false);
    let only = match item.value {
        DeValue::Boolean(_) => None,
        DeValue::Array(_) => Some(listed(&item, names, taken)?),
        _ => return item.wrong_kind("true for every tool, or a list of tool names"),
    };
    Some(McpImportRules { only, scope, exposed, human_authorization })
}

/// Reads the imported tool names. A repeated name is a fault, because it would be ambiguous which tool is called.
fn listed(
    item: &LocatedTomlValue<'_>,
    names: &DeclaredNames<'_>,
    taken: &mut BTreeSet<ToolName>,
) -> Option<Vec<ToolName>> {
    let mut tools = Vec::new();
    for item in item.some_list("a list of tool names")? {
        let name = item.name(ToolName::parse)?;
        if names.has_tool(name.as_str()) {
            item.position
                .fault(format!("there is a [[tool]] {name:?} too"), "allowed: either the import or the [[tool]]");
        } else if !taken.insert(name.clone()) {
            item.position.fault(format!("{name:?} is already imported"), "allowed: each name once");
        }
        tools.push(name);
    }
    Some(tools)
}
