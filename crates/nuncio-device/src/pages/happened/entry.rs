//! Display form of one audit entry.

use std::collections::BTreeMap;

use nuncio_core::ids::{AgentId, ScopeId};
use nuncio_core::manifest::CheckedManifest;
use nuncio_core::text::plain;
use nuncio_core::time::Timestamp;

use crate::audit::{AuditedCallStatus, ChainedAuditEntry};
use crate::error::DeviceError;
use crate::known_agents::KnownAgent;
use crate::localized_text::ScopeTexts;
use crate::pages::frame::SignedInRequest;
use crate::pages::texts::Texts;
use crate::pages::{DevicePages, wording};
use crate::prompt::readable;

const MAX_NAME_CHARS: usize = 60;

pub(super) struct AuditEntryView {
    pub(super) seq: u64,
    /// Summary sentence of the entry, split into text and inserted names.
    pub(super) title: Vec<SentencePart>,
    pub(super) agent: String,
    pub(super) agent_href: String,
    pub(super) at: Timestamp,
    /// CSS class of the call's outcome.
    pub(super) class: &'static str,
    pub(super) outcome: String,
    /// Reason of the outcome as text, if one is recorded.
    pub(super) why: Option<String>,
    pub(super) asked: &'static str,
    pub(super) icon: &'static str,
    pub(super) scope: String,
    pub(super) label: String,
    /// Whether the agent wrote the label of the scope.
    pub(super) agents_words: bool,
    pub(super) call: String,
    /// The call's arguments, if the person's switch was on when it ended.
    pub(super) arguments: Option<String>,
    pub(super) digest: String,
    pub(super) hash: String,
    pub(super) before: String,
}

pub(super) enum SentencePart {
    Words(String),
    /// Display name chosen by the agent.
    Name(String),
    Tool(String),
}

/// Looks up display names of agents and scopes.
pub(super) struct DisplayNameLookup<'a> {
    pages: &'a DevicePages,
    visit: &'a SignedInRequest,
    known: BTreeMap<AgentId, KnownAgent>,
    /// Cache of validated manifests by agent.
    checked: BTreeMap<AgentId, Option<CheckedManifest>>,
}

impl<'a> DisplayNameLookup<'a> {
    pub(super) fn new(pages: &'a DevicePages, visit: &'a SignedInRequest) -> Result<Self, DeviceError> {
        let known = pages.device.consents().agents()?.into_iter().map(|known| (known.agent.clone(), known)).collect();
        Ok(Self { pages, visit, known, checked: BTreeMap::new() })
    }

    /// Display name of the agent, or its id.
    fn agent(&self, agent: &AgentId) -> String {
        let name = self.known.get(agent).map(|known| plain(&known.name)).unwrap_or_default();
        if name.trim().is_empty() { agent.to_string() } else { wording::shortened(&name, MAX_NAME_CHARS) }
    }

    /// Display name and id of an agent, so that agents with equal names can be distinguished.
    pub(super) fn agent_choice(&self, agent: &AgentId) -> String {
        let name = self.agent(agent);
        if name == agent.as_str() { name } else { format!("{name} · {agent}") }
    }

    /// Label of a well-known scope; `None` for other scopes.
    fn preset(&self, scope: &ScopeId) -> Option<String> {
        let preset = self.pages.device.context().presets().scope(scope.as_str());
        preset.map(|preset| preset.label.in_language(self.visit.language.tag()).to_owned())
    }

    pub(super) fn scope_choice(&self, scope: &ScopeId) -> String {
        self.preset(scope).map_or_else(|| scope.to_string(), |label| format!("{label} · {scope}"))
    }

