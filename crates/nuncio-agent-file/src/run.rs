//! The `run` key of a tool: its backend.

mod anp;
mod device;
mod human;
mod skill;

use serde_json::Value;

use super::command;
use super::http;
use super::names::DeclaredNames;
use super::reader::TomlTableReader;
use super::templates::{self, TemplateUse};
use nuncio_core::agent::{AnpRunSpec, CommandRunSpec, ToolRunSpec};
use nuncio_core::ids::ToolName;

pub(super) fn read(
    table: &TomlTableReader<'_>,
    own_name: Option<&ToolName>,
    input: Option<&Value>,
    names: &DeclaredNames<'_>,
) -> Option<ToolRunSpec> {
    let kind = table.one_of(&["mcp", "http", "command", "human", "skill", "anp", "answer", "device"]);
    let server = table.item("mcp").and_then(|item| names.server(&item));
    let http = table.table("http").and_then(|table| http::read(&table, input, names));
    let used = TemplateUse::BackendRequest(input);
    let command_line = table.item("command").and_then(|item| command::read(&item, used, names));
    let human = table.item("human").and_then(|item| human::read(&item, input, names));
    let skill = table.item("skill").and_then(|item| skill::read(&item, names));
    let agent = table.item("anp").and_then(|item| anp::target(&item));
    let device = table.item("device").and_then(|item| device::read(&item));
    let answer = table.item("answer").and_then(|item| templates::read(&item, TemplateUse::TaskText(input), names));
    let key_of = |owner, key, why| {
        if kind == Some(owner) {
            return table.item(key);
        }
        table.refuse(key, why);
        None
    };
    let tool = key_of("mcp", "tool", "the tool of an MCP server: allowed only with \"mcp\"");
    let tool = tool.map_or_else(|| own_name.cloned(), |item| item.name(ToolName::parse));
    let method = key_of("anp", "method", "the method of another agent: allowed only with \"anp\"");
    let intent = key_of("anp", "intent", "what to negotiate with another agent: allowed only with \"anp\"");
    let method = anp::method(method.as_ref(), intent.as_ref(), own_name);
    let env_table = key_of("command", "env", "allowed only with \"command\"").and_then(|item| item.table());
    let env = env_table.map(|table| command::env(&table, used, names));
    table.finish();
    match kind? {
        "mcp" => Some(ToolRunSpec::Mcp { server: server?, tool: tool? }),
        "http" => Some(ToolRunSpec::Http(Box::new(http?))),
        "human" => Some(ToolRunSpec::Human(human?)),
        "skill" => Some(ToolRunSpec::Skill(Box::new(skill?))),
        "anp" => Some(ToolRunSpec::Anp(Box::new(AnpRunSpec { target: agent?, method: method? }))),
        "answer" => Some(ToolRunSpec::Answer(answer?)),
        "device" => Some(ToolRunSpec::Device(device?)),
        _ => Some(ToolRunSpec::Command(CommandRunSpec { command: command_line?, env: env.unwrap_or_default() })),
    }
}
