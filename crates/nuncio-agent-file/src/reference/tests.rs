//! Tests that the reference, the parser and the JSON Schema agree.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::reader::TomlTableReader;
use crate::source::AgentFileSource;
use crate::{STARTER, parse};
use nuncio_core::template::{EscapeContext, Template};

mod document;

use document::KeyExampleDocument;

fn validator() -> jsonschema::Validator {
    jsonschema::draft202012::new(&schema()).unwrap()
}

/// Faults of the JSON Schema in an agent file.
fn schema_faults(validator: &jsonschema::Validator, text: &str) -> Vec<String> {
    let file: toml::Table = text.parse().unwrap();
    let json = document::json(&toml::Value::Table(file));
    validator.iter_errors(&json).map(|fault| format!("{}: {fault}", fault.instance_path())).collect()
}

#[test]
fn example_of_every_key_is_accepted_by_parser_and_schema() {
    let validator = validator();
    let mut refused = Vec::new();
    for key in keys() {
        let text = KeyExampleDocument::with(key).to_string();
        let parser = parse("agent.toml", &text).err().map(|faults| faults.to_string());
        let faults: Vec<_> = parser.into_iter().chain(schema_faults(&validator, &text)).collect();
        if !faults.is_empty() {
            refused.push(format!("{}: {}\n{text}", key.path, faults.join("\n")));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn unknown_key_in_any_table_is_refused_by_parser_and_schema() {
    let validator = validator();
    let tables = keys().filter(|key| !children(key.path).is_empty());
    let mut tables: Vec<_> = tables.filter_map(|key| Some(*children(key.path).first()?)).collect();
    tables.dedup_by_key(|key| key.path);
    assert!(tables.len() > 20);
    for key in tables {
        let text = KeyExampleDocument::with_neighbour(key, "no_such_key").to_string();
        let faults = parse("agent.toml", &text).map(|_| ()).unwrap_err().to_string();
        assert!(faults.contains("no_such_key: unknown key"), "{}: {faults}\n{text}", key.path);
        assert_ne!(schema_faults(&validator, &text), [""; 0], "{}:\n{text}", key.path);
    }
    let text = "no_such_key = 1\n[agent]\nname = \"a\"\nversion = \"1.0.0\"\n";
    assert!(parse("agent.toml", text).is_err() && !schema_faults(&validator, text).is_empty());
}

#[test]
fn key_whose_condition_does_not_hold_is_refused_by_parser_and_schema() {
    let validator = validator();
    let mut checked = 0;
    for key in keys().filter(|key| key.condition != KeyCondition::Always) {
        let text = KeyExampleDocument::with_condition_broken(key).to_string();
        assert!(parse("agent.toml", &text).is_err(), "{}:\n{text}", key.path);
        assert_ne!(schema_faults(&validator, &text), [""; 0], "{}:\n{text}", key.path);
        checked += 1;
    }
    assert!(checked > 20);
}

#[test]
fn all_example_agents_and_the_starter_file_fit_the_schema() {
    let validator = validator();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folders = [examples.join("bring-your-agent"), examples];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let files = entries.map(|entry| entry.unwrap().path().join("agent.toml"));
    let mut files: Vec<_> =
        files.filter(|file| file.exists()).map(|file| std::fs::read_to_string(file).unwrap()).collect();
    assert!(files.len() > 10);
    files.push(STARTER.to_owned());
    for text in files {
        assert_eq!(schema_faults(&validator, &text), [""; 0], "{text}");
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "`reference` lists no key \"no_such_key\" of \"agent.owner\"")]
fn parser_cannot_read_a_key_that_the_reference_does_not_list() {
    let source = AgentFileSource::new("agent.toml", "");
    let text = toml::de::DeTable::parse("agent = { owner = {} }").unwrap();
    let root = TomlTableReader::root(&source, text.get_ref());
    root.table("agent").unwrap().table("owner").unwrap().item("no_such_key");
}

#[test]
fn every_key_has_a_table_and_texts_in_both_languages() {
    let mut paths = BTreeSet::new();
    for key in keys() {
        assert!(paths.insert(key.path), "{} is listed twice", key.path);
        let outer = key.table().trim_end_matches(".*");
        assert!(outer.is_empty() || !children(outer).is_empty(), "{} is in no table", key.path);
        assert!(key.meaning.en.ends_with('.') && key.meaning.zh.ends_with('。'), "{}", key.path);
        if let KeyCondition::If(other, _) | KeyCondition::With(other) = key.condition {
            assert!(has_key(key.table(), other), "{} depends on {other}", key.path);
        }
    }
}

#[test]
fn every_template_variable_is_listed_with_existing_template_keys() {
    for variable in VARIABLES {
        for path in variable.keys {
            assert!(find(path).is_some_and(DocumentedAgentFileKey::is_template), "{}: {path}", variable.name);
        }
        let used = Template::parse(variable.example).unwrap().variables();
        assert!(used.iter().any(|used| used.split('.').next() == Some(variable.name)), "{used:?}");
    }
    for key in keys().filter(|key| key.is_template()) {
        assert!(key.variables().next().is_some(), "{}", key.path);
    }
}

#[test]
fn listed_template_filters_are_exactly_those_of_the_template_engine() {
    let engine = format!("{:?}", minijinja::Environment::new());
    let (_, names) = engine.split_once("filters: [").unwrap();
    let names: BTreeSet<_> = names.split(']').next().unwrap().split(", ").map(|name| name.trim_matches('"')).collect();
    let listed: BTreeSet<_> = FILTERS.iter().flat_map(|filter| filter.names.iter().copied()).collect();
    assert_eq!(listed, names);
    for filter in FILTERS {
        let rendered = Template::parse(filter.example).unwrap().render(EscapeContext::Text, serde_json::json!({}));
        assert_eq!(rendered.unwrap(), filter.result, "{}", filter.example);
    }
}

#[test]
fn path_is_found_in_its_own_table_and_in_a_table_with_the_same_keys() {
    assert_eq!(find("tool.run").unwrap().path, "tool.run");
    assert_eq!(find("agent.skill.retry.backoff_ms").unwrap().path, "tool.skill.retry.backoff_ms");
    assert_eq!(children("agent.skill").len(), children("tool.skill").len());
    assert_eq!(children("secrets").iter().map(|key| key.name()).collect::<Vec<_>>(), ["env", "file"]);
    assert!(children("").iter().any(|key| key.path == "tool") && children("tool.name").is_empty());
    assert!(find("tool.rn").is_none());
}

#[test]
fn misspelt_path_gets_at_most_three_similar_ones() {
    assert_eq!(similar_paths("tool.rnu").first(), Some(&"tool.run"));
    assert_eq!(similar_paths("tool.timeout").first(), Some(&"tool.timeout_ms"));
    assert!(similar_paths("tool.sensitivity").contains(&"scope.sensitivity"));
    assert_eq!(similar_paths("tool.description").len(), 3);
    assert_eq!(similar_paths("agent.nmae"), ["agent.name"]);
    assert_eq!(similar_paths("zzzzzzzzzz"), [""; 0]);
}
