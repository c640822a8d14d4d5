//! The `[brain]` section.

use std::sync::Arc;

use super::agent::web_address;
use super::command;
use super::intents;
use super::names::DeclaredNames;
use super::reader::TomlTableReader;
use super::templates::{self, ReplyTemplateVariables, TemplateUse};
use nuncio_core::agent::{AapBrainSpec, BrainSpec, CommandRunSpec, RulesBrainSpec, Tool};
use nuncio_core::ids::AgentName;

mod model;

#[derive(Clone, Copy)]
enum BrainKind {
    Rules,
    Script,
    Model,
    Process,
    Aap,
}

const BRAIN_KINDS: [(&str, BrainKind); 5] = [
    ("rules", BrainKind::Rules),
    ("script", BrainKind::Script),
    ("model", BrainKind::Model),
    ("process", BrainKind::Process),
    ("aap", BrainKind::Aap),
];

/// Reads `[brain]`; without the section the agent has a rules brain.
pub(super) fn read(root: &TomlTableReader<'_>, names: &DeclaredNames<'_>, tools: &[Arc<Tool>]) -> Option<BrainSpec> {
    let Some(table) = root.table("brain") else {
        return Some(rules(root, names, tools, RulesBrainSpec::default()));
    };
    let Some(kind) = table.choice("kind", &BRAIN_KINDS) else {
        // An unknown kind has unknown keys; the intents are still checked for faults.
        intents::read(root, names, tools);
        return None;
    };
    if !matches!(kind, BrainKind::Rules) {
        table.refuse("fallback", r#"only a brain of kind "rules" has a fallback"#);
        root.refuse("intent", r#"only a brain of kind "rules" has intents"#);
    }
    let brain = match kind {
        BrainKind::Rules => {
            let variables = ReplyTemplateVariables { others: &["intents"], ..ReplyTemplateVariables::default() };
            let fallback = table.item("fallback");
            let fallback = fallback.and_then(|item| templates::read(&item, TemplateUse::Reply(&variables), names));
            Some(rules(root, names, tools, RulesBrainSpec { fallback, intents: Vec::new() }))
        }
        BrainKind::Script => Some(BrainSpec::Script),
        BrainKind::Model => model::read(&table, names).map(|spec| BrainSpec::Model(Box::new(spec))),
        BrainKind::Process => process(&table, names).map(BrainSpec::Process),
        BrainKind::Aap => aap(&table, names).map(BrainSpec::Aap),
    };
    table.finish();
    brain
}

fn rules(
    root: &TomlTableReader<'_>,
    names: &DeclaredNames<'_>,
    tools: &[Arc<Tool>],
    mut rules: RulesBrainSpec,
) -> BrainSpec {
    rules.intents = intents::read(root, names, tools);
    if !root.has("intent") {
        let position = root.key_position("brain").unwrap_or_else(|| root.position.here("brain"));
        position.note("the brain matches no message", "a rules brain needs [[intent]] sections");
    }
    BrainSpec::Rules(rules)
}

fn process(table: &TomlTableReader<'_>, names: &DeclaredNames<'_>) -> Option<CommandRunSpec> {
    let command_line = table.required("command", r#"a program and its arguments, such as ["python3", "brain.py"]"#);
    let command_line = command_line.and_then(|item| command::read(&item, TemplateUse::BrainEnvironment, names));
    let env = table.table("env").map(|table| command::env(&table, TemplateUse::BrainEnvironment, names));
    Some(CommandRunSpec { command: command_line?, env: env.unwrap_or_default() })
}

fn aap(table: &TomlTableReader<'_>, names: &DeclaredNames<'_>) -> Option<AapBrainSpec> {
    let url = table.required("url", "the base URL of the other server's AAP interface");
    let url = url.and_then(|item| web_address(&item));
    let agent = table.item("agent").and_then(|item| item.name(AgentName::parse));
    let key = table.item("key").and_then(|item| names.secret(&item));
    Some(AapBrainSpec { url: url?, agent, key })
}
