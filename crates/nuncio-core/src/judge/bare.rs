//! Two bare schemas: set theory alone, in the form of a verdict.

use serde_json::Value;

use super::schema::{self, Budget, SchemaFinding};
use super::verdict::{ChangeRule, Finding, Verdict};

/// Judges whether everything valid under `old` is valid under `new`. No letter of any table counts here, no scope is
/// concerned, and what is only wider is not told.
#[must_use]
pub fn schemas(old: &Value, new: &Value, budget: Budget) -> Verdict {
    let comparison = schema::compare(old, new, budget);
    let finding = |SchemaFinding { rule, pointer, old, new, witness }| {
        let rule = ChangeRule::Schema(rule);
        Finding { rule, pointer, old, new, witness, scope: None, tool: None }
    };
    Verdict {
        breaking: comparison.outcome.breaking(),
        findings: comparison.findings.into_iter().map(finding).collect(),
        ..Verdict::default()
    }
}
