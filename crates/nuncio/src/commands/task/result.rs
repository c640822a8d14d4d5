//! Builds a task's result from `NAME=VALUE` arguments, each value converted to the type in the form.

use serde_json::{Map, Value};

use super::display::plain;

/// Builds a task's result from the arguments. Without a form the result is one text.
pub(super) fn parse(form: Option<&Value>, arguments: &[String]) -> Result<Value, String> {
    let Some(form) = form else {
        return if arguments.is_empty() {
            Err("give the result as one text, in quotes".to_owned())
        } else {
            Ok(Value::String(arguments.join(" ")))
        };
    };
    if form["properties"].is_null() && form["type"] != "object" {
        return match arguments {
            [argument] => value(form, form, argument, "the result"),
            _ => Err("give the result as one value, or with --output JSON".to_owned()),
        };
    }
    let mut result = Map::new();
    for argument in arguments {
        let (name, text) = argument.split_once('=').ok_or_else(|| format!("{argument:?} is not NAME=VALUE"))?;
        put(&mut result, form, form, name, name, text)?;
    }
    Ok(Value::Object(result))
}

/// Puts a value at `path`, whose parts are separated by dots; a property with a dot in its name takes precedence.
fn put(
    into: &mut Map<String, Value>,
    root: &Value,
    schema: &Value,
    path: &str,
    whole: &str,
    text: &str,
) -> Result<(), String> {
    let schema = resolved(root, schema);
    let properties = &schema["properties"];
    if let Some((part, rest)) = path.split_once('.').filter(|_| properties[path].is_null()) {
        let inner = into.entry(part).or_insert_with(|| Value::Object(Map::new()));
        return match inner {
            Value::Object(inner) => put(inner, root, &properties[part], rest, whole, text),
            _ => Err(format!("{part} is given twice, as a value and as parts")),
        };
    }
    let schema = resolved(root, &properties[path]);
    let given = if is(schema, "array") && !text.trim_start().starts_with('[') {
        // A repeated argument adds an item to the list.
        let item = value(root, &schema["items"], text, whole)?;
        match into.shift_remove(path) {
            Some(Value::Array(mut items)) => {
                items.push(item);
                Value::Array(items)
            }
            _ => Value::Array(vec![item]),
        }
    } else if into.contains_key(path) {
        return Err(format!("{whole} is given twice"));
    } else {
        value(root, schema, text, whole)?
    };
    into.insert(path.to_owned(), given);
    Ok(())
}

fn value(root: &Value, schema: &Value, text: &str, name: &str) -> Result<Value, String> {
    let schema = resolved(root, schema);
    if let Some(values) = schema["enum"].as_array() {
        let found = values.iter().find(|value| plain(value) == text);
        return found.cloned().ok_or_else(|| {
            let allowed: Vec<_> = values.iter().map(plain).collect();
            format!("{name}: {text:?} is none of {}", allowed.join(", "))
        });
    }
    let json = || serde_json::from_str::<Value>(text);
    if is(schema, "string") {
        return Ok(Value::String(text.to_owned()));
    }
    if is(schema, "boolean") {
        return match text.to_ascii_lowercase().as_str() {
            "true" | "yes" => Ok(true.into()),
            "false" | "no" => Ok(false.into()),
            _ => Err(format!("{name}: {text:?} is not true or false")),
        };
    }
    if is(schema, "integer") || is(schema, "number") {
        return json().ok().filter(Value::is_number).ok_or_else(|| format!("{name}: {text:?} is not a number"));
    }
    if is(schema, "object") || is(schema, "array") {
        return json().map_err(|error| format!("{name}: write it as JSON: {error}"));
    }
    // Without a type in the form, the text is parsed as JSON if it is JSON.
    Ok(json().unwrap_or_else(|_| Value::String(text.to_owned())))
}

fn is(schema: &Value, kind: &str) -> bool {
    match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Resolves a local `$ref` of the form.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().and_then(|reference| root.pointer(reference.strip_prefix('#')?));
    target.unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(form: &Value, arguments: &[&str]) -> Result<Value, String> {
        parse(Some(form), &arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn field_values_are_parsed_by_the_types_in_the_form() {
        let form = json!({"type": "object", "$defs": {"size": {"enum": ["s", 2]}}, "properties": {
            "name": {"type": "string"}, "weight": {"type": "number"}, "ok": {"type": "boolean"},
            "size": {"$ref": "#/$defs/size"}, "tags": {"type": "array", "items": {"type": "string"}},
            "at": {"type": "object", "properties": {"shelf": {"type": "integer"}}},
        }});
        let arguments = ["name=7", "weight=2.5", "ok=yes", "size=2", "tags=a", "tags=b=c", "at.shelf=3", "more=[1]"];
        assert_eq!(
            result(&form, &arguments).unwrap(),
            json!({"name": "7", "weight": 2.5, "ok": true, "size": 2, "tags": ["a", "b=c"], "at": {"shelf": 3}, "more": [1]})
        );
        assert_eq!(result(&form, &["tags=[\"a\"]"]).unwrap(), json!({"tags": ["a"]}));
    }

    #[test]
    fn invalid_or_repeated_field_value_is_reported_with_its_field() {
        let form =
            json!({"type": "object", "properties": {"weight": {"type": "number"}, "size": {"enum": ["s", "m"]}}});
        assert_eq!(result(&form, &["weight=much"]).unwrap_err(), "weight: \"much\" is not a number");
        assert_eq!(result(&form, &["size=xl"]).unwrap_err(), "size: \"xl\" is none of s, m");
        assert_eq!(result(&form, &["weight"]).unwrap_err(), "\"weight\" is not NAME=VALUE");
        assert_eq!(result(&form, &["weight=1", "weight=2"]).unwrap_err(), "weight is given twice");
    }

    #[test]
    fn arguments_for_a_task_without_form_are_joined_to_one_text() {
        let arguments = ["It is".to_owned(), "done=now.".to_owned()];
        assert_eq!(parse(None, &arguments).unwrap(), json!("It is done=now."));
        assert!(parse(None, &[]).is_err());
        assert_eq!(parse(Some(&json!({"type": "integer"})), &["3".to_owned()]).unwrap(), json!(3));
    }
}
