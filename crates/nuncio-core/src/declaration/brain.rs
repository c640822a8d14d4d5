//! The `[brain]` section.

use super::agent::web_address;
use super::intents;
use super::names::DeclaredNames;
use super::reader::TomlTable;
use super::run;
use super::templates::{self, TemplateUse};
use crate::agent::{AapSpec, BrainSpec, CommandRun, RulesSpec};
use crate::ids::AgentName;

mod model;

#[derive(Clone, Copy)]
enum Kind {
    Rules,
    Script,
    Model,
    Process,
    Aap,
}

const KINDS: [(&str, Kind); 5] = [
    ("rules", Kind::Rules),
    ("script", Kind::Script),
    ("model", Kind::Model),
    ("process", Kind::Process),
    ("aap", Kind::Aap),
];

/// Reads `[brain]`; without the section the agent has a rules brain.
pub(super) fn read(root: &TomlTable<'_>, names: &DeclaredNames<'_>) -> Option<BrainSpec> {
    let Some(table) = root.table("brain") else {
        return Some(rules(root, names, RulesSpec::default()));
    };
    let Some(kind) = table.choice("kind", &KINDS) else {
        // An unknown kind has unknown keys; the intents are still checked for faults.
        intents::read(root, names);
        return None;
    };
    if !matches!(kind, Kind::Rules) {
        table.refuse("fallback", r#"only a brain of kind "rules" has a fallback"#);
        root.refuse("intent", r#"only a brain of kind "rules" has intents"#);
    }
    let brain = match kind {
        Kind::Rules => {
            let fallback = table.item("fallback").and_then(|item| templates::read(&item, TemplateUse::Said, names));
            Some(rules(root, names, RulesSpec { fallback, intents: Vec::new() }))
        }
        Kind::Script => Some(BrainSpec::Script),
        Kind::Model => model::read(&table, names).map(|spec| BrainSpec::Model(Box::new(spec))),
        Kind::Process => process(&table, names).map(BrainSpec::Process),
        Kind::Aap => aap(&table, names).map(BrainSpec::Aap),
    };
    table.finish();
    brain
}

fn rules(root: &TomlTable<'_>, names: &DeclaredNames<'_>, mut rules: RulesSpec) -> BrainSpec {
    rules.intents = intents::read(root, names);
    if !root.has("intent") {
        let spot = root.key_spot("brain").unwrap_or_else(|| root.spot.here("brain"));
        spot.note("the brain matches no message", "a rules brain needs [[intent]] sections");
    }
    BrainSpec::Rules(rules)
}

fn process(table: &TomlTable<'_>, names: &DeclaredNames<'_>) -> Option<CommandRun> {
    let argv = table.required("command", r#"a program and its arguments, such as ["python3", "brain.py"]"#);
    let argv = argv.and_then(|item| run::argv(&item));
    let env = table.table("env").map(|table| run::env(&table, TemplateUse::Thinking, names));
    Some(CommandRun { argv: argv?, env: env.unwrap_or_default() })
}

fn aap(table: &TomlTable<'_>, names: &DeclaredNames<'_>) -> Option<AapSpec> {
    let url = table.required("url", "the base URL of the other server's AAP interface");
    let url = url.and_then(|item| web_address(&item));
    let agent = table.item("agent").and_then(|item| item.name(AgentName::parse));
    let key = table.item("key").and_then(|item| names.secret(&item));
    Some(AapSpec { url: url?, agent, key })
}
