//! View of an agent's access request: scopes grouped by sensitivity, highest first, each with its own switch.

use std::collections::BTreeSet;

use nuncio_core::agent::Sensitivity;
use nuncio_core::grant::GrantTerm;
use nuncio_core::text::plain;
use nuncio_core::time::Timestamp;

use super::change::ChangesSinceConsentView;
use crate::consent::{AccessRequest, RequestedScope};
use crate::localized_text::ScopeTexts;
use crate::pages::frame::SelectOption;
use crate::pages::frame::SignedInRequest;
use crate::pages::texts::Texts;
use crate::pages::wording;

pub(super) struct ConsentView {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) version: u64,
    pub(super) hash: String,
    pub(super) verified: String,
    pub(super) is_vouched: bool,
    pub(super) groups: Vec<ScopeGroup>,
    pub(super) change: Option<ChangesSinceConsentView>,
}

pub(super) struct ScopeGroup {
    pub(super) level: &'static str,
    pub(super) heading: &'static str,
    pub(super) hint: &'static str,
    pub(super) scopes: Vec<ConsentScopeView>,
}

pub(super) struct ConsentScopeView {
    pub(super) id: String,
    /// Id of the scope's HTML element, for links within the page.
    pub(super) anchor: String,
    pub(super) label: String,
    pub(super) means: Option<String>,
    /// Who wrote the texts, if the agent did.
    pub(super) author_note: Option<String>,
    pub(super) icon: &'static str,
    pub(super) tools: Vec<String>,
    pub(super) required: bool,
    /// Whether the switch is on initially: for granted scopes, and before the first consent for read-only scopes of low
    /// sensitivity.
    pub(super) on: bool,
    pub(super) granted: bool,
    pub(super) suspended: bool,
    /// Folders and limits that apply on this device, one sentence each.
    pub(super) limits: Vec<String>,
    pub(super) terms: Vec<SelectOption>,
    /// End of the current grant, which the choice `keep` names; a script writes it in the reader's time zone.
    pub(super) end: Option<Timestamp>,
    /// Choices of how often the person is asked; empty at the highest sensitivity.
    pub(super) stricter: Vec<SelectOption>,
}

impl ConsentView {
    pub(super) fn new(visit: &SignedInRequest, ask: AccessRequest, again: bool) -> Self {
        let text = visit.text;
        let groups = [Sensitivity::High, Sensitivity::Medium, Sensitivity::Low];
        let group = |level: Sensitivity| {
            let scopes = ask.scopes.iter().filter(|scope| scope.sensitivity == level);
            let scopes: Vec<_> = scopes.map(|scope| view(visit, scope, again)).collect();
            (!scopes.is_empty()).then(|| ScopeGroup {
                level: level.as_str(),
                heading: text.stake.level(level).name,
                hint: text.stake.level(level).hint,
                scopes,
            })
        };
        Self {
            id: ask.agent.to_string(),
            version: ask.manifest_version,
            hash: ask.manifest_hash.to_string(),
            verified: wording::verified(text, &ask.verified),
            is_vouched: matches!(ask.verified, crate::prompt::AgentVerification::Did { .. }),
            groups: groups.into_iter().filter_map(group).collect(),
            change: ask.changed.as_ref().map(|changed| ChangesSinceConsentView::new(visit, &ask, changed)),
            name: ask.name,
            description: ask.description,
        }
    }
}

fn view(visit: &SignedInRequest, scope: &RequestedScope, again: bool) -> ConsentScopeView {
    let (text, language) = (visit.text, visit.language.tag());
    ConsentScopeView {
        id: scope.id.to_string(),
        anchor: scope.id.as_str().replace(':', "-"),
        label: scope.texts.label.in_language(language).unwrap_or(scope.id.as_str()).to_owned(),
        means: scope.texts.description.in_language(language).map(str::to_owned),
        author_note: author_note(visit, &scope.texts),
        icon: wording::icon(&scope.id),
        tools: scope.tools.clone(),
        required: scope.required,
        on: scope.granted || (!again && scope.sensitivity == Sensitivity::Low && scope.id.is_read_only()),
        granted: scope.granted,
        suspended: scope.suspended,
        limits: limits(text, scope),
        terms: terms(text, scope),
        end: match scope.term {
            Some(GrantTerm::Until(end)) => Some(end),
            _ => None,
        },
        stricter: stricter(text, scope),
    }
}

