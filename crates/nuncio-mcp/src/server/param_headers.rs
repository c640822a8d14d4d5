//! Arguments that a tool's schema wants repeated in headers (`x-mcp-header`), so that proxies can route by them.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-headers>

use http::HeaderMap;
use serde_json::Value;

use super::headers::{PARAM_PREFIX, decoded, single};
use super::refuse::McpFailure;
use super::stateless::mismatch;
use crate::wire::JsonObject;

const ANNOTATION: &str = "x-mcp-header";
/// Nesting limit of annotated properties.
const MAX_DEPTH: usize = 16;

/// Checks that each annotated argument is repeated in its header.
pub(super) fn check(headers: &HeaderMap, schema: &Value, arguments: &JsonObject) -> Result<(), McpFailure> {
    check_properties(headers, schema, arguments, MAX_DEPTH)
}

fn check_properties(
    headers: &HeaderMap,
    schema: &Value,
    arguments: &JsonObject,
    depth: usize,
) -> Result<(), McpFailure> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|_| depth > 0) else {
        return Ok(());
    };
    for (name, property) in properties {
        let Some(argument) = arguments.get(name) else { continue };
        if let Some(label) = property.get(ANNOTATION).and_then(Value::as_str) {
            check_argument(headers, label, argument)?;
        }
        if let Value::Object(inner) = argument {
            check_properties(headers, property, inner, depth - 1)?;
        }
    }
    Ok(())
}

fn check_argument(headers: &HeaderMap, label: &str, argument: &Value) -> Result<(), McpFailure> {
    let expected = match argument {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => argument.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return Ok(()),
    };
    let name = format!("{PARAM_PREFIX}{}", label.to_ascii_lowercase());
    let shown = format!("Mcp-Param-{label}");
    let found = single(headers, &name).and_then(decoded).map_err(|fault| mismatch(fault.says(&shown)))?;
    let is_same = match argument {
        // 7 and 7.0 are the same integer.
        Value::Number(number) => found.parse::<f64>().is_ok_and(|found| number.as_f64() == Some(found)),
        _ => found == expected,
    };
    if is_same { Ok(()) } else { Err(mismatch(format!("the header {shown} differs from the argument"))) }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    #[test]
    fn annotated_argument_must_equal_its_header() {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "plain": {"type": "string"},
            "inner": {"type": "object", "properties": {"deep": {"type": "boolean", "x-mcp-header": "Deep"}}},
        }});
        for (arguments, headers, is_good) in [
            (json!({}), &[][..], true),
            (json!({"plain": "x"}), &[], true),
            (json!({"region": null}), &[], true),
            (json!({"region": "eu"}), &[("mcp-param-region", "eu")], true),
            (json!({"region": "eu"}), &[("mcp-param-region", "=?base64?ZXU=?=")], true),
            (json!({"region": "eu"}), &[], false),
            (json!({"region": "eu"}), &[("mcp-param-region", "EU")], false),
            (json!({"region": "eu"}), &[("mcp-param-region", "eu"), ("mcp-param-region", "eu")], false),
            (json!({"region": "eu"}), &[("mcp-param-region", "=?base64?ZXU?=")], false),
            (json!({"count": 7}), &[("mcp-param-count", "7.0")], true),
            (json!({"count": 7}), &[("mcp-param-count", "8")], false),
            (json!({"count": 7}), &[("mcp-param-count", "seven")], false),
            (json!({"inner": {"deep": true}}), &[("mcp-param-deep", "true")], true),
            (json!({"inner": {"deep": true}}), &[("mcp-param-deep", "false")], false),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            let checked = check(&map, &schema, arguments.as_object().unwrap());
            assert_eq!(checked.is_ok(), is_good, "{arguments} {headers:?}");
        }
    }
}
