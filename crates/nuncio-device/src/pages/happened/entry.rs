//! One thing that happened, in words.

use std::collections::BTreeMap;

use nuncio_core::ids::{AgentId, ScopeId};
use nuncio_core::manifest::Checked;
use nuncio_core::text::plain;
use nuncio_core::time::Timestamp;

use crate::audit::{Became, Chained};
use crate::error::DeviceError;
use crate::pages::frame::Visit;
use crate::pages::texts::Texts;
use crate::pages::{Pages, wording};
use crate::standing::Known;
use crate::words::ScopeWords;

/// The longest name that is shown.
const NAME: usize = 60;

/// One thing that happened.
pub(super) struct EntryView {
    pub(super) seq: u64,
    /// Who did what: the words, and what stands in their blanks.
    pub(super) title: Vec<Part>,
    pub(super) agent: String,
    pub(super) agent_href: String,
    pub(super) at: Timestamp,
    /// The class of what became of it.
    pub(super) class: &'static str,
    pub(super) outcome: String,
    /// Why, where there is more to say.
    pub(super) why: Option<String>,
    pub(super) asked: &'static str,
    pub(super) icon: &'static str,
    pub(super) scope: String,
    pub(super) label: String,
    /// Whether the label is in the agent's own words.
    pub(super) agents_words: bool,
    pub(super) call: String,
    pub(super) digest: String,
    pub(super) hash: String,
    pub(super) before: String,
}

/// A piece of a sentence.
pub(super) enum Part {
    /// Ours.
    Words(String),
    /// The name an agent gives itself.
    Name(String),
    /// A tool.
    Tool(String),
}

/// What agents and permissions are called.
pub(super) struct Names<'a> {
    pages: &'a Pages,
    visit: &'a Visit,
    known: BTreeMap<AgentId, Known>,
    /// Manifests that were needed, checked once.
    checked: BTreeMap<AgentId, Option<Checked>>,
}

impl<'a> Names<'a> {
    pub(super) fn new(pages: &'a Pages, visit: &'a Visit) -> Result<Self, DeviceError> {
        let known = pages.device.agents()?.into_iter().map(|known| (known.agent.clone(), known)).collect();
        Ok(Self { pages, visit, known, checked: BTreeMap::new() })
    }

    /// As it calls itself; else its name at the relay.
    fn agent(&self, agent: &AgentId) -> String {
        let name = self.known.get(agent).map(|known| plain(&known.name)).unwrap_or_default();
        if name.trim().is_empty() { agent.to_string() } else { short(&name) }
    }

    /// The same with its name at the relay, so that no agent is taken for another.
    pub(super) fn agent_choice(&self, agent: &AgentId) -> String {
        let name = self.agent(agent);
        if name == agent.as_str() { name } else { format!("{name} · {agent}") }
    }

    /// What everyone calls a permission.
    fn preset(&self, scope: &ScopeId) -> Option<String> {
        let preset = self.pages.device.presets().scope(scope.as_str());
        preset.map(|preset| preset.label.in_language(self.visit.language.tag()).to_owned())
    }

    pub(super) fn scope_choice(&self, scope: &ScopeId) -> String {
        self.preset(scope).map_or_else(|| scope.to_string(), |label| format!("{label} · {scope}"))
    }

    /// What a permission is called, and whether the agent calls it so.
    fn scope(&mut self, agent: &AgentId, scope: &ScopeId) -> (String, bool) {
        if let Some(label) = self.preset(scope) {
            return (label, false);
        }
        let presets = self.pages.device.presets();
        let known = &self.known;
        let checked = self.checked.entry(agent.clone()).or_insert_with(|| known.get(agent)?.manifest(presets));
        let declared = checked.as_ref().and_then(|checked| checked.manifest.scope(scope.as_str()));
        let words = declared.map(|declared| ScopeWords::of(presets, declared));
        let label = words.as_ref().and_then(|words| words.label.say(self.visit.language.tag()));
        label.map_or_else(|| (scope.to_string(), false), |label| (short(label), true))
    }
}

impl EntryView {
    pub(super) fn new(names: &mut Names<'_>, chained: Chained) -> Self {
        let hash = chained.hash().to_string();
        let Chained { seq, prev_hash, entry } = chained;
        let visit = names.visit;
        let (text, became) = (&visit.text.happened, Became::parse(&entry.status));
        let title = if became == Some(Became::Ran) { &text.ran } else { &text.wanted };
        let asked: &'static str = match (became, entry.asked) {
            (_, false) => &text.not_asked,
            (Some(Became::Ran | Became::Failed), true) => &text.asked_yes,
            (_, true) => &text.asked,
        };
        let (label, agents_words) = names.scope(&entry.agent_id, &entry.scope);
        let agent = names.agent(&entry.agent_id);
        Self {
            seq,
            title: parts(title, &agent, entry.tool_name.as_str()),
            agent_href: visit.to(&format!("/agents/{}", entry.agent_id)),
            agent: entry.agent_id.to_string(),
            at: entry.timestamp,
            class: became.map_or("became-failed", class),
            outcome: became.map_or_else(|| plain(&entry.status), |became| outcome(visit.text, became).to_owned()),
            why: why(visit.text, became, entry.reason.as_deref(), entry.asked),
            asked,
            icon: wording::icon(&entry.scope),
            scope: entry.scope.to_string(),
            label,
            agents_words,
            call: entry.call_id.to_string(),
            digest: plain(&entry.arguments_digest),
            hash,
            before: prev_hash.to_string(),
        }
    }
}

