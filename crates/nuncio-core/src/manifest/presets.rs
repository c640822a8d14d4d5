//! Preset scopes with translations, and the minimum sensitivity of scopes.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::display_text::{self, DisplayTextKind};
use super::scopes::is_reserved;
use crate::agent::Sensitivity;
use crate::ids::ScopeId;
use crate::text::{TextByLanguage, is_language};

/// The presets included in the program.
const BUILT_IN: &str = include_str!("presets.toml");

/// Preset scopes with their texts, and the minimum sensitivity of scope families.
#[derive(Debug, Clone, PartialEq)]
pub struct ScopePresets {
    scopes: BTreeMap<ScopeId, PresetScope>,
    floors: BTreeMap<ScopePattern, Sensitivity>,
}

/// A preset scope, for which every device has translations.
#[derive(Debug, Clone, PartialEq)]
pub struct PresetScope {
    pub id: ScopeId,
    /// Translation key of the scope's label, for example `agent.scope.filesystem_read.label`.
    pub label_i18n_key: String,
    /// Translation key of the scope's description, for example `agent.scope.filesystem_read.description`.
    pub description_i18n_key: String,
    pub label: TextByLanguage,
    pub description: TextByLanguage,
    /// The minimum sensitivity of the preset scope.
    pub sensitivity: Sensitivity,
}

/// All faults in the operator's additions to the presets; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct PresetFaults(Vec<String>);

impl PresetFaults {
    #[must_use]
    pub fn messages(&self) -> &[String] {
        &self.0
    }
}

impl Default for ScopePresets {
    /// The four built-in scopes and the built-in minimum sensitivities.
    fn default() -> Self {
        let mut presets = Self { scopes: BTreeMap::new(), floors: BTreeMap::new() };
        presets.extend_toml(BUILT_IN).expect("the built-in presets are right, a test reads them");
        presets
    }
}

impl ScopePresets {
    /// Adds an operator's scopes, languages and minimum sensitivities from TOML; adds nothing if any of them is wrong.
    ///
    /// # Errors
    ///
    /// All faults with their positions. A sensitivity may be raised, never lowered.
    pub fn extend_toml(&mut self, text: &str) -> Result<(), PresetFaults> {
        let bundle = toml::from_str(text).map_err(|why| PresetFaults(vec![why.to_string()]))?;
        self.extend(bundle)
    }

    /// [`ScopePresets::extend_toml`] for JSON: `{"scope": […], "floor": […]}`.
    pub fn extend_json(&mut self, text: &str) -> Result<(), PresetFaults> {
        let bundle = serde_json::from_str(text).map_err(|why| PresetFaults(vec![why.to_string()]))?;
        self.extend(bundle)
    }

    #[must_use]
    pub fn scope(&self, id: &str) -> Option<&PresetScope> {
        self.scopes.get(id)
    }

    /// The preset scopes, sorted by id.
    pub fn scopes(&self) -> impl Iterator<Item = &PresetScope> {
        self.scopes.values()
    }

    /// Minimum sensitivity of a scope in a manifest: the higher one of its preset and its scope family; `None` if
    /// neither exists.
    #[must_use]
    pub fn floor(&self, id: &str) -> Option<Sensitivity> {
        let families = self.floors.iter().filter(|(family, _)| family.has(id)).map(|(_, floor)| *floor);
        families.chain(self.scope(id).map(|scope| scope.sensitivity)).max()
    }

    /// Minimum sensitivity of a scope on a device: that in a manifest, and at least `medium` for mutating scopes.
    #[must_use]
    pub fn device_floor(&self, id: &ScopeId) -> Option<Sensitivity> {
        self.floor(id.as_str()).max(id.is_mutating().then_some(Sensitivity::Medium))
    }

    /// The preset translation of a key in `language` or the nearest language; `None` if no preset has the key.
    #[must_use]
    pub fn text(&self, key: &str, language: &str) -> Option<&str> {
        self.local_text(key).map(|text| text.in_language(language))
    }

    #[must_use]
    pub fn has_text(&self, key: &str) -> bool {
        self.local_text(key).is_some()
    }

    fn local_text(&self, key: &str) -> Option<&TextByLanguage> {
        self.scopes.values().find_map(|scope| match key {
            key if key == scope.label_i18n_key => Some(&scope.label),
            key if key == scope.description_i18n_key => Some(&scope.description),
            _ => None,
        })
    }

    fn extend(&mut self, bundle: PresetsDocument) -> Result<(), PresetFaults> {
        let mut faults = Vec::new();
        let mut extended = self.clone();
        for (index, scope) in bundle.scope.into_iter().enumerate() {
            extended.add_scope(
                scope,
                &mut PresetEntryFaults { location: format!("scope {}", index + 1), list: &mut faults },
            );
        }
        for (index, floor) in bundle.floor.into_iter().enumerate() {
            extended.add_floor(
                &floor,
                &mut PresetEntryFaults { location: format!("floor {}", index + 1), list: &mut faults },
            );
        }
        if faults.is_empty() {
            *self = extended;
            return Ok(());
        }
        Err(PresetFaults(faults))
    }

