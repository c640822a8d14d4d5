//! Tools: what an agent asks for within what was agreed to.

use serde_json::Value;

use super::places::{self, Difference, Differences, Which};
use super::read::{Side, Tool};
use super::reduce::{Reduced, same_but_words};
use super::scopes::{is_display, or_default};
use super::tombstones::Tombstones;
use super::{Change, ChangeRule, NoticeRule, Report};
use crate::json::pointer;
use crate::judge::schema::{self, Budget, SchemaFinding, SchemaRule};
use crate::manifest::DEFAULT_TIMEOUT;

pub(super) fn compare(old: &Side<'_>, new: &Side<'_>, tombstones: &mut Tombstones<'_>, report: &mut Report) {
    let shares = Shares::of(old, new, report);
    for tool in &new.tools {
        let before = old.tool(tool.name).copied();
        let gone = if before.is_none() { tombstones.tool(tool.name) } else { None };
        undeclared(old, new, before.as_ref(), tool, report);
        match (before, gone) {
            (Some(before), _) => both(&before, tool, &shares, report),
            (None, Some(last)) => {
                added(NoticeRule::ToolReadded, tool, report);
                both(&last, tool, &shares, report);
            }
            (None, None) => added(NoticeRule::ToolAdded, tool, report),
        }
    }
    for tool in old.tools.iter().filter(|tool| new.tool(tool.name).is_none()) {
        removed(tool, report);
    }
}

fn added(rule: NoticeRule, tool: &Tool<'_>, report: &mut Report) {
    let change = Change { new: Some(tool.name.into()), ..Change::at(&tool.place()) };
    report.notice(rule, change.scope(tool.scope).tool(tool.name));
}

pub(super) fn removed(tool: &Tool<'_>, report: &mut Report) {
    let change = Change { old: Some(tool.name.into()), ..Change::at(&tool.place()) };
    report.notice(NoticeRule::ToolRemoved, change.scope(tool.scope).tool(tool.name));
}

/// Nobody can have agreed to a scope that is not declared.
fn undeclared(old: &Side<'_>, new: &Side<'_>, before: Option<&Tool<'_>>, tool: &Tool<'_>, report: &mut Report) {
    let as_before = before.is_some_and(|before| before.scope == tool.scope) && old.scope(tool.scope).is_none();
    if new.scope(tool.scope).is_some() || as_before {
        return;
    }
    let change = Change { new: Some(tool.scope.into()), ..Change::at(&pointer(&tool.place(), "permission_scope")) };
    report.finding(ChangeRule::ScopeUndeclared, change.scope(tool.scope).tool(tool.name));
}

fn both(old: &Tool<'_>, new: &Tool<'_>, shares: &Shares, report: &mut Report) {
    if old.fields == new.fields {
        return;
    }
    let names = old.fields.keys().chain(new.fields.keys().filter(|name| !old.fields.contains_key(*name)));
    for name in names {
        let (before, after) = (old.fields.get(name), new.fields.get(name));
        if before == after {
            continue;
        }
        let change = Change::of(pointer(&new.place(), name), before, after).scope(new.scope).tool(new.name);
        let same = |default: Value| or_default(before, &default) == or_default(after, &default);
        match name.as_str() {
            "name" => {}
            "input_schema" => input(old, new, shares.one(new), report),
            "permission_scope" => report.finding(ChangeRule::ToolMoved, change),
            "timeout_ms" if same(DEFAULT_TIMEOUT.as_secs().saturating_mul(1000).into()) => {}
            "timeout_ms" => report.notice(NoticeRule::TimeoutChanged, change),
            "required" if same(false.into()) => {}
            "required" => report.notice(NoticeRule::ToolRequiredChanged, change),
            name if is_display(name) => report.notice(NoticeRule::DisplayTextChanged, change),
            _ => report.notice(NoticeRule::FieldChanged, change),
        }
    }
}

