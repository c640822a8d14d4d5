//! The `run` key of a tool: its backend.

mod anp;
mod device;
mod human;
mod skill;

use super::http;
use super::names::{ArgumentNames, DeclaredNames};
use super::reader::{TomlItem, TomlTable};
use super::templates::{self, TemplateUse};
use crate::agent::{AnpRun, CommandRun, RunSpec};
use crate::ids::ToolName;
use crate::template::Template;

pub(super) fn read(
    table: &TomlTable<'_>,
    own_name: Option<&ToolName>,
    input: &ArgumentNames<'_>,
    names: &DeclaredNames<'_>,
) -> Option<RunSpec> {
    let kind = table.one_of(&["mcp", "http", "command", "human", "skill", "anp", "answer", "device"]);
    let server = table.item("mcp").and_then(|item| names.server(&item));
    let http = table.table("http").and_then(|table| http::read(&table, input, names));
    let argv = table.item("command").and_then(|item| argv(&item));
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
    let method = method.map_or_else(|| own_name.map(ToString::to_string), |item| anp::method(&item));
    let env_table = key_of("command", "env", "allowed only with \"command\"").and_then(|item| item.table());
    let env = env_table.map(|table| env(&table, TemplateUse::BackendRequest(input), names));
    table.finish();
    match kind? {
        "mcp" => Some(RunSpec::Mcp { server: server?, tool: tool? }),
        "http" => Some(RunSpec::Http(Box::new(http?))),
        "human" => Some(RunSpec::Human(human?)),
        "skill" => Some(RunSpec::Skill(Box::new(skill?))),
        "anp" => Some(RunSpec::Anp(Box::new(AnpRun { target: agent?, method: method? }))),
        "answer" => Some(RunSpec::Answer(answer?)),
        "device" => Some(RunSpec::Device(device?)),
        _ => Some(RunSpec::Command(CommandRun { argv: argv?, env: env.unwrap_or_default() })),
    }
}

/// Reads a command line: a program with its arguments.
pub(super) fn argv(item: &TomlItem<'_>) -> Option<Vec<String>> {
    let mut argv = Vec::new();
    for (index, word) in item.some_list("a list of a program and its arguments")?.into_iter().enumerate() {
        let text = if index == 0 { word.text()? } else { word.any_text()? };
        if text.contains('\0') {
            return word.position.reject("contains a NUL character", "allowed: a text without NUL");
        }
        if text.contains("{{") {
            word.position.note(
                "is not expanded as a template",
                "arguments are passed unchanged; only environment values are templates",
            );
        }
        argv.push(text.to_owned());
    }
    Some(argv)
}

pub(super) fn env(table: &TomlTable<'_>, used: TemplateUse<'_>, names: &DeclaredNames<'_>) -> Vec<(String, Template)> {
    templates::named(table, used, names, "the name of an environment variable", |name| {
        !name.is_empty() && !name.contains(['=', '\0'])
    })
}
