//! Tests with the examples of the specification: parsing, validation and round trips.

use nuncio_skill::schema::{PublishedSchemaDefinition, json_definitions, published};
use nuncio_skill::validate::{self, SkillDocumentType, WireDocument, check, parse_as, validate};
use nuncio_skill::wire::{
    AuthConfig, ErrorResponse, InvocationRequest, InvocationResponse, ProtocolVersion, SkillDescriptor, SkillErrorCode,
    SkillIndex,
};
use serde_json::{Value, json};

use crate::sample::{descriptor, example, examples, index, kind, whole};

fn round_trip<T: WireDocument>(document: &Value) {
    let typed: T = parse_as(&serde_json::to_vec(document).unwrap()).unwrap();
    assert_eq!(&serde_json::to_value(&typed).unwrap(), document);
    let text = validate::pretty(&typed);
    assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), document);
}

#[test]
fn every_complete_specification_example_is_valid_and_round_trips() {
    let documents = whole();
    assert_eq!(documents.len(), 22);
    for (kind, document) in &documents {
        let report = check(*kind, document);
        assert!(report.valid, "{report}");
        assert!(kind.fits_schema(document));
        match kind {
            SkillDocumentType::SkillDescriptor => round_trip::<SkillDescriptor>(document),
            SkillDocumentType::SkillIndex => round_trip::<SkillIndex>(document),
            SkillDocumentType::InvocationRequest => round_trip::<InvocationRequest>(document),
            SkillDocumentType::InvocationResponse => round_trip::<InvocationResponse>(document),
            SkillDocumentType::ErrorResponse => round_trip::<ErrorResponse>(document),
        }
    }
}

#[test]
fn specification_examples_cause_no_warning() {
    for (kind, document) in examples().into_iter().filter_map(|(_, value)| Some((kind(&value)?, value))) {
        assert_eq!(check(kind, &document).warnings, [], "{document}");
    }
}

#[test]
fn each_partial_example_of_the_specification_matches_its_schema_definition() {
    let fits = |name: &str, part: &Value| {
        let schema = json!({"$ref": format!("#/$defs/{name}"), "$defs": json_definitions()});
        jsonschema::validator_for(&schema).unwrap().is_valid(part)
    };
    let mut parts = 0;
    for (_, value) in examples().iter().filter(|(_, value)| kind(value).is_none()) {
        if let Some(auth) = value.get("auth") {
            assert!(fits("AuthConfig", auth), "{auth}");
            let typed: AuthConfig = serde_json::from_value(auth.clone()).unwrap();
            assert_eq!(&serde_json::to_value(typed).unwrap(), auth);
        } else {
            let protocol = &value["protocol"];
            assert!(fits("ProtocolVersion", protocol), "{protocol}");
            let typed: ProtocolVersion = serde_json::from_value(protocol.clone()).unwrap();
            assert_eq!(&serde_json::to_value(typed).unwrap(), protocol);
        }
        parts += 1;
    }
    assert_eq!(parts, 5);
}

#[test]
fn error_example_of_the_specification_with_a_placeholder_code_is_invalid() {
    let report = check(SkillDocumentType::ErrorResponse, &example(744));
    let [fault] = report.errors.as_slice() else { panic!("{report}") };
    assert_eq!((fault.path.as_str(), &fault.actual), ("/error/code", &json!("<ErrorCode>")));
    assert_eq!(fault.expected, json!(SkillErrorCode::ALL.map(SkillErrorCode::as_str)));
}

#[test]
fn error_response_for_two_faults_equals_the_example_of_the_specification() {
    let mut bad = descriptor();
    bad["capability_type"] = json!("invalid_type");
    bad["endpoint"]["method"] = json!("PATCH");
    let report = validate(&serde_json::to_vec(&bad).unwrap());
    assert_eq!(serde_json::to_value(ErrorResponse::from(&report)).unwrap(), example(775));
}

#[test]
fn each_missing_required_descriptor_field_is_reported_and_optional_ones_are_not() {
    let required = [
        "protocol",
        "id",
        "name",
        "version",
        "capability_type",
        "description",
        "provider",
        "endpoint",
        "inputs",
        "output",
        "auth",
        "access",
    ];
    for name in required {
        let mut without = descriptor();
        without.as_object_mut().unwrap().shift_remove(name).unwrap();
        let report = validate(&serde_json::to_vec(&without).unwrap());
        let [fault] = report.errors.as_slice() else { panic!("{report}") };
        assert_eq!(fault.path, format!("/{name}"));
        assert_eq!(fault.message, format!("must have required property '{name}'"));
        assert_eq!(fault.actual, "missing");
    }
    for name in ["tags", "documentation_url", "created_at", "updated_at"] {
        let mut without = descriptor();
        without.as_object_mut().unwrap().shift_remove(name).unwrap();
        assert!(check(SkillDocumentType::SkillDescriptor, &without).valid, "{name}");
    }
}

