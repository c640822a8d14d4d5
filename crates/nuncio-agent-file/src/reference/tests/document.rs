//! Agent files made from the examples of the reference.

use std::fmt;

use serde_json::json;
use toml::{Table, Value};

use super::super::{AgentFileValueType, DocumentedAgentFileKey, KeyCondition, KeyPresence, children, find};

/// Everything that examples refer to by name: a scope, a server, secrets, options and a tool.
const NEIGHBOURS: &str = r#"
[agent]
name = "a"
version = "1.0.0"
description = "Keeps notes."
[secrets]
NOTES_KEY = { env = "NOTES_KEY" }
MODEL_KEY = { env = "MODEL_KEY" }
[[scope]]
id = "notes:write"
label = "Write notes"
sensitivity = "medium"
[[mcp]]
name = "files"
command = ["files"]
[[option]]
name = "language"
type = "text"
[[option]]
name = "model"
type = "text"
[[option]]
name = "temperature"
type = "text"
[[option]]
name = "own_key"
type = "secret"
[[tool]]
name = "add_note"
description = "Adds a note."
scope = "notes:write"
input = { type = "object", properties = { text = { type = "string" } } }
run = { answer = "{{ args | tojson }}" }
"#;

/// An agent file with the example of a key and whatever else that key needs.
pub(super) struct KeyExampleDocument(Table);

impl KeyExampleDocument {
    pub(super) fn with(key: &DocumentedAgentFileKey) -> Self {
        let mut document = Self(NEIGHBOURS.parse().unwrap());
        document.add(key);
        document
    }

    /// The same with one more key in the table of the key.
    pub(super) fn with_neighbour(key: &DocumentedAgentFileKey, name: &str) -> Self {
        let mut document = Self::with(key);
        document.table(key.table()).insert(name.to_owned(), Value::Integer(1));
        document
    }

    /// The same without what makes the key allowed in its table.
    pub(super) fn with_condition_broken(key: &DocumentedAgentFileKey) -> Self {
        let mut document = Self::with(key);
        let table = document.table(key.table());
        match key.condition {
            KeyCondition::Always => {}
            KeyCondition::With(other) => {
                table.remove(other);
            }
            KeyCondition::If(other, words) => {
                let choices = find(&format!("{}.{other}", key.table())).unwrap().values;
                let [AgentFileValueType::Word(choices)] = choices else { panic!("{other} is no choice") };
                let wrong = choices.iter().find(|choice| !words.contains(choice)).unwrap();
                table.insert(other.to_owned(), Value::String((*wrong).to_owned()));
            }
        }
        document
    }

    fn add(&mut self, key: &DocumentedAgentFileKey) {
        let around = tables_around(key.path);
        around.iter().rev().filter_map(|path| find(path)).for_each(|key| self.allow(key));
        self.allow(key);
        self.table(key.table()).insert(key.name().to_owned(), value(&key.example()));
        for path in around {
            self.complete(path);
        }
    }

    /// Makes a key allowed in its table.
    fn allow(&mut self, key: &DocumentedAgentFileKey) {
        let table = self.table(key.table());
        if matches!(key.presence, KeyPresence::OneOf | KeyPresence::AtMostOneOf) {
            for other in children(key.table()).iter().filter(|other| other.presence == key.presence) {
                if other.path != key.path {
                    table.remove(other.name());
                }
            }
        }
        match key.condition {
            KeyCondition::Always => {}
            KeyCondition::If(other, words) => {
                table.insert(other.to_owned(), Value::String(words[0].to_owned()));
            }
            KeyCondition::With(other) => self.add(find(&format!("{}.{other}", key.table())).unwrap()),
        }
    }

    /// Adds the required keys of a table that it does not have yet.
    fn complete(&mut self, path: &str) {
        let siblings = children(path);
        let table = self.table(path);
        for key in &siblings {
            let is_needed = key.presence == KeyPresence::Required
                && match key.condition {
                    KeyCondition::Always => true,
                    KeyCondition::With(other) => table.contains_key(other),
                    KeyCondition::If(other, words) => {
                        table.get(other).and_then(Value::as_str).is_some_and(|word| words.contains(&word))
                    }
                };
            if is_needed && !table.contains_key(key.name()) {
                table.insert(key.name().to_owned(), value(&key.example()));
            }
        }
        // A choice between several keys is made by the example.
        for choice in [KeyPresence::OneOf, KeyPresence::AnyOf] {
            if !siblings.iter().any(|key| key.presence == choice && table.contains_key(key.name()))
                && let Some(key) = siblings.iter().find(|key| key.presence == choice)
            {
                table.insert(key.name().to_owned(), value(&key.example()));
            }
        }
        // A selection needs a default.
        if path == "option" && table.contains_key("options") {
            table.insert("default".to_owned(), value(r#""English""#));
        }
    }

    /// The table at a path, made where it is missing; of several sections, the first.
    fn table(&mut self, path: &str) -> &mut Table {
        let mut table = &mut self.0;
        let mut read = String::new();
        for name in path.split('.').filter(|name| !name.is_empty()) {
            read = if read.is_empty() { name.to_owned() } else { format!("{read}.{name}") };
            let name = if name == "*" { "NOTES_KEY" } else { name };
            let is_section = find(&read).is_some_and(|key| key.values == [AgentFileValueType::Sections]);
            let empty = Value::Table(Table::new());
            let new = if is_section { Value::Array(vec![empty]) } else { empty };
            let entry = table.entry(name).or_insert_with(|| new.clone());
            if !entry.is_table() && !entry.is_array() {
                *entry = new;
            }
            let entry = match entry {
                Value::Array(sections) => &mut sections[0],
                other => other,
            };
            table = entry.as_table_mut().unwrap();
        }
        table
    }
}

impl fmt::Display for KeyExampleDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Paths of the tables around a key, the innermost first.
fn tables_around(path: &str) -> Vec<&str> {
    let outer = path.match_indices('.').map(|(at, _)| &path[..at]);
    // The keys of a table of tables are names, so nothing in it is required.
    let is_plain = |path: &&str| find(path).is_none_or(|key| key.values != [AgentFileValueType::NamedTables]);
    let mut outer: Vec<_> = outer.filter(is_plain).collect();
    outer.reverse();
    outer
}

/// Reads a value written in TOML.
fn value(text: &str) -> Value {
    let mut table: Table = format!("value = {text}").parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    table.remove("value").unwrap()
}

/// The JSON that an editor checks against the schema.
pub(super) fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::String(text) => json!(text),
        Value::Integer(number) => json!(number),
        Value::Float(number) => json!(number),
        Value::Boolean(flag) => json!(flag),
        Value::Datetime(time) => json!(time.to_string()),
        Value::Array(items) => items.iter().map(json).collect(),
        Value::Table(table) => table.iter().map(|(key, value)| (key.clone(), json(value))).collect(),
    }
}
