//! The `[[tool]]` sections.

use std::sync::Arc;
use std::time::Duration;

use super::names::DeclaredNames;
use super::reader::TomlTableReader;
use super::scopes::local_text;
use super::skill::{self, SkillDefaultSource, SkillIdReader};
use super::{run, schemas};
use nuncio_core::agent::{Skill, Tool, ToolEffect, ToolHints, ToolRunSpec};
use nuncio_core::ids::ToolName;
use nuncio_core::manifest::is_device_tool_name;
use nuncio_core::schema::Schema;
use nuncio_core::template::Template;
use nuncio_core::text::TextByLanguage;

const DEFAULT_TIMEOUT_MS: u64 = 30_000;
const MAX_TIMEOUT_MS: u64 = 600_000;

/// Time limit of a human task without `timeout_ms`: a day.
const DEFAULT_HUMAN_TIMEOUT_MS: u64 = 24 * 3_600_000;
const MAX_HUMAN_TIMEOUT_MS: u64 = 30 * DEFAULT_HUMAN_TIMEOUT_MS;

pub(super) fn read(root: &TomlTableReader<'_>, names: &DeclaredNames<'_>, publisher: &SkillIdReader) -> Vec<Arc<Tool>> {
    let tables = root.tables("tool", "name");
    tables.iter().filter_map(|table| tool(table, names, publisher)).map(Arc::new).collect()
}

fn tool(table: &TomlTableReader<'_>, names: &DeclaredNames<'_>, publisher: &SkillIdReader) -> Option<Tool> {
    let name = table.name("name", ToolName::parse);
    let title = table.item("title").and_then(|item| local_text(&item));
    let description = table.text("description");
    let scope = table.item("scope").and_then(|item| names.scope(&item));
    let input = table.required("input", r#"a JSON Schema, at least { type = "object" }"#);
    let input = input.and_then(|item| schemas::arguments(&item));
    let output = table.item("output").and_then(|item| schemas::result(&item));
    let run = table.required("run", "the backend, such as { command = [\"date\"] }");
    let run = run.and_then(|item| item.table());
    let run = run.and_then(|run| run::read(&run, name.as_ref(), input.as_ref().map(Schema::source), names));
    if let (Some(ToolRunSpec::Answer(answer)), Some(output)) = (&run, &output) {
        check_answer(table, answer, output);
    }
    let for_devices = matches!(run, Some(ToolRunSpec::Device(_)));
    if for_devices {
        check_device_tool(table, name.as_ref());
    }
    let exposed = !for_devices && table.flag("expose").unwrap_or(true);
    let human_authorization = table.flag("human_authorization").unwrap_or(false);
    let timeout = timeout(table);
    let hints = hints(table);
    let skill = table.table("skill").and_then(|skill| {
        let subject = SkillDefaultSource {
            part: name.as_ref().map(ToolName::as_str),
            name: title.as_ref().map(TextByLanguage::in_english).or(name.as_ref().map(ToolName::as_str)),
            description: description.as_deref(),
            scope: table.peek("scope").and_then(|item| item.value.as_str()),
            input: input.as_ref().map(Schema::source),
        };
        read_skill(&skill, exposed || for_devices, &subject, publisher)
    });
    table.finish();
    Some(Tool {
        name: name?,
        title,
        description: description?,
        scope,
        input: input?,
        output,
        run: run?,
        exposed,
        human_authorization,
        timeout,
        skill: skill.map(Box::new),
        hints,
    })
}

/// What clients are told about the tool beside its schemas.
fn hints(table: &TomlTableReader<'_>) -> ToolHints {
    ToolHints {
        effect: table
            .item("effect")
            .and_then(|item| item.choice(&ToolEffect::ALL.map(|effect| (effect.as_str(), effect)))),
        idempotent: table.flag("idempotent"),
        open_world: table.flag("open_world"),
    }
}

/// Checks an answer without values against the output schema: a wrong one would fail every call.
fn check_answer(table: &TomlTableReader<'_>, answer: &Template, output: &Schema) {
    if !answer.is_plain() {
        return;
    }
    let position = table.key_position("run").unwrap_or_else(|| table.position.here("run")).here("answer");
    match serde_json::from_str(answer.as_str()).map(|value| output.check(&value)) {
        Ok(Ok(())) => {}
        Ok(Err(violations)) => {
            let why = violations.first().map(ToString::to_string).unwrap_or_default();
            position.fault(format!("does not fit the output schema: {why}"), "correct one of the two");
        }
        Err(error) => position.fault(
            format!("is not JSON, though the tool has an output schema: {error}"),
            "write it as JSON, or remove \"output\"",
        ),
    }
}

/// Checks the keys of a device tool: it has a scope and a valid name, and no `expose`.
fn check_device_tool(table: &TomlTableReader<'_>, name: Option<&ToolName>) {
    table.refuse("expose", "a device tool is offered only to its person and to callers linked to them");
    if !table.has("scope") {
        table.missing::<()>("scope", "the permission that people are asked for");
    }
    if let (Some(name), Some(item)) = (name, table.peek("name"))
        && !is_device_tool_name(name.as_str())
    {
        item.position.fault(
            format!("{:?} is not a valid name for a device tool", name.as_str()),
            "allowed: 2 to 32 lower-case letters, digits and '_', beginning with a letter",
        );
    }
}

fn read_skill(
    table: &TomlTableReader<'_>,
    callable: bool,
    subject: &SkillDefaultSource<'_>,
    publisher: &SkillIdReader,
) -> Option<Skill> {
    if !callable {
        table.position.fault(
            "the skill could not be called, because the tool is hidden",
            "allowed: either the skill, or expose = false",
        );
    }
    skill::read(table, subject, publisher)
}

fn timeout(table: &TomlTableReader<'_>) -> Duration {
    let run = table.peek("run").and_then(|item| item.value.as_table());
    let millis = if run.is_some_and(|run| run.contains_key("human")) {
        if !table.has("output") {
            table.position.here("output").note(
                "missing, so the person who does the task answers in one text field",
                "describe the answer with a JSON Schema, and the person gets a form for it",
            );
        }
        table.whole_number("timeout_ms", 1..=MAX_HUMAN_TIMEOUT_MS).unwrap_or(DEFAULT_HUMAN_TIMEOUT_MS)
    } else {
        table.whole_number("timeout_ms", 1..=MAX_TIMEOUT_MS).unwrap_or(DEFAULT_TIMEOUT_MS)
    };
    Duration::from_millis(millis)
}
