//! Test data: examples of the specification, and systematically changed copies of them.

use std::path::Path;

use nuncio_skill::validate::SkillDocumentType;
use serde_json::{Value, json};

/// Content of a schema file in `schema/draft`.
pub(crate) fn published_file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/draft").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{} is missing: run `cargo xtask schema`", path.display()))
}

/// All JSON examples of the specification with their line numbers.
pub(crate) fn examples() -> Vec<(u64, Value)> {
    serde_json::from_str(include_str!("../data/seed_examples.json")).unwrap()
}

/// Example at a line of the specification.
pub(crate) fn example(line: u64) -> Value {
    examples().into_iter().find(|(at, _)| *at == line).unwrap().1
}

/// Example descriptor of §3.6.
pub(crate) fn descriptor() -> Value {
    example(247)
}

/// Example index of §4.6.
pub(crate) fn index() -> Value {
    example(392)
}

/// Valid documents that together contain every field of every kind.
pub(crate) fn whole() -> Vec<(SkillDocumentType, Value)> {
    let mut documents: Vec<_> = examples().into_iter().filter_map(|(_, value)| Some((kind(&value)?, value))).collect();
    documents.retain(|(_, value)| value.pointer("/error/code") != Some(&json!("<ErrorCode>")));
    for line in [649, 661, 680, 702] {
        let mut with_auth = descriptor();
        with_auth["auth"] = example(line)["auth"].clone();
        with_auth["inputs"][0]["schema"] = json!({"type": "string", "minLength": 1});
        documents.push((SkillDocumentType::SkillDescriptor, with_auth));
    }
    let mut failed = example(1016);
    failed["status"] = json!("failed");
    failed["error"] = json!({"code": "EXECUTION_FAILED", "message": "no table", "details": null,
        "retry": {"suggested_delay_ms": 1000, "max_attempts": 3}});
    failed["timestamps"]["completed_at"] = json!("2025-07-01T12:00:02Z");
    documents.push((SkillDocumentType::InvocationResponse, failed));
    documents
}

/// Document type of an example; `None` for a fragment.
pub(crate) fn kind(example: &Value) -> Option<SkillDocumentType> {
    let has = |name: &str| example.get(name).is_some();
    match () {
        () if has("endpoint") => Some(SkillDocumentType::SkillDescriptor),
        () if has("skills") => Some(SkillDocumentType::SkillIndex),
        () if has("caller") => Some(SkillDocumentType::InvocationRequest),
        () if has("execution_id") => Some(SkillDocumentType::InvocationResponse),
        () if has("error") => Some(SkillDocumentType::ErrorResponse),
        () => None,
    }
}

/// Copies of the document, each with one change at one path.
pub(crate) fn changed(document: &Value) -> Vec<Value> {
    let others = [json!(null), json!(true), json!(0), json!(-1.5), json!("x"), json!([]), json!([{}]), json!({})];
    let mut found = others.to_vec();
    for path in paths(document, "") {
        let (above, name) = path.rsplit_once('/').unwrap();
        let name = name.replace("~1", "/").replace("~0", "~");
        for other in &others {
            let mut copy = document.clone();
            *copy.pointer_mut(&path).unwrap() = other.clone();
            found.push(copy);
        }
        let mut without = document.clone();
        match without.pointer_mut(above).unwrap() {
            Value::Object(map) => drop(map.shift_remove(&name)),
            Value::Array(items) => drop(items.remove(name.parse().unwrap())),
            _ => unreachable!("only these have places inside"),
        }
        found.push(without);
        let mut upper = document.clone();
        if let Some(Value::String(text)) = upper.pointer_mut(&path) {
            *text = text.to_uppercase();
            found.push(upper);
        }
    }
    for status in ["accepted", "running", "completed", "failed", "timeout", "done"] {
        let mut copy = document.clone();
        if let Some(index) = copy.get_mut("status") {
            *index = json!(status);
            found.push(copy);
        }
    }
    for auth in ["api_key", "oauth2", "custom", "none", "basic"] {
        let mut copy = document.clone();
        if let Some(index) = copy.pointer_mut("/auth/type") {
            *index = json!(auth);
            found.push(copy);
        }
    }
    let mut open = document.clone();
    if let Value::Object(map) = &mut open {
        map.insert("x_unknown".to_owned(), json!({"deep": [1, 2, {}]}));
        found.push(open);
    }
    found
}

/// JSON pointers of all values inside a value.
fn paths(value: &Value, above: &str) -> Vec<String> {
    let inside: Vec<(String, &Value)> = match value {
        Value::Object(map) => {
            map.iter().map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    let mut found = Vec::new();
    for (name, value) in inside {
        let path = format!("{above}/{name}");
        found.extend(paths(value, &path));
        found.push(path);
    }
    found
}
