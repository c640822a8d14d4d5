//! The texts of the pages, one catalog per language. Pages replace `{name}` in a text.

use std::collections::BTreeMap;

use nuncio_core::agent::Sensitivity;
use nuncio_http::texts;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Texts {
    pub(super) page: ChatPageTexts,
    pub(super) about: AgentDetailsTexts,
    pub(super) documents: DocumentTexts,
    pub(super) key: KeyTexts,
    pub(super) error: ErrorTexts,
    pub(super) sensitivity: SensitivityTexts,
    pub(super) sign_in: SignInTexts,
    pub(super) inbox: InboxTexts,
    pub(super) task: TaskTexts,
    pub(super) form: FormTexts,
    pub(super) join: JoinTexts,
    /// Texts of the scripts by key.
    pub(super) script: BTreeMap<String, String>,
}

texts! {
    /// The top bar, the list of agents and conversations, and the conversation itself.
    ChatPageTexts {
        skip, forget_key, inbox, views, view_chat, view_agent, view_list, agents, conversations,
        new_conversation, more, transcript, message, placeholder, send, stop, hint, nobody, nobody_hint,
        without_script, examples,
    }
    AgentDetailsTexts {
        heading, version, owner, tools, no_tools, own_tools, operator, arguments, required, on, trust, options, options_hint,
    }
    DocumentTexts {
        heading, copy,
    }
    /// The dialog that asks for a key.
    KeyTexts {
        heading, why, label, kept, enter,
    }
    /// Error pages.
    ErrorTexts {
        not_found, needs_key, not_allowed, not_for_browsers, too_many, server, other, home, details,
    }
    /// The sign-in page of the console.
    SignInTexts {
        heading, why, label, kept, enter, wrong, empty, too_many, not_allowed, not_allowed_why, another, out,
        signed_in_as, elsewhere, elsewhere_go, refused, refused_why, unreadable,
    }
    InboxTexts {
        heading, lede, skip, back, empty, empty_hint, yours, waiting, others, due, within, soon, late, minutes, hours,
        days, finished, refused, given_back, changed, reload, not_found, not_found_why, failed,
    }
    TaskTexts {
        what, with_what, result, agent, asked_by, since, held_by, nobody, you, take, take_hint, take_over,
        take_over_hint, give_back, finish, refuse, refuse_hint, reason, refuse_confirm, done_by, refused_by,
        withdrawn, withdrawn_why, late_why, no_reason, already_over, already_taken, not_yours, stale, changed, broken,
    }
    /// The names of the sensitivity levels of a scope.
    SensitivityTexts {
        low, medium, high,
    }
    /// The page of an invite link.
    JoinTexts {
        title, lede, incomplete, phone, phone_why, copy_link, install, install_why, run, run_why, whole_link, copy, copied,
        not_copied, share_why, decide, decide_why, secret, without_script,
    }
    /// The form for the result of a task.
    FormTexts {
        result, required, problems_one, problems, choose, none, lines_hint, json_hint, zone_hint, missing, choose_one,
        not_whole, not_number, not_date, not_time, not_moment, not_json, at_least, at_most, more_than, less_than,
        too_short, too_long, too_few, too_many, not_like, schema_broken,
    }
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

nuncio_http::catalogs!(Texts);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assets;

    #[test]
    fn both_languages_have_the_same_text_keys_and_all_keys_used_by_scripts() {
        assert_eq!(Texts::faults(&assets::ASSETS), Vec::<String>::new());
    }
}
