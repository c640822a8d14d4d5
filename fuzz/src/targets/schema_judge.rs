//! Comparison of schemas: every witness is valid under the old schema and invalid under the new one.

use nuncio_core::schema::Schema;
use nuncio_judge::schema::{ComparisonBudget, ComparisonOutcome, compare};
use serde_json::Value;

const VECTORS: &str = include_str!("../../../crates/nuncio-judge/tests/vectors/a2h/schema_compat.jsonl");
/// Only every fifth pair of the vectors is a seed, because a pair takes milliseconds and the judge tests all pairs.
const EACH: usize = 5;

/// Input: a pair `{"old": …, "new": …}`.
pub fn run(data: &[u8]) {
    let Ok(pair) = serde_json::from_slice::<Value>(data) else { return };
    let (Some(old), Some(new)) = (pair.get("old"), pair.get("new")) else { return };
    let comparison = compare(old, new, ComparisonBudget::new(2_000));
    assert_eq!(comparison.findings.is_empty(), comparison.outcome == ComparisonOutcome::Compatible);
    let (Ok(old), Ok(new)) = (Schema::compile(old.clone()), Schema::compile(new.clone())) else { return };
    for finding in comparison.findings {
        if let Some(witness) = finding.witness {
            assert!(old.check(&witness).is_ok(), "{witness} is not valid under the old schema");
            assert!(new.check(&witness).is_err(), "{witness} is valid under the new schema");
        }
    }
}

#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let pairs = VECTORS.lines().step_by(EACH).map(|line| serde_json::from_str::<Value>(line).unwrap());
    pairs.map(|case| serde_json::json!({"old": case["old"], "new": case["new"]}).to_string().into_bytes()).collect()
}
