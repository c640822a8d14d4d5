//! Parts of a JSON Schema that pages show.

use serde_json::Value;

/// The properties, with whether they are required. Required ones come first, in the order of `required`.
pub(crate) fn properties(schema: &Value) -> impl Iterator<Item = (&str, &Value, bool)> {
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let position = |name: &str| required.iter().position(|it| *it == name);
    let mut all: Vec<_> = schema["properties"].as_object().into_iter().flatten().collect();
    all.sort_by_key(|(name, _)| position(name).unwrap_or(usize::MAX));
    let all: Vec<_> = all.into_iter().map(|(name, inner)| (name.as_str(), inner, position(name).is_some())).collect();
    all.into_iter()
}

/// A value as people read it: a string without quotes, everything else as JSON.
pub(crate) fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
