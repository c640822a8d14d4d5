//! Parsing of the manifest's outermost fields, and helpers for reading any field.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use semver::Version;
use serde_json::{Map, Number, Value};

use super::fault::{ManifestFindings, ManifestRule, ManifestWarningRule};
use super::presets::ScopePresets;
use super::{MAX_INTEGER, Manifest, SCHEMA_VERSION, scopes, tools};
use crate::json::pointer;
use crate::text::is_i18n_key;

/// Parses a manifest; `None` if a part is missing or wrong, which is recorded as a fault.
pub(super) fn manifest(value: &Value, presets: &ScopePresets, notes: &mut ManifestFindings) -> Option<Manifest> {
    let fields = LocatedJsonObject::of(value, String::new(), "the manifest", notes)?;
    version(&fields, notes);
    let agent_version = agent_version(&fields, notes);
    let tools = fields.list("tools", notes);
    let scopes = fields.list("permission_scopes", notes);
    let scopes = scopes.and_then(|list| scopes::read(&list, presets, notes));
    let declared: Vec<&str> = declared(&fields);
    let tools = tools.and_then(|list| tools::read(&list, &declared, presets, notes));
    let flags = flags(&fields, notes);
    fields.unknown(&["schema_version", "agent_version", "tools", "permission_scopes", "capability_flags"], notes);
    Some(Manifest {
        agent_version: agent_version?,
        tools: tools?,
        scopes: scopes?,
        flags: flags?,
        source: Arc::new(Value::Null),
    })
}

/// Ids of all scopes in the manifest, valid or not, so that an invalid scope is reported once and not for each tool.
fn declared<'a>(fields: &LocatedJsonObject<'a>) -> Vec<&'a str> {
    let scopes = fields.map.get("permission_scopes").and_then(Value::as_array);
    scopes.into_iter().flatten().filter_map(|scope| scope.get("id")?.as_str()).collect()
}

fn version(fields: &LocatedJsonObject<'_>, notes: &mut ManifestFindings) {
    let Some(found) = fields.required("schema_version", notes) else { return };
    if found.as_str() != Some(SCHEMA_VERSION) {
        let message = format!("must be the text {SCHEMA_VERSION:?}, found {}", quote_value(found));
        notes.fault(ManifestRule::SchemaVersion, &fields.at("schema_version"), message);
    }
}

fn agent_version(fields: &LocatedJsonObject<'_>, notes: &mut ManifestFindings) -> Option<Version> {
    let text = fields.text("agent_version", notes)?;
    Version::parse(text)
        .map_err(|why| {
            let message = format!("must be a semantic version such as \"1.0.0\", found {text:?}: {why}");
            notes.fault(ManifestRule::AgentVersion, &fields.at("agent_version"), message);
        })
        .ok()
}

fn flags(fields: &LocatedJsonObject<'_>, notes: &mut ManifestFindings) -> Option<BTreeMap<String, bool>> {
    let Some(value) = fields.map.get("capability_flags") else { return Some(BTreeMap::new()) };
    let flags = LocatedJsonObject::of(value, fields.at("capability_flags"), "capability_flags", notes)?;
    let before = notes.count();
    let flags = flags.map.keys().filter_map(|name| Some((name.clone(), flags.truth(name, notes)?))).collect();
    (notes.count() == before).then_some(flags)
}

/// Reports numbers of the manifest that JSON parsers may read differently.
pub(super) fn numbers(value: &Value, at: &str, notes: &mut ManifestFindings) {
    match value {
        Value::Number(number) if !is_exact(number) => {
            let message = format!(
                "{number} is beyond ±{MAX_INTEGER}, where parsers begin to round; write a smaller number or a text"
            );
            notes.fault(ManifestRule::UnsafeNumber, at, message);
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                numbers(item, &format!("{at}/{index}"), notes);
            }
        }
        Value::Object(map) => map.iter().for_each(|(name, item)| numbers(item, &pointer(at, name), notes)),
        _ => {}
    }
}

fn is_exact(number: &Number) -> bool {
    if let Some(whole) = number.as_i64() {
        return whole.unsigned_abs() <= MAX_INTEGER;
    }
    // 2^53 - 1 has an exact double, and every larger double is an integer.
    !number.is_u64() && number.as_f64().is_some_and(|number| number.abs() <= 9_007_199_254_740_991.0)
}

/// An object of the manifest with its JSON pointer.
pub(super) struct LocatedJsonObject<'a> {
    pub(super) map: &'a Map<String, Value>,
    location: String,
}

