//! The `tools` of a manifest.

use std::time::Duration;

use serde_json::Value;

use super::display_text::{self, DisplayTextKind};
use super::fault::{ManifestFindings, ManifestRule, ManifestWarningRule};
use super::presets::ScopePresets;
use super::read::{LocatedJsonArray, LocatedJsonObject, quote_value};
use super::{DEFAULT_TIMEOUT, MAX_TIMEOUT, ManifestTool, input};
use crate::ids::{ScopeId, ToolName};

const TOOL_FIELDS: [&str; 7] = [
    "name",
    "description_i18n_key",
    "description_fallback",
    "input_schema",
    "permission_scope",
    "required",
    "timeout_ms",
];

pub(super) fn read(
    list: &LocatedJsonArray<'_>,
    declared: &[&str],
    presets: &ScopePresets,
    notes: &mut ManifestFindings,
) -> Option<Vec<ManifestTool>> {
    let repeated = (ManifestRule::ToolDuplicate, "is already the name of a tool above; choose another");
    list.read_unique("name", repeated, notes, |value, location, notes| tool(value, location, declared, presets, notes))
}

fn tool(
    value: &Value,
    location: String,
    declared: &[&str],
    presets: &ScopePresets,
    notes: &mut ManifestFindings,
) -> Option<ManifestTool> {
    let fields = LocatedJsonObject::of(value, location, "a tool", notes)?;
    let name = name(&fields, notes);
    let description_i18n_key = fields.i18n_key("description_i18n_key", notes);
    let description_fallback =
        display_text::fallback(&fields, "description_fallback", DisplayTextKind::Sentence, notes);
    let input = fields.required("input_schema", notes);
    let input = input.and_then(|schema| input::read(schema, &fields.at("input_schema"), notes));
    let scope = scope(&fields, declared, notes);
    let required = if fields.map.contains_key("required") { fields.truth("required", notes) } else { Some(false) };
    let timeout = timeout(&fields, notes);
    if let Some(key) = &description_i18n_key
        && !fields.map.contains_key("description_fallback")
        && !presets.has_text(key)
    {
        let message = "is missing: a client whose bundle does not have this key cannot describe the tool".to_owned();
        notes.warn(ManifestWarningRule::DescriptionFallback, &fields.at("description_fallback"), message);
    }
    fields.unknown(&TOOL_FIELDS, notes);
    Some(ManifestTool {
        name: name?,
        description_i18n_key: description_i18n_key?,
        description_fallback,
        input: input?,
        scope: scope?,
        required: required?,
        timeout: timeout?,
    })
}

/// Whether a device tool's name matches `^[a-z][a-z0-9_]{1,31}$`, which is narrower than other protocols allow.
pub fn is_device_tool_name(name: &str) -> bool {
    (2..=32).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn name(fields: &LocatedJsonObject<'_>, notes: &mut ManifestFindings) -> Option<ToolName> {
    let text = fields.text("name", notes)?;
    let name = ToolName::parse(text).ok().filter(|_| is_device_tool_name(text));
    if name.is_none() {
        let message = format!(
            "must be 2 to 32 lower-case letters, digits and underscores, beginning with a letter, found {}",
            quote_value(&Value::from(text))
        );
        notes.fault(ManifestRule::ToolName, &fields.at("name"), message);
    }
    name
}

fn scope(fields: &LocatedJsonObject<'_>, declared: &[&str], notes: &mut ManifestFindings) -> Option<ScopeId> {
    let text = fields.text("permission_scope", notes)?;
    if !declared.contains(&text) {
        let message = format!("{} is not declared; add it to permission_scopes", quote_value(&Value::from(text)));
        notes.fault(ManifestRule::ScopeUndeclared, &fields.at("permission_scope"), message);
    }
    // An invalid scope id is reported where the scope is declared.
    ScopeId::parse(text).ok()
}

fn timeout(fields: &LocatedJsonObject<'_>, notes: &mut ManifestFindings) -> Option<Duration> {
    let Some(value) = fields.map.get("timeout_ms") else { return Some(DEFAULT_TIMEOUT) };
    let found = value.as_u64().map(Duration::from_millis).filter(|time| !time.is_zero() && *time <= MAX_TIMEOUT);
    if found.is_none() {
        let most = MAX_TIMEOUT.as_millis();
        let message = format!("must be a whole number of milliseconds from 1 to {most}, found {}", quote_value(value));
        notes.fault(ManifestRule::Timeout, &fields.at("timeout_ms"), message);
    }
    found
}
