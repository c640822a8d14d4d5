//! Parses an invocation request strictly, either into an `ExecutionRequest` for the engine or into a report of all
//! faults.

use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_core::execution::{Priority, TraceIds};
use nuncio_core::json::pointer;
use nuncio_core::policy::Protocol;
use nuncio_core::schema::SchemaViolation as SchemaFault;
use nuncio_engine::EngineError;
use nuncio_engine::converse::IdempotencyKey;
use nuncio_engine::invoke::ExecutionRequest;
use serde_json::{Map, Value, json};
use url::Url;

use crate::validate::{DocumentFault, SkillDocumentType, ValidationReport, actual_value};
use crate::wire::{InvocationContext, InvocationRequest, ParameterDefinition};

/// Length limit of trace ids, in bytes.
const MAX_TRACE: usize = 256;

/// Length limit of idempotency keys, in bytes.
const MAX_KEY: usize = 255;

/// Invocation options from request headers.
#[derive(Debug, Default, Clone)]
pub(crate) struct InvocationOptionHeaders {
    pub(crate) idempotency_key: Option<String>,
    pub(crate) traceparent: Option<String>,
    pub(crate) trace_id: Option<String>,
    pub(crate) priority: Option<String>,
    pub(crate) timeout_ms: Option<String>,
}

/// Converts a body into a submission. Credentials in the body are removed.
pub(crate) fn body(
    skill: &str,
    request: InvocationRequest,
    head: InvocationOptionHeaders,
) -> Result<ExecutionRequest, ValidationReport> {
    if request.skill_id != skill {
        let fault =
            DocumentFault::new("/skill_id", "is not the skill at this address", json!(skill), json!(request.skill_id));
        return Err(ValidationReport::new(SkillDocumentType::InvocationRequest, vec![fault], Vec::new()));
    }
    let mut faults = Vec::new();
    let in_context = || request.context.as_ref()?.idempotency_key().map(str::to_owned);
    let key = head.idempotency_key.or_else(in_context);
    if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > MAX_KEY) {
        let expected = format!("1 to {MAX_KEY} bytes");
        faults.push(context_fault("idempotency_key", "is not a key", expected, "a text of another length"));
    }
    // The digest ignores credentials, so a repeated request matches its idempotency key even if the caller
    // authenticates differently.
    let idempotency = key.map(|key| IdempotencyKey { key, body: Digest::of_json(&json!(request)) });
    let context = request.context.unwrap_or_default();
    let callback = context.callback_url().map(|text| {
        Url::parse(text).map_err(|_| {
            faults.push(context_fault("callback_url", "is not a URL", "an http(s) URL", text));
        })
    });
    let trace_id = context.trace_id.filter(|id| {
        let fits = id.len() <= MAX_TRACE && !id.chars().any(char::is_control);
        if !fits {
            let expected = format!("at most {MAX_TRACE} bytes without control characters");
            faults.push(context_fault("trace_id", "is not an identifier", expected, "something else"));
        }
        fits
    });
    if let Some(limit) = context.timeout_ms.as_ref().filter(|limit| limit.as_u64() == 0) {
        faults.push(context_fault("timeout_ms", "must be more than 0", "a number above 0", json!(limit)));
    }
    if !faults.is_empty() {
        return Err(ValidationReport::new(SkillDocumentType::InvocationRequest, faults, Vec::new()));
    }
    Ok(ExecutionRequest {
        protocol: Protocol::Skill,
        inputs: request.inputs,
        priority: context.priority.unwrap_or_default(),
        timeout: context.timeout_ms.map(|limit| limit.as_millis()),
        trace: TraceIds { trace_id: trace_id.or(head.trace_id), traceparent: head.traceparent },
        callback: callback.and_then(Result::ok),
        idempotency,
    })
}

/// Report about a callback address that this server never calls.
pub(crate) fn forbidden_callback(url: &Url, why: &str) -> ValidationReport {
    let expected = "an https: address on the public internet, or one that this server's operator allows";
    let message = format!("is an address that this server never calls: {why}");
    // A user name or password in the address is not repeated.
    let actual = url.origin().ascii_serialization();
    let fault = context_fault(InvocationContext::CALLBACK_URL, &message, expected, actual);
    ValidationReport::new(SkillDocumentType::InvocationRequest, vec![fault], Vec::new())
}

/// Fault of a field of the request's context.
fn context_fault(field: &str, message: &str, expected: impl Into<Value>, actual: impl Into<Value>) -> DocumentFault {
    DocumentFault::new(format!("/context/{field}"), message, expected, actual)
}

