//! Texts that devices show to the person who decides about a scope: short, and without hidden characters.

use std::collections::BTreeMap;

use icu_normalizer::ComposingNormalizer;
use serde_json::Value;

use super::fault::{ManifestFindings, ManifestRule};
use super::read::LocatedJsonObject;
use crate::json::pointer;
use crate::text::{TextByLanguage, is_language, is_unprintable};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DisplayTextKind {
    /// Short text for a button or a list.
    Label,
    Sentence,
}

impl DisplayTextKind {
    const fn most(self) -> usize {
        match self {
            Self::Label => 80,
            Self::Sentence => 300,
        }
    }
}

/// Reads a `*_fallback` field: a text, or one per language.
pub(super) fn fallback(
    fields: &LocatedJsonObject<'_>,
    name: &str,
    length: DisplayTextKind,
    notes: &mut ManifestFindings,
) -> Option<TextByLanguage> {
    let value = fields.map.get(name)?;
    let location = fields.at(name);
    match value {
        Value::String(text) => {
            check(text, &location, length, notes);
            Some(TextByLanguage::english(text))
        }
        Value::Object(texts) if !texts.is_empty() => {
            let mut read = BTreeMap::new();
            for (language, text) in texts {
                let location = pointer(&location, language);
                if !is_language(language) {
                    let message = "must be a language tag such as \"en\" or \"zh-CN\"".to_owned();
                    notes.fault(ManifestRule::FallbackLanguage, &location, message);
                }
                match text.as_str() {
                    Some(text) => {
                        check(text, &location, length, notes);
                        read.insert(language.clone(), text.to_owned());
                    }
                    None => notes.fault(ManifestRule::WrongType, &location, "must be a text".to_owned()),
                }
            }
            TextByLanguage::in_languages(read)
        }
        other => {
            fields.wrong_type(name, "a text, or an object with a text for each language", other, notes);
            None
        }
    }
}

fn check(text: &str, location: &str, length: DisplayTextKind, notes: &mut ManifestFindings) {
    if let Some(why) = wrong(text, length) {
        notes.fault(ManifestRule::FallbackText, location, why);
    }
}

/// Reason why a text must not be shown to people; `None` if it may be shown.
pub(super) fn wrong(text: &str, length: DisplayTextKind) -> Option<String> {
    if text.trim().is_empty() {
        return Some("must not be empty".to_owned());
    }
    let count = text.chars().count();
    if count > length.most() {
        return Some(format!("must not have more than {} characters, found {count}", length.most()));
    }
    if let Some(hidden) = text.chars().find(|character| is_unprintable(*character)) {
        return Some(format!(
            "must not contain U+{:04X}: control, direction and invisible characters can make a text look like another",
            u32::from(hidden)
        ));
    }
    if !ComposingNormalizer::new_nfc().is_normalized(text) {
        return Some("must be in Unicode normalization form C; compose its letters and accents".to_owned());
    }
    None
}