impl<'a> LocatedJsonObject<'a> {
    pub(super) fn of(value: &'a Value, location: String, what: &str, notes: &mut ManifestFindings) -> Option<Self> {
        let Some(map) = value.as_object() else {
            notes.fault(
                ManifestRule::WrongType,
                &location,
                format!("{what} must be an object, found {}", quote_value(value)),
            );
            return None;
        };
        Some(Self { map, location })
    }

    /// The JSON pointer of a field of the manifest.
    pub(super) fn at(&self, name: &str) -> String {
        pointer(&self.location, name)
    }

    pub(super) fn required(&self, name: &str, notes: &mut ManifestFindings) -> Option<&'a Value> {
        let found = self.map.get(name);
        if found.is_none() {
            notes.fault(ManifestRule::Missing, &self.at(name), "must be present".to_owned());
        }
        found
    }

    /// Reads a required text of the manifest.
    pub(super) fn text(&self, name: &str, notes: &mut ManifestFindings) -> Option<&'a str> {
        let value = self.required(name, notes)?;
        let text = value.as_str();
        if text.is_none() {
            self.wrong_type(name, "a text", value, notes);
        }
        text
    }

    /// Reads a required translation key of the manifest.
    pub(super) fn i18n_key(&self, name: &str, notes: &mut ManifestFindings) -> Option<String> {
        let text = self.text(name, notes)?;
        if !is_i18n_key(text) {
            let message = format!(
                "must be a key such as \"agent.scope.filesystem_read.label\": 1 to 200 letters, digits, '_', '-' and \
                 '.', found {}",
                quote_value(&self.map[name])
            );
            notes.fault(ManifestRule::I18nKey, &self.at(name), message);
            return None;
        }
        Some(text.to_owned())
    }

    /// Reads an optional boolean of the manifest.
    pub(super) fn truth(&self, name: &str, notes: &mut ManifestFindings) -> Option<bool> {
        let value = self.map.get(name)?;
        if !value.is_boolean() {
            self.wrong_type(name, "true or false", value, notes);
        }
        value.as_bool()
    }

    /// Reads a required list of the manifest with its JSON pointer.
    pub(super) fn list(&self, name: &str, notes: &mut ManifestFindings) -> Option<LocatedJsonArray<'a>> {
        let value = self.required(name, notes)?;
        let Some(items) = value.as_array() else {
            self.wrong_type(name, "a list", value, notes);
            return None;
        };
        Some(LocatedJsonArray { items, location: self.at(name) })
    }

    pub(super) fn wrong_type(&self, name: &str, wanted: &str, found: &Value, notes: &mut ManifestFindings) {
        notes.fault(ManifestRule::WrongType, &self.at(name), format!("must be {wanted}, found {}", quote_value(found)));
    }

    /// Warns about fields of the manifest that are not in `known`.
    pub(super) fn unknown(&self, known: &[&str], notes: &mut ManifestFindings) {
        for name in self.map.keys().filter(|name| !known.contains(&name.as_str())) {
            let message = "is kept, but is not a field of this version of the manifest".to_owned();
            notes.warn(ManifestWarningRule::UnknownField, &self.at(name), message);
        }
    }
}

/// A list of the manifest with its JSON pointer.
pub(super) struct LocatedJsonArray<'a> {
    items: &'a [Value],
    location: String,
}

impl<'a> LocatedJsonArray<'a> {
    /// Reads every item of the list with its JSON pointer; `None` if one has a fault. Two items with the same value of
    /// `key` are a fault.
    pub(super) fn read_unique<T>(
        &self,
        key: &str,
        (rule, repeated): (ManifestRule, &str),
        notes: &mut ManifestFindings,
        mut read: impl FnMut(&'a Value, String, &mut ManifestFindings) -> Option<T>,
    ) -> Option<Vec<T>> {
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for (index, item) in self.items.iter().enumerate() {
            let pointer = format!("{}/{index}", self.location);
            if item.get(key).and_then(Value::as_str).is_some_and(|name| !seen.insert(name)) {
                notes.fault(rule, &format!("{pointer}/{key}"), repeated.to_owned());
            }
            all.push(read(item, pointer, notes));
        }
        all.into_iter().collect()
    }
}

/// A value of the manifest, shortened for a message.
pub(super) fn quote_value(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(text) if text.chars().count() > 60 => {
            format!("{:?}…", text.chars().take(60).collect::<String>())
        }
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}
