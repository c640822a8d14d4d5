//! The words of the pages, one catalog a language.
//!
//! A catalog is read into this type and nothing else, so a word that is missing in a language, or that
//! no page uses, does not get past the tests. `{name}` in a text is filled in by the page.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use nuncio_core::agent::Sensitivity;
use serde::Deserialize;

use nuncio_pages::Language;

/// One catalog.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Texts {
    pub(super) page: PageTexts,
    pub(super) about: AboutTexts,
    pub(super) documents: DocumentTexts,
    pub(super) key: KeyTexts,
    pub(super) sensitivity: SensitivityTexts,
    pub(super) sign_in: SignInTexts,
    pub(super) inbox: InboxTexts,
    pub(super) task: TaskTexts,
    pub(super) form: FormTexts,
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
    pub(super) inbox: String,
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
    pub(super) skill_index: String,
    pub(super) a2h_manifest: String,
    pub(super) anp_description: String,
    pub(super) anp_did: String,
    pub(super) anp_interface: String,
    pub(super) anp_call: String,
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

/// Signing in to the console.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignInTexts {
    pub(super) heading: String,
    pub(super) why: String,
    pub(super) label: String,
    pub(super) kept: String,
    pub(super) enter: String,
    pub(super) wrong: String,
    pub(super) empty: String,
    pub(super) too_many: String,
    pub(super) not_allowed: String,
    pub(super) not_allowed_why: String,
    pub(super) another: String,
    pub(super) out: String,
    pub(super) signed_in_as: String,
    pub(super) elsewhere: String,
    pub(super) elsewhere_go: String,
    pub(super) refused: String,
    pub(super) refused_why: String,
    pub(super) unreadable: String,
}

/// The list of what waits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InboxTexts {
    pub(super) heading: String,
    pub(super) lede: String,
    pub(super) skip: String,
    pub(super) back: String,
    pub(super) empty: String,
    pub(super) empty_hint: String,
    pub(super) yours: String,
    pub(super) waiting: String,
    pub(super) others: String,
    pub(super) due: String,
    pub(super) within: String,
    pub(super) soon: String,
    pub(super) late: String,
    pub(super) minutes: String,
    pub(super) hours: String,
    pub(super) days: String,
    pub(super) finished: String,
    pub(super) refused: String,
    pub(super) given_back: String,
    pub(super) changed: String,
    pub(super) reload: String,
    pub(super) not_found: String,
    pub(super) not_found_why: String,
    pub(super) failed: String,
}

/// One piece of work.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskTexts {
    pub(super) what: String,
    pub(super) with_what: String,
    pub(super) result: String,
    pub(super) agent: String,
    pub(super) asked_by: String,
    pub(super) since: String,
    pub(super) held_by: String,
    pub(super) nobody: String,
    pub(super) you: String,
    pub(super) take: String,
    pub(super) take_hint: String,
    pub(super) take_over: String,
    pub(super) take_over_hint: String,
    pub(super) give_back: String,
    pub(super) finish: String,
    pub(super) refuse: String,
    pub(super) refuse_hint: String,
    pub(super) reason: String,
    pub(super) refuse_confirm: String,
    pub(super) done_by: String,
    pub(super) refused_by: String,
    pub(super) withdrawn: String,
    pub(super) withdrawn_why: String,
    pub(super) late_why: String,
    pub(super) no_reason: String,
    pub(super) already_over: String,
    pub(super) already_taken: String,
    pub(super) not_yours: String,
    pub(super) stale: String,
    pub(super) changed: String,
    pub(super) broken: String,
}

/// Filling in a result.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FormTexts {
    pub(super) result: String,
    pub(super) required: String,
    pub(super) problems_one: String,
    pub(super) problems: String,
    pub(super) choose: String,
    pub(super) none: String,
    pub(super) lines_hint: String,
    pub(super) json_hint: String,
    pub(super) zone_hint: String,
    pub(super) missing: String,
    pub(super) choose_one: String,
    pub(super) not_whole: String,
    pub(super) not_number: String,
    pub(super) not_date: String,
    pub(super) not_time: String,
    pub(super) not_moment: String,
    pub(super) not_json: String,
    pub(super) at_least: String,
    pub(super) at_most: String,
    pub(super) more_than: String,
    pub(super) less_than: String,
    pub(super) too_short: String,
    pub(super) too_long: String,
    pub(super) too_few: String,
    pub(super) too_many: String,
    pub(super) not_like: String,
    pub(super) schema_broken: String,
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

    use nuncio_pages::catalog;

    use super::*;
    use crate::console::assets;

    #[test]
    fn both_languages_say_the_same_things_with_the_same_blanks() {
        let (english, chinese) = (include_str!("../../locales/en.toml"), include_str!("../../locales/zh-CN.toml"));
        assert_eq!(catalog::differences(english, chinese), Vec::<String>::new());
        assert_eq!(catalog::half_width(chinese), Vec::<String>::new());
        for language in Language::ALL {
            assert!(!Texts::of(language).script.is_empty());
        }
    }

    #[test]
    fn the_scripts_ask_for_exactly_the_texts_there_are() {
        let mut asked = BTreeSet::new();
        for (_, source) in assets::ASSETS.scripts() {
            let calls = source.split("say(\"").skip(1).filter_map(|rest| rest.split('"').next());
            asked.extend(calls.map(str::to_owned));
        }
        let there: BTreeSet<_> = Texts::of(Language::English).script.keys().cloned().collect();
        assert_eq!(asked, there);
    }
}
