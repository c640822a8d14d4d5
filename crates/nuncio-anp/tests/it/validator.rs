//! Tests of the messages of the document validator.

use nuncio_anp::validate::{self, AnpDocumentType};
use serde_json::{Value, json};

use crate::example;

fn description() -> Value {
    let mut document = example("description");
    document["interfaces"][3]["content"] = example("openrpc");
    document
}

/// Makes one change to a valid document and expects exactly one message.
fn assert_said(
    kind: AnpDocumentType,
    mut document: Value,
    path: &str,
    value: Option<Value>,
    is_error: bool,
    said: &str,
) {
    let (above, name) = path.rsplit_once('/').unwrap();
    let target = document.pointer_mut(above).unwrap();
    match (target, value) {
        (Value::Object(object), Some(value)) => drop(object.insert(name.to_owned(), value)),
        (Value::Object(object), None) => drop(object.shift_remove(name).unwrap()),
        (Value::Array(items), Some(value)) => items[name.parse::<usize>().unwrap()] = value,
        (other, _) => panic!("{other}"),
    }
    let report = validate::validate(kind, document.to_string().as_bytes());
    assert_eq!(report.valid, !is_error, "{path}: {report}");
    let faults = if is_error { &report.errors } else { &report.warnings };
    let lines: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(lines, [said], "{path}");
}

