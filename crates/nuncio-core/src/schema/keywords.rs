//! The keywords of JSON Schema (Draft 2020-12) that contain other schemas, and a walk over them.

use std::collections::HashMap;

use serde_json::Value;

use crate::json::pointer;

/// Keywords whose value is a schema.
pub const ONE: [&str; 11] = [
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
pub const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas by name.
pub const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Calls `visit` with a schema and every schema inside it, each with its JSON pointer. Values of `const` or `default`
/// are data and are skipped.
pub fn each<'a>(schema: &'a Value, place: &str, visit: &mut impl FnMut(&'a Value, &str)) {
    visit(schema, place);
    let Some(map) = schema.as_object() else { return };
    for (keyword, value) in map {
        let keyword = keyword.as_str();
        let place = || pointer(place, keyword);
        match value {
            Value::Object(_) | Value::Bool(_) if ONE.contains(&keyword) => each(value, &place(), visit),
            Value::Array(items) if LIST.contains(&keyword) => {
                let place = place();
                for (index, item) in items.iter().enumerate() {
                    each(item, &format!("{place}/{index}"), visit);
                }
            }
            Value::Object(named) if NAMED.contains(&keyword) => {
                let place = place();
                named.iter().for_each(|(name, item)| each(item, &pointer(&place, name), visit));
            }
            _ => {}
        }
    }
}

/// A schema with its anchors, to resolve internal references.
pub struct SchemaIndex<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, (String, &'a Value)>,
    refers: bool,
}

impl<'a> SchemaIndex<'a> {
    /// Indexes the anchors.
    #[must_use]
    pub fn new(root: &'a Value) -> Self {
        let mut document = Self { root, anchors: HashMap::new(), refers: false };
        each(root, "", &mut |schema, place| {
            document.refers |= schema.get("$ref").is_some() || schema.get("$dynamicRef").is_some();
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = schema.get(keyword).and_then(Value::as_str) {
                    document.anchors.entry(name).or_insert_with(|| (place.to_owned(), schema));
                }
            }
        });
        document
    }

    #[must_use]
    pub const fn root(&self) -> &'a Value {
        self.root
    }

    /// Whether the schema contains any reference.
    #[must_use]
    pub const fn refers(&self) -> bool {
        self.refers
    }

    /// Resolves `#`, `#/a/pointer` or `#anchor`; returns the JSON pointer and the schema.
    #[must_use]
    pub fn resolve(&self, reference: &str) -> Option<(String, &'a Value)> {
        let fragment = unescape(reference.strip_prefix('#')?)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.root.pointer(&fragment).map(|found| (fragment, found));
        }
        self.anchors.get(fragment.as_str()).cloned()
    }
}

/// Decodes percent escapes in a fragment.
fn unescape(fragment: &str) -> Option<String> {
    if !fragment.contains('%') {
        return Some(fragment.to_owned());
    }
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn subschemas_are_visited_and_data_is_skipped() {
        let schema = json!({
            "properties": {"a/b": {"items": true}, "pattern": {"type": "string"}},
            "const": {"properties": {"x": {"not": {}}}},
            "default": {"items": {}},
            "anyOf": [{"if": {}}, false],
            "items": [{}],
        });
        let mut found = Vec::new();
        each(&schema, "/s", &mut |_, place| found.push(place.to_owned()));
        found.sort();
        let wanted = [
            "/s",
            "/s/anyOf/0",
            "/s/anyOf/0/if",
            "/s/anyOf/1",
            "/s/properties/a~1b",
            "/s/properties/a~1b/items",
            "/s/properties/pattern",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn references_resolve_by_pointer_and_by_anchor() {
        let schema = json!({"$defs": {"a b": {"$anchor": "x", "type": "string"}, "c~": {"const": {"$anchor": "y"}}}});
        let document = SchemaIndex::new(&schema);
        let resolve = |reference| document.resolve(reference);
        assert_eq!(resolve("#").unwrap().1, &schema);
        assert!(!document.refers());
        for reference in ["#/$defs/a%20b", "#/%24defs/a b", "#x"] {
            assert_eq!(resolve(reference).unwrap().0, "/$defs/a b", "{reference}");
        }
        assert_eq!(resolve("#/$defs/c~0").unwrap().0, "/$defs/c~0");
        for nowhere in ["", "x", "#y", "#/nothing", "#%zz", "#%e", "other#x"] {
            assert_eq!(resolve(nowhere), None, "{nowhere}");
        }
    }
}
