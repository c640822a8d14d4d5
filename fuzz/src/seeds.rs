//! Fuzz seeds from the test vectors of the crates.

use serde_json::Value;

/// Every string value in a JSON document, each once; names of members do not count.
#[must_use]
pub fn texts_in(document: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    visit(&serde_json::from_str(document).unwrap(), &mut |value| {
        if let Value::String(text) = value {
            found.push(text.clone().into_bytes());
        }
    });
    distinct(found)
}

/// Every object in a JSON document that has this member, each once.
#[must_use]
pub fn objects_with(member: &str, document: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    visit(&serde_json::from_str(document).unwrap(), &mut |value| {
        if value.get(member).is_some() {
            found.push(value.to_string().into_bytes());
        }
    });
    distinct(found)
}

fn distinct(mut found: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    found.sort_unstable();
    found.dedup();
    found
}

fn visit(value: &Value, each: &mut impl FnMut(&Value)) {
    each(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| visit(item, each)),
        Value::Object(members) => members.values().for_each(|member| visit(member, each)),
        _ => {}
    }
}
