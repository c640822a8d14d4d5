//! Rules about changed tools, which an agent uses within the scopes that people consented to.

use nuncio_core::json::pointer;
use nuncio_core::manifest::DEFAULT_TIMEOUT;
use serde_json::Value;

use super::arguments::{AcceptanceChanges, ComparisonCache, SchemaPair};
use super::earlier_manifests::EarlierManifests;
use super::locations::{self, OldOrNewSchema, SchemaDifference, SchemaDifferences};
use super::read::{ManifestToolEntry, ParsedManifest};
use super::reduce::{ReducedSchemas, differs_only_in_annotations};
use super::scopes::is_display;
use super::{BreakingChangeRule, ManifestDifference, NonBreakingChangeRule, VerdictBuilder};
use crate::schema::{ComparisonBudget, NarrowingRule, RemainingComparisonBudget, SchemaNarrowing};

pub(super) fn compare<'a>(
    old: &ParsedManifest<'a>,
    new: &ParsedManifest<'a>,
    earlier_manifests: &mut EarlierManifests<'a>,
    report: &mut VerdictBuilder,
) {
    let shares = ComparisonBudgetShares::of(old, new, report);
    let mut compared = ComparisonCache::default();
    for tool in &new.tools {
        let before = old.tool(tool.name).copied();
        let removed_before = if before.is_none() { earlier_manifests.tool(tool.name) } else { None };
        undeclared(old, new, before.as_ref(), tool, report);
        match (before, removed_before) {
            (Some(before), _) => both(&before, tool, &shares, &mut compared, report),
            (None, Some(last)) => {
                added(NonBreakingChangeRule::ToolReadded, tool, report);
                both(&last, tool, &shares, &mut compared, report);
            }
            (None, None) => added(NonBreakingChangeRule::ToolAdded, tool, report),
        }
    }
    for tool in old.tools.iter().filter(|tool| new.tool(tool.name).is_none()) {
        removed(tool, report);
    }
}

fn added(rule: NonBreakingChangeRule, tool: &ManifestToolEntry<'_>, report: &mut VerdictBuilder) {
    let change = ManifestDifference { new: Some(tool.name.into()), ..ManifestDifference::at(&tool.pointer()) };
    report.notice(rule, change.scope(tool.scope).tool(tool.name));
}

pub(super) fn removed(tool: &ManifestToolEntry<'_>, report: &mut VerdictBuilder) {
    let change = ManifestDifference { old: Some(tool.name.into()), ..ManifestDifference::at(&tool.pointer()) };
    report.notice(NonBreakingChangeRule::ToolRemoved, change.scope(tool.scope).tool(tool.name));
}

/// Reports a tool that needs an undeclared scope, to which people cannot have consented.
fn undeclared(
    old: &ParsedManifest<'_>,
    new: &ParsedManifest<'_>,
    before: Option<&ManifestToolEntry<'_>>,
    tool: &ManifestToolEntry<'_>,
    report: &mut VerdictBuilder,
) {
    let as_before = before.is_some_and(|before| before.scope == tool.scope) && old.scope(tool.scope).is_none();
    if new.scope(tool.scope).is_some() || as_before {
        return;
    }
    let change = ManifestDifference {
        new: Some(tool.scope.into()),
        ..ManifestDifference::at(&pointer(&tool.pointer(), "permission_scope"))
    };
    report.finding(BreakingChangeRule::ScopeUndeclared, change.scope(tool.scope).tool(tool.name));
}

fn both<'a>(
    old: &ManifestToolEntry<'a>,
    new: &ManifestToolEntry<'a>,
    shares: &ComparisonBudgetShares,
    compared: &mut ComparisonCache<'a>,
    report: &mut VerdictBuilder,
) {
    if old.fields == new.fields {
        return;
    }
    let names = old.fields.keys().chain(new.fields.keys().filter(|name| !old.fields.contains_key(*name)));
    for name in names {
        let (before, after) = (old.fields.get(name), new.fields.get(name));
        if before == after {
            continue;
        }
        let change =
            || ManifestDifference::of(pointer(&new.pointer(), name), before, after).scope(new.scope).tool(new.name);
        let same = |default: Value| before.unwrap_or(&default) == after.unwrap_or(&default);
        match name.as_str() {
            "name" => {}
            "input_schema" => input(old, new, shares.one(new), compared, report),
            "permission_scope" => report.finding(BreakingChangeRule::ToolMoved, change()),
            "timeout_ms" if same(DEFAULT_TIMEOUT.as_secs().saturating_mul(1000).into()) => {}
            "timeout_ms" => report.notice(NonBreakingChangeRule::TimeoutChanged, change()),
            "required" if same(false.into()) => {}
            "required" => report.notice(NonBreakingChangeRule::ToolRequiredChanged, change()),
            name if is_display(name) => report.notice(NonBreakingChangeRule::DisplayTextChanged, change()),
            _ => report.notice(NonBreakingChangeRule::FieldChanged, change()),
        }
    }
}

