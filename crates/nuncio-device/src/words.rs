//! Words for people, in the languages the device speaks, and without tricks: ours where we have some, else the agent's.

use std::collections::BTreeMap;

use nuncio_core::manifest::{ManifestScope, Presets};
use nuncio_core::text::{LocalText, plain};
use serde::Serialize;

/// The languages.
pub const LANGUAGES: [&str; 2] = ["en", "zh-CN"];

/// A text by language; empty where there is none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Words(BTreeMap<&'static str, String>);

impl Words {
    /// That text, in each of our languages.
    #[must_use]
    pub fn of(text: Option<&LocalText>) -> Self {
        let Some(text) = text else { return Self::default() };
        Self(LANGUAGES.into_iter().map(|language| (language, plain(text.in_language(language)))).collect())
    }

    /// In one language; nothing where there is nothing.
    #[must_use]
    pub fn say(&self, language: &str) -> Option<&str> {
        self.0.get(language).map(String::as_str).filter(|text| !text.is_empty())
    }
}

/// What a permission means.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ScopeWords {
    /// In a few words.
    pub label: Words,
    /// In a sentence.
    pub description: Words,
    /// Whether those are the agent's own, and not ours.
    pub agents_words: bool,
}

impl ScopeWords {
    /// The words for a permission of a manifest.
    #[must_use]
    pub fn of(presets: &Presets, scope: &ManifestScope) -> Self {
        match presets.scope(scope.id.as_str()) {
            Some(ours) => Self {
                label: Words::of(Some(&ours.label)),
                description: Words::of(Some(&ours.description)),
                agents_words: false,
            },
            None => Self {
                label: Words::of(scope.label_fallback.as_ref()),
                description: Words::of(scope.description_fallback.as_ref()),
                agents_words: true,
            },
        }
    }
}
