//! Localised texts, and cleaning of untrusted text for display.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A text by language tag (`en`, `zh-CN`). A text without a language is English.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TextByLanguage(BTreeMap<String, String>);

impl TextByLanguage {
    #[must_use]
    pub fn english(text: impl Into<String>) -> Self {
        Self(BTreeMap::from([("en".to_owned(), text.into())]))
    }

    /// Makes a localised text; `None` if `texts` is empty.
    #[must_use]
    pub fn in_languages(texts: BTreeMap<String, String>) -> Option<Self> {
        (!texts.is_empty()).then_some(Self(texts))
    }

    /// The text in `language`, else in its base language, else in English, else in any.
    #[must_use]
    pub fn in_language(&self, language: &str) -> &str {
        let base = language.split('-').next().unwrap_or(language);
        [language, base, "en"]
            .iter()
            .find_map(|tag| self.0.get(*tag))
            .or_else(|| self.0.values().next())
            .map_or("", String::as_str)
    }

    /// The text for documents that have room for one language: English, else any.
    #[must_use]
    pub fn in_english(&self) -> &str {
        self.in_language("en")
    }

    pub fn languages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(tag, text)| (tag.as_str(), text.as_str()))
    }
}

/// Whether a character is invisible or changes how others are shown: controls, line breaks, direction marks,
/// invisible separators and tags. Joiners are not among them, because several scripts need them.
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Replaces each unprintable character of a multi-line text. Line breaks and tabs stay.
#[must_use]
pub fn printable(text: String) -> String {
    let hidden = |c: char| is_unprintable(c) && !matches!(c, '\n' | '\r' | '\t');
    if text.contains(hidden) { text.replace(hidden, "\u{fffd}") } else { text }
}

/// Untrusted text made safe for a message: one line of at most 500 characters, with spaces for unprintable ones.
#[must_use]
pub fn plain(text: &str) -> String {
    one_line(text, 500)
}

/// Untrusted name made safe for a message: like [`plain`], trimmed and with at most 80 characters.
#[must_use]
pub fn name(text: &str) -> String {
    one_line(text.trim(), 80)
}

fn one_line(text: &str, most: usize) -> String {
    let mut out: String = text.chars().take(most).map(|c| if is_unprintable(c) { ' ' } else { c }).collect();
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}

pub fn join_lines(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Whether a text has the form of a translation key, such as `agent.scope.filesystem_read.label`.
pub fn is_i18n_key(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=200).contains(&text.len()) && text.bytes().all(fits)
}

/// Whether a text has the form of a BCP 47 language tag. The language need not exist.
#[must_use]
pub fn is_language(tag: &str) -> bool {
    let mut parts = tag.split('-');
    let part = |part: &str, least: usize| {
        (least..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let language = parts.next().unwrap_or_default();
    part(language, 2) && language.bytes().all(|byte| byte.is_ascii_alphabetic()) && parts.all(|rest| part(rest, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_replaces_control_invisible_and_direction_characters() {
        let text = "a\u{9b}b\u{202e}c\u{2028}d\u{200b}e\r\n\tü 你好".to_owned();
        assert_eq!(printable(text), "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e\r\n\tü 你好");
    }
}
