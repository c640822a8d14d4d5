//! Sanitised texts for the person in the supported languages: presets of Nuncio, or else the agent's own texts.

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
    /// Whether the texts come from the agent and not from a preset.
    pub agents_words: bool,
}

impl ScopeTexts {
    /// Texts of a scope: from the preset if the scope is well known, else from the manifest.
    #[must_use]
    pub fn of(presets: &ScopePresets, scope: &ManifestScope) -> Self {
        let preset = presets.scope(scope.id.as_str());
        let (label, description) = match preset {
            Some(preset) => (Some(&preset.label), Some(&preset.description)),
            None => (scope.label_fallback.as_ref(), scope.description_fallback.as_ref()),
        };
        let agents_words = preset.is_none();
        Self {
            label: SanitisedTextByLanguage::of(label),
            description: SanitisedTextByLanguage::of(description),
            agents_words,
        }
    }
}
