//! A request for an execution, read strictly: into what the engine takes, or all that is wrong with it.

use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_core::execution::{Priority, TraceIds};
use nuncio_core::json::pointer;
use nuncio_core::policy::Protocol;
use nuncio_core::schema::SchemaViolation as SchemaFault;
use nuncio_engine::EngineError;
use nuncio_engine::converse::Idempotency;
use nuncio_engine::invoke::Submission;
use serde_json::{Map, Value, json};
use url::Url;

use crate::validate::{DocumentFault, Kind, Report, parse_as, shown};
use crate::wire::{self, InvocationRequest, ParameterDefinition};

/// How long an identifier that only travels may be.
const MAX_TRACE: usize = 256;

/// How long a key that makes a repeated request the same may be.
const MAX_KEY: usize = 255;

/// What a request says in its headers.
#[derive(Debug, Default, Clone)]
pub(crate) struct Head {
    pub(crate) idempotency_key: Option<String>,
    pub(crate) traceparent: Option<String>,
    pub(crate) trace_id: Option<String>,
    pub(crate) priority: Option<String>,
    pub(crate) timeout_ms: Option<String>,
}

/// Reads the form of a body, whichever skill it is for.
pub(crate) fn read(bytes: &[u8]) -> Result<InvocationRequest, Report> {
    parse_as(bytes)
}

/// Reads a body, without the credentials it carried.
pub(crate) fn body(skill: &str, request: InvocationRequest, head: Head) -> Result<Submission, Report> {
    if request.skill_id != skill {
        let fault =
            DocumentFault::new("/skill_id", "is not the skill at this address", json!(skill), json!(request.skill_id));
        return Err(Report::new(Kind::InvocationRequest, vec![fault], Vec::new()));
    }
    let mut faults = Vec::new();
    let key = match head.idempotency_key {
        Some(key) => Some(key),
        None => request.context.as_ref().and_then(|context| context.idempotency_key()).map(str::to_owned),
    };
    if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > MAX_KEY) {
        let expected = json!(format!("1 to {MAX_KEY} bytes"));
        faults.push(DocumentFault::new(
            "/context/idempotency_key",
            "is not a key",
            expected,
            json!("a text of another length"),
        ));
    }
    // The same key with the same wish is the same execution, whoever proves it how.
    let idempotency = key.map(|key| Idempotency { key, body: Digest::of_json(&json!(request)) });
    let context = request.context.unwrap_or_default();
    let callback = context.callback_url().map(|text| {
        Url::parse(text).map_err(|_| {
            faults.push(DocumentFault::new(
                "/context/callback_url",
                "is not a URL",
                json!("an http(s) URL"),
                json!(text),
            ));
        })
    });
    let trace_id = context.trace_id.filter(|id| {
        let fits = id.len() <= MAX_TRACE && !id.chars().any(char::is_control);
        if !fits {
            let expected = json!(format!("at most {MAX_TRACE} bytes without control characters"));
            faults.push(DocumentFault::new(
                "/context/trace_id",
                "is not an identifier",
                expected,
                json!("something else"),
            ));
        }
        fits
    });
    if let Some(limit) = context.timeout_ms.as_ref().filter(|limit| limit.as_u64() == 0) {
        faults.push(DocumentFault::new(
            "/context/timeout_ms",
            "must be more than 0",
            json!("a number above 0"),
            json!(limit),
        ));
    }
    if !faults.is_empty() {
        return Err(Report::new(Kind::InvocationRequest, faults, Vec::new()));
    }
    Ok(Submission {
        skill: skill.to_owned(),
        protocol: Protocol::Skill,
        inputs: request.inputs,
        priority: context.priority.map(priority).unwrap_or_default(),
        timeout: context.timeout_ms.map(|limit| limit.as_millis()),
        trace: TraceIds { trace_id: trace_id.or(head.trace_id), traceparent: head.traceparent },
        callback: callback.and_then(Result::ok),
        idempotency,
    })
}

