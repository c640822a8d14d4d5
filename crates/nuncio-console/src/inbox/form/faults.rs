//! Schema violations as texts; common ones are translated.

use nuncio_core::schema::SchemaViolation;
use serde_json::Value;

use crate::texts::FormTexts;

/// The text of a schema violation: a translated one for common keywords, otherwise the message of the schema.
pub(super) fn describe(schema: &Value, value: Option<&Value>, fault: &SchemaViolation, texts: &FormTexts) -> String {
    value.and_then(|value| translate(schema, value, texts)).unwrap_or_else(|| fault.message.clone())
}

fn translate(schema: &Value, value: &Value, texts: &FormTexts) -> Option<String> {
    let count = |words: &str, count: u64| words.replace("{count}", &count.to_string());
    match value {
        Value::Number(number) => {
            let number = number.as_f64()?;
            let bound = |keyword: &str| schema[keyword].as_f64().map(|limit| (limit, schema[keyword].to_string()));
            let fill_limit = |text: &str, limit: String| Some(text.replace("{limit}", &limit));
            match (bound("minimum"), bound("maximum"), bound("exclusiveMinimum"), bound("exclusiveMaximum")) {
                (Some((limit, shown)), ..) if number < limit => fill_limit(&texts.at_least, shown),
                (_, Some((limit, shown)), ..) if number > limit => fill_limit(&texts.at_most, shown),
                (_, _, Some((limit, shown)), _) if number <= limit => fill_limit(&texts.more_than, shown),
                (.., Some((limit, shown))) if number >= limit => fill_limit(&texts.less_than, shown),
                _ => None,
            }
        }
        Value::String(text) => {
            let length = text.chars().count() as u64;
            match (schema["minLength"].as_u64(), schema["maxLength"].as_u64(), schema["pattern"].as_str()) {
                (Some(least), ..) if length < least => Some(count(&texts.too_short, least)),
                (_, Some(most), _) if length > most => Some(count(&texts.too_long, most)),
                (.., Some(pattern)) => Some(texts.not_like.replace("{pattern}", pattern)),
                _ => None,
            }
        }
        Value::Array(items) => {
            let length = items.len() as u64;
            match (schema["minItems"].as_u64(), schema["maxItems"].as_u64()) {
                (Some(least), _) if length < least => Some(count(&texts.too_few, least)),
                (_, Some(most)) if length > most => Some(count(&texts.too_many, most)),
                _ => None,
            }
        }
        _ => None,
    }
}
