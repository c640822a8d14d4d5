//! Texts and icons that several device pages use.

use nuncio_core::call_source::CallSource;
use nuncio_core::ids::ScopeId;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_http::pages::Language;

use super::DevicePages;
use super::texts::Texts;
use crate::known_agents::KnownAgent;
use crate::prompt::{AgentVerification, PromptQuestion};

pub(super) fn verified(text: &Texts, how: &AgentVerification) -> String {
    match how {
        AgentVerification::FirstContact => text.verified.first_contact.clone(),
        AgentVerification::Did { did } => text.verified.did.replace("{did}", did),
    }
}

/// For whom, in which app and in which conversation the agent asks, as the agent states it.
pub(super) fn source(text: &Texts, person: &str, question: &PromptQuestion) -> String {
    let text = &text.home;
    let Some(CallSource { caller, app, key_created_at, conversation }) = &question.source else {
        return text.from_unknown.replace("{person}", person);
    };
    let asked = match (app, Principal::parse(caller), key_created_at) {
        (Some(app), ..) => text.from_app.replace("{app}", app),
        (None, Some(Principal::Local), _) => text.from_local.clone(),
        (None, Some(Principal::Key(_)), Some(created_at)) => text.from_key_of.replace("{date}", &date(*created_at)),
        (None, Some(Principal::Key(_)), None) => text.from_key.clone(),
        (None, Some(Principal::Person(name)), _) if name.as_str() == person => text.from_person.clone(),
        (None, ..) => text.from_caller.replace("{caller}", caller),
    };
    let place = match conversation {
        Some(_) => text.in_conversation.replace("{agent}", &question.agent_name),
        None => text.single_call.clone(),
    };
    format!("{} {place}", asked.replace("{person}", person))
}

/// What "for 24 hours" covers if the person chooses it for this call.
pub(super) fn day_means(text: &Texts, source: Option<&CallSource>) -> String {
    let text = &text.home;
    let means = match source {
        Some(CallSource { conversation: Some(_), .. }) => &text.day_app,
        Some(CallSource { conversation: None, .. }) => &text.day_single,
        None => &text.day_any,
    };
    means.clone()
}

/// The day of a time, in UTC.
fn date(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

/// A time to the minute, in UTC, for readers without scripts.
pub(super) fn minute(at: Timestamp) -> String {
    let exact = at.to_string();
    format!("{} UTC", exact.replacen('T', " ", 1).get(..16).unwrap_or(&exact))
}

/// Icon for the family of a scope, as an SVG path in a square of 24 by 24.
pub(super) fn icon(scope: &ScopeId) -> &'static str {
    match scope.as_str().split(':').next().unwrap_or_default() {
        "notification" => "M6 10a6 6 0 0 1 12 0c0 5 2 6 2 7H4c0-1 2-2 2-7m4 10a2 2 0 0 0 4 0",
        "filesystem" => "M7 3h7l5 5v13H7zM14 3v5h5M10 13h6M10 17h6",
        "clipboard" => "M9 4h6v3H9zM9 5H6v16h12V5h-3M9 12h6M9 16h4",
        "location" => "M12 21c-4-5-6-8-6-11a6 6 0 0 1 12 0c0 3-2 6-6 11m0-9a2 2 0 1 0 0-4 2 2 0 0 0 0 4",
        "camera" => "M4 8h4l2-3h4l2 3h4v11H4zM12 16a3 3 0 1 0 0-6 3 3 0 0 0 0 6",
        "microphone" => "M9 6a3 3 0 0 1 6 0v5a3 3 0 0 1-6 0zM6 11a6 6 0 0 0 12 0M12 17v4",
        "shell" => "M4 5h16v14H4zM7 9l3 3-3 3M12 15h5",
        _ => "M12 3l8 4v5c0 5-4 8-8 9-4-1-8-4-8-9V7z",
    }
}

/// Label of a scope in one language; the scope id if the agent's manifest does not declare it.
pub(super) fn label(pages: &DevicePages, known: &KnownAgent, scope: &ScopeId, language: Language) -> String {
    let texts = known.scope_texts(scope, pages.device.context().presets());
    let label = texts.as_ref().and_then(|texts| texts.label.in_language(language.tag()));
    label.unwrap_or(scope.as_str()).to_owned()
}

/// The first `limit` characters of a text, with an ellipsis if there are more.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::tests::question;

    fn asked(source: CallSource) -> PromptQuestion {
        PromptQuestion { source: Some(source), ..question() }
    }

    #[test]
    fn source_of_a_question_is_worded_without_ids() {
        let key = |app: Option<&str>, key_created_at: Option<i64>, conversation: Option<&str>| CallSource {
            caller: "key:key_1".to_owned(),
            app: app.map(str::to_owned),
            key_created_at: key_created_at.map(Timestamp::from_millis),
            conversation: conversation.map(str::to_owned),
        };
        let caller = |caller: &str| CallSource { caller: caller.to_owned(), ..key(None, None, None) };
        for language in [Language::English, Language::Chinese] {
            let text = Texts::of(language);
            for source in [
                key(Some("notes"), None, Some("ses_1")),
                key(None, Some(0), Some("ses_1")),
                key(None, None, None),
                caller("person:ada"),
                caller("local"),
            ] {
                let shown = super::source(text, "ada", &asked(source.clone()));
                assert!(!["key_", "ses_", "key:", "person:", "{"].iter().any(|id| shown.contains(id)), "{shown}");
                assert!(shown.contains("ada"), "{shown}");
                assert_eq!(shown.contains("Notes"), source.conversation.is_some(), "{shown}");
                assert_eq!(shown.contains("1970-01-01"), source.key_created_at.is_some(), "{shown}");
            }
        }
    }

    #[test]
    fn permission_for_24_hours_mentions_a_conversation_only_for_calls_within_a_conversation() {
        let source = |conversation: Option<&str>| CallSource {
            caller: "local".to_owned(),
            app: None,
            key_created_at: None,
            conversation: conversation.map(str::to_owned),
        };
        let text = Texts::of(Language::English);
        let [talk, single] = [Some("ses_1"), None].map(|talk| day_means(text, Some(&source(talk))));
        assert!(talk.contains("in this conversation") && !talk.contains("single calls"), "{talk}");
        assert!(single.contains("single calls") && !single.contains("this conversation"), "{single}");
        assert_eq!(day_means(text, None), text.home.day_any);
    }
}
