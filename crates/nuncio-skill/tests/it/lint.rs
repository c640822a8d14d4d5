//! Tests of the validation rules that go beyond the JSON schema.

use nuncio_skill::validate::{MAX_FAULTS, SkillDocumentType, check, validate, validate_as};
use serde_json::{Value, json};

use crate::sample::{descriptor, example, index};

/// Paths of errors and warnings of a document with one value replaced.
fn with(kind: SkillDocumentType, mut document: Value, path: &str, value: Value) -> (Vec<String>, Vec<String>) {
    let (above, name) = path.rsplit_once('/').unwrap();
    document.pointer_mut(above).unwrap()[name] = value;
    let report = check(kind, &document);
    assert!(kind.fits_schema(&document), "the schema should let it through: {document}");
    let paths =
        |faults: Vec<nuncio_skill::validate::DocumentFault>| faults.into_iter().map(|fault| fault.path).collect();
    assert_eq!(report.valid, report.errors.is_empty());
    (paths(report.errors), paths(report.warnings))
}

#[test]
fn violated_specification_rules_are_lint_errors() {
    let good = descriptor();
    for (path, value) in [
        ("/endpoint/url", json!("ftp://a.example")),
        ("/endpoint/url", json!("/relative")),
        ("/endpoint/status_url", json!("javascript:alert('{execution_id}')")),
        ("/endpoint/result_url", json!("{execution_id}")),
        ("/documentation_url", json!("javascript:alert(1)")),
        ("/protocol/changelog_url", json!("see our page")),
        ("/created_at", json!("yesterday")),
        ("/updated_at", json!("2025-02-30T00:00:00Z")),
        ("/version", json!("2.1")),
        ("/protocol/version", json!("1")),
    ] {
        let (errors, _) = with(SkillDocumentType::SkillDescriptor, good.clone(), path, value);
        assert_eq!(errors, [path]);
    }
    let (errors, _) =
        with(SkillDocumentType::SkillDescriptor, good.clone(), "/output/schema", json!({"type": "strnig"}));
    assert_eq!(errors, ["/output/schema"]);
    let (errors, _) =
        with(SkillDocumentType::SkillDescriptor, good.clone(), "/inputs/1/schema", json!({"required": "a"}));
    assert_eq!(errors, ["/inputs/1/schema"]);
    let mut oauth = good;
    oauth["auth"] = example(661)["auth"].clone();
    for path in ["/auth/oauth2/authorization_url", "/auth/oauth2/token_url"] {
        let (errors, _) = with(SkillDocumentType::SkillDescriptor, oauth.clone(), path, json!("urn:x"));
        assert_eq!(errors, [path]);
    }
    let (errors, _) = with(SkillDocumentType::SkillIndex, index(), "/skills", {
        let mut skills = index()["skills"].clone();
        skills[1]["version"] = json!("one");
        skills[1]["descriptor_url"] = json!("x.json");
        skills
    });
    assert_eq!(errors, ["/skills/1/descriptor_url", "/skills/1/version"]);
}

#[test]
fn probable_mistakes_are_lint_warnings() {
    let good = descriptor();
    for (path, value, warned) in [
        ("/auth", json!({"type": "api_key"}), "/auth/header"),
        ("/auth/header", json!("X Key"), "/auth/header"),
        ("/id", json!(""), "/id"),
        ("/endpoint/status_url", json!("https://a.example/status"), "/endpoint/status_url"),
        ("/endpoint/timeout_ms", json!(-1), "/endpoint/timeout_ms"),
        ("/endpoint/retry/max_attempts", json!(1.5), "/endpoint/retry/max_attempts"),
        ("/inputs/1/name", json!("location"), "/inputs/1/name"),
        ("/inputs/1/type", json!("text"), "/inputs/1/type"),
        ("/inputs/1/default", json!("seven"), "/inputs/1/default"),
        ("/inputs/1/default", json!(null), "/inputs/1/default"),
        ("/inputs/1/schema", json!({"maximum": 6}), "/inputs/1/default"),
        ("/output/schema", json!({"$ref": "https://a.example/s.json"}), "/output/schema"),
        ("/output/schema", json!({"pattern": "(a)\\1"}), "/output/schema"),
        ("/provider/url", json!("weather.example.com"), "/provider/url"),
        ("/created_at", json!("2025-01-15"), "/created_at"),
        ("/updated_at", json!("2024-01-01T00:00:00Z"), "/updated_at"),
        ("/colour", json!("blue"), "/colour"),
    ] {
        let (errors, warnings) = with(SkillDocumentType::SkillDescriptor, good.clone(), path, value.clone());
        assert_eq!((errors, warnings), (vec![], vec![warned.to_owned()]), "{path} = {value}");
    }
    let mut open = good;
    open["auth"] = json!({"type": "none"});
    for (access, warned) in [("public", vec![]), ("restricted", vec!["/access"]), ("private", vec!["/access"])] {
        let (errors, warnings) = with(SkillDocumentType::SkillDescriptor, open.clone(), "/access", json!(access));
        assert!(errors.is_empty());
        assert_eq!(warnings, warned, "{access}");
    }
}

