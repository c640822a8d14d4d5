//! The `[[intent]]` sections of a rules brain.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::names::DeclaredNames;
use super::reader::{LocatedTomlValue, TomlTableReader};
use super::similar;
use super::slots;
use super::source::cut;
use super::templates::{self, ReplyTemplateVariables, TemplateUse};
use nuncio_core::agent::{Intent, Tool};
use nuncio_core::ids::{BackendName, ToolName};
use nuncio_core::schema::Schema;

pub(super) fn read(root: &TomlTableReader<'_>, names: &DeclaredNames<'_>, tools: &[Arc<Tool>]) -> Vec<Intent> {
    let tables = root.tables("intent", "name");
    tables.iter().filter_map(|table| intent(table, names, tools)).collect()
}

fn intent(table: &TomlTableReader<'_>, names: &DeclaredNames<'_>, tools: &[Arc<Tool>]) -> Option<Intent> {
    let name = table.name("name", BackendName::parse);
    let keywords = table.item("keywords").and_then(|item| item.distinct_texts());
    let tool = table.item("tool").and_then(|item| names.tool(&item));
    let slot_names: BTreeSet<_> = table.peek_named("slot", "name").into_iter().map(|(name, _)| name).collect();
    let slots = slots::read(table, tool.as_ref().and_then(|tool| Some((tool, names.input(tool)?))), &slot_names, names);
    let patterns = table.item("patterns").and_then(|item| item.some_list("a list of patterns"));
    let patterns = patterns.map(|items| items.iter().filter_map(|item| pattern(item, &slot_names)).collect());
    let output = tool.as_ref().and_then(|name| tools.iter().find(|tool| tool.name == *name)?.output.as_ref());
    let variables = ReplyTemplateVariables {
        slots: Some(&slot_names),
        others: if table.has("tool") { &["text", "result"] } else { &[] },
        output: output.map(Schema::source),
    };
    let answer = table.required("answer", "what to say");
    if let Some(item) = answer.as_ref().filter(|item| !table.has("tool") && item.value.as_str() == Some("")) {
        item.position.fault(
            "is empty",
            "needed: the text of the answer, because the intent has no tool whose result could be the answer",
        );
    }
    let answer = answer.and_then(|item| templates::read(&item, TemplateUse::Reply(&variables), names));
    let failure = if table.has("tool") {
        let variables = ReplyTemplateVariables { others: &["error", "denied"], output: None, ..variables };
        let failure = table.item("failure");
        failure.and_then(|item| templates::read(&item, TemplateUse::Reply(&variables), names))
    } else {
        table.refuse("failure", "only an intent with a tool can fail");
        None
    };
    if !table.has("keywords") && !table.has("patterns") {
        table.position.fault("the intent can never match", "needed: keywords, patterns or both");
    }
    if let Some(tool) = &tool {
        note_unfilled(table, tool, &slot_names, names);
    }
    table.finish();
    Some(Intent {
        name: name?,
        keywords: keywords.unwrap_or_default(),
        patterns: patterns.unwrap_or_default(),
        slots,
        tool,
        answer: answer?,
        failure,
    })
}

/// Reads a regular expression of an intent; its named groups must be slots of the intent.
fn pattern(item: &LocatedTomlValue<'_>, slots: &BTreeSet<&str>) -> Option<String> {
    let regex = slots::regex(item)?;
    for group in regex.capture_names().flatten().filter(|group| !slots.contains(group)) {
        let help = similar::help_or("the intent has no [[intent.slot]] at all", group, "slots", slots);
        item.position.fault(format!("the group {:?} is not a slot of the intent", cut(group)), help);
    }
    Some(regex.as_str().to_owned())
}

/// Warns about required tool arguments without a slot: every call would be refused.
fn note_unfilled(table: &TomlTableReader<'_>, tool: &ToolName, slots: &BTreeSet<&str>, names: &DeclaredNames<'_>) {
    let required = names.input(tool).map(|input| input.required.as_slice()).unwrap_or_default();
    for argument in required.iter().filter(|argument| !slots.contains(*argument)) {
        let known = similar::list(slots.iter().copied());
        let position = table.key_position("tool").unwrap_or_else(|| table.position.clone());
        position.note(
            format!("{tool:?} cannot be called without {:?}, for which there is no slot", cut(argument)),
            if known.is_empty() { "the intent has no slots".to_owned() } else { format!("slots: {known}") },
        );
    }
}