/// Says that the agent wrote the texts, and which well-known permission they describe.
fn author_note(visit: &SignedInRequest, texts: &ScopeTexts) -> Option<String> {
    let text = &visit.text.agent;
    match texts.standard_label.in_language(visit.language.tag()) {
        Some(label) => Some(text.standard_label.replace("{label}", label)),
        None => texts.agents_words.then(|| text.agents_words.clone()),
    }
}

/// Folders and limits of this device for a scope, as the person reads them.
fn limits(text: &Texts, scope: &RequestedScope) -> Vec<String> {
    let text = &text.agent;
    if !scope.available {
        let missing = if scope.id.as_str().starts_with("filesystem:") { &text.no_folders } else { &text.no_tool };
        return vec![missing.clone()];
    }
    let mut lines = Vec::new();
    for limits in &scope.limits {
        for (label, folders) in [(&text.reads_folders, &limits.reads), (&text.writes_folders, &limits.writes)] {
            if !folders.is_empty() {
                let folders: Vec<_> = folders.iter().map(|folder| plain(&folder.display().to_string())).collect();
                lines.push(format!("{label} {}", folders.join(", ")));
            }
        }
        let size = limits.file_bytes.map(|bytes| text.file_limit.replace("{size}", &(bytes / 1024).to_string()));
        lines.extend(size);
        lines.extend(limits.network.then(|| text.uses_network.clone()));
    }
    if scope.seconds > 0 {
        lines.push(text.time_limit.replace("{seconds}", &scope.seconds.to_string()));
    }
    let mut seen = BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    lines
}

fn terms(text: &Texts, scope: &RequestedScope) -> Vec<SelectOption> {
    let texts = &text.term;
    let mut choices = Vec::new();
    // A limited grant keeps its term unless the person chooses another one.
    let keep = match scope.term {
        Some(GrantTerm::Until(end)) => Some(texts.keep_until.replace("{time}", &wording::minute(end))),
        Some(GrantTerm::Once) => Some(texts.keep_once.clone()),
        Some(GrantTerm::UntilRevoked) | None => None,
    };
    let keeps = keep.is_some();
    choices.extend(keep.map(|label| SelectOption { value: "keep".to_owned(), label, chosen: true }));
    let plain = [
        ("always", &texts.always),
        ("once", &texts.once),
        ("hour", &texts.hour),
        ("day", &texts.day),
        ("month", &texts.month),
    ];
    choices.extend(plain.into_iter().map(|(value, label)| SelectOption {
        value: value.to_owned(),
        label: label.clone(),
        chosen: !keeps && value == "always",
    }));
    choices
}

fn stricter(text: &Texts, scope: &RequestedScope) -> Vec<SelectOption> {
    if scope.at_least == Sensitivity::High {
        return Vec::new();
    }
    let own = (scope.sensitivity > scope.at_least).then_some(scope.sensitivity);
    let usual = SelectOption {
        value: "usual".to_owned(),
        label: text.stake.level(scope.at_least).asks.to_owned(),
        chosen: own.is_none(),
    };
    let more = [Sensitivity::Medium, Sensitivity::High].into_iter().filter(|level| *level > scope.at_least);
    let more = more.map(|level| SelectOption {
        value: level.as_str().to_owned(),
        label: text.stake.level(level).asks.to_owned(),
        chosen: own == Some(level),
    });
    std::iter::once(usual).chain(more).collect()
}