#[test]
fn invalid_description_members_are_errors() {
    let no = None;
    for (path, value, said) in [
        ("/protocolType", Some(json!("anp")), r#"/protocolType must be "ANP" (found anp)"#),
        ("/protocolType", no.clone(), r#"/protocolType is missing: "ANP""#),
        ("/protocolVersion", Some(json!(1.0)), "/protocolVersion must be a text (found 1.0)"),
        (
            "/type",
            Some(json!("Product")),
            r#"/type must be "AgentDescription"; "Product" is what some software writes instead (found Product)"#,
        ),
        ("/name", Some(json!(" ")), r#"/name must not be empty (expected some text, found " ")"#),
        ("/url", Some(json!("ad.json")), "/url must be an absolute http or https URL (found ad.json)"),
        (
            "/created",
            Some(json!("yesterday")),
            "/created must be an ISO 8601 time with its offset (expected 2024-12-31T12:00:00Z, found yesterday)",
        ),
        (
            "/created",
            Some(json!("2024-12-31T12:00:00")),
            "/created must be an ISO 8601 time with its offset (expected 2024-12-31T12:00:00Z, found 2024-12-31T12:00:00)",
        ),
        ("/did", Some(json!("wba:x")), "/did must be a DID, without a fragment (expected did:wba:…, found wba:x)"),
        ("/owner", Some(json!("me")), "/owner must be an object (found me)"),
        ("/security", no.clone(), "/security is missing: the name of one of securityDefinitions"),
        (
            "/security",
            Some(json!("other")),
            "/security must be the name of one of securityDefinitions (expected didwba_sc, found other)",
        ),
        (
            "/securityDefinitions/didwba_sc/in",
            Some(json!("trailer")),
            "/securityDefinitions/didwba_sc/in must be one of header, query, body, cookie, uri, auto (found trailer)",
        ),
        (
            "/securityDefinitions/didwba_sc/name",
            no.clone(),
            "/securityDefinitions/didwba_sc/name is missing: the name of the parameter",
        ),
        (
            "/securityDefinitions/didwba_sc/client_secret",
            Some(json!("hunter2")),
            "/securityDefinitions/didwba_sc/client_secret must not be here: a description never contains secrets (found null)",
        ),
        (
            "/Infomations/1/type",
            no.clone(),
            r#"/Infomations/1/type is missing: the kind of the document, such as "Product""#,
        ),
        ("/Infomations/0/url", no.clone(), "/Infomations/0/url is missing: the URL of the document"),
        (
            "/Infomations/0/security",
            Some(json!("x")),
            "/Infomations/0/security must be the name of one of securityDefinitions (expected didwba_sc, found x)",
        ),
        (
            "/Informations",
            Some(json!([])),
            "/Informations must not be given together with Infomations, which has the same meaning (expected one of the spellings, found a list)",
        ),
        (
            "/interfaces/0/url",
            no.clone(),
            "/interfaces/0/url is missing: the URL of the interface document, or content with the document itself",
        ),
        (
            "/interfaces/1/humanAuthorization",
            Some(json!("yes")),
            "/interfaces/1/humanAuthorization must be true or false (found yes)",
        ),
        (
            "/interfaces/3/content/methods/0/params/0/schema/properties/guests/type",
            Some(json!("int")),
            "/interfaces/3/content/methods/0/params/0/schema/properties/guests/type is not a valid JSON Schema: \"int\" is not valid under any of the schemas listed in the 'anyOf' keyword (expected a JSON Schema, found int)",
        ),
        (
            "/capabilities",
            Some(json!([{"id": "c"}, {"id": "c"}])),
            "/capabilities/1/id must be unique: an earlier one is the same (expected a unique id, found c)",
        ),
        (
            "/proof/domain",
            Some(json!("grand-hotel.com")),
            "/proof/challenge is missing: it is required if domain is given",
        ),
        (
            "/proof/verificationMethod",
            Some(json!("did:wba:evil.example#keys-1")),
            "/proof/verificationMethod must be a key of the agent's own DID (expected did:wba:grand-hotel.com:service:hotel-assistant, found did:wba:evil.example#keys-1)",
        ),
    ] {
        let mut document = description();
        if path == "/proof/domain" {
            document["proof"].as_object_mut().unwrap().shift_remove("challenge");
        }
        assert_said(AnpDocumentType::AgentDescription, document, path, value, true, said);
    }
}

#[test]
fn valid_members_that_existing_clients_misread_get_warnings() {
    for (path, value, said) in [
        ("/description", None, "/description is missing: existing clients refuse agents without a description"),
        (
            "/security",
            Some(json!(["didwba_sc"])),
            "/security should be one name; some clients read only one (expected the name of a definition, found a list)",
        ),
        (
            "/securityDefinitions/didwba_sc/in",
            Some(json!("auto")),
            r#"/securityDefinitions/didwba_sc/name should be absent if "in" is "auto" (found Authorization)"#,
        ),
        (
            "/interfaces/2/protocol",
            Some(json!("OpenRPC")),
            r#"/interfaces/2/protocol must be spelt "openrpc"; existing clients compare the exact text (found OpenRPC)"#,
        ),
        (
            "/interfaces/0/type",
            Some(json!("Telepathy")),
            "/interfaces/0/type is not a known type of interface (expected StructuredInterface, NaturalLanguageInterface, MetaProtocolInterface, found Telepathy)",
        ),
        (
            "/interfaces/0/capabilityRefs",
            Some(json!(["cap.x"])),
            "/interfaces/0/capabilityRefs/0 is the id of none of the capabilities (found cap.x)",
        ),
    ] {
        assert_said(AnpDocumentType::AgentDescription, description(), path, value, false, said);
    }
}

#[test]
fn invalid_negotiation_interface_members_are_errors() {
    for (name, value, said) in [
        (
            "profile",
            Some(json!("anp.meta.negotiation.v2")),
            r#"/interfaces/0/profile must be "anp.meta.negotiation.v1" (found anp.meta.negotiation.v2)"#,
        ),
        ("binding", None, r#"/interfaces/0/binding is missing: "jsonrpc-2.0""#),
        ("url", None, "/interfaces/0/url is missing: the URL of the negotiation endpoint"),
        (
            "methods",
            Some(json!(["anp.get_capabilities"])),
            r#"/interfaces/0/methods must have "anp.negotiate" (found a list)"#,
        ),
        (
            "security",
            Some(json!(["x"])),
            "/interfaces/0/security/0 must be the name of one of securityDefinitions (expected didwba_sc, found x)",
        ),
    ] {
        let document = example("negotiating_description");
        assert_said(AnpDocumentType::AgentDescription, document, &format!("/interfaces/0/{name}"), value, true, said);
    }
}

#[test]
fn invalid_openrpc_members_are_reported() {
    for (path, value, error, said) in [
        (
            "/openrpc",
            Some(json!("2.0.0")),
            true,
            "/openrpc must be a version 1 of OpenRPC (expected 1.3.2, found 2.0.0)",
        ),
        ("/info/title", None, true, "/info/title is missing: the title of the interface"),
        (
            "/methods/1/name",
            Some(json!("searchRooms")),
            true,
            "/methods/1/name must be unique: an earlier method has this name (expected a unique name, found searchRooms)",
        ),
        ("/methods/0/params/0/schema", None, true, "/methods/0/params/0/schema is missing: a JSON Schema"),
        ("/methods/0/params", Some(json!({})), true, "/methods/0/params must be a list (found an object)"),
        (
            "/components/schemas/Room",
            None,
            true,
            "/methods/0/result/schema/properties/rooms/items/$ref refers to nothing in the document (expected an entry of the document's components, found #/components/schemas/Room)",
        ),
        (
            "/methods/0/description",
            None,
            false,
            "/methods/0/description is missing: existing clients refuse methods without a description",
        ),
        ("/methods/0/result", None, false, "/methods/0/result is missing: existing clients refuse methods without one"),
        ("/servers", None, false, "/servers is missing: callers do not know where to send calls"),
        (
            "/methods/0/result/schema",
            Some(json!(true)),
            false,
            "/methods/0/result/schema is not an object; existing clients read only objects (found true)",
        ),
    ] {
        assert_said(AnpDocumentType::OpenRpc, example("openrpc"), path, value, error, said);
    }
}

#[test]
fn invalid_agent_list_members_are_errors() {
    let page = || json!({"@type": "CollectionPage", "url": "https://a.example/x", "items": [{"@id": "https://a.example/ad.json"}]});
    for (path, value, said) in [
        ("/@type", None, r#"/@type is missing: "CollectionPage""#),
        ("/items/0/@id", None, "/items/0/@id is missing: the URL of the agent's description"),
        (
            "/items/0/@id",
            Some(json!("javascript:alert(1)")),
            "/items/0/@id must be an absolute http or https URL (found javascript:alert(1))",
        ),
        (
            "/next",
            Some(json!("https://a.example/x")),
            "/next must not be the page itself (expected another page, found https://a.example/x)",
        ),
        ("/items", Some(json!({})), "/items must be a list (found an object)"),
    ] {
        assert_said(AnpDocumentType::CollectionPage, page(), path, value, true, said);
    }
}

#[test]
fn unparsable_document_reports_the_reason() {
    for (bytes, said) in [
        ("{", "the document must be JSON: EOF while parsing an object at line 1 column 1".to_owned()),
        (r#"{"name":"a","name":"b"}"#, "/name must not be repeated (expected 1, found more than one)".to_owned()),
        (&"[".repeat(100), "the document must not nest deeper than 64 levels (found more than 64)".to_owned()),
        (
            &" ".repeat((4 << 20) + 1),
            format!("the document must not have more than {} bytes (found {})", 4 << 20, (4 << 20) + 1),
        ),
        ("7", "the document must be an object (found 7)".to_owned()),
    ] {
        let report = validate::validate(AnpDocumentType::AgentDescription, bytes.as_bytes());
        assert!(!report.valid);
        assert_eq!(report.errors[0].to_string(), said);
    }
}

#[test]
fn number_of_reported_errors_is_limited() {
    let mut document = description();
    document["interfaces"] = json!(vec![json!({}); 10_000]);
    let report = validate::check(AnpDocumentType::AgentDescription, &document);
    assert_eq!(report.errors.len(), validate::MAX_FAULTS);
}

#[test]
fn empty_description_reports_every_missing_required_field() {
    let report = validate::check(AnpDocumentType::AgentDescription, &json!({}));
    let paths: Vec<_> = report.errors.iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(paths, ["/name", "/protocolType", "/protocolVersion", "/security", "/securityDefinitions", "/type"]);
}
