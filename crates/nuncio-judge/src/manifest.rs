//! Comparison of two manifests: which changes need new consent, by the table of the A2H specification (§2.5).

use std::borrow::Cow;

use serde_json::{Value, json};

use super::verdict::{
    BreakingChangeFinding, BreakingChangeRule, ChangeJudgingPolicy, ManifestChangeVerdict, NonBreakingChangeNotice,
    NonBreakingChangeRule,
};

mod arguments;
mod earlier_manifests;
mod locations;
mod read;
mod reduce;
mod sample;
mod schema_index;
mod scopes;
mod tools;

use earlier_manifests::EarlierManifests;
use read::{ParsedManifest, UnreadableManifest};

/// Judges the change from `old` to `new`; `None` or null means no manifest. `history` has the agent's earlier
/// manifests, oldest first, so that a tool or scope that was removed and added again is compared with its earlier form.
#[must_use]
pub fn manifests(
    old: Option<&Value>,
    new: Option<&Value>,
    history: &[Value],
    policy: &ChangeJudgingPolicy,
) -> ManifestChangeVerdict {
    let mut report = VerdictBuilder::new(*policy);
    let [old, new] = [old, new].map(|side| side.filter(|manifest| !manifest.is_null()).map(with_typed_arguments));
    let (old, new) = (old.as_deref(), new.as_deref());
    let history: Vec<Value> = history.iter().map(|earlier| with_typed_arguments(earlier).into_owned()).collect();
    match (old.map(ParsedManifest::read).transpose(), new.map(ParsedManifest::read).transpose()) {
        (Ok(None), Ok(None)) => {}
        (Ok(Some(_)), Ok(Some(_))) if old == new => {}
        (Ok(Some(old)), Ok(Some(new))) => both(&old, &new, &history, &mut report),
        (Ok(None), Ok(Some(new))) => added(&new, &mut report),
        (Ok(Some(old)), Ok(None)) => cleared(&old, &mut report),
        (Err(why), _) => unreadable(&why, old, new, ManifestSide::Old, &mut report),
        (_, Err(why)) => unreadable(&why, old, new, ManifestSide::New, &mut report),
    }
    report.verdict
}

/// The manifest with `"type": "object"` in input schemas without a type, because arguments are always an object: with
/// and without it a tool accepts the same calls.
fn with_typed_arguments(manifest: &Value) -> Cow<'_, Value> {
    let is_untyped = |tool: &Value| tool["input_schema"].as_object().is_some_and(|input| !input.contains_key("type"));
    let mut manifest = Cow::Borrowed(manifest);
    if manifest["tools"].as_array().is_some_and(|tools| tools.iter().any(is_untyped)) {
        let tools = manifest.to_mut()["tools"].as_array_mut().into_iter().flatten();
        for tool in tools.filter(|tool| is_untyped(tool)) {
            tool["input_schema"]["type"] = json!("object");
        }
    }
    manifest
}

fn both<'a>(old: &ParsedManifest<'a>, new: &ParsedManifest<'a>, history: &'a [Value], report: &mut VerdictBuilder) {
    let mut earlier_manifests = EarlierManifests::new(history);
    header(old, new, report);
    scopes::compare(old, new, &mut earlier_manifests, report);
    tools::compare(old, new, &mut earlier_manifests, report);
    for why in earlier_manifests.unread() {
        let change = ManifestDifference { old: Some(why.found.clone()), ..ManifestDifference::at("") };
        everywhere(new.scopes.iter().map(|scope| scope.name), BreakingChangeRule::Unreadable, &change, report);
    }
}

/// Compares the fields of two manifests other than tools and scopes.
fn header(old: &ParsedManifest<'_>, new: &ParsedManifest<'_>, report: &mut VerdictBuilder) {
    let names = old.root.keys().chain(new.root.keys().filter(|name| !old.root.contains_key(*name)));
    for name in names.filter(|name| !matches!(name.as_str(), "tools" | "permission_scopes")) {
        let (before, after) = (old.root.get(name), new.root.get(name));
        if before == after {
            continue;
        }
        let change = ManifestDifference::of(nuncio_core::json::pointer("", name), before, after);
        match name.as_str() {
            "schema_version" => {
                let scopes = new.scopes.iter().map(|scope| scope.name);
                everywhere(scopes, BreakingChangeRule::SchemaVersionChanged, &change, report);
            }
            "agent_version" => report.notice(NonBreakingChangeRule::AgentVersionChanged, change),
            "capability_flags" => flags(before, after, report),
            _ => report.notice(NonBreakingChangeRule::FieldChanged, change),
        }
    }
}

