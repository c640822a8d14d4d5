//! `[brain]`: how it thinks.

use super::intents;
use super::names::Names;
use super::reader::Table;
use super::templates::{self, Use};
use crate::agent::{BrainSpec, RulesSpec};

#[derive(Clone, Copy)]
enum Kind {
    Rules,
    Script,
}

/// Without `[brain]` an agent thinks by rules.
pub(super) fn read(root: &Table<'_>, names: &Names<'_>) -> Option<BrainSpec> {
    let Some(table) = root.table("brain") else {
        return Some(rules(root, names, RulesSpec::default()));
    };
    let kind = table.choice("kind", &[("rules", Kind::Rules), ("script", Kind::Script)]);
    let brain = match kind {
        Some(Kind::Script) => {
            table.refuse("fallback", r#"only a brain of kind "rules" has a fallback"#);
            root.refuse("intent", r#"only a brain of kind "rules" has intents"#);
            BrainSpec::Script
        }
        Some(Kind::Rules) | None => {
            let fallback = table.item("fallback").and_then(|item| templates::read(&item, Use::Said, names));
            rules(root, names, RulesSpec { fallback, intents: Vec::new() })
        }
    };
    table.finish();
    kind.map(|_| brain)
}

fn rules(root: &Table<'_>, names: &Names<'_>, mut rules: RulesSpec) -> BrainSpec {
    rules.intents = intents::read(root, names);
    if !root.has("intent") {
        let spot = root.key_spot("brain").unwrap_or_else(|| root.spot.here("brain"));
        spot.note("it understands nothing", "a rules brain needs [[intent]] sections");
    }
    BrainSpec::Rules(rules)
}
