//! The published forms: fresh, byte-equal in both folders, and of one mind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nuncio_skill::schema::{self, files};
use serde_json::{Value, json};

/// §9.1, in its order.
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

fn published(folder: &str, name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema").join(folder).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{} is missing: run `cargo xtask schema`", path.display()))
}

/// The published schema.
fn schema() -> Value {
    serde_json::from_str(&published("draft", "schema.json")).unwrap()
}

#[test]
fn the_files_are_what_the_types_say() {
    for (name, text) in files() {
        assert!(published("draft", name) == text, "schema/draft/{name} is stale: run `cargo xtask schema`");
        assert!(published(schema::RELEASE, name) == text, "schema/{}/{name} differs from the draft", schema::RELEASE);
    }
}

#[test]
fn the_names_are_the_seeds_and_the_root_is_the_descriptor() {
    let schema = schema();
    let defs: BTreeSet<_> = schema["$defs"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(defs, NAMES.into_iter().collect());
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["title"], "SkillDescriptor");
    assert_eq!(schema["$defs"]["SkillDescriptor"], json!({"$ref": "#"}));
    assert!(jsonschema::meta::is_valid(&schema));
}

#[test]
fn only_the_words_of_the_mapping_are_used() {
    fn look(schema: &Value, found: &mut BTreeSet<String>) {
        let Value::Object(map) = schema else { return };
        for (keyword, value) in map {
            found.insert(keyword.clone());
            match keyword.as_str() {
                "properties" | "$defs" => value.as_object().unwrap().values().for_each(|inner| look(inner, found)),
                "allOf" => value.as_array().unwrap().iter().for_each(|inner| look(inner, found)),
                "type" => assert!(
                    ["string", "number", "boolean", "object", "array"].contains(&value.as_str().unwrap()),
                    "{value}"
                ),
                "enum" | "required" | "description" | "$ref" | "$schema" | "title" => {}
                _ => look(value, found),
            }
        }
    }
    let mut found = BTreeSet::new();
    look(&schema(), &mut found);
    let allowed =
        "$defs $ref $schema additionalProperties allOf description enum if items properties required then title type";
    assert_eq!(found, allowed.split(' ').map(str::to_owned).collect());
}

/// Of each definition: either its words, or its fields, by path, and whether each is required.
type Facts = BTreeMap<String, BTreeMap<String, bool>>;

#[test]
fn the_three_forms_agree() {
    let (json, ts, mdx) = (facts_of_json(), facts_of_ts(), facts_of_mdx());
    assert_eq!(json.len(), NAMES.len());
    assert_eq!(json.values().map(BTreeMap::len).sum::<usize>(), 102);
    assert_eq!(ts, json);
    assert_eq!(mdx, json);
}

fn facts_of_json() -> Facts {
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
    let mut facts = Facts::new();
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

fn facts_of_ts() -> Facts {
    let mut facts = Facts::new();
    let (mut name, mut above) = (String::new(), Vec::new());
    for line in published("draft", "schema.ts").lines().map(str::trim) {
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

fn facts_of_mdx() -> Facts {
    let mut facts = Facts::new();
    let mut name = String::new();
    for line in published("draft", "schema.mdx").lines() {
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