/// A word for what became of a call.
pub(super) fn outcome(text: &Texts, became: Became) -> &str {
    let text = &text.happened;
    match became {
        Became::Ran => &text.became_ran,
        Became::Refused => &text.became_refused,
        Became::Failed => &text.became_failed,
        Became::Elsewhere => &text.became_elsewhere,
    }
}

const fn class(became: Became) -> &'static str {
    match became {
        Became::Ran => "became-ran",
        Became::Refused => "became-refused",
        Became::Failed => "became-failed",
        Became::Elsewhere => "became-elsewhere",
    }
}

/// Why, in plain words; what has none is said as it stands in the log.
fn why(text: &Texts, became: Option<Became>, reason: Option<&str>, asked: bool) -> Option<String> {
    match reason {
        Some("user_refused") if !asked => Some(text.happened.refused_unasked.clone()),
        Some(reason) => Some(text.reason.get(reason).cloned().unwrap_or_else(|| plain(reason))),
        None if became == Some(Became::Elsewhere) => Some(text.happened.elsewhere_why.clone()),
        None => None,
    }
}

/// A sentence with its blanks filled in.
fn parts(sentence: &str, agent: &str, tool: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for piece in sentence.split_inclusive('}') {
        let (words, blank) = piece.split_once('{').unwrap_or((piece, ""));
        parts.push(Part::Words(words.to_owned()));
        match blank {
            "agent}" => parts.push(Part::Name(agent.to_owned())),
            "tool}" => parts.push(Part::Tool(tool.to_owned())),
            _ => {}
        }
    }
    parts
}

fn short(text: &str) -> String {
    match text.char_indices().nth(NAME) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use nuncio_a2h::wire::artifact::{ErrorCode, Reason};
    use nuncio_pages::Language;
    use serde_json::json;

    use super::*;

    /// Every reason there is, by a match that a new one does not get past.
    fn next(reason: Option<Reason>) -> Option<Reason> {
        Some(match reason {
            None => Reason::UserRefused,
            Some(Reason::UserRefused) => Reason::ScopeNotGranted,
            Some(Reason::ScopeNotGranted) => Reason::ToolNotDeclared,
            Some(Reason::ToolNotDeclared) => Reason::UserTimeout,
            Some(Reason::UserTimeout) => Reason::ToolNotSupportedInGroup,
            Some(Reason::ToolNotSupportedInGroup) => return None,
        })
    }

    fn next_error(code: Option<ErrorCode>) -> Option<ErrorCode> {
        Some(match code {
            None => ErrorCode::PlatformError,
            Some(ErrorCode::PlatformError) => ErrorCode::InvalidArguments,
            Some(ErrorCode::InvalidArguments) => ErrorCode::Unavailable,
            Some(ErrorCode::Unavailable) => return None,
        })
    }

    #[test]
    fn every_reason_has_words_and_no_other() {
        let reasons = std::iter::successors(next(None), |reason| next(Some(*reason))).map(|reason| json!(reason));
        let errors = std::iter::successors(next_error(None), |code| next_error(Some(*code))).map(|code| json!(code));
        let mut all: Vec<_> = reasons.chain(errors).map(|word| word.as_str().unwrap().to_owned()).collect();
        all.sort();
        for language in Language::ALL {
            let text = Texts::of(language);
            assert_eq!(text.reason.keys().cloned().collect::<Vec<_>>(), all);
            for became in Became::ALL {
                assert!(!outcome(text, became).is_empty());
            }
            assert_eq!(why(text, Some(Became::Failed), Some("NEW\u{202E}"), false), Some("NEW ".to_owned()));
        }
    }

    #[test]
    fn a_sentence_keeps_what_fills_its_blanks_apart() {
        let parts = parts("{agent} ran {tool} here", "{tool}", "read_file");
        let words: Vec<_> = parts
            .iter()
            .map(|part| match part {
                Part::Words(words) => format!("w:{words}"),
                Part::Name(name) => format!("n:{name}"),
                Part::Tool(tool) => format!("t:{tool}"),
            })
            .collect();
        assert_eq!(words, ["w:", "n:{tool}", "w: ran ", "t:read_file", "w: here"]);
        assert_eq!(short(&"名".repeat(1000)).chars().count(), NAME + 1);
    }
}
