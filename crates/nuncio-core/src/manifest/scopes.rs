//! The `permission_scopes` of a manifest.

use serde_json::Value;

use super::display_text::{self, DisplayTextKind};
use super::fault::{ManifestFindings, ManifestRule};
use super::presets::ScopePresets;
use super::read::{LocatedJsonArray, LocatedJsonObject, quote_value};
use super::{ManifestScope, RESERVED_PREFIXES};
use crate::agent::Sensitivity;
use crate::ids::ScopeId;

const SCOPE_FIELDS: [&str; 6] =
    ["id", "label_i18n_key", "description_i18n_key", "label_fallback", "description_fallback", "sensitivity"];

pub(super) fn read(
    list: &LocatedJsonArray<'_>,
    presets: &ScopePresets,
    notes: &mut ManifestFindings,
) -> Option<Vec<ManifestScope>> {
    let repeated = (ManifestRule::ScopeDuplicate, "is already declared above; keep one");
    list.read_unique("id", repeated, notes, |value, location, notes| scope(value, location, presets, notes))
}

fn scope(
    value: &Value,
    location: String,
    presets: &ScopePresets,
    notes: &mut ManifestFindings,
) -> Option<ManifestScope> {
    let fields = LocatedJsonObject::of(value, location, "a scope", notes)?;
    let id = id(&fields, notes);
    let label_i18n_key = fields.i18n_key("label_i18n_key", notes);
    let description_i18n_key = fields.i18n_key("description_i18n_key", notes);
    let label_fallback = display_text::fallback(&fields, "label_fallback", DisplayTextKind::Label, notes);
    let description_fallback =
        display_text::fallback(&fields, "description_fallback", DisplayTextKind::Sentence, notes);
    let sensitivity = sensitivity(&fields, notes);
    if let Some(id) = &id {
        words_missing(id, &fields, presets, notes);
        below_floor(id, sensitivity, &fields, presets, notes);
    }
    fields.unknown(&SCOPE_FIELDS, notes);
    Some(ManifestScope {
        id: id?,
        label_i18n_key: label_i18n_key?,
        description_i18n_key: description_i18n_key?,
        label_fallback,
        description_fallback,
        sensitivity: sensitivity?,
    })
}

fn id(fields: &LocatedJsonObject<'_>, notes: &mut ManifestFindings) -> Option<ScopeId> {
    let text = fields.text("id", notes)?;
    if is_reserved(text) {
        let message =
            format!("{} is reserved for the platform; choose another domain", quote_value(&Value::from(text)));
        notes.fault(ManifestRule::ScopeReserved, &fields.at("id"), message);
        return None;
    }
    ScopeId::parse(text).map_err(|why| notes.fault(ManifestRule::ScopeId, &fields.at("id"), why.to_string())).ok()
}

/// Whether a scope id has a prefix reserved for the platform, ignoring case.
pub(super) fn is_reserved(id: &str) -> bool {
    let id = id.to_ascii_lowercase();
    RESERVED_PREFIXES.iter().any(|prefix| id.starts_with(prefix))
}

fn sensitivity(fields: &LocatedJsonObject<'_>, notes: &mut ManifestFindings) -> Option<Sensitivity> {
    let value = fields.required("sensitivity", notes)?;
    let found = value.as_str().and_then(Sensitivity::parse);
    if found.is_none() {
        let message = format!("must be \"low\", \"medium\" or \"high\", found {}", quote_value(value));
        notes.fault(ManifestRule::Sensitivity, &fields.at("sensitivity"), message);
    }
    found
}

/// Reports a scope without texts, because the person who decides must be able to read about it.
fn words_missing(id: &ScopeId, fields: &LocatedJsonObject<'_>, presets: &ScopePresets, notes: &mut ManifestFindings) {
    if presets.scope(id.as_str()).is_some() {
        return;
    }
    for name in ["label_fallback", "description_fallback"] {
        if !fields.map.contains_key(name) {
            let message = format!("must be present: {id} is not a preset scope, so clients have no text for it");
            notes.fault(ManifestRule::FallbackMissing, &fields.at(name), message);
        }
    }
}

fn below_floor(
    id: &ScopeId,
    found: Option<Sensitivity>,
    fields: &LocatedJsonObject<'_>,
    presets: &ScopePresets,
    notes: &mut ManifestFindings,
) {
    let (Some(found), Some(floor)) = (found, presets.floor(id.as_str())) else { return };
    if found < floor {
        let message = format!("{id} must be at least \"{floor}\", found \"{found}\"");
        notes.fault(ManifestRule::SensitivityBelowFloor, &fields.at("sensitivity"), message);
    }
}
