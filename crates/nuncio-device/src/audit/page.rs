//! Pages of the audit log, newest first and filtered. Every read also verifies the chain.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;

use nuncio_core::ids::{AgentId, ScopeId};
use nuncio_core::string_enum;
use nuncio_core::time::Timestamp;

use super::{AuditChainError, AuditLog, CallAuditEntry, ChainedAuditEntry};

string_enum! {
    /// Outcome of a call, as stored in `CallAuditEntry::status`.
    pub enum AuditedCallStatus {
        Ran = "ok",
        Refused = "denied",
        Failed = "error",
        /// Another device of the person handled the call.
        Elsewhere = "elsewhere",
    }
}

/// Conditions that an audit entry must meet; an empty filter matches all entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditFilter {
    pub agent: Option<AgentId>,
    pub status: Option<AuditedCallStatus>,
    pub scope: Option<ScopeId>,
    pub from: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    fn fits(&self, entry: &CallAuditEntry) -> bool {
        self.agent.as_ref().is_none_or(|agent| entry.agent_id == *agent)
            && self.status.is_none_or(|status| entry.status == status.as_str())
            && self.scope.as_ref().is_none_or(|scope| entry.scope == *scope)
            && self.from.is_none_or(|from| entry.timestamp >= from)
            && self.until.is_none_or(|until| entry.timestamp < until)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntriesPage {
    /// Matching entries of this page, newest first.
    pub entries: Vec<ChainedAuditEntry>,
    /// Whether older matching entries exist.
    pub more: bool,
    /// Number of matching entries on all pages.
    pub fitting: usize,
    /// Every agent in the log, for the filter form.
    pub agents: BTreeSet<AgentId>,
    /// Every scope in the log, for the filter form.
    pub scopes: BTreeSet<ScopeId>,
    /// Result of verifying the whole log: the number of entries, or the first fault.
    pub proof: Result<u64, AuditChainError>,
}

impl AuditLog {
    /// The newest matching audit entries numbered below `before`. Reads and verifies the whole log.
    pub(crate) fn page(&self, filter: &AuditFilter, before: Option<u64>, limit: usize) -> AuditEntriesPage {
        let mut newest = VecDeque::with_capacity(limit + 1);
        let (mut agents, mut scopes, mut fitting) = (BTreeSet::new(), BTreeSet::new(), 0);
        let proof = self.walk(|chained| {
            let entry = &chained.entry;
            agents.insert(entry.agent_id.clone());
            scopes.insert(entry.scope.clone());
            if !filter.fits(entry) {
                return;
            }
            fitting += 1;
            if before.is_none_or(|before| chained.seq < before) {
                newest.push_front(chained);
                // One more than the page holds, to find out whether older entries exist.
                newest.truncate(limit + 1);
            }
        });
        let more = newest.len() > limit;
        newest.truncate(limit);
        AuditEntriesPage { entries: newest.into(), more, fitting, agents, scopes, proof }
    }

    /// Every readable audit entry as one JSON line with its hash, oldest first.
    pub(crate) fn lines(&self) -> String {
        let mut lines = String::new();
        // The result is ignored, because the reader of the export verifies the chain.
        let _ = self.walk(|chained| {
            let _ = writeln!(lines, "{}", chained.with_hash());
        });
        lines
    }
}

#[cfg(test)]
mod tests;
