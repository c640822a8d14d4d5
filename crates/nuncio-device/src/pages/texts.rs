//! Texts of the device pages, one catalog per language. Pages replace placeholders such as `{name}`.

use std::collections::BTreeMap;

use nuncio_core::agent::Sensitivity;
use nuncio_core::text::plain;
use nuncio_http::texts;
use serde::Deserialize;

use crate::error::DeviceError;
use crate::server_connection::ServerConnectionState;

texts! {
    PageFrameTexts {
        home, agents, happened, devices, skip, ways, of, leave, not_found, not_found_why, failed,
        lost, unreachable, removed, back,
    }
    PageAccessTexts { open, open_why, open_go, closed, closed_why, elsewhere, elsewhere_why, stale, stale_why, left }
    HomeTexts {
        agent_says, arguments, known, silence, deny, allow_once, allow_a_day, notify, title, nothing, nothing_hint, nobody, nobody_hint, changed, changed_one,
        from_app, from_local, from_key, from_key_of, from_person, from_caller, from_unknown, in_conversation, single_call,
        day_app, day_single, day_any,
        without_script,
    }
    /// Desktop notification about a question that waits.
    NoticeTexts { waits, answer }
    AgentVerificationTexts { first_contact, did }
    GrantTermTexts { label, keep_until, keep_once, always, once, hour, day, month }
    AgentsTexts { title, find, find_hint, find_go, found_none, found, none, none_hint, allowed, nothing, suspended, last_used, never, talk }
    AgentTexts {
        asks, asks_again, may, version, verified_how, agents_words, standard_label, tools, required, suspended, granted, ask_me, ask_me_set,
        allow, allow_again, deny, deny_why, deny_again_why, not_now, revoke, revoke_why, number, number_why, number_none, keys_changed, keys_changed_why, keys_new_number, keys_accept,
        happened, talk, unknown, changed_meanwhile, was_allowed, was_nothing,
        none_selected, describes, reads_folders, writes_folders, no_folders, no_tool, file_limit, time_limit, uses_network, was_revoked, was_set, was_accepted, last_used,
        none_asked,
    }
    TalkTexts {
        title, you, you_elsewhere, sealed, number, weaker, weaker_line, nothing, words, hint, send, older, latest,
        sending, failed, failed_relation, failed_keys, failed_no_keys, failed_unreachable, again, drop, other, cut,
        refused_untrusted, refused_changed, refused_not_for_us, refused_weaker, refused_lost, own_untrusted, own_not_for_us, stranger,
        new_keys, keys_changed, unallowed, look, writing, empty, too_long, too_many, transcript, without_script,
    }
    AuditLogTexts {
        title, holds, holds_one, holds_none, broken, broken_at, broken_cut, broken_keep, broken_what_now, fresh,
        fresh_show, misread, agent, any_agent, outcome, any_outcome, scope, any_scope, day, day_utc, filter, everything,
        fits, fits_one, nothing, ran, wanted, became_ran, became_refused, became_failed, became_elsewhere,
        elsewhere_why, asked, asked_yes, not_asked, refused_unasked, failed_read, details, number, call, digest, hash, before, turn, newest, older,
        export, export_why, export_go, kept,
        arguments, keep, keep_is_on, keep_is_off, keep_start, keep_stop,
    }
    DevicesTexts {
        title, this, trusted, trusted_hint, waiting, waiting_hint, no_keys, no_keys_hint, removed, removed_hint,
        compare_number, compare_key, own_number, own_key, trust, since, until, remove, unknown, was_trusted,
        was_removed, was_recovered, fresh, fresh_show, add, add_why, add_go, backup, backup_why, backup_go,
        backup_saving, passphrase, passphrase_hint, again, short, differ, restore, restore_file, restore_file_how,
        restore_relay, restore_relay_how, recover, recover_passphrase, recover_go,
    }
    InviteTexts {
        title, lasts, came, came_show, run, copy, parts, address, code, fingerprint, compare, trust, secret,
    }
    /// Texts of the enrolment page.
    WelcomeTexts {
        title, lede, join, join_why, link, link_hint, address, code, fingerprint, fingerprint_hint, name, name_usual, join_go, restore,
        restore_why, file, file_hint, choose, passphrase, restore_go, wrong_address, wrong_code, wrong_fingerprint,
        wrong_file, wrong_link,
    }
    SensitivityTexts { low, medium, high, low_hint, medium_hint, high_hint, low_asks, medium_asks, high_asks }
    RemoveDeviceTexts { title, follows, sessions, word, told, grants, there, back, go, keep }
    ManifestChangeTexts { title, since, note, breaking, others, was, now, keeps, keeps_none, waits, cannot_compare }
}