    fn add_scope(&mut self, added: PresetScopeEntry, faults: &mut PresetEntryFaults<'_>) {
        let Some(id) = faults.id(&added.id) else { return };
        faults.texts("label", &added.label, DisplayTextKind::Label);
        faults.texts("description", &added.description, DisplayTextKind::Sentence);
        let before = self.scopes.get(&id);
        let sensitivity = match (added.sensitivity, before.map(|scope| scope.sensitivity)) {
            (Some(new), Some(old)) if new < old => {
                return faults.add("sensitivity", &format!("must not be lowered from \"{old}\" to \"{new}\""));
            }
            (Some(sensitivity), _) | (None, Some(sensitivity)) => sensitivity,
            (None, None) => return faults.add("sensitivity", "must be \"low\", \"medium\" or \"high\""),
        };
        let (label, description) = (before.map(|scope| &scope.label), before.map(|scope| &scope.description));
        let (Some(label), Some(description)) = (merged(label, added.label), merged(description, added.description))
        else {
            return faults.add("label", "and description must both have a text in \"en\" at least");
        };
        let stem = id.as_str().replace([':', '.', '-'], "_");
        let key = |given: Option<String>, old: Option<&String>, part: &str| {
            given.or_else(|| old.cloned()).unwrap_or_else(|| format!("agent.scope.{stem}.{part}"))
        };
        let scope = PresetScope {
            label_i18n_key: key(added.label_i18n_key, before.map(|scope| &scope.label_i18n_key), "label"),
            description_i18n_key: key(
                added.description_i18n_key,
                before.map(|scope| &scope.description_i18n_key),
                "description",
            ),
            id: id.clone(),
            label,
            description,
            sensitivity,
        };
        self.scopes.insert(id, scope);
    }

    fn add_floor(&mut self, added: &PresetFloorEntry, faults: &mut PresetEntryFaults<'_>) {
        let Some(family) = ScopePattern::parse(&added.family) else {
            return faults
                .add("family", "must be a scope such as \"filesystem:write\", or all of a domain: \"shell:*\"");
        };
        match self.floors.get(&family) {
            Some(old) if added.sensitivity < *old => {
                let message = format!("must not be lowered from \"{old}\" to \"{}\"", added.sensitivity);
                faults.add("sensitivity", &message);
            }
            _ => {
                self.floors.insert(family, added.sensitivity);
            }
        }
    }
}

/// Merges translations of a text: new ones override existing ones; `None` if English is missing.
fn merged(old: Option<&TextByLanguage>, new: BTreeMap<String, String>) -> Option<TextByLanguage> {
    let old = old.into_iter().flat_map(TextByLanguage::languages);
    let mut all: BTreeMap<String, String> = old.map(|(tag, text)| (tag.to_owned(), text.to_owned())).collect();
    all.extend(new);
    TextByLanguage::in_languages(all).filter(|text| text.languages().any(|(tag, _)| tag == "en"))
}

/// One scope, or every scope of a domain; in lower case, so that capitals do not bypass a minimum sensitivity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ScopePattern {
    One(String),
    Domain(String),
}

impl ScopePattern {
    fn parse(text: &str) -> Option<Self> {
        let (domain, all) = text.strip_suffix(":*").map_or((text, false), |domain| (domain, true));
        let name = ScopeId::parse(domain).ok()?.as_str().to_ascii_lowercase();
        Some(if all { Self::Domain(name + ":") } else { Self::One(name) })
    }

    fn has(&self, id: &str) -> bool {
        let id = id.to_ascii_lowercase();
        match self {
            Self::One(name) => id == *name,
            Self::Domain(prefix) => id.starts_with(prefix.as_str()),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetsDocument {
    #[serde(default)]
    scope: Vec<PresetScopeEntry>,
    #[serde(default)]
    floor: Vec<PresetFloorEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetScopeEntry {
    id: String,
    sensitivity: Option<Sensitivity>,
    label_i18n_key: Option<String>,
    description_i18n_key: Option<String>,
    #[serde(default)]
    label: BTreeMap<String, String>,
    #[serde(default)]
    description: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetFloorEntry {
    family: String,
    sensitivity: Sensitivity,
}

/// Collects the faults of one preset entry.
struct PresetEntryFaults<'a> {
    location: String,
    list: &'a mut Vec<String>,
}

impl PresetEntryFaults<'_> {
    fn add(&mut self, field: &str, message: &str) {
        self.list.push(format!("{}: {field} {message}", self.location));
    }

    fn id(&mut self, text: &str) -> Option<ScopeId> {
        if is_reserved(text) {
            self.add("id", &format!("{text:?} is reserved for the platform; choose another domain"));
            return None;
        }
        ScopeId::parse(text).map_err(|why| self.add("id", &why.to_string())).ok()
    }

    fn texts(&mut self, field: &str, texts: &BTreeMap<String, String>, length: DisplayTextKind) {
        for (tag, text) in texts {
            if !is_language(tag) {
                self.add(field, &format!("{tag:?} must be a language tag such as \"en\" or \"zh-CN\""));
            }
            if let Some(why) = display_text::wrong(text, length) {
                self.add(field, &format!("in {tag:?} {why}"));
            }
        }
    }
}