/// Parses inputs from a query: one parameter per input, texts as they are, every other type as JSON.
pub(crate) fn query(
    skill: &str,
    pairs: impl Iterator<Item = (String, String)>,
    parameters: &[ParameterDefinition],
    head: InvocationOptionHeaders,
) -> Result<ExecutionRequest, ValidationReport> {
    let mut inputs = Map::new();
    let mut faults = Vec::new();
    for (name, text) in pairs {
        let kind =
            parameters.iter().find(|parameter| parameter.name == name).map(|parameter| parameter.r#type.as_str());
        let path = pointer("/inputs", &name);
        let value = match kind {
            None | Some("string") => Value::String(text),
            Some(kind) => match serde_json::from_str(&text) {
                Ok(value) => value,
                Err(_) => {
                    faults.push(DocumentFault::new(path, "cannot be read", json!(kind), json!(text)));
                    continue;
                }
            },
        };
        if inputs.insert(name, value).is_some() {
            faults.push(DocumentFault::new(path, "is given twice", json!("once"), json!("twice")));
        }
    }
    let priority = match head.priority.as_deref() {
        None => Priority::Normal,
        Some(text) => Priority::parse(text).unwrap_or_else(|| {
            let rule = "must be equal to one of the allowed values";
            faults.push(context_fault("priority", rule, json!(Priority::ALL), text));
            Priority::Normal
        }),
    };
    let timeout = match head.timeout_ms.as_deref().map(|text| (text, text.parse::<u64>())) {
        None => None,
        Some((_, Ok(millis))) if millis > 0 => Some(std::time::Duration::from_millis(millis)),
        Some((text, _)) => {
            faults.push(context_fault("timeout_ms", "must be a number", "milliseconds above 0", text));
            None
        }
    };
    if !faults.is_empty() {
        return Err(ValidationReport::new(SkillDocumentType::InvocationRequest, faults, Vec::new()));
    }
    let idempotency =
        head.idempotency_key.map(|key| IdempotencyKey { key, body: Digest::of_json(&json!([skill, inputs])) });
    Ok(ExecutionRequest {
        protocol: Protocol::Skill,
        inputs,
        priority,
        timeout,
        trace: TraceIds { trace_id: head.trace_id, traceparent: head.traceparent },
        callback: None,
        idempotency,
    })
}

/// Converts schema faults of inputs into a report.
pub(crate) fn input_faults(
    faults: &[SchemaFault],
    inputs: &Map<String, Value>,
    schema: Option<&Value>,
) -> ValidationReport {
    let whole = Value::Object(inputs.clone());
    let fault = |fault: &SchemaFault| {
        let actual = whole.pointer(&fault.pointer).cloned().unwrap_or_default();
        let expected = schema.map(|schema| expected_at(schema, &fault.pointer)).unwrap_or_default();
        DocumentFault::new(format!("/inputs{}", fault.pointer), fault.message.clone(), expected, actual_value(&actual))
    };
    ValidationReport::new(SkillDocumentType::InvocationRequest, faults.iter().map(fault).collect(), Vec::new())
}

/// Allowed values or type at a JSON pointer of a schema; `null` if the schema has neither there.
fn expected_at(schema: &Value, pointer: &str) -> Value {
    let at_pointer = pointer.split('/').skip(1).try_fold(schema, |schema, part| {
        let name = part.replace("~1", "/").replace("~0", "~");
        schema.get("properties").and_then(|properties| properties.get(&name)).or_else(|| schema.get("items"))
    });
    at_pointer.and_then(|schema| schema.get("enum").or_else(|| schema.get("type"))).cloned().unwrap_or_default()
}

/// Checks the length of a trace id given in a header.
pub(crate) fn own_trace_id(text: String) -> Result<String, EngineError> {
    if text.len() <= MAX_TRACE { Ok(text) } else { Err(bad_header("X-Skill-Trace-Id")) }
}

/// Trace id of a `traceparent`.
pub(crate) fn trace_id(traceparent: &str) -> Option<String> {
    traceparent.split('-').nth(1).map(str::to_owned)
}

/// Error for an invalid header value.
pub(crate) fn bad_header(name: &str) -> EngineError {
    EngineError::new(ErrorCode::BadHeader, format!("the header {name} is too long or not visible ASCII text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_traceparent_is_ignored_and_valid_one_yields_its_trace_id() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(nuncio_core::execution::traceparent(good).as_deref(), Some(good));
        assert_eq!(trace_id(good).unwrap(), "4bf92f3577b34da6a3ce929d0e0e4736");
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        ] {
            assert_eq!(nuncio_core::execution::traceparent(bad), None, "{bad}");
        }
    }
}
