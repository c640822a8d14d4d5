//! Sample values for the requests that pages show.

use nuncio_core::schema::Schema;
use serde_json::{Value, json};

/// Sample value of a schema, with the required properties only.
#[must_use]
pub fn sample(schema: &Value) -> Value {
    some_value(schema, &mut 0)
}

/// Sample value that satisfies most schemas. Each date is a day later than the previous one, as a stay requires.
fn some_value(schema: &Value, days: &mut u32) -> Value {
    let named = ["const", "default"].iter().find_map(|key| schema.get(key));
    let listed = ["examples", "enum"].iter().find_map(|key| schema[key].as_array()?.first());
    if let Some(value) = named.or(listed) {
        return value.clone();
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"].as_array()?.first()?.as_str());
    match kind {
        Some("number" | "integer") => match (&schema["minimum"], schema["exclusiveMinimum"].as_i64()) {
            (Value::Null, None) => json!(schema["maximum"].as_i64().map_or(1, |most| most.min(1))),
            (Value::Null, Some(more_than)) => json!(more_than + 1),
            (least, _) => least.clone(),
        },
        Some("boolean") => json!(true),
        Some("array") => {
            let count = schema["minItems"].as_u64().unwrap_or(0).min(3);
            (0..count).map(|_| some_value(&schema["items"], days)).collect()
        }
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let inputs = required.map(|name| (name.to_owned(), some_value(&schema["properties"][name], days)));
            inputs.collect::<serde_json::Map<_, _>>().into()
        }
        Some("null") => Value::Null,
        _ => json!(some_text(schema, days)),
    }
}

fn some_text(schema: &Value, days: &mut u32) -> String {
    let length = schema["minLength"].as_u64().unwrap_or(1).clamp(1, 100);
    let words = "…".repeat(usize::try_from(length).unwrap_or(1));
    if schema.get("format").is_none() && schema.get("pattern").is_none() {
        return words;
    }
    let day = format!("2030-06-{:02}", (*days + 1).min(30));
    let moment = format!("{day}T12:00:00Z");
    let address = "https://example.com/";
    let uuid = "018f4c5e-0000-7000-8000-000000000000";
    let named = match schema["format"].as_str() {
        Some("date") => &*day,
        Some("date-time") => &moment,
        Some("time") => "12:00:00Z",
        Some("email") => "me@example.com",
        Some("uri") => address,
        Some("uuid") => uuid,
        _ => &words,
    };
    // Candidate texts; the first that matches the schema is used.
    let usual = [named, &words, &day, &moment, "12:00", address, uuid, "1", "en"];
    let Ok(compiled) = Schema::compile(schema.clone()) else { return words };
    let fitting = usual.into_iter().find(|text| compiled.check(&json!(text)).is_ok()).unwrap_or(&words).to_owned();
    if fitting == day || fitting == moment {
        *days += 1;
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_arguments_of_every_example_skill_match_its_input_schema() {
        for name in ["hotel", "restaurant", "script", "warehouse"] {
            let path = format!("{}/../../examples/{name}/agent.toml", env!("CARGO_MANIFEST_DIR"));
            let agent = nuncio_agent_file::parse(name, &std::fs::read_to_string(path).unwrap()).unwrap().agent;
            for tool in agent.tools.iter().filter(|tool| tool.skill.is_some()) {
                let sample = sample(tool.input.source());
                assert_eq!(tool.input.check(&sample), Ok(()), "{name}/{}: {sample}", tool.name);
            }
        }
    }

    #[test]
    fn sample_value_matches_its_schema_and_omits_optional_properties() {
        let schema = json!({"type": "object", "additionalProperties": false,
            "required": ["a", "b", "c", "d", "e", "f", "g", "h", "i"], "properties": {
            "a": {"type": "integer", "minimum": 3}, "b": {"type": "number", "exclusiveMinimum": 0, "maximum": 30},
            "c": {"enum": ["x", "y"]}, "d": {"type": "array", "minItems": 2, "items": {"type": "boolean"}},
            "e": {"type": "string", "minLength": 4}, "f": {"type": ["null", "string"]}, "g": {"const": 7},
            "h": {"type": "object", "required": ["k"], "properties": {"k": {"type": "integer", "maximum": -1}}},
            "i": {"type": "string", "format": "date-time"}, "z": {"type": "string"}}});
        let sample = sample(&schema);
        assert_eq!(Schema::compile(schema).unwrap().check(&sample), Ok(()), "{sample}");
        assert_eq!(sample["i"], "2030-06-01T12:00:00Z");
        assert_eq!(sample.get("z"), None, "only what must be given");
    }
}