pub(super) struct SensitivityLevelTexts<'a> {
    pub(super) name: &'a str,
    pub(super) hint: &'a str,
    /// How often the person is asked at this level, as the text of a choice.
    pub(super) asks: &'a str,
}

impl SensitivityTexts {
    pub(super) fn level(&self, sensitivity: Sensitivity) -> SensitivityLevelTexts<'_> {
        match sensitivity {
            Sensitivity::Low => SensitivityLevelTexts { name: &self.low, hint: &self.low_hint, asks: &self.low_asks },
            Sensitivity::Medium => {
                SensitivityLevelTexts { name: &self.medium, hint: &self.medium_hint, asks: &self.medium_asks }
            }
            Sensitivity::High => {
                SensitivityLevelTexts { name: &self.high, hint: &self.high_hint, asks: &self.high_asks }
            }
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Texts {
    pub(super) frame: PageFrameTexts,
    pub(super) door: PageAccessTexts,
    pub(super) home: HomeTexts,
    pub(super) notice: NoticeTexts,
    pub(super) verified: AgentVerificationTexts,
    pub(super) stake: SensitivityTexts,
    pub(super) term: GrantTermTexts,
    pub(super) agents: AgentsTexts,
    pub(super) agent: AgentTexts,
    pub(super) talk: TalkTexts,
    pub(super) change: ManifestChangeTexts,
    pub(super) happened: AuditLogTexts,
    pub(super) devices: DevicesTexts,
    pub(super) invite: InviteTexts,
    pub(super) remove: RemoveDeviceTexts,
    pub(super) welcome: WelcomeTexts,
    /// Why calls were refused or failed, by A2H denial reason or tool error code.
    pub(super) reason: BTreeMap<String, String>,
    /// Error messages by error code.
    trouble: BTreeMap<String, String>,
    /// Explanations of the manifest change rules, by rule.
    pub(super) rule: BTreeMap<String, String>,
    /// Texts that the scripts of the pages use, by key.
    pub(super) script: BTreeMap<String, String>,
}

impl Texts {
    /// What the person must know about the connection to the server; `None` while it works.
    pub(super) fn connection(&self, state: ServerConnectionState) -> Option<&str> {
        match state {
            ServerConnectionState::Connecting | ServerConnectionState::Connected => None,
            ServerConnectionState::Unreachable => Some(&self.frame.unreachable),
            ServerConnectionState::Removed => Some(&self.frame.removed),
        }
    }

    /// Error message for the person; an error code without a text in the catalog shows the error's own message.
    pub(super) fn trouble(&self, error: &DeviceError) -> String {
        let words = self.trouble.get(error.code.as_str());
        words.map_or_else(|| plain(&error.message), |words| format!("{words} ({})", error.code))
    }
}

nuncio_http::catalogs!(Texts);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nuncio_http::pages::Language;
    use nuncio_judge::schema::NarrowingRule;
    use nuncio_judge::{BreakingChangeRule, NonBreakingChangeRule};

    use super::*;
    use crate::pages::files;

    #[test]
    fn text_catalogs_match_in_keys_placeholders_and_script_texts_and_chinese_punctuation_is_full_width() {
        assert_eq!(Texts::faults(&files::FILES), Vec::<String>::new());
    }

    #[test]
    fn rule_texts_match_exactly_the_manifest_change_rules() {
        let changes = BreakingChangeRule::ALL.iter().map(|rule| rule.as_str());
        let schemas = NarrowingRule::ALL.iter().map(|rule| rule.as_str());
        let notices = NonBreakingChangeRule::ALL.iter().map(|rule| rule.as_str());
        let rules: BTreeSet<_> = changes.chain(schemas).chain(notices).map(str::to_owned).collect();
        assert_eq!(Texts::of(Language::English).rule.keys().cloned().collect::<BTreeSet<_>>(), rules);
    }

    #[test]
    fn error_texts_have_existing_codes_and_codes_without_text_show_plain_message() {
        for code in Texts::of(Language::Chinese).trouble.keys() {
            assert!(nuncio_core::ErrorCode::parse(code).is_some(), "{code}");
        }
        let far = DeviceError::new(nuncio_core::ErrorCode::EndpointUnreachable, "tcp connect error (os error 111)");
        assert_eq!(
            Texts::of(Language::Chinese).trouble(&far),
            "无法连接服务器。请检查地址和网络，然后重试。 (endpoint_unreachable)"
        );
        let odd = DeviceError::new(nuncio_core::ErrorCode::Internal, "odd\u{202e}");
        assert_eq!(Texts::of(Language::English).trouble(&odd), "odd ");
    }
}
