//! Resolution of references within one schema.

use nuncio_core::schema::keywords::each;
use serde_json::Value;

use crate::HashMap;
use crate::schema::decode_fragment;

/// A schema with its anchors, to resolve internal references.
pub(super) struct SchemaAnchorIndex<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, (String, &'a Value)>,
    refers: bool,
}

impl<'a> SchemaAnchorIndex<'a> {
    /// Indexes the anchors of a schema.
    pub(super) fn new(root: &'a Value) -> Self {
        let mut index = Self { root, anchors: HashMap::default(), refers: false };
        each(root, "", &mut |schema, pointer| {
            index.refers |= schema.get("$ref").is_some() || schema.get("$dynamicRef").is_some();
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = schema.get(keyword).and_then(Value::as_str) {
                    index.anchors.entry(name).or_insert_with(|| (pointer.to_owned(), schema));
                }
            }
        });
        index
    }

    pub(super) const fn root(&self) -> &'a Value {
        self.root
    }

    /// Whether the schema contains any reference.
    pub(super) const fn refers(&self) -> bool {
        self.refers
    }

    /// Resolves `#`, `#/a/pointer` or `#anchor`; returns the JSON pointer and the schema.
    pub(super) fn resolve(&self, reference: &str) -> Option<(String, &'a Value)> {
        let fragment = decode_fragment(reference.strip_prefix('#')?)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.root.pointer(&fragment).map(|found| (fragment, found));
        }
        self.anchors.get(fragment.as_str()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schema_references_resolve_by_pointer_and_by_anchor() {
        let schema = json!({"$defs": {"a b": {"$anchor": "x", "type": "string"}, "c~": {"const": {"$anchor": "y"}}}});
        let document = SchemaAnchorIndex::new(&schema);
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
