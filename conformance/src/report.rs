//! What came of a run.

use std::fmt;

use crate::row::Row;

/// What came of each row, in the order of the file.
#[derive(Debug, Clone)]
pub struct Report {
    /// The rows.
    pub rows: Vec<RowReport>,
}

/// What came of one row.
#[derive(Debug, Clone)]
pub struct RowReport {
    /// The row.
    pub row: Row,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The server does what the row says.
    Passed,
    /// It does not; what was expected and what came.
    Failed(String),
    /// No check can prove the row from outside; why.
    Excluded(String),
    /// The row could not be tried on this server; what was missing.
    Skipped(String),
}

impl Report {
    /// How many rows hold.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Passed))
    }

    /// How many do not.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Failed(_)))
    }

    /// How many were not tried.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Excluded(_) | Outcome::Skipped(_)))
    }

    /// The rows that do not hold, each with the reason.
    pub fn failures(&self) -> impl Iterator<Item = (&Row, &str)> {
        self.rows.iter().filter_map(|report| match &report.outcome {
            Outcome::Failed(reason) => Some((&report.row, reason.as_str())),
            _ => None,
        })
    }

    fn count(&self, matches: impl Fn(&Outcome) -> bool) -> usize {
        self.rows.iter().filter(|report| matches(&report.outcome)).count()
    }
}

/// The failures, one below the other, and the closing line.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.failures().map(|(row, _)| row.id.len()).max().unwrap_or(0);
        for (row, reason) in self.failures() {
            writeln!(f, "FAILED  {:width$}  {} ({})", row.id, row.sentence, row.section)?;
            let check = row.check.as_deref().unwrap_or_default();
            writeln!(f, "        {:width$}  {check}: {reason}", "")?;
        }
        let (passed, failed, skipped) = (self.passed(), self.failed(), self.skipped());
        writeln!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}