fn flags(old: Option<&Value>, new: Option<&Value>, report: &mut VerdictBuilder) {
    let location = "/capability_flags";
    let none = serde_json::Map::new();
    let map = |value: Option<&Value>| value.map_or(Some(none.clone()), |value| value.as_object().cloned());
    let (Some(before), Some(after)) = (map(old), map(new)) else {
        return report
            .notice(NonBreakingChangeRule::FlagChanged, ManifestDifference::of(location.to_owned(), old, new));
    };
    for name in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
        if before.get(name) != after.get(name) {
            let change =
                ManifestDifference::of(nuncio_core::json::pointer(location, name), before.get(name), after.get(name));
            report.notice(NonBreakingChangeRule::FlagChanged, change);
        }
    }
}

/// Reports a first manifest, to which no person has consented yet.
fn added(new: &ParsedManifest<'_>, report: &mut VerdictBuilder) {
    if new.scopes.is_empty() {
        report.finding(BreakingChangeRule::ManifestAdded, ManifestDifference::at(""));
    }
    for scope in &new.scopes {
        let change = ManifestDifference {
            new: Some(scope.name.into()),
            scope: Some(scope.name),
            ..ManifestDifference::at(&scope.pointer())
        };
        report.finding(BreakingChangeRule::ManifestAdded, change);
    }
}

fn cleared(old: &ParsedManifest<'_>, report: &mut VerdictBuilder) {
    report.notice(NonBreakingChangeRule::ManifestCleared, ManifestDifference::at(""));
    old.tools.iter().for_each(|tool| tools::removed(tool, report));
    old.scopes.iter().for_each(|scope| scopes::removed(scope, report));
}

/// Selects the old or the new manifest.
#[derive(Clone, Copy)]
enum ManifestSide {
    Old,
    New,
}

/// Reports an unreadable manifest: every scope that people could have consented to needs new consent.
fn unreadable(
    why: &UnreadableManifest<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    side: ManifestSide,
    report: &mut VerdictBuilder,
) {
    let found = Some(why.found.clone());
    let (before, after) = match side {
        ManifestSide::Old => (found, None),
        ManifestSide::New => (None, found),
    };
    let change = ManifestDifference { old: before, new: after, ..ManifestDifference::at(&why.location) };
    let scopes: Vec<&str> = [old, new].into_iter().flatten().flat_map(read::scope_names).collect();
    everywhere(scopes.into_iter(), BreakingChangeRule::Unreadable, &change, report);
}

/// Reports a change as one finding per scope, or as one without a scope if there are no scopes.
fn everywhere<'a>(
    scopes: impl Iterator<Item = &'a str>,
    rule: BreakingChangeRule,
    change: &ManifestDifference<'_>,
    report: &mut VerdictBuilder,
) {
    let scopes: std::collections::BTreeSet<&str> = scopes.collect();
    if scopes.is_empty() {
        report.finding(rule, change.clone());
    }
    for scope in scopes {
        report.finding(rule, ManifestDifference { scope: Some(scope), ..change.clone() });
    }
}

/// A change of the manifest to which no rule is assigned yet.
#[derive(Debug, Clone, Default)]
struct ManifestDifference<'a> {
    pointer: String,
    old: Option<Value>,
    new: Option<Value>,
    witness: Option<Value>,
    scope: Option<&'a str>,
    tool: Option<&'a str>,
}

impl<'a> ManifestDifference<'a> {
    fn at(pointer: &str) -> Self {
        Self { pointer: pointer.to_owned(), ..Self::default() }
    }

    fn of(pointer: String, old: Option<&Value>, new: Option<&Value>) -> Self {
        Self { pointer, old: old.cloned(), new: new.cloned(), ..Self::default() }
    }

    fn scope(self, scope: &'a str) -> Self {
        Self { scope: Some(scope), ..self }
    }

    fn tool(self, tool: &'a str) -> Self {
        Self { tool: Some(tool), ..self }
    }
}

struct VerdictBuilder {
    policy: ChangeJudgingPolicy,
    verdict: ManifestChangeVerdict,
}

impl VerdictBuilder {
    fn new(policy: ChangeJudgingPolicy) -> Self {
        Self { policy, verdict: ManifestChangeVerdict::default() }
    }

    fn finding(&mut self, rule: BreakingChangeRule, change: ManifestDifference<'_>) {
        let ManifestDifference { pointer, old, new, witness, scope, tool } = change;
        self.verdict.breaking = true;
        self.verdict.scopes_requiring_reauth.extend(scope.map(str::to_owned));
        let (scope, tool) = (scope.map(str::to_owned), tool.map(str::to_owned));
        self.verdict.findings.push(BreakingChangeFinding { rule, pointer, old, new, witness, scope, tool });
    }

    fn notice(&mut self, rule: NonBreakingChangeRule, change: ManifestDifference<'_>) {
        match rule.widening() {
            Some(finding) if self.policy.reauth_on_widening => self.finding(finding, change),
            _ => {
                let ManifestDifference { pointer, old, new, witness, scope, tool } = change;
                let (scope, tool) = (scope.map(str::to_owned), tool.map(str::to_owned));
                self.verdict.notices.push(NonBreakingChangeNotice { rule, pointer, old, new, witness, scope, tool });
            }
        }
    }
}
