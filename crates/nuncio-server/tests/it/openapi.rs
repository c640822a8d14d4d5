//! The OpenAPI document is valid and correct: compared with the schema of OpenAPI, with the methods of each route, and
//! with actual responses.

use std::collections::BTreeSet;

use nuncio_testkit::{AapClient, Gateway, Method, ReceivedSseEvent};
use serde_json::{Value, json};

use crate::agents::{DESK, call, desk, echo, tool};

/// The JSON Schema of OpenAPI 3.1: <https://spec.openapis.org/oas/3.1/schema/2022-10-07>
const OPENAPI: &str = include_str!("oas-3.1.json");

struct OpenApiDocument(Value);

impl OpenApiDocument {
    async fn of(gateway: &Gateway) -> Self {
        let request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        Self(gateway.raw(request).await.unwrap().json())
    }

    /// Panics unless the value matches the named component.
    fn check(&self, shape: &str, value: &Value) {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": format!("#/components/schemas/{shape}"),
            "components": self.0["components"],
        });
        assert!(schema["components"]["schemas"][shape].is_object(), "there is no {shape}");
        let validator = jsonschema::validator_for(&schema).unwrap();
        let faults: Vec<_> = validator.iter_errors(value).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{shape}: {faults:#?}\n{value:#}");
    }
}

#[tokio::test]
async fn openapi_document_is_valid_and_its_references_resolve() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).start().await;
    let document = OpenApiDocument::of(&gateway).await.0;
    let schema: Value = serde_json::from_str(OPENAPI).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<_> =
        validator.iter_errors(&document).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "{faults:#?}");

    let mut names = Vec::new();
    for item in document["paths"].as_object().unwrap().values() {
        names.extend(item.as_object().unwrap().values().filter_map(|operation| operation["operationId"].as_str()));
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "operation ids are unique");
    references(&document, &mut |reference| {
        let place = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(place).is_some(), "{reference} leads nowhere");
    });
    // Each component is a schema of its own.
    for (name, shape) in document["components"]["schemas"].as_object().unwrap() {
        assert!(jsonschema::meta::is_valid(shape), "{name}");
    }
}

fn references(value: &Value, seen: &mut impl FnMut(&str)) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                seen(reference);
            }
            map.values().for_each(|value| references(value, seen));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, seen)),
        _ => {}
    }
}

#[tokio::test]
async fn openapi_document_lists_the_methods_of_every_path() {
    // A skill is invoked with its declared method, so there is one skill per method.
    let skill = |method: &str| {
        let declared = format!("skill = {{ type = \"api\", method = \"{method}\" }}");
        tool(&method.to_lowercase(), "printf ok", &declared)
    };
    let gateway = Gateway::builder().agent(DESK, &desk(&["GET", "PUT", "DELETE"].map(skill))).start().await;
    let document = OpenApiDocument::of(&gateway).await.0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let mut written: BTreeSet<String> =
            item.as_object().unwrap().keys().filter(|key| *key != "parameters").map(|key| key.to_uppercase()).collect();
        if written.contains("GET") && !path.ends_with("/invoke") {
            written.insert("HEAD".to_owned());
        }
        let mut taken = BTreeSet::new();
        for method in ["get", "put", "delete"] {
            let path = path.replace("/skills/{id}", &format!("/skills/{DESK}/{method}")).replace("{id}", "x");
            let request = format!("TRACE {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            let answer = gateway.raw(request).await.unwrap();
            assert_eq!(answer.status, 405, "{path}");
            taken.extend(answer.header("allow").unwrap().split(',').map(|name| name.trim().to_owned()));
        }
        assert_eq!(written, taken, "{path}");
    }
}

/// A session request with every possible field.
fn everything() -> Value {
    json!({
        "agent": {"name": DESK, "tools": [{"name": "echo", "trust": true}], "options": {"pin": "1234"}},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "hello"}]},
            {"role": "assistant", "content": "hello"},
        ],
        "tools": [{"name": "ask", "description": "Asks.", "parameters": {"type": "object"}}],
    })
}

async fn streamed(aap: &AapClient, session: &str, mode: &str, script: Value) -> Vec<ReceivedSseEvent> {
    ReceivedSseEvent::parse(&aap.stream(session, mode, script).await.rest_raw().await)
}

#[tokio::test]
async fn openapi_document_matches_actual_responses() {
    let options = "[[option]]\nname = \"pin\"\ntype = \"secret\"\n[[option]]\nname = \"size\"\ntype = \"select\"\noptions = [\"s\", \"l\"]\ndefault = \"s\"\n";
    let gateway = Gateway::builder().agent(DESK, &desk(&[echo(), options.to_owned()])).start().await;
    let (document, aap) = (OpenApiDocument::of(&gateway).await, gateway.aap());
    document.check("Meta", &aap.get("/meta").await.1);
    document.check("NewSession", &everything());
    let (_, created) = aap.post("/sessions", everything()).await;
    document.check("SessionCreated", &created);
    let session = created["sessionId"].as_str().unwrap();
    document.check("SessionInfo", &aap.get(&format!("/sessions/{session}")).await.1);
    document.check("SessionPage", &aap.get("/sessions").await.1);

    let script = json!([
        [{"thinking": "hm"}, {"text": "so"}, call("c1", "echo", json!({"a": 1})), call("c2", "none", json!({}))],
        [{"text": "done"}],
    ]);
    let played = json!({"messages": [{"role": "user", "content": json!({"script": script}).to_string()}]});
    document.check("TurnRequest", &played);
    let (status, outcome) = aap.post(&format!("/sessions/{session}/turns"), played).await;
    assert_eq!(status, 200, "{outcome}");
    document.check("TurnOutcome", &outcome);
    let mut seen = Vec::new();
    for mode in ["delta", "message"] {
        for event in streamed(&aap, session, mode, script.clone()).await {
            let shape = document.0["components"]["schemas"]["EventStream"]["x-events"][&event.event]["$ref"].clone();
            let shape = shape.as_str().unwrap_or_else(|| panic!("{} is not written down", event.event));
            document.check(shape.rsplit('/').next().unwrap(), &event.data);
            seen.push(event.event);
        }
    }
    let seen: BTreeSet<_> = seen.into_iter().collect();
    let written = document.0["components"]["schemas"]["EventStream"]["x-events"].as_object().unwrap();
    assert_eq!(seen, written.keys().cloned().collect(), "every documented event occurs");

    for kind in ["full", "compacted"] {
        document.check("History", &aap.get(&format!("/sessions/{session}/history?type={kind}")).await.1);
    }
    let failed = aap.play(session, json!([[{"throw": "out of ink"}]])).await;
    assert_eq!(failed["stopReason"], "error", "{failed}");
    document.check("TurnOutcome", &failed);
    for (path, wanted) in [("/sessions/nobody", 404), ("/sessions?after=x", 400), ("/nothing", 404)] {
        let (status, error) = aap.get(path).await;
        assert_eq!(status, wanted, "{path}");
        document.check("Error", &error);
    }
    let _stream = aap.stream(session, "delta", json!([[{"sleep": 600_000}]])).await;
    document.check("TurnStop", &aap.cancel(session).await);
    let deleted = aap.request(Method::DELETE, &format!("/sessions/{session}")).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
}
