//! Rules about changed scopes, which people consented to.

use nuncio_core::json::pointer;

use super::earlier_manifests::EarlierManifests;
use super::read::{ManifestScopeEntry, ParsedManifest};
use super::{BreakingChangeRule, ManifestDifference, NonBreakingChangeRule, VerdictBuilder};

pub(super) fn compare(
    old: &ParsedManifest<'_>,
    new: &ParsedManifest<'_>,
    earlier_manifests: &mut EarlierManifests<'_>,
    report: &mut VerdictBuilder,
) {
    for scope in &new.scopes {
        match old.scope(scope.name) {
            Some(before) => both(before, scope, report),
            None => added(scope, earlier_manifests, report),
        }
    }
    for scope in old.scopes.iter().filter(|scope| new.scope(scope.name).is_none()) {
        removed(scope, report);
    }
}

fn added(scope: &ManifestScopeEntry<'_>, earlier_manifests: &mut EarlierManifests<'_>, report: &mut VerdictBuilder) {
    let known = earlier_manifests.scope(scope.name).is_some();
    let rule = if known { BreakingChangeRule::ScopeReadded } else { BreakingChangeRule::ScopeAdded };
    let change = ManifestDifference { new: Some(scope.name.into()), ..ManifestDifference::at(&scope.pointer()) };
    report.finding(rule, change.scope(scope.name));
}

pub(super) fn removed(scope: &ManifestScopeEntry<'_>, report: &mut VerdictBuilder) {
    let change = ManifestDifference { old: Some(scope.name.into()), ..ManifestDifference::at(&scope.pointer()) };
    report.notice(NonBreakingChangeRule::ScopeRemoved, change.scope(scope.name));
}

fn both(old: &ManifestScopeEntry<'_>, new: &ManifestScopeEntry<'_>, report: &mut VerdictBuilder) {
    if old.fields == new.fields {
        return;
    }
    let names = old.fields.keys().chain(new.fields.keys().filter(|name| !old.fields.contains_key(*name)));
    for name in names {
        let (before, after) = (old.fields.get(name), new.fields.get(name));
        if before == after {
            continue;
        }
        let change = ManifestDifference::of(pointer(&new.pointer(), name), before, after).scope(new.name);
        match name.as_str() {
            "sensitivity" if new.sensitivity > old.sensitivity => {
                report.finding(BreakingChangeRule::SensitivityRaised, change);
            }
            "sensitivity" => report.notice(NonBreakingChangeRule::SensitivityLowered, change),
            name if is_display(name) => report.notice(NonBreakingChangeRule::DisplayTextChanged, change),
            _ => report.notice(NonBreakingChangeRule::FieldChanged, change),
        }
    }
}

/// Whether a field of a scope is a text that people read.
pub(super) fn is_display(name: &str) -> bool {
    ["_i18n_key", "_fallback"].iter().any(|end| name.ends_with(end))
        || matches!(name, "label" | "description" | "title")
}
