//! Rules about scopes: what a person consented to.

use nuncio_core::json::pointer;
use serde_json::Value;

use super::read::{ParsedManifest, Scope};
use super::tombstones::Tombstones;
use super::{Change, ChangeRule, NoticeRule, Report};

pub(super) fn compare(
    old: &ParsedManifest<'_>,
    new: &ParsedManifest<'_>,
    tombstones: &mut Tombstones<'_>,
    report: &mut Report,
) {
    for scope in &new.scopes {
        match old.scope(scope.name) {
            Some(before) => both(before, scope, report),
            None => added(scope, tombstones, report),
        }
    }
    for scope in old.scopes.iter().filter(|scope| new.scope(scope.name).is_none()) {
        removed(scope, report);
    }
}

fn added(scope: &Scope<'_>, tombstones: &mut Tombstones<'_>, report: &mut Report) {
    let known = tombstones.scope(scope.name).is_some();
    let rule = if known { ChangeRule::ScopeReadded } else { ChangeRule::ScopeAdded };
    let change = Change { new: Some(scope.name.into()), ..Change::at(&scope.place()) };
    report.finding(rule, change.scope(scope.name));
}

pub(super) fn removed(scope: &Scope<'_>, report: &mut Report) {
    let change = Change { old: Some(scope.name.into()), ..Change::at(&scope.place()) };
    report.notice(NoticeRule::ScopeRemoved, change.scope(scope.name));
}

fn both(old: &Scope<'_>, new: &Scope<'_>, report: &mut Report) {
    if old.fields == new.fields {
        return;
    }
    let names = old.fields.keys().chain(new.fields.keys().filter(|name| !old.fields.contains_key(*name)));
    for name in names {
        let (before, after) = (old.fields.get(name), new.fields.get(name));
        if before == after {
            continue;
        }
        let change = Change::of(pointer(&new.place(), name), before, after).scope(new.name);
        match name.as_str() {
            "sensitivity" if new.sensitivity > old.sensitivity => {
                report.finding(ChangeRule::SensitivityRaised, change);
            }
            "sensitivity" => report.notice(NoticeRule::SensitivityLowered, change),
            name if is_display(name) => report.notice(NoticeRule::DisplayTextChanged, change),
            _ => report.notice(NoticeRule::FieldChanged, change),
        }
    }
}

/// Whether a field of a scope is text that people read.
pub(super) fn is_display(name: &str) -> bool {
    ["_i18n_key", "_fallback"].iter().any(|end| name.ends_with(end))
        || matches!(name, "label" | "description" | "title")
}

/// A field of a scope, or its default if absent.
pub(super) fn or_default<'a>(value: Option<&'a Value>, default: &'a Value) -> &'a Value {
    value.unwrap_or(default)
}
