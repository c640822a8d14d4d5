//! Sanitised texts for the person in the supported languages: the agent's own texts, or else presets of Nuncio.

use std::collections::BTreeMap;

use nuncio_core::manifest::{ManifestScope, ScopePresets};
use nuncio_core::text::{TextByLanguage, plain};
use serde::Serialize;

pub const LANGUAGES: [&str; 2] = ["en", "zh-CN"];

/// One text per supported language; empty if there is no text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct SanitisedTextByLanguage(BTreeMap<&'static str, String>);

impl SanitisedTextByLanguage {
    /// Sanitises a text in every supported language.
    #[must_use]
    pub fn of(text: Option<&TextByLanguage>) -> Self {
        let Some(text) = text else { return Self::default() };
        Self(LANGUAGES.into_iter().map(|language| (language, plain(text.in_language(language)))).collect())
    }

    /// The text in one language; `None` if it is missing or empty.
    #[must_use]
    pub fn in_language(&self, language: &str) -> Option<&str> {
        self.0.get(language).map(String::as_str).filter(|text| !text.is_empty())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ScopeTexts {
    pub label: SanitisedTextByLanguage,
    pub description: SanitisedTextByLanguage,
    /// Whether a text comes from the agent and not from a preset.
    pub agents_words: bool,
    /// Label of the preset that the agent's label replaces, so that an agent cannot pass off a well-known scope as another
    /// one; otherwise empty.
    pub standard_label: SanitisedTextByLanguage,
}

impl ScopeTexts {
    /// Texts of a scope: the agent's own ones, and for a well-known scope the preset's where the agent has none.
    #[must_use]
    pub fn of(presets: &ScopePresets, scope: &ManifestScope) -> Self {
        let preset = presets.scope(scope.id.as_str());
        let label = scope.label_fallback.as_ref();
        // A server without a description of the scope sends the label instead.
        let description = scope.description_fallback.as_ref().filter(|text| preset.is_none() || Some(*text) != label);
        let label = label.filter(|text| preset.is_none_or(|preset| is_own_text(text, &preset.label)));
        let description = description.filter(|text| preset.is_none_or(|preset| is_own_text(text, &preset.description)));
        Self {
            label: SanitisedTextByLanguage::of(label.or(preset.map(|preset| &preset.label))),
            description: SanitisedTextByLanguage::of(description.or(preset.map(|preset| &preset.description))),
            agents_words: preset.is_none() || label.is_some() || description.is_some(),
            standard_label: SanitisedTextByLanguage::of(preset.filter(|_| label.is_some()).map(|preset| &preset.label)),
        }
    }
}

/// Whether an agent's text differs from the preset. One that repeats the preset in some languages does not, so that the
/// preset's other languages remain.
fn is_own_text(text: &TextByLanguage, preset: &TextByLanguage) -> bool {
    text.languages().any(|(language, text)| text != preset.in_language(language))
}

#[cfg(test)]
mod tests {
    use nuncio_core::manifest::Manifest;
    use serde_json::{Value, json};

    use super::*;

    /// The texts of the scope `filesystem:read` with these fallbacks: label and description by language, in English.
    fn texts(label: Value, description: Value) -> ScopeTexts {
        let presets = ScopePresets::default();
        let mut manifest = nuncio_testkit::a2h::manifest();
        let scopes = manifest["permission_scopes"].as_array_mut().unwrap();
        let scope = scopes.iter_mut().find(|scope| scope["id"] == "filesystem:read").unwrap();
        for (key, text) in [("label_fallback", label), ("description_fallback", description)] {
            if !text.is_null() {
                scope[key] = text;
            }
        }
        let checked = Manifest::check(manifest, &presets).unwrap();
        ScopeTexts::of(&presets, checked.manifest.scope("filesystem:read").unwrap())
    }

    #[test]
    fn agents_texts_replace_those_of_a_preset_scope_and_the_preset_label_is_kept_beside() {
        let own = texts(json!({"en": "Read your shopping list"}), json!({"en": "Opens list.txt."}));
        assert_eq!(own.label.in_language("en"), Some("Read your shopping list"));
        assert_eq!(own.label.in_language("zh-CN"), Some("Read your shopping list"));
        assert_eq!(own.description.in_language("en"), Some("Opens list.txt."));
        assert!(own.agents_words);
        assert_eq!(own.standard_label.in_language("en"), Some("Read local files"));
    }

    #[test]
    fn preset_texts_are_used_where_the_agent_has_none_of_its_own() {
        let preset = texts(Value::Null, Value::Null);
        assert!(!preset.agents_words && preset.standard_label.in_language("en").is_none());
        // A repetition of the preset in one language does not hide its other languages.
        let repeated = json!({"en": "Read local files"});
        assert_eq!(texts(repeated.clone(), repeated), preset);
        // A server sends the label for a missing description.
        let label = json!({"en": "Read your shopping list"});
        let labelled = texts(label.clone(), label);
        assert_eq!(labelled.description, preset.description);
        assert!(labelled.agents_words);
    }
}
