//! The JSON Schema of agent files, for editors.

use serde_json::{Map, Value, json};

use super::{AgentFileValueType, DocumentedAgentFileKey, KeyCondition, KeyPresence, children};

/// The JSON Schema (2020-12) of agent files. It refuses every unknown key; other rules are checked by the parser.
#[must_use]
pub fn schema() -> Value {
    let mut schema = table_schema("");
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!("Agent file of Nuncio (agent.toml)"));
    sorted(Value::Object(schema))
}

fn table_schema(table: &str) -> Map<String, Value> {
    let keys = children(table);
    let properties: Map<_, _> = keys.iter().map(|key| (key.name().to_owned(), key_schema(key))).collect();
    let named = |presence: KeyPresence| {
        keys.iter().filter(move |key| key.presence == presence).map(|key| key.name()).collect::<Vec<_>>()
    };
    let mut schema = Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), Value::Object(properties)),
        ("additionalProperties".to_owned(), json!(false)),
    ]);
    let is_required =
        |key: &&&DocumentedAgentFileKey| key.presence == KeyPresence::Required && key.condition == KeyCondition::Always;
    let required: Vec<_> = keys.iter().filter(is_required).map(|key| key.name()).collect();
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    for (presence, keyword) in [(KeyPresence::OneOf, "oneOf"), (KeyPresence::AnyOf, "anyOf")] {
        let each: Vec<_> = named(presence).iter().map(|name| json!({"required": [name]})).collect();
        if !each.is_empty() {
            schema.insert(keyword.to_owned(), json!(each));
        }
    }
    let exclusive = named(KeyPresence::AtMostOneOf);
    let pairs = exclusive
        .iter()
        .enumerate()
        .flat_map(|(index, one)| exclusive[index + 1..].iter().map(move |other| json!({"required": [one, other]})));
    let pairs: Vec<_> = pairs.collect();
    if !pairs.is_empty() {
        schema.insert("not".to_owned(), json!({"anyOf": pairs}));
    }
    let conditions: Vec<_> = keys.iter().flat_map(|key| conditions(key)).collect();
    if !conditions.is_empty() {
        schema.insert("allOf".to_owned(), json!(conditions));
    }
    schema
}

/// The rules about a key that is allowed only beside another.
fn conditions(key: &DocumentedAgentFileKey) -> Vec<Value> {
    let present = json!({"required": [key.name()]});
    match key.condition {
        KeyCondition::Always => Vec::new(),
        KeyCondition::With(other) => vec![json!({"if": present, "then": {"required": [other]}})],
        KeyCondition::If(other, words) => {
            let holds = json!({"properties": {other: {"enum": words}}, "required": [other]});
            let mut rules = vec![json!({"if": present, "then": holds})];
            if key.presence == KeyPresence::Required {
                rules.push(json!({"if": holds, "then": present}));
            }
            rules
        }
    }
}

fn key_schema(key: &DocumentedAgentFileKey) -> Value {
    let mut forms: Vec<_> = key.values.iter().map(|form| form_schema(*form, key.path)).collect();
    let mut schema = if forms.len() == 1 {
        forms.remove(0)
    } else {
        Map::from_iter([("anyOf".to_owned(), Value::from_iter(forms.into_iter().map(Value::Object)))])
    };
    let mut description = key.meaning.en.to_owned();
    let variables: Vec<_> = key.variables().map(|variable| variable.name).collect();
    if !variables.is_empty() {
        description.push_str(&format!(" A template; it may use {}.", variables.join(", ")));
    }
    match key.presence {
        KeyPresence::Default(value) => {
            schema.insert("default".to_owned(), json_value(value));
        }
        KeyPresence::DefaultText(en, _) => description.push_str(&format!(" Default: {en}.")),
        _ => {}
    }
    schema.insert("description".to_owned(), json!(description));
    Value::Object(schema)
}

fn form_schema(form: AgentFileValueType, path: &str) -> Map<String, Value> {
    let texts_by_name = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let schema = match form {
        AgentFileValueType::Text | AgentFileValueType::Template | AgentFileValueType::Time => json!({"type": "string"}),
        AgentFileValueType::Texts => json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
        AgentFileValueType::Command => json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
        AgentFileValueType::Templates => texts_by_name(),
        AgentFileValueType::WebAddress => json!({"type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://"}),
        AgentFileValueType::Flag => json!({"type": "boolean"}),
        AgentFileValueType::True => json!({"const": true}),
        AgentFileValueType::Integer => json!({"type": "integer"}),
        AgentFileValueType::WholeNumber(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        AgentFileValueType::Number(least, most) => json!({"type": "number", "minimum": least, "maximum": most}),
        AgentFileValueType::Word(words) => json!({"enum": words}),
        AgentFileValueType::Words(words) => json!({"type": "array", "items": {"enum": words}}),
        AgentFileValueType::JsonSchema => json!({"type": "object"}),
        AgentFileValueType::TextByLanguage => json!({"anyOf": [{"type": "string"}, texts_by_name()]}),
        AgentFileValueType::TextsByLanguage => {
            json!({"type": "array", "items": {"anyOf": [{"type": "string"}, texts_by_name()]}})
        }
        AgentFileValueType::Flags => json!({"type": "object", "additionalProperties": {"type": "boolean"}}),
        AgentFileValueType::Table => return table_schema(path),
        AgentFileValueType::Sections => json!({"type": "array", "items": table_schema(path)}),
        AgentFileValueType::NamedTables => {
            json!({"type": "object", "additionalProperties": table_schema(&format!("{path}.*"))})
        }
        AgentFileValueType::TableLike(other) => return table_schema(other),
    };
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

/// A default of the reference, which is a TOML value and at the same time a JSON value.
fn json_value(value: &str) -> Value {
    serde_json::from_str(value).unwrap_or_else(|_| json!(value))
}

/// The same value with the keys of objects in alphabetical order, whatever order the JSON library keeps.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
