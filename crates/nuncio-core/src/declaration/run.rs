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
    let tool = match kind {
        Some("mcp") => match table.item("tool") {
            Some(item) => item.name(ToolName::parse),
            None => own_name.cloned(),
        },
        _ => {
            table.refuse("tool", "the tool of an MCP server: allowed only with \"mcp\"");
            None
        }
    };
    let method = match kind {
        Some("anp") => match table.item("method") {
            Some(item) => anp::method(&item),
            None => own_name.map(ToString::to_string),
        },
        _ => {
            table.refuse("method", "the method of another agent: allowed only with \"anp\"");
            None
        }
    };
    let env = match kind {
        Some("command") => table.table("env").map(|table| env(&table, TemplateUse::BackendRequest(input), names)),
        _ => {
            table.refuse("env", "allowed only with \"command\"");
            None
        }
    };
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

/// A program with its arguments.
pub(super) fn argv(item: &TomlItem<'_>) -> Option<Vec<String>> {
    let mut argv = Vec::new();
    for (index, word) in item.some_list("a list of a program and its arguments")?.into_iter().enumerate() {
        let text = if index == 0 { word.text()? } else { word.any_text()? };
        if text.contains('\0') {
            word.position.fault("contains a NUL character", "allowed: a text without NUL");
            return None;
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
    templates::named(table, used, names, |name| {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err("the name of an environment variable");
        }
        Ok(())
    })
}
