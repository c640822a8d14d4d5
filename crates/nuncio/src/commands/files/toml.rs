//! Writes the part of TOML that agent files need.

use std::fmt::Write as _;

use serde_json::{Map, Value};

pub(super) fn text(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// A TOML key, in quotes where it needs them.
pub(super) fn key(key: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !key.is_empty() && key.bytes().all(bare) { key.to_owned() } else { text(key) }
}

/// A TOML string: multi-line if the text has several lines.
pub(super) fn prose(prose: &str) -> String {
    if !prose.contains('\n') {
        return text(prose);
    }
    let lines: Vec<_> = prose.lines().map(escaped).collect();
    format!("\"\"\"\n{}\"\"\"", lines.join("\n"))
}

/// A JSON value as TOML on one line. TOML has no null: null items and entries are left out, and a bare null becomes an
/// empty text.
pub(super) fn value(json: &Value) -> String {
    match json {
        Value::Null => "\"\"".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(string) => text(string),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter(|item| !item.is_null()).map(value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(object) if object.values().all(Value::is_null) => "{}".to_owned(),
        Value::Object(object) => format!("{{ {} }}", entries(object).join(", ")),
    }
}

/// The entries of an object, each `key = value`; `type` comes first.
pub(super) fn entries(object: &Map<String, Value>) -> Vec<String> {
    let mut entries: Vec<_> = object.iter().filter(|(_, value)| !value.is_null()).collect();
    entries.sort_by_key(|(name, _)| name.as_str() != "type");
    entries.into_iter().map(|(name, item)| format!("{} = {}", key(name), value(item))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The schema after writing it to an agent file and reading it back.
    fn read_back(schema: &Value) -> Value {
        let file = format!(
            "[agent]\nname = \"a\"\nversion = \"1.0.0\"\n[[tool]]\nname = \"t\"\ndescription = {}\nrun = {{ command = [\"x\"] }}\ninput = {}\n",
            prose("one\n\"two\" \\ \u{7}\n"),
            value(schema)
        );
        let agent = nuncio_agent_file::parse("agent.toml", &file).unwrap_or_else(|faults| panic!("{faults}\n{file}"));
        assert_eq!(agent.agent.tools[0].description, "one\n\"two\" \\ \u{7}");
        agent.agent.tools[0].input.source().clone()
    }

    #[test]
    fn json_schema_survives_a_round_trip_through_an_agent_file() {
        let schema = json!({
            "type": "object",
            "properties": {
                "plain": {"type": "string", "description": "quotes \" and \\ and \u{1b} and 预订\nlines"},
                "odd key.x": {"type": "number", "minimum": -1.5, "maximum": 1e300, "multipleOf": 0.5},
                "": {"enum": ["a", 1, true, [1, 2], {}]},
                "big": {"type": "integer", "maximum": 9_007_199_254_740_993_u64},
            },
            "required": [],
            "additionalProperties": false,
        });
        assert_eq!(read_back(&schema), schema);
    }

    #[test]
    fn null_values_are_left_out_of_generated_toml() {
        let schema =
            json!({"type": "object", "properties": {"a": {"default": null, "enum": ["x", null]}}, "x": {"y": null}});
        let expected = json!({"type": "object", "properties": {"a": {"enum": ["x"]}}, "x": {}});
        assert_eq!(read_back(&schema), expected);
    }
}