/// Compares the arguments of a tool and reports changed types, calls no longer accepted, and calls newly accepted.
fn input<'a>(
    old: &ManifestToolEntry<'a>,
    new: &ManifestToolEntry<'a>,
    budget: ComparisonBudget,
    compared: &mut ComparisonCache<'a>,
    report: &mut VerdictBuilder,
) {
    let reduced = ReducedSchemas::of(old.input, new.input);
    let (before, after) = (reduced.old.as_ref(), reduced.new.as_ref());
    let SchemaDifferences { types, notices, exhausted } = locations::compare(before, after);
    let AcceptanceChanges { narrowed, widened } = if differs_only_in_annotations(before, after) {
        AcceptanceChanges::default()
    } else {
        compared.refusals(
            SchemaPair { old: old.input, new: new.input },
            &reduced,
            RemainingComparisonBudget::from(budget),
        )
    };
    let at = |change: SchemaDifference, witness: Option<Value>| at_tool(old, new, change, witness);
    if types.is_empty() && notices.is_empty() && narrowed.is_empty() && widened.is_empty() && !exhausted {
        return report.notice(NonBreakingChangeRule::InputRewritten, at(SchemaDifference::new_at(""), None));
    }
    let mut narrowed: Vec<_> = narrowed.into_iter().map(with_side).collect();
    for change in types {
        // A changed type and a refused call at the same location become one finding with the call as witness.
        let proof = narrowed.iter().position(|(_, known, _)| known.pointer == change.pointer);
        let witness = proof.and_then(|index| narrowed.remove(index).2);
        report.finding(BreakingChangeRule::TypeChanged, at(change, witness));
    }
    for (rule, change, witness) in narrowed {
        report.finding(BreakingChangeRule::Schema(rule), at(change, witness));
    }
    if exhausted {
        report.finding(BreakingChangeRule::Schema(NarrowingRule::Unknown), at(SchemaDifference::new_at(""), None));
    }
    for (rule, change) in notices {
        report.notice(rule, at(change, None));
    }
    for finding in widened {
        // The schemas were compared in reverse, so `old` and `new` are exchanged back.
        let (_, change, witness) = with_side(finding);
        let change =
            SchemaDifference { pointer: change.pointer, side: change.side.other(), old: change.new, new: change.old };
        report.notice(NonBreakingChangeRule::InputWidened, at(change, witness));
    }
}

/// Converts a finding about an input schema and adds whether its pointer is into the old or the new schema.
fn with_side(finding: SchemaNarrowing) -> (NarrowingRule, SchemaDifference, Option<Value>) {
    let SchemaNarrowing { rule, pointer, old, new, witness } = finding;
    // A removed part is in the old schema.
    let side = if new.is_none() { OldOrNewSchema::Old } else { OldOrNewSchema::New };
    (rule, SchemaDifference { pointer, side, old, new }, witness)
}

/// Converts a change in the tool's schema to one of the manifest, with its pointer in the manifest.
fn at_tool<'a>(
    old: &ManifestToolEntry<'_>,
    new: &ManifestToolEntry<'a>,
    change: SchemaDifference,
    witness: Option<Value>,
) -> ManifestDifference<'a> {
    let SchemaDifference { pointer, side, old: before, new: after } = change;
    let index = match side {
        OldOrNewSchema::Old => old.index,
        OldOrNewSchema::New => new.index,
    };
    let pointer = format!("/tools/{index}/input_schema{pointer}");
    ManifestDifference { pointer, old: before, new: after, witness, scope: Some(new.scope), tool: Some(new.name) }
}

/// Divides the budget among the tools with changed arguments, by size, so that many hostile schemas cost no more than
/// a single one.
struct ComparisonBudgetShares {
    whole: usize,
    weight: usize,
}

impl ComparisonBudgetShares {
    /// Smallest budget of a tool, enough for ordinary schemas.
    const LEAST: usize = 10_000;

    fn of(old: &ParsedManifest<'_>, new: &ParsedManifest<'_>, report: &VerdictBuilder) -> Self {
        let changed = new.tools.iter().filter(|tool| old.tool(tool.name).is_none_or(|old| old.input != tool.input));
        Self { whole: report.policy.budget.steps(), weight: changed.map(|tool| weight(tool.input)).sum() }
    }

    fn one(&self, tool: &ManifestToolEntry<'_>) -> ComparisonBudget {
        let share = self.whole.saturating_mul(weight(tool.input)) / self.weight.max(1);
        ComparisonBudget::new(share.max(Self::LEAST).min(self.whole))
    }
}

/// Size of a schema, by which the budget is divided: its number of JSON values.
pub(super) fn weight(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(map) => map.values().map(weight).sum(),
        _ => 0,
    }
}
