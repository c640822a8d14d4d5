//! Texts and icons that several device pages use.

use nuncio_core::call_source::CallSource;
use nuncio_core::ids::ScopeId;
use nuncio_http::pages::Language;

use super::Pages;
use super::texts::Texts;
use crate::known_agents::KnownAgent;
use crate::prompt::AgentVerification;

pub(super) fn verified(text: &Texts, how: &AgentVerification) -> String {
    match how {
        AgentVerification::FirstContact => text.verified.first_contact.clone(),
        AgentVerification::Did { did } => text.verified.did.replace("{did}", did),
    }
}

/// For whom, in which app and in which conversation the agent asks, as the agent states it.
pub(super) fn source(text: &Texts, person: &str, source: Option<&CallSource>) -> String {
    let text = &text.home;
    let Some(CallSource { caller, app, conversation }) = source else {
        return text.from_unknown.replace("{person}", person);
    };
    let asked = match app {
        Some(app) => text.from_app.replace("{app}", app),
        None if caller == "local" => text.from_local.clone(),
        None => text.from_caller.replace("{caller}", caller),
    };
    let place = match conversation {
        Some(conversation) => text.in_conversation.replace("{conversation}", conversation),
        None => text.single_call.clone(),
    };
    format!("{} {place}", asked.replace("{person}", person))
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
pub(super) fn label(pages: &Pages, known: &KnownAgent, scope: &ScopeId, language: Language) -> String {
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
