//! The words of the pages, one catalog a language.
//!
//! A catalog is read into this type and nothing else, so a word that is missing in a language, or that
//! no page uses, does not get past the tests. `{name}` in a text is filled in by the page.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use nuncio_core::agent::Sensitivity;
use serde::Deserialize;

use super::language::Language;

/// One catalog.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Texts {
    pub(super) page: PageTexts,
    pub(super) about: AboutTexts,
    pub(super) documents: DocumentTexts,
    pub(super) key: KeyTexts,
    pub(super) sensitivity: SensitivityTexts,
    /// What the scripts say, by the names they ask for.
    pub(super) script: BTreeMap<String, String>,
}

/// The frame, the list at the side, the conversation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageTexts {
    pub(super) skip: String,
    pub(super) languages: String,
    pub(super) theme: String,
    pub(super) forget_key: String,
    pub(super) views: String,
    pub(super) view_chat: String,
    pub(super) view_agent: String,
    pub(super) view_list: String,
    pub(super) agents: String,
    pub(super) conversations: String,
    pub(super) new_conversation: String,
    pub(super) more: String,
    pub(super) transcript: String,
    pub(super) message: String,
    pub(super) placeholder: String,
    pub(super) send: String,
    pub(super) stop: String,
    pub(super) hint: String,
    pub(super) nobody: String,
    pub(super) nobody_hint: String,
    pub(super) without_script: String,
}

/// What an agent is and can do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AboutTexts {
    pub(super) heading: String,
    pub(super) version: String,
    pub(super) owner: String,
    pub(super) tools: String,
    pub(super) no_tools: String,
    pub(super) operator: String,
    pub(super) arguments: String,
    pub(super) required: String,
    pub(super) on: String,
    pub(super) trust: String,
    pub(super) options: String,
    pub(super) options_hint: String,
}

/// What protocols publish.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DocumentTexts {
    pub(super) heading: String,
    pub(super) copy: String,
    pub(super) aap_meta: String,
    pub(super) aap_session: String,
}

/// Asking for a key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyTexts {
    pub(super) heading: String,
    pub(super) why: String,
    pub(super) label: String,
    pub(super) kept: String,
    pub(super) enter: String,
}

/// How much is at stake.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SensitivityTexts {
    low: String,
    medium: String,
    high: String,
}

impl SensitivityTexts {
    pub(super) fn of(&self, sensitivity: Sensitivity) -> &str {
        match sensitivity {
            Sensitivity::Low => &self.low,
            Sensitivity::Medium => &self.medium,
            Sensitivity::High => &self.high,
        }
    }
}

impl Texts {
    /// The catalog of a language.
    pub(super) fn of(language: Language) -> &'static Self {
        static ENGLISH: LazyLock<Texts> = LazyLock::new(|| read(include_str!("../../locales/en.toml")));
        static CHINESE: LazyLock<Texts> = LazyLock::new(|| read(include_str!("../../locales/zh-CN.toml")));
        match language {
            Language::English => &ENGLISH,
            Language::Chinese => &CHINESE,
        }
    }
}

fn read(catalog: &str) -> Texts {
    toml::from_str(catalog).expect("the catalogs are compiled in, and a test reads each of them")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::console::assets;

    /// Every text of a catalog with where it is.
    fn entries(catalog: &str) -> BTreeMap<String, String> {
        let table: toml::Table = catalog.parse().unwrap();
        let section = |(section, texts): (&String, &toml::Value)| {
            let texts = texts.as_table().unwrap().clone();
            let section = section.clone();
            texts.into_iter().map(move |(key, text)| (format!("{section}.{key}"), text.as_str().unwrap().to_owned()))
        };
        table.iter().flat_map(section).collect()
    }

    fn blanks(text: &str) -> BTreeSet<&str> {
        text.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect()
    }

    #[test]
    fn both_languages_say_the_same_things_with_the_same_blanks() {
        let english = entries(include_str!("../../locales/en.toml"));
        let chinese = entries(include_str!("../../locales/zh-CN.toml"));
        assert_eq!(english.keys().collect::<Vec<_>>(), chinese.keys().collect::<Vec<_>>());
        for (key, text) in &english {
            assert!(!text.trim().is_empty() && !chinese[key].trim().is_empty(), "{key} is empty");
            assert_eq!(blanks(text), blanks(&chinese[key]), "{key}");
        }
        for language in Language::ALL {
            assert!(!language.texts().script.is_empty());
        }
    }

    #[test]
    fn the_scripts_ask_for_exactly_the_texts_there_are() {
        let mut asked = BTreeSet::new();
        for (_, source) in assets::scripts() {
            let calls = source.split("say(\"").skip(1).filter_map(|rest| rest.split('"').next());
            asked.extend(calls.map(str::to_owned));
        }
        let there: BTreeSet<_> = Language::English.texts().script.keys().cloned().collect();
        assert_eq!(asked, there);
    }
}