/// The arguments a tool takes: what changed by the letter, what it no longer takes, what is new.
fn input(old: &Tool<'_>, new: &Tool<'_>, budget: Budget, report: &mut Report) {
    let reduced = Reduced::of(old.input, new.input);
    let (before, after) = (reduced.old.as_ref(), reduced.new.as_ref());
    let Differences { types, notices, exhausted } = places::compare(before, after);
    let (narrowed, widened) = if same_but_words(before, after) {
        (Vec::new(), Vec::new())
    } else {
        (schema::compare(before, after, budget).findings, schema::compare(after, before, budget).findings)
    };
    let at = |change: Difference, witness: Option<Value>| at_tool(old, new, change, witness);
    if types.is_empty() && notices.is_empty() && narrowed.is_empty() && widened.is_empty() && !exhausted {
        return report.notice(NoticeRule::InputRewritten, at(Difference::new_at(""), None));
    }
    let mut narrowed: Vec<_> = narrowed.into_iter().map(|finding| told(finding, &reduced, old, new)).collect();
    for change in types {
        // The same place seen by both: the letter's rule, with the proof.
        let proof = narrowed.iter().position(|(_, known, _)| known.pointer == change.pointer);
        let witness = proof.and_then(|index| narrowed.remove(index).2);
        report.finding(ChangeRule::TypeChanged, at(change, witness));
    }
    for (rule, change, witness) in narrowed {
        report.finding(ChangeRule::Schema(rule), at(change, witness));
    }
    if exhausted {
        report.finding(ChangeRule::Schema(SchemaRule::Unknown), at(Difference::new_at(""), None));
    }
    for (rule, change) in notices {
        report.notice(rule, at(change, None));
    }
    for finding in widened {
        // Compared the other way round: its old is our new.
        let (_, change, witness) = told(finding, &reduced, new, old);
        let change =
            Difference { pointer: change.pointer, side: change.side.other(), old: change.new, new: change.old };
        report.notice(NoticeRule::InputWidened, at(change, witness));
    }
}

/// What a comparison found, said of the whole schemas.
fn told(
    finding: SchemaFinding,
    reduced: &Reduced<'_>,
    old: &Tool<'_>,
    new: &Tool<'_>,
) -> (SchemaRule, Difference, Option<Value>) {
    let SchemaFinding { rule, pointer, old: mut before, new: mut after, witness } = finding;
    // What is gone stands in the old schema.
    let (side, tool) = if after.is_none() { (Which::Old, old) } else { (Which::New, new) };
    // What was left out belongs to the whole, and to the list of what is required.
    let whole = match pointer.as_str() {
        "" => Some(""),
        place if place.starts_with("/required") => Some("/required"),
        _ => None,
    };
    if let Some(whole) = whole {
        let restored = |part: Value, tool: &Tool<'_>| match part {
            Value::Object(_) | Value::Array(_) => tool.input.pointer(whole).cloned().unwrap_or(part),
            one => one,
        };
        before = before.map(|part| restored(part, old));
        after = after.map(|part| restored(part, new));
    }
    let pointer = reduced.whole_place(pointer, tool.input);
    let witness = witness.map(|witness| reduced.whole_witness(witness));
    (rule, Difference { pointer, side, old: before, new: after }, witness)
}

/// A change within the tool's schema, with its place in the manifest.
fn at_tool<'a>(old: &Tool<'_>, new: &Tool<'a>, change: Difference, witness: Option<Value>) -> Change<'a> {
    let Difference { pointer, side, old: before, new: after } = change;
    let index = match side {
        Which::Old => old.index,
        Which::New => new.index,
    };
    let pointer = format!("/tools/{index}/input_schema{pointer}");
    Change { pointer, old: before, new: after, witness, scope: Some(new.scope), tool: Some(new.name) }
}

/// A part of the work for every tool whose arguments changed, by how much there is to compare; so that many hostile
/// schemas cost no more than one.
struct Shares {
    whole: usize,
    weight: usize,
}

impl Shares {
    /// What ordinary schemas need, and everyone has.
    const LEAST: usize = 10_000;

    fn of(old: &Side<'_>, new: &Side<'_>, report: &Report) -> Self {
        let changed = new.tools.iter().filter(|tool| old.tool(tool.name).is_none_or(|old| old.input != tool.input));
        Self { whole: report.policy.budget.steps(), weight: changed.map(|tool| weight(tool.input)).sum() }
    }

    fn one(&self, tool: &Tool<'_>) -> Budget {
        let share = self.whole.saturating_mul(weight(tool.input)) / self.weight.max(1);
        Budget::new(share.max(Self::LEAST).min(self.whole))
    }
}

fn weight(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(map) => map.values().map(weight).sum(),
        _ => 0,
    }
}