#[test]
fn all_missing_fields_are_reported_at_once_also_in_nested_objects() {
    let report = validate(b"{}");
    assert_eq!(report.errors.len(), 12, "{report}");
    let report = validate(br#"{"endpoint": {}, "auth": {"type": "oauth2", "oauth2": {}}, "inputs": [{}, 7]}"#);
    let paths: Vec<_> = report.errors.iter().map(|fault| fault.path.as_str()).collect();
    for path in [
        "/endpoint/url",
        "/endpoint/method",
        "/auth/oauth2/authorization_url",
        "/auth/oauth2/token_url",
        "/auth/oauth2/scopes",
        "/inputs/0/name",
        "/inputs/0/type",
        "/inputs/0/description",
        "/inputs/0/required",
        "/inputs/1",
    ] {
        assert!(paths.contains(&path), "{path}: {report}");
    }
}

#[test]
fn required_fields_of_each_type_match_the_specification() {
    let required = |name: &str| {
        let found = published(name).unwrap();
        let PublishedSchemaDefinition::Object(definition, _) = found else { panic!("{name} is a list of words") };
        definition.fields.iter().filter(|field| field.required).map(|field| field.name).collect::<Vec<_>>()
    };
    assert_eq!(required("SkillDescriptor").len(), 12);
    assert_eq!(required("ProtocolVersion"), ["version"]);
    assert_eq!(required("SkillIndex"), ["protocol", "provider", "skills"]);
    assert_eq!(required("SkillIndexEntry").len(), 7);
    assert_eq!(required("InvocationRequest"), ["caller", "skill_id", "inputs"]);
    assert_eq!(required("InvocationResponse"), ["execution_id", "status", "skill_id", "timestamps"]);
    assert_eq!(required("ParameterDefinition"), ["name", "type", "description", "required"]);
    assert_eq!(required("InvocationEndpoint"), ["url", "method"]);
    assert_eq!(required("OutputDefinition"), ["content_type"]);
    assert_eq!(required("AuthConfig"), ["type"]);
}

#[test]
fn descriptor_is_written_with_two_space_indent_and_fields_in_specified_order() {
    let text = validate::serialize(&parse_as(&serde_json::to_vec(&descriptor()).unwrap()).unwrap());
    let top: Vec<_> = text.lines().filter(|line| line.starts_with("  \"")).map(str::trim).collect();
    let names: Vec<_> = top.iter().map(|line| line.split('"').nth(1).unwrap()).collect();
    assert_eq!(names[..5], ["protocol", "id", "name", "version", "capability_type"]);
    assert_eq!(names[11..], ["access", "tags", "documentation_url", "created_at", "updated_at"]);
    assert!(text.starts_with("{\n  \"protocol\": {\n    \"version\": \"1.0.0\",\n"), "{text}");
}

#[test]
fn null_default_differs_from_absent_and_unknown_fields_are_kept() {
    let mut document = descriptor();
    document["inputs"][0]["default"] = json!(null);
    document["inputs"][1]["default"] = json!(9_007_199_254_740_993_u64);
    document["x_more"] = json!({"z": [1.5, null, "é\u{0}🚲"], "a": {}});
    document["provider"]["x_logo"] = json!("l");
    document["endpoint"]["retry"]["x_jitter"] = json!(true);
    document["auth"]["x_hint"] = json!(null);
    let report = check(SkillDocumentType::SkillDescriptor, &document);
    assert!(report.valid, "{report}");
    let warned: Vec<_> = report.warnings.iter().map(|fault| fault.path.as_str()).collect();
    for path in ["/auth/x_hint", "/endpoint/retry/x_jitter", "/provider/x_logo", "/x_more"] {
        assert!(warned.contains(&path), "{path}: {report}");
    }
    round_trip::<SkillDescriptor>(&document);
    let typed: SkillDescriptor = serde_json::from_value(document).unwrap();
    assert_eq!(typed.inputs[0].default, Some(Value::Null));
    let typed: SkillDescriptor = serde_json::from_value(descriptor()).unwrap();
    assert_eq!(typed.inputs[0].default, None);
}

#[test]
fn index_with_duplicate_id_is_invalid() {
    let mut twice = index();
    twice["skills"][2]["id"] = twice["skills"][0]["id"].clone();
    let report = check(SkillDocumentType::SkillIndex, &twice);
    let [fault] = report.errors.as_slice() else { panic!("{report}") };
    assert_eq!(fault.path, "/skills/2/id");
    assert_eq!(fault.message, "must be unique: /skills/0/id is the same");
    assert_eq!(fault.actual, "example-corp/weather-forecast");
    assert!(parse_as::<SkillIndex>(&serde_json::to_vec(&twice).unwrap()).is_err());
}

#[test]
fn debug_output_hides_caller_credentials() {
    let mut request: InvocationRequest = serde_json::from_value(example(497)).unwrap();
    let printed = format!("{request:?} {request:#?}");
    assert!(!printed.contains("sk-abc123"), "{printed}");
    assert_eq!(request.take_credentials().unwrap().text("api_key"), Some("sk-abc123..."));
    assert!(!serde_json::to_string(&request).unwrap().contains("credentials"));
}