    /// Label of a scope, and whether the agent wrote it.
    fn scope(&mut self, agent: &AgentId, scope: &ScopeId) -> (String, bool) {
        let presets = self.pages.device.context().presets();
        let known = &self.known;
        let checked = self.checked.entry(agent.clone()).or_insert_with(|| known.get(agent)?.manifest(presets));
        let declared = checked.as_ref().and_then(|checked| checked.manifest.scope(scope.as_str()));
        let words = declared.map(|declared| ScopeTexts::of(presets, declared));
        match words.filter(|words| words.agents_words) {
            Some(words) => {
                let label = words.label.in_language(self.visit.language.tag());
                label.map_or_else(
                    || (scope.to_string(), false),
                    |label| (wording::shortened(label, MAX_NAME_CHARS), true),
                )
            }
            None => (self.preset(scope).unwrap_or_else(|| scope.to_string()), false),
        }
    }
}

impl AuditEntryView {
    pub(super) fn new(names: &mut DisplayNameLookup<'_>, chained: ChainedAuditEntry) -> Self {
        let hash = chained.hash().to_string();
        let ChainedAuditEntry { seq, prev_hash, entry } = chained;
        let visit = names.visit;
        let (text, status) = (&visit.text.happened, AuditedCallStatus::parse(&entry.status));
        let title = if status == Some(AuditedCallStatus::Ran) { &text.ran } else { &text.wanted };
        let asked: &'static str = match (status, entry.asked) {
            (_, false) => &text.not_asked,
            (Some(AuditedCallStatus::Ran | AuditedCallStatus::Failed), true) => &text.asked_yes,
            (_, true) => &text.asked,
        };
        let (class, outcome) = status.map(|status| outcome(visit.text, status)).unzip();
        let kept = entry.message_id.as_ref().and_then(|id| names.pages.device.audit().arguments(id).ok().flatten());
        let arguments = kept.as_ref().map(readable);
        let (label, agents_words) = names.scope(&entry.agent_id, &entry.scope);
        let agent = names.agent(&entry.agent_id);
        Self {
            seq,
            title: parts(title, &agent, entry.tool_name.as_str()),
            agent_href: visit.to(&format!("/agents/{}", entry.agent_id)),
            agent: entry.agent_id.to_string(),
            at: entry.timestamp,
            class: class.unwrap_or("became-failed"),
            outcome: outcome.map_or_else(|| plain(&entry.status), str::to_owned),
            why: why(visit.text, status, entry.reason.as_deref(), entry.asked, &entry.scope),
            asked,
            icon: wording::icon(&entry.scope),
            scope: entry.scope.to_string(),
            label,
            agents_words,
            call: entry.call_id.to_string(),
            arguments,
            digest: plain(&entry.arguments_digest),
            hash,
            before: prev_hash.to_string(),
        }
    }
}

/// CSS class and text of a call's outcome.
pub(super) fn outcome(text: &Texts, status: AuditedCallStatus) -> (&'static str, &str) {
    let text = &text.happened;
    match status {
        AuditedCallStatus::Ran => ("became-ran", &text.became_ran),
        AuditedCallStatus::Refused => ("became-refused", &text.became_refused),
        AuditedCallStatus::Failed => ("became-failed", &text.became_failed),
        AuditedCallStatus::Elsewhere => ("became-elsewhere", &text.became_elsewhere),
    }
}

/// Reason of a call's outcome as text; an unknown reason code is shown as logged.
fn why(
    text: &Texts,
    status: Option<AuditedCallStatus>,
    reason: Option<&str>,
    asked: bool,
    scope: &ScopeId,
) -> Option<String> {
    match reason {
        // A failed read changes nothing, so it has no effect to warn of.
        Some("TOOL_PLATFORM_ERROR") if scope.is_read_only() => Some(text.happened.failed_read.clone()),
        Some("user_refused") if !asked => Some(text.happened.refused_unasked.clone()),
        Some(reason) => Some(text.reason.get(reason).cloned().unwrap_or_else(|| plain(reason))),
        None if status == Some(AuditedCallStatus::Elsewhere) => Some(text.happened.elsewhere_why.clone()),
        None => None,
    }
}

