//! Results of a conformance run.

use std::fmt;

use crate::row::RequirementRow;

/// Results of all requirement rows, in the order of the file.
#[derive(Debug, Clone)]
pub struct ConformanceReport {
    pub rows: Vec<RequirementReport>,
}

#[derive(Debug, Clone)]
pub struct RequirementReport {
    pub row: RequirementRow,
    pub outcome: RequirementOutcome,
}

/// Result of a requirement row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequirementOutcome {
    /// The server does what the requirement demands.
    Passed,
    /// The server does not meet the requirement; the text says what was expected and received.
    Failed(String),
    /// No black-box check can prove the requirement; the text says why.
    Excluded(String),
    /// The server or this run lacks the precondition of the row; the text names it.
    Skipped(String),
}

impl ConformanceReport {
    #[must_use]
    pub fn passed(&self) -> usize {
        self.count(|outcome| matches!(outcome, RequirementOutcome::Passed))
    }

    #[must_use]
    pub fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, RequirementOutcome::Failed(_)))
    }

    /// Number of rows that were excluded or skipped.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.count(|outcome| matches!(outcome, RequirementOutcome::Excluded(_) | RequirementOutcome::Skipped(_)))
    }

    /// Failed rows with their reasons.
    pub fn failures(&self) -> impl Iterator<Item = (&RequirementRow, &str)> {
        self.rows.iter().filter_map(|report| match &report.outcome {
            RequirementOutcome::Failed(reason) => Some((&report.row, reason.as_str())),
            _ => None,
        })
    }

    fn count(&self, matches: impl Fn(&RequirementOutcome) -> bool) -> usize {
        self.rows.iter().filter(|report| matches(&report.outcome)).count()
    }
}

/// Prints the failures and a summary line.
impl fmt::Display for ConformanceReport {
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
