//! Manifests: an accepted manifest is accepted again, and a comparison of two never panics.

use nuncio_core::manifest::{Manifest, ScopePresets};
use nuncio_judge::schema::ComparisonBudget;
use nuncio_judge::{ChangeJudgingPolicy, manifests};
use serde_json::Value;

const VECTORS: &str = include_str!("../../../crates/nuncio-judge/tests/vectors/a2h/manifest_diff.json");

/// Input: a manifest, or a pair `{"old": …, "new": …}`.
pub fn run(data: &[u8]) {
    let presets = ScopePresets::default();
    if let Ok(checked) = Manifest::parse(data, &presets) {
        let source = checked.manifest.source().clone();
        assert_eq!(Manifest::check(source.clone(), &presets).unwrap().manifest.source(), &source);
    }
    let Ok(pair) = serde_json::from_slice::<Value>(data) else { return };
    let policy = ChangeJudgingPolicy { reauth_on_widening: true, budget: ComparisonBudget::new(2_000) };
    let (old, new) = (pair.get("old"), pair.get("new"));
    let verdict = manifests(old, new, &[], &policy);
    if old == new {
        assert!(!verdict.breaking, "{verdict:?}");
    }
}

#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let cases: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
    let pairs = cases.iter().map(|case| serde_json::json!({"old": case["old"], "new": case["new"]}));
    pairs.chain(cases.iter().map(|case| case["new"].clone())).map(|value| value.to_string().into_bytes()).collect()
}
