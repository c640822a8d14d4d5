//! The `[[intent.slot]]` sections: values that an intent needs before it runs.

use std::collections::BTreeSet;

use regex::Regex;
use toml::de::DeValue;

use super::names::{DeclaredNames, ToolArgumentNames};
use super::reader::{LocatedTomlValue, TomlTableReader};
use super::similar;
use super::source::cut;
use super::templates::{self, ReplyTemplateVariables, TemplateUse};
use nuncio_core::agent::{IntentSlot, SlotKind};
use nuncio_core::ids::ToolName;

#[derive(Clone, Copy, PartialEq)]
enum IntentSlotType {
    Text,
    Date,
    Integer,
    Choice,
    Pattern,
}

const SLOT_TYPES: [(&str, IntentSlotType); 5] = [
    ("text", IntentSlotType::Text),
    ("date", IntentSlotType::Date),
    ("integer", IntentSlotType::Integer),
    ("choice", IntentSlotType::Choice),
    ("pattern", IntentSlotType::Pattern),
];

/// Reads the slots of an intent, which fill the arguments of its tool.
pub(super) fn read(
    intent: &TomlTableReader<'_>,
    tool: Option<(&ToolName, &ToolArgumentNames<'_>)>,
    slot_names: &BTreeSet<&str>,
    names: &DeclaredNames<'_>,
) -> Vec<IntentSlot> {
    let tables = intent.tables("slot", "name");
    let mut seen = BTreeSet::new();
    let needed = tool.map(|(_, arguments)| arguments.required.as_slice()).unwrap_or_default();
    tables
        .iter()
        .filter_map(|table| {
            let slot = slot(table, slot_names, needed, names);
            if let Some(item) = table.peek("name")
                && let Some(name) = item.value.as_str()
            {
                if !seen.insert(name) {
                    item.position.fault("the intent already has this slot", "allowed: each name once");
                }
                check_argument(&item, name, tool);
            }
            slot
        })
        .collect()
}

/// Reads a slot. `needed` are the arguments that the intent's tool requires.
fn slot(
    table: &TomlTableReader<'_>,
    slot_names: &BTreeSet<&str>,
    needed: &[&str],
    names: &DeclaredNames<'_>,
) -> Option<IntentSlot> {
    let name = table.text("name");
    let kind = table.choice("type", &SLOT_TYPES);
    let choices = own_key(table, "choices", kind, IntentSlotType::Choice, "the words to choose from");
    let choices = choices.and_then(|item| item.distinct_texts());
    let pattern = own_key(table, "pattern", kind, IntentSlotType::Pattern, "a regular expression");
    let pattern = pattern.and_then(|item| regex(&item));
    let variables = ReplyTemplateVariables { slots: Some(slot_names), ..ReplyTemplateVariables::default() };
    let ask = table.item("ask").and_then(|item| templates::read(&item, TemplateUse::Reply(&variables), names));
    let default = table.item("default");
    let has_default = default.is_some();
    let remember = table.flag("remember").unwrap_or(true);
    table.finish();
    let kind = match kind? {
        IntentSlotType::Text => SlotKind::Text,
        IntentSlotType::Date => SlotKind::Date,
        IntentSlotType::Integer => SlotKind::Integer,
        IntentSlotType::Choice => SlotKind::Choice(choices?),
        IntentSlotType::Pattern => SlotKind::Pattern(pattern?.as_str().to_owned()),
    };
    let default = default.and_then(|item| default_value(&item, &kind));
    let name = name?;
    let is_required = !has_default && (table.has("ask") || needed.contains(&name.as_str()));
    Some(IntentSlot { name, kind, ask, is_required, default, remember })
}

/// Reads a key that is required for slots of one kind and forbidden for others.
fn own_key<'a>(
    table: &TomlTableReader<'a>,
    key: &'static str,
    kind: Option<IntentSlotType>,
    owner: IntentSlotType,
    what: &str,
) -> Option<LocatedTomlValue<'a>> {
    match kind {
        Some(kind) if kind == owner => table.required(key, what),
        Some(_) => {
            let owner = SLOT_TYPES.iter().find(|(_, kind)| *kind == owner).map_or("other", |(word, _)| word);
            table.refuse(key, &format!("only a slot of type {owner:?} has this"));
            None
        }
        None => table.item(key),
    }
}

/// Reads a default value, which the slot itself must accept. A whole number may be written without quotes.
fn default_value(item: &LocatedTomlValue<'_>, kind: &SlotKind) -> Option<String> {
    let written = match (item.value, kind) {
        (DeValue::Integer(number), SlotKind::Integer) => number.to_string(),
        _ => item.text()?.to_owned(),
    };
    let allowed = match kind {
        SlotKind::Integer if written.parse::<i64>().is_err() => "a whole number".to_owned(),
        SlotKind::Choice(choices) if !is_choice(choices, &written) => {
            similar::list(choices.iter().filter_map(|entry| SlotKind::spellings(entry).next()))
        }
        SlotKind::Pattern(pattern) if Regex::new(pattern).is_ok_and(|regex| !regex.is_match(&written)) => {
            format!("a text that matches {:?}", cut(pattern))
        }
        _ => return Some(written),
    };
    item.position.reject(format!("found {:?}", cut(&written)), format!("allowed: {allowed}"))
}

/// Whether a default is one of the spellings of a choice, or a whole entry.
fn is_choice(choices: &[String], written: &str) -> bool {
    choices.iter().any(|entry| entry == written || SlotKind::spellings(entry).any(|word| word == written))
}

/// Checks that the slot fills an argument of the intent's tool; otherwise every call would fail.
fn check_argument(item: &LocatedTomlValue<'_>, name: &str, tool: Option<(&ToolName, &ToolArgumentNames<'_>)>) {
    let Some((tool, ToolArgumentNames { properties: Some(properties), .. })) = tool else { return };
    if !properties.contains(name) {
        let help = similar::help_or("it takes no arguments", name, "it takes", properties);
        item.position.fault(format!("{tool:?} takes no argument {:?}", cut(name)), help);
    }
}

/// Reads a regular expression.
pub(super) fn regex(item: &LocatedTomlValue<'_>) -> Option<Regex> {
    match Regex::new(item.text()?) {
        Ok(regex) => Some(regex),
        Err(error) => {
            // The library's message shows the pattern with a caret; its last line is the reason.
            let drawn = error.to_string();
            let reason = drawn.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            item.position
                .reject(format!("not a pattern: {reason}"), "allowed: a regular expression of Rust's regex crate")
        }
    }
}
