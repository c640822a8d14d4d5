//! Comparison of two schemas without a manifest: only whether every value accepted before is still accepted.

use serde_json::Value;

use super::schema::{self, ComparisonBudget, SchemaNarrowing};
use super::verdict::{ChangeFinding, ChangeRule, ChangeVerdict};

/// Judges whether every value valid under `old` is valid under `new`. The rules of the manifest table do not apply, and
/// widenings are not reported.
#[must_use]
pub fn schemas(old: &Value, new: &Value, budget: ComparisonBudget) -> ChangeVerdict {
    let comparison = schema::compare(old, new, budget);
    let finding = |SchemaNarrowing { rule, pointer, old, new, witness }| {
        let rule = ChangeRule::Schema(rule);
        ChangeFinding { rule, pointer, old, new, witness, scope: None, tool: None }
    };
    ChangeVerdict {
        breaking: comparison.outcome.breaking(),
        findings: comparison.findings.into_iter().map(finding).collect(),
        ..ChangeVerdict::default()
    }
}