/// Splits a sentence at its placeholders `{agent}` and `{tool}`, and inserts the names as separate parts.
fn parts(sentence: &str, agent: &str, tool: &str) -> Vec<SentencePart> {
    let mut parts = Vec::new();
    for piece in sentence.split_inclusive('}') {
        let (words, blank) = piece.split_once('{').unwrap_or((piece, ""));
        parts.push(SentencePart::Words(words.to_owned()));
        match blank {
            "agent}" => parts.push(SentencePart::Name(agent.to_owned())),
            "tool}" => parts.push(SentencePart::Tool(tool.to_owned())),
            _ => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use nuncio_a2h::wire::artifact::{DenialReason, ToolErrorCode};
    use nuncio_http::pages::Language;
    use serde_json::json;

    use super::*;

    /// Successor of a denial reason; the exhaustive match makes a new variant fail to compile here.
    fn next(reason: Option<DenialReason>) -> Option<DenialReason> {
        Some(match reason {
            None => DenialReason::UserRefused,
            Some(DenialReason::UserRefused) => DenialReason::ScopeNotGranted,
            Some(DenialReason::ScopeNotGranted) => DenialReason::ToolNotDeclared,
            Some(DenialReason::ToolNotDeclared) => DenialReason::UserTimeout,
            Some(DenialReason::UserTimeout) => DenialReason::ToolNotSupportedInGroup,
            Some(DenialReason::ToolNotSupportedInGroup) => return None,
        })
    }

    fn next_error(code: Option<ToolErrorCode>) -> Option<ToolErrorCode> {
        Some(match code {
            None => ToolErrorCode::PlatformError,
            Some(ToolErrorCode::PlatformError) => ToolErrorCode::InvalidArguments,
            Some(ToolErrorCode::InvalidArguments) => ToolErrorCode::Unavailable,
            Some(ToolErrorCode::Unavailable) => return None,
        })
    }

    #[test]
    fn catalogs_have_texts_for_exactly_the_denial_reasons_and_error_codes() {
        let reasons = std::iter::successors(next(None), |reason| next(Some(*reason))).map(|reason| json!(reason));
        let errors = std::iter::successors(next_error(None), |code| next_error(Some(*code))).map(|code| json!(code));
        let mut all: Vec<_> = reasons.chain(errors).map(|word| word.as_str().unwrap().to_owned()).collect();
        all.sort();
        for language in Language::ALL {
            let text = Texts::of(language);
            assert_eq!(text.reason.keys().cloned().collect::<Vec<_>>(), all);
            for status in AuditedCallStatus::ALL {
                assert!(!outcome(text, status).1.is_empty());
            }
            let failed = |reason: &str, scope: &str| {
                why(text, Some(AuditedCallStatus::Failed), Some(reason), false, &ScopeId::parse(scope).unwrap())
            };
            assert_eq!(failed("NEW\u{202E}", "filesystem:read"), Some("NEW ".to_owned()));
            let read = failed("TOOL_PLATFORM_ERROR", "filesystem:read");
            assert_eq!(read.as_ref(), Some(&text.happened.failed_read), "a failed read claims no effect");
            assert_ne!(failed("TOOL_PLATFORM_ERROR", "filesystem:write"), read);
        }
    }

    #[test]
    fn placeholders_in_agent_names_are_not_replaced_in_sentences() {
        let parts = parts("{agent} ran {tool} here", "{tool}", "read_file");
        let words: Vec<_> = parts
            .iter()
            .map(|part| match part {
                SentencePart::Words(words) => format!("w:{words}"),
                SentencePart::Name(name) => format!("n:{name}"),
                SentencePart::Tool(tool) => format!("t:{tool}"),
            })
            .collect();
        assert_eq!(words, ["w:", "n:{tool}", "w: ran ", "t:read_file", "w: here"]);
        assert_eq!(wording::shortened(&"名".repeat(1000), MAX_NAME_CHARS).chars().count(), MAX_NAME_CHARS + 1);
    }
}
