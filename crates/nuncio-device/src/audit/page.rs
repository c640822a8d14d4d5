//! What happened, a page at a time: the newest first, by what somebody wants to see, and proved on the way.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;

use nuncio_core::ids::{AgentId, ScopeId};
use nuncio_core::time::Timestamp;

use super::{AuditBroken, AuditEntry, AuditLog, Chained};

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// It ran.
    Ran,
    /// It was refused.
    Refused,
    /// It failed.
    Failed,
    /// Another device of the person's took it.
    Elsewhere,
}

impl Became {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Ran, Self::Refused, Self::Failed, Self::Elsewhere];

    /// The word for it in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ran => "ok",
            Self::Refused => "denied",
            Self::Failed => "error",
            Self::Elsewhere => "elsewhere",
        }
    }

    /// What a word of the log means.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|became| became.as_str() == word)
    }
}

/// Which entries somebody wants to see; all, where nothing is said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Of that agent alone.
    pub agent: Option<AgentId>,
    /// That became of it.
    pub became: Option<Became>,
    /// By that permission.
    pub scope: Option<ScopeId>,
    /// Not before.
    pub from: Option<Timestamp>,
    /// Before.
    pub until: Option<Timestamp>,
}

impl Filter {
    fn fits(&self, entry: &AuditEntry) -> bool {
        self.agent.as_ref().is_none_or(|agent| entry.agent_id == *agent)
            && self.became.is_none_or(|became| entry.status == became.as_str())
            && self.scope.as_ref().is_none_or(|scope| entry.scope == *scope)
            && self.from.is_none_or(|from| entry.timestamp >= from)
            && self.until.is_none_or(|until| entry.timestamp < until)
    }
}

/// A page of what happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// The entries, newest first.
    pub entries: Vec<Chained>,
    /// Whether there are older ones that fit.
    pub more: bool,
    /// How many fit, on every page.
    pub fitting: usize,
    /// Every agent that is in the log.
    pub agents: BTreeSet<AgentId>,
    /// Every permission that is in the log.
    pub scopes: BTreeSet<ScopeId>,
    /// Whether the whole log holds together, and how many entries there are.
    pub proof: Result<u64, AuditBroken>,
}

impl AuditLog {
    /// The newest entries that fit, before that number where one is given. All are read for it: so they are proved.
    pub(crate) fn page(&self, filter: &Filter, before: Option<u64>, limit: usize) -> AuditPage {
        let mut newest = VecDeque::with_capacity(limit + 1);
        let (mut agents, mut scopes, mut fitting) = (BTreeSet::new(), BTreeSet::new(), 0);
        let proof = self.walk(|chained| {
            let entry = &chained.entry;
            if !agents.contains(&entry.agent_id) {
                agents.insert(entry.agent_id.clone());
            }
            if !scopes.contains(&entry.scope) {
                scopes.insert(entry.scope.clone());
            }
            if !filter.fits(entry) {
                return;
            }
            fitting += 1;
            if before.is_none_or(|before| chained.seq < before) {
                newest.push_front(chained);
                // One more than is shown, to know whether there is one.
                newest.truncate(limit + 1);
            }
        });
        let more = newest.len() > limit;
        newest.truncate(limit);
        AuditPage { entries: newest.into(), more, fitting, agents, scopes, proof }
    }

    /// Everything that can be read, one entry a line, oldest first, and each with its own hash: whoever has the lines can
    /// prove that they hold together.
    pub(crate) fn lines(&self) -> String {
        let mut lines = String::new();
        // Whether it holds is for whoever reads the lines.
        let _ = self.walk(|chained| {
            let _ = writeln!(lines, "{}", chained.with_hash());
        });
        lines
    }
}

#[cfg(test)]
mod tests;