#[test]
fn each_execution_status_requires_or_forbids_output_error_and_end_time() {
    let error = json!({"code": "EXECUTION_FAILED", "message": "m"});
    for status in ["accepted", "running", "completed", "failed", "timeout"] {
        for bits in 0..8 {
            let (output, failed, ended) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
            let mut response = example(1016);
            response["status"] = json!(status);
            if output {
                response["output"] = json!(null);
            }
            if failed {
                response["error"] = error.clone();
            }
            if ended {
                response["timestamps"]["completed_at"] = json!("2025-07-01T12:00:02Z");
            }
            let good = match status {
                "completed" => output && !failed,
                "failed" | "timeout" => failed && !output,
                _ => !output && !failed && !ended,
            };
            let report = check(SkillDocumentType::InvocationResponse, &response);
            assert_eq!(report.valid, good, "{response}: {report}");
        }
    }
    let mut backwards = example(1033);
    backwards["timestamps"]["completed_at"] = json!("2025-07-01T11:59:59Z");
    let report = check(SkillDocumentType::InvocationResponse, &backwards);
    assert_eq!((report.valid, report.warnings[0].path.as_str()), (true, "/timestamps/completed_at"));
    backwards["timestamps"]["completed_at"] = json!("soon");
    assert!(!check(SkillDocumentType::InvocationResponse, &backwards).valid);
}

#[test]
fn fault_of_conditional_rule_states_the_condition() {
    let mut response = example(1016);
    response["status"] = json!("failed");
    response["output"] = json!({});
    let report = check(SkillDocumentType::InvocationResponse, &response);
    let messages: Vec<_> = report.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "/error must have required property 'error' when status is failed (expected object, found missing)",
            "/output must not be present when status is failed (expected missing, found object)",
        ]
    );
    let mut custom = descriptor();
    custom["auth"] = json!({"type": "custom"});
    let report = check(SkillDocumentType::SkillDescriptor, &custom);
    assert_eq!(report.errors[0].path, "/auth/custom");
}

#[test]
fn idempotency_key_and_callback_url_in_the_context_are_validated() {
    let request = example(497);
    let set = |name: &str, value| {
        with(SkillDocumentType::InvocationRequest, request.clone(), &format!("/context/{name}"), value)
    };
    let fine = (Vec::<String>::new(), Vec::<String>::new());
    assert_eq!(set("idempotency_key", json!("k")), fine);
    assert_eq!(set("callback_url", json!("https://a.example/hook")), fine);
    assert_eq!(set("idempotency_key", json!(7)).0, ["/context/idempotency_key"]);
    assert_eq!(set("callback_url", json!("file:///etc/passwd")).0, ["/context/callback_url"]);
    assert_eq!(set("callback_url", json!({})).0, ["/context/callback_url"]);
    assert_eq!(set("colour", json!("blue")).1, ["/context/colour"]);
}

#[test]
fn duplicate_json_key_is_an_error() {
    let text = descriptor().to_string().replacen("\"name\":", "\"name\":\"first\",\"name\":", 1);
    let report = validate(text.as_bytes());
    assert_eq!(report.errors.len(), 1, "{report}");
    assert_eq!(report.errors[0].message, "must not be repeated");
}

#[test]
fn path_of_a_fault_is_an_escaped_json_pointer() {
    let report = check(SkillDocumentType::SkillDescriptor, &{
        let mut document = descriptor();
        document["auth"] = example(661)["auth"].clone();
        document["auth"]["oauth2"]["scopes"] = json!({"a/b~c": 1});
        document
    });
    assert_eq!(report.errors[0].path, "/auth/oauth2/scopes/a~1b~0c");
    assert_eq!(
        (&report.errors[0].message[..], &report.errors[0].expected, &report.errors[0].actual),
        ("must be string", &json!("string"), &json!("number"))
    );
}

#[test]
fn number_and_length_of_reported_faults_and_document_size_are_limited() {
    let mut text = String::from(r#"{"protocol":{"version":"1.0.0"},"provider":{"name":"n"},"skills":[{}"#);
    while text.len() < 300_000 {
        text.push_str(",{}");
    }
    text.push_str("]}");
    let report = validate_as(SkillDocumentType::SkillIndex, text.as_bytes());
    assert_eq!((report.valid, report.errors.len()), (false, MAX_FAULTS));
    let mut huge = descriptor();
    huge["capability_type"] = json!("x".repeat(100_000));
    let report = check(SkillDocumentType::SkillDescriptor, &huge);
    assert!(report.errors[0].actual.as_str().unwrap().len() < 300);
    assert!(!validate(&vec![b' '; (1 << 20) + 1]).valid);
}
