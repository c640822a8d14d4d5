//! History of an agent's manifests by name: the last form of each tool and scope, and the version since which each
//! scope was declared without a break. It replaces the complete history, has bounded size, and still shows that a scope
//! was removed and added again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use nuncio_core::ids::ScopeId;

/// Limit of different tools and scopes over all manifests of an agent.
pub const MAX_NAMES: usize = 4096;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ManifestNameHistory {
    /// The last form of every tool, by name.
    tools: BTreeMap<String, Value>,
    /// The last form of every scope, by id.
    scopes: BTreeMap<String, Value>,
    /// For each declared scope, the version since which it was declared without a break.
    since: BTreeMap<ScopeId, u64>,
}

impl ManifestNameHistory {
    /// The name_history after a further manifest version; `None` stands for a cleared manifest.
    #[must_use]
    pub fn with(&self, version: u64, manifest: Option<&Value>) -> Self {
        let mut next = self.clone();
        let part = |name: &str| manifest.and_then(|it| it.get(name)).and_then(Value::as_array).into_iter().flatten();
        let mut declared = BTreeSet::new();
        for scope in part("permission_scopes") {
            let Some(id) = scope.get("id").and_then(Value::as_str) else { continue };
            next.scopes.insert(id.to_owned(), scope.clone());
            declared.extend(ScopeId::parse(id));
        }
        for tool in part("tools") {
            if let Some(name) = tool.get("name").and_then(Value::as_str) {
                next.tools.insert(name.to_owned(), tool.clone());
            }
        }
        next.since.retain(|scope, _| declared.contains(scope));
        for scope in declared {
            next.since.entry(scope).or_insert(version);
        }
        next
    }

    /// Number of different tools and scopes in all manifests so far.
    #[must_use]
    pub fn names(&self) -> usize {
        self.tools.len() + self.scopes.len()
    }

    #[must_use]
    pub fn declared(&self) -> BTreeSet<ScopeId> {
        self.since.keys().cloned().collect()
    }

    /// The declared scopes that were added after this manifest version.
    #[must_use]
    pub fn fresh_since(&self, version: u64) -> BTreeSet<ScopeId> {
        self.since.iter().filter(|(_, since)| **since > version).map(|(scope, _)| scope.clone()).collect()
    }

    /// History for the judge: one manifest with the last form of every tool and scope that ever existed.
    #[must_use]
    pub fn as_history(&self) -> Vec<Value> {
        if self.names() == 0 {
            return Vec::new();
        }
        vec![json!({
            "schema_version": "1.0",
            "agent_version": "0.0.0",
            "tools": self.tools.values().collect::<Vec<_>>(),
            "permission_scopes": self.scopes.values().collect::<Vec<_>>(),
        })]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ChangeJudgingPolicy;

    fn manifest(tools: &[(&str, u64)], scopes: &[&str]) -> Value {
        let tools: Vec<_> = tools.iter().map(|(name, timeout)| json!({"name": name, "timeout_ms": timeout})).collect();
        let scopes: Vec<_> = scopes.iter().map(|id| json!({"id": id})).collect();
        json!({"tools": tools, "permission_scopes": scopes})
    }

    fn fresh(name_history: &ManifestNameHistory, version: u64) -> Vec<String> {
        name_history.fresh_since(version).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn scope_removed_and_added_again_is_new_since_the_accepted_version() {
        let one = ManifestNameHistory::default().with(1, Some(&manifest(&[], &["a", "b"])));
        assert_eq!(fresh(&one, 0), ["a", "b"]);
        assert_eq!(fresh(&one, 1), [""; 0]);
        let two = one.with(2, Some(&manifest(&[], &["a"])));
        let three = two.with(3, Some(&manifest(&[], &["a", "b"])));
        assert_eq!(fresh(&three, 1), ["b"]);
        assert_eq!(fresh(&three, 2), ["b"]);
        assert_eq!(fresh(&three, 3), [""; 0]);
        let cleared = three.with(4, None);
        assert!(cleared.declared().is_empty());
        assert_eq!(fresh(&cleared.with(5, Some(&manifest(&[], &["a"]))), 4), ["a"]);
    }

    #[test]
    fn name_history_keeps_only_the_last_form_of_each_removed_tool() {
        let mut name_history = ManifestNameHistory::default();
        for version in 1..=100 {
            name_history = name_history.with(version, Some(&manifest(&[("t", version), ("u", 0)], &["a"])));
        }
        let history = name_history.with(101, None).as_history();
        assert_eq!(history[0]["tools"], json!([{"name": "t", "timeout_ms": 100}, {"name": "u", "timeout_ms": 0}]));
        assert_eq!(history.len(), 1);
        assert_eq!(name_history.names(), 3);
    }

    /// A random manifest with a few names in a few forms; `None` for a cleared manifest.
    fn any_manifest() -> impl Strategy<Value = Option<Value>> {
        let schema = |form: usize| {
            let required: &[&str] = [&[][..], &["a"], &["a", "b"]][form];
            json!({
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "required": required,
                "additionalProperties": false,
            })
        };
        let tools = prop::collection::btree_map(0..4_usize, (0..3_usize, 0..3_usize), 0..4);
        let scopes = prop::collection::btree_map(0..3_usize, 0..3_usize, 0..4);
        let manifest = (tools, scopes).prop_map(move |(tools, scopes)| {
            let declared = |scope: usize| scopes.contains_key(&scope);
            let tools: Vec<_> = tools
                .iter()
                .filter(|(_, (scope, _))| declared(*scope))
                .map(|(tool, (scope, form))| {
                    json!({
                        "name": format!("t{tool}"),
                        "permission_scope": format!("s{scope}"),
                        "input_schema": schema(*form),
                        "description_i18n_key": "k",
                    })
                })
                .collect();
            let scopes: Vec<_> = scopes
                .iter()
                .map(|(scope, level)| (scope, ["low", "medium", "high"][*level]))
                .map(|(scope, level)| json!({"id": format!("s{scope}"), "sensitivity": level}))
                .collect();
            json!({"schema_version": "1.0", "agent_version": "1.0.0", "tools": tools, "permission_scopes": scopes})
        });
        prop_oneof![8 => manifest.prop_map(Some), 1 => Just(None)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn name_history_gives_the_same_change_verdict_as_all_earlier_manifests(manifests in prop::collection::vec(any_manifest(), 2..7)) {
            let (new, earlier) = manifests.split_last().unwrap();
            let versions = earlier.iter().zip(1_u64..);
            let name_history = versions.fold(ManifestNameHistory::default(), |line, (it, version)| line.with(version, it.as_ref()));
            let whole: Vec<_> = earlier.iter().flatten().cloned().collect();
            for accepted in earlier {
                let judged = |history: &[Value]| {
                    let verdict = crate::manifests(accepted.as_ref(), new.as_ref(), history, &ChangeJudgingPolicy::default());
                    let rules: Vec<_> = verdict.findings.iter().map(|it| (it.rule, it.pointer.clone())).collect();
                    (verdict.breaking, verdict.scopes_requiring_reauth, rules)
                };
                prop_assert_eq!(judged(&whole), judged(&name_history.as_history()));
            }
        }
    }
}