/// Reads a query: one parameter an input, objects and arrays as JSON.
pub(crate) fn query(
    skill: &str,
    pairs: impl Iterator<Item = (String, String)>,
    parameters: &[ParameterDefinition],
    head: Head,
) -> Result<Submission, Report> {
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
        None | Some("normal") => Priority::Normal,
        Some("low") => Priority::Low,
        Some("high") => Priority::High,
        Some(other) => {
            let allowed = json!(["low", "normal", "high"]);
            faults.push(DocumentFault::new(
                "/context/priority",
                "must be equal to one of the allowed values",
                allowed,
                json!(other),
            ));
            Priority::Normal
        }
    };
    let timeout = match head.timeout_ms.as_deref().map(|text| (text, text.parse::<u64>())) {
        None => None,
        Some((_, Ok(millis))) if millis > 0 => Some(std::time::Duration::from_millis(millis)),
        Some((text, _)) => {
            faults.push(DocumentFault::new(
                "/context/timeout_ms",
                "must be a number",
                json!("milliseconds above 0"),
                json!(text),
            ));
            None
        }
    };
    if !faults.is_empty() {
        return Err(Report::new(Kind::InvocationRequest, faults, Vec::new()));
    }
    let idempotency =
        head.idempotency_key.map(|key| Idempotency { key, body: Digest::of_json(&json!([skill, inputs])) });
    Ok(Submission {
        skill: skill.to_owned(),
        protocol: Protocol::Skill,
        inputs,
        priority,
        timeout,
        trace: TraceIds { trace_id: head.trace_id, traceparent: head.traceparent },
        callback: None,
        idempotency,
    })
}

/// Inputs that do not fit the skill, as the protocol reports them.
pub(crate) fn input_faults(faults: &[SchemaFault], inputs: &Map<String, Value>, schema: Option<&Value>) -> Report {
    let whole = Value::Object(inputs.clone());
    let fault = |fault: &SchemaFault| {
        let actual = whole.pointer(&fault.pointer).cloned().unwrap_or_default();
        let expected = schema.map(|schema| expected_at(schema, &fault.pointer)).unwrap_or_default();
        DocumentFault::new(format!("/inputs{}", fault.pointer), fault.message.clone(), expected, shown(&actual))
    };
    Report::new(Kind::InvocationRequest, faults.iter().map(fault).collect(), Vec::new())
}

/// The values or the type that a schema has at a place in a document; nothing where it is not that simple.
fn expected_at(schema: &Value, pointer: &str) -> Value {
    let place = pointer.split('/').skip(1).try_fold(schema, |schema, part| {
        let name = part.replace("~1", "/").replace("~0", "~");
        schema.get("properties").and_then(|properties| properties.get(&name)).or_else(|| schema.get("items"))
    });
    place.and_then(|schema| schema.get("enum").or_else(|| schema.get("type"))).cloned().unwrap_or_default()
}

fn priority(priority: wire::Priority) -> Priority {
    match priority {
        wire::Priority::Low => Priority::Low,
        wire::Priority::Normal => Priority::Normal,
        wire::Priority::High => Priority::High,
    }
}

/// A trace id of the caller's own, in a header.
pub(crate) fn own_trace_id(text: String) -> Result<String, EngineError> {
    if text.len() <= MAX_TRACE { Ok(text) } else { Err(bad_header("X-Skill-Trace-Id")) }
}

/// A W3C trace context, if it is one.
pub(crate) fn traceparent(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let whole = matches!(parts.as_slice(), [version, trace, span, flags, ..]
        if hex(version, 2) && *version != "ff" && hex(trace, 32) && hex(span, 16) && hex(flags, 2)
            && (parts.len() == 4 || *version != "00")
            && trace.bytes().any(|b| b != b'0') && span.bytes().any(|b| b != b'0'));
    (whole && text.len() <= MAX_TRACE).then(|| text.to_owned())
}

/// The trace id inside a W3C trace context.
pub(crate) fn trace_id(traceparent: &str) -> Option<String> {
    traceparent.split('-').nth(1).map(str::to_owned)
}

/// A priority header or a key that is not one.
pub(crate) fn bad_header(name: &str) -> EngineError {
    EngineError::new(Code::BadHeader, format!("the header {name} is too long or not visible ASCII text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_context_is_known_by_its_form() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(traceparent(good).as_deref(), Some(good));
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
            assert_eq!(traceparent(bad), None, "{bad}");
        }
    }
}
