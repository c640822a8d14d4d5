//! Comparison of two schemas without a manifest: only whether every value accepted before is still accepted.

use serde_json::Value;

use super::schema::{self, ComparisonBudget, SchemaNarrowing};
use super::verdict::{BreakingChangeFinding, BreakingChangeRule, ManifestChangeVerdict};

/// Judges whether every value valid under `old` is valid under `new`. The rules of the manifest table do not apply, and
/// widenings are not reported.
#[must_use]
pub fn schemas(old: &Value, new: &Value, budget: ComparisonBudget) -> ManifestChangeVerdict {
    let comparison = schema::compare(old, new, budget);
    let finding = |SchemaNarrowing { rule, pointer, old, new, witness }| {
        let rule = BreakingChangeRule::Schema(rule);
        BreakingChangeFinding { rule, pointer, old, new, witness, scope: None, tool: None }
    };
    ManifestChangeVerdict {
        breaking: comparison.outcome.breaking(),
        findings: comparison.findings.into_iter().map(finding).collect(),
        ..ManifestChangeVerdict::default()
    }
}
