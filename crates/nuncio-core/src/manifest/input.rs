//! The `input_schema` of a manifest's tool: compiled, limited in size, and without outside references.

use serde_json::Value;

use super::fault::{ManifestFindings, ManifestRule, ManifestWarningRule};
use super::read::quote_value;
use crate::json::pointer;
use crate::schema::{self, Schema, SchemaError, keywords};

/// Limit of the nesting depth of a tool's input schema.
pub(super) const MAX_DEPTH: usize = 32;
/// Limit of JSON values in a tool's input schema, at all depths.
pub(super) const MAX_NODES: usize = 5_000;
/// Length limit of a regular expression in an input schema, in characters.
pub(super) const MAX_PATTERN: usize = 512;

/// Compiles the input schema at JSON pointer `location` and records its faults.
pub(super) fn read(source: &Value, location: &str, notes: &mut ManifestFindings) -> Option<Schema> {
    let before = notes.count();
    // Draft 2020-12 lets a schema leave `type` out.
    if !source.is_object() || source.get("type").is_some_and(|found| *found != "object") {
        let message = "must be a schema for an object, since a tool's arguments are one: set \"type\" to \"object\" \
                       or leave it out"
            .to_owned();
        notes.fault(ManifestRule::SchemaNotObject, location, message);
    }
    // A schema that is too deep or too large is not examined further.
    let depth = schema::depth(source);
    if depth > MAX_DEPTH {
        let message = format!("nests deeper than {MAX_DEPTH} levels; move parts into \"$defs\"");
        notes.fault(ManifestRule::SchemaTooDeep, location, message);
    }
    let nodes = nodes(source);
    if nodes > MAX_NODES {
        let message = format!("has {nodes} values, at most {MAX_NODES} are allowed");
        notes.fault(ManifestRule::SchemaTooLarge, location, message);
    }
    draft(source, location, notes);
    keywords::each(source, location, &mut |schema, at| {
        references(schema, at, notes);
        patterns(schema, at, notes);
        if at != location && schema.get("$id").is_some() {
            let message = "must not be present: it would change what references mean".to_owned();
            notes.fault(ManifestRule::SchemaRebased, &pointer(at, "$id"), message);
        }
    });
    if notes.count() > before {
        return None;
    }
    let compiled = compile(source, location, notes);
    if compiled.is_some() && source.get("additionalProperties") != Some(&Value::Bool(false)) {
        let message =
            "is not false, so the tool accepts arguments that it does not declare; set it to false".to_owned();
        notes.warn(ManifestWarningRule::AdditionalProperties, &pointer(location, "additionalProperties"), message);
    }
    compiled
}

fn compile(source: &Value, location: &str, notes: &mut ManifestFindings) -> Option<Schema> {
    let mut invalid = |at: &str, message: String| notes.fault(ManifestRule::SchemaInvalid, at, message);
    match Schema::compile_untyped_arguments(source.clone()) {
        Ok(schema) => Some(schema),
        Err(SchemaError::Invalid(why)) => {
            let all: Vec<_> = jsonschema::draft202012::meta::validator()
                .iter_errors(source)
                .map(|error| (format!("{location}{}", error.instance_path()), error.to_string()))
                .collect();
            all.iter().for_each(|(at, why)| invalid(at, why.clone()));
            if all.is_empty() {
                invalid(location, why);
            }
            None
        }
        Err(why) => {
            invalid(location, why.to_string());
            None
        }
    }
}

fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(map) => map.values().map(nodes).sum(),
        _ => 0,
    }
}

fn draft(source: &Value, location: &str, notes: &mut ManifestFindings) {
    let Some(found) = source.get("$schema") else { return };
    let is_2020 = |text: &str| text.trim_end_matches('#') == "https://json-schema.org/draft/2020-12/schema";
    if !found.as_str().is_some_and(is_2020) {
        let message =
            format!("must be Draft 2020-12, found {}; leave it out or convert the schema", quote_value(found));
        notes.fault(ManifestRule::SchemaDraft, &pointer(location, "$schema"), message);
    }
}

fn references(schema: &Value, location: &str, notes: &mut ManifestFindings) {
    for keyword in ["$ref", "$dynamicRef"] {
        let Some(target) = schema.get(keyword).and_then(Value::as_str) else { continue };
        if !target.starts_with('#') {
            let message = format!("must stay within the schema, such as \"#/$defs/name\", found {target:?}");
            notes.fault(ManifestRule::SchemaReference, &pointer(location, keyword), message);
        }
    }
}

fn patterns(schema: &Value, location: &str, notes: &mut ManifestFindings) {
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        pattern_fault(pattern, || pointer(location, "pattern"), notes);
    }
    let named = schema.get("patternProperties").and_then(Value::as_object);
    for pattern in named.into_iter().flat_map(|named| named.keys()) {
        pattern_fault(pattern, || pointer(&pointer(location, "patternProperties"), pattern), notes);
    }
}

fn pattern_fault(pattern: &str, location: impl Fn() -> String, notes: &mut ManifestFindings) {
    let length = pattern.chars().count();
    if length > MAX_PATTERN {
        let message = format!("must not have more than {MAX_PATTERN} characters, found {length}");
        notes.fault(ManifestRule::SchemaPattern, &location(), message);
    } else if let Some(found) = unbounded(pattern) {
        let message = format!("must not use {found}, which cannot be matched in linear time");
        notes.fault(ManifestRule::SchemaPattern, &location(), message);
    }
}

/// The construct in a regular expression that needs backtracking, if there is one.
fn unbounded(pattern: &str) -> Option<&'static str> {
    let mut rest = pattern;
    let mut in_class = false;
    while let Some(first) = rest.chars().next() {
        let tail = &rest[first.len_utf8()..];
        rest = match first {
            '\\' => {
                let escaped = tail.chars().next();
                if !in_class && escaped.is_some_and(|c| matches!(c, '1'..='9') || c == 'k') {
                    return Some("a back-reference");
                }
                escaped.map_or("", |escaped| &tail[escaped.len_utf8()..])
            }
            '[' if !in_class => {
                in_class = true;
                tail
            }
            ']' => {
                in_class = false;
                tail
            }
            '(' if !in_class && ["?=", "?!", "?<=", "?<!"].iter().any(|mark| tail.starts_with(mark)) => {
                return Some("look-around");
            }
            _ => tail,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::unbounded;

    #[test]
    fn input_schema_pattern_is_refused_only_if_it_needs_backtracking() {
        for plain in ["^[a-z(?=)\\1]+$", "\\(?=", "(?:a|b)", "(?<name>a)", "[^]](x)", "\\\\1", "\\d\\b", "a\\"] {
            assert_eq!(unbounded(plain), None, "{plain}");
        }
        for refused in ["(?=a)", "x(?!y)", "(?<=a)b", "(?<!a)b", "(a)\\1", "(?<n>a)\\k<n>"] {
            assert!(unbounded(refused).is_some(), "{refused}");
        }
    }
}
