//! Published schema files: names and keywords as specified, and equivalent in all three formats.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::sample::published_file;

/// Names of the schema definitions, in the order of §9.1.
const NAMES: [&str; 14] = [
    "SkillDescriptor",
    "SkillIndex",
    "SkillIndexEntry",
    "InvocationRequest",
    "InvocationResponse",
    "ProtocolVersion",
    "CapabilityType",
    "AccessPolicy",
    "AuthType",
    "ExecutionStatus",
    "ParameterDefinition",
    "AuthConfig",
    "InvocationEndpoint",
    "OutputDefinition",
];

fn schema() -> Value {
    serde_json::from_str(&published_file("schema.json")).unwrap()
}

#[test]
fn published_schema_has_the_specified_definitions_and_the_descriptor_as_root() {
    let schema = schema();
    let defs: BTreeSet<_> = schema["$defs"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(defs, NAMES.into_iter().collect());
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["title"], "SkillDescriptor");
    assert_eq!(schema["$defs"]["SkillDescriptor"], json!({"$ref": "#"}));
    assert!(jsonschema::meta::is_valid(&schema));
}

#[test]
fn published_schema_uses_only_the_keywords_named_in_the_specification() {
    fn collect_keywords(schema: &Value, found: &mut BTreeSet<String>) {
        let Value::Object(map) = schema else { return };
        for (keyword, value) in map {
            found.insert(keyword.clone());
            match keyword.as_str() {
                "properties" | "$defs" => {
                    value.as_object().unwrap().values().for_each(|inner| collect_keywords(inner, found));
                }
                "allOf" => value.as_array().unwrap().iter().for_each(|inner| collect_keywords(inner, found)),
                "type" => assert!(
                    ["string", "number", "boolean", "object", "array"].contains(&value.as_str().unwrap()),
                    "{value}"
                ),
                "enum" | "required" | "description" | "$ref" | "$schema" | "title" => {}
                _ => collect_keywords(value, found),
            }
        }
    }
    let mut found = BTreeSet::new();
    collect_keywords(&schema(), &mut found);
    let allowed =
        "$defs $ref $schema additionalProperties allOf description enum if items properties required then title type";
    assert_eq!(found, allowed.split(' ').map(str::to_owned).collect());
}

/// For each definition, its enumeration values or its field paths; the flag says whether a field is required.
type FieldsByDefinition = BTreeMap<String, BTreeMap<String, bool>>;

#[test]
fn json_schema_typescript_and_mdx_have_the_same_fields() {
    let (json, ts, mdx) = (facts_of_json(), facts_of_ts(), facts_of_mdx());
    assert_eq!(json.len(), NAMES.len());
    assert_eq!(json.values().map(BTreeMap::len).sum::<usize>(), 102);
    assert_eq!(ts, json);
    assert_eq!(mdx, json);
}

fn facts_of_json() -> FieldsByDefinition {
    fn fields(schema: &Value, above: &str, found: &mut BTreeMap<String, bool>) {
        for (name, field) in schema["properties"].as_object().unwrap() {
            let required = schema["required"].as_array().is_some_and(|names| names.contains(&json!(name)));
            found.insert(format!("{above}{name}"), required);
            if field["properties"].is_object() {
                fields(field, &format!("{above}{name}."), found);
            }
        }
    }
    let schema = schema();
    let mut facts = FieldsByDefinition::new();
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        let definition = if name == "SkillDescriptor" { &schema } else { definition };
        let mut found = BTreeMap::new();
        match definition["enum"].as_array() {
            Some(words) => found.extend(words.iter().map(|word| (word.as_str().unwrap().to_owned(), true))),
            None => fields(definition, "", &mut found),
        }
        facts.insert(name.clone(), found);
    }
    facts
}

fn facts_of_ts() -> FieldsByDefinition {
    let mut facts = FieldsByDefinition::new();
    let (mut name, mut above) = (String::new(), Vec::new());
    for line in published_file("schema.ts").lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("export type ") {
            let (name, words) = rest.trim_end_matches(';').split_once(" = ").unwrap();
            let words = words.split(" | ").map(|word| (word.trim_matches('"').to_owned(), true)).collect();
            facts.insert(name.to_owned(), words);
        } else if let Some(rest) = line.strip_prefix("export interface ") {
            name = rest.trim_end_matches(" {").to_owned();
        } else if line.starts_with('}') {
            above.pop();
        } else if !line.starts_with(['/', '*'])
            && let Some((field, kind)) = line.split_once(": ")
        {
            let plain = field.trim_end_matches('?');
            let path = above.iter().map(|one| format!("{one}.")).collect::<String>() + plain;
            facts.entry(name.clone()).or_default().insert(path, !field.ends_with('?'));
            if kind == "{" {
                above.push(plain.to_owned());
            }
        }
    }
    facts
}

fn facts_of_mdx() -> FieldsByDefinition {
    let mut facts = FieldsByDefinition::new();
    let mut name = String::new();
    for line in published_file("schema.mdx").lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            name = heading.to_owned();
        } else if let Some(row) = line.strip_prefix("| `") {
            let row = row.replace("\\|", "/");
            let cells: Vec<_> = row.split(" | ").collect();
            let first = cells[0].trim_end_matches('`').trim_matches('"').to_owned();
            facts.entry(name.clone()).or_default().insert(first, cells.get(2).is_none_or(|cell| *cell == "yes"));
        }
    }
    facts
}
