use nuncio_core::schema::SchemaViolation;
use serde_json::{Value, json};

use super::definition::MAX_BYTES;
use super::*;

const T0: Timestamp = Timestamp::from_millis(1_000);
const SOON: Timestamp = Timestamp::from_millis(2_000);
const END: Timestamp = Timestamp::from_millis(9_000);

fn written() -> Value {
    json!({
        "description": "Hold a table.",
        "methods": [{
            "name": "table.hold",
            "description": "Holds a table for an hour.",
            "request_schema": {"type": "object", "properties": {"guests": {"type": "integer", "minimum": 1}}, "required": ["guests"]},
            "response_schema": {"type": "object", "required": ["held"], "properties": {"held": {"type": "boolean"}}},
        }],
        "examples": [{"method": "table.hold", "request": {"guests": 2}, "response": {"held": true}}],
        "test_cases": [{"name": "nobody", "method": "table.hold", "request": {"guests": 0}, "expected": "invalid"}],
    })
}

fn faults(change: impl FnOnce(&mut Value)) -> Vec<SchemaViolation> {
    let mut value = written();
    change(&mut value);
    ProtocolDefinition::read(value).expect_err("it is wrong")
}

#[test]
fn protocol_definition_round_trips_through_json() {
    let read = ProtocolDefinition::read(written()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), written());
    assert_eq!(serde_json::from_value::<ProtocolDefinition>(written()).unwrap(), read);
    assert!(read.method("table.hold").is_some() && read.method("table").is_none());
}

/// Name of the defect, the change that causes it, and the JSON pointer of the expected fault.
type InvalidDefinitionCase = (&'static str, fn(&mut Value), &'static str);

#[test]
fn invalid_protocol_definition_is_refused_with_the_json_pointer_of_its_fault() {
    let wrong: [InvalidDefinitionCase; 23] = [
        ("no description", |it| it["description"] = json!(" "), "/description"),
        ("an endless one", |it| it["description"] = json!("x".repeat(2001)), "/description"),
        ("no methods", |it| it["methods"] = json!([]), "/methods"),
        ("too many examples", |it| it["examples"] = vec![it["examples"][0].clone(); 65].into(), "/examples"),
        ("no test cases", |it| it["test_cases"] = json!([]), "/test_cases"),
        ("code", |it| it["code"] = json!("rm -rf /"), ""),
        ("code in a method", |it| it["methods"][0]["handler"] = json!("eval(x)"), ""),
        ("code in an example", |it| it["examples"][0]["run"] = json!("x"), ""),
        ("a bad name", |it| it["methods"][0]["name"] = json!("Table Hold"), "/methods/0/name"),
        ("a name with an empty part", |it| it["methods"][0]["name"] = json!("a..b"), "/methods/0/name"),
        (
            "two methods with the same name",
            |it| it["methods"] = vec![it["methods"][0].clone(); 2].into(),
            "/methods/1/name",
        ),
        ("no object", |it| it["methods"][0]["request_schema"] = json!({}), "/methods/0/request_schema"),
        ("no schema", |it| it["methods"][0]["response_schema"]["type"] = json!(7), "/methods/0/response_schema"),
        (
            "a schema with a remote reference",
            |it| it["methods"][0]["response_schema"] = json!({"$ref": "https://example.com/s.json"}),
            "/methods/0/response_schema",
        ),
        ("a request that does not fit", |it| it["examples"][0]["request"] = json!({}), "/examples/0/request"),
        (
            "an answer that does not fit",
            |it| it["examples"][0]["response"]["held"] = json!(1),
            "/examples/0/response/held",
        ),
        ("an example of an unknown method", |it| it["examples"][0]["method"] = json!("x"), "/examples/0/method"),
        ("a case of an unknown method", |it| it["test_cases"][0]["method"] = json!("x"), "/test_cases/0/method"),
        ("a case that fits", |it| it["test_cases"][0]["request"] = json!({"guests": 1}), "/test_cases/0/expected"),
        ("a case that does not fit", |it| it["test_cases"][0]["expected"] = json!("valid"), "/test_cases/0/expected"),
        ("a case without a name", |it| it["test_cases"][0]["name"] = json!(""), "/test_cases/0/name"),
        ("too deep", |it| it["examples"][0]["response"]["x"] = (0..30).fold(json!(1), |inner, _| json!([inner])), ""),
        ("too large", |it| it["examples"][0]["response"]["x"] = json!("x".repeat(MAX_BYTES)), ""),
    ];
    for (name, change, pointer) in wrong {
        let found = faults(change);
        assert!(found.iter().any(|fault| fault.pointer == pointer), "{name}: {found:?}");
    }
    let unshown = faults(|it| {
        let mut other = it["methods"][0].clone();
        other["name"] = json!("other");
        it["methods"].as_array_mut().unwrap().push(other);
    });
    assert_eq!(unshown.iter().filter(|fault| fault.pointer == "/methods/1").count(), 2, "no example and no case");
}

fn draft() -> ProtocolDraft {
    let document = json!({"protocol_id": "d1"});
    ProtocolDraft {
        id: DraftId::parse("drf_1").unwrap(),
        agent: AgentName::parse("desk").unwrap(),
        with: Principal::Did("did:wba:example.com:ada".to_owned()),
        key: "op-1".to_owned(),
        asked: Digest::ZERO,
        definition: ProtocolDefinition::read(written()).unwrap(),
        digest: Digest::of_json(&document),
        document,
        created_at: T0,
        expires_at: END,
        approval: None,
        state: ProtocolDraftState::Draft,
    }
}

#[test]
fn draft_is_usable_only_after_both_sides_accept_the_same_document() {
    let (first, digest) = (draft(), draft().digest);
    assert_eq!(first.usable(&digest), Err(ProtocolDraftError::Closed("draft")));
    let ours = first.clone().accept_for_us(&digest, Principal::Operator, SOON).unwrap();
    assert_eq!(ours.usable(&digest), Err(ProtocolDraftError::Closed("accepted_by_us")));
    assert_eq!(
        ours.clone().accept_for_us(&digest, Principal::Local, SOON).unwrap(),
        ours,
        "a second acceptance changes nothing"
    );
    let theirs = first.accept_for_them(&digest, SOON).unwrap();
    assert_eq!(theirs.usable(&digest), Err(ProtocolDraftError::Closed("accepted_by_them")));
    let one = ours.accept_for_them(&digest, SOON).unwrap();
    let other = theirs.accept_for_us(&digest, Principal::Operator, SOON).unwrap();
    assert_eq!(one, other);
    assert_eq!(one.usable(&digest), Ok(()));
    assert_eq!(one.usable(&Digest::ZERO), Err(ProtocolDraftError::OtherDocument));
    assert_eq!(one.clone().at(END), one, "an accepted draft does not expire");
    let gone = one.reject(ProtocolDraftSide::Them, None, END).unwrap();
    assert_eq!(gone.usable(&digest), Err(ProtocolDraftError::Closed("rejected")));
    assert_eq!(gone.accept_for_them(&digest, SOON), Err(ProtocolDraftError::Closed("rejected")));
}

#[test]
fn draft_acceptance_with_wrong_digest_or_after_expiry_or_rejection_is_refused() {
    let digest = draft().digest;
    assert_eq!(draft().accept_for_them(&Digest::ZERO, SOON), Err(ProtocolDraftError::OtherDocument));
    assert_eq!(draft().accept_for_us(&Digest::ZERO, Principal::Operator, SOON), Err(ProtocolDraftError::OtherDocument));
    assert_eq!(draft().accept_for_them(&digest, END), Err(ProtocolDraftError::Closed("expired")));
    assert_eq!(draft().reject(ProtocolDraftSide::Us, None, END), Err(ProtocolDraftError::Closed("expired")));
    let late = draft().at(END);
    assert_eq!(late.state, ProtocolDraftState::Expired { at: END });
    assert_eq!(late.reject(ProtocolDraftSide::Us, None, SOON), Err(ProtocolDraftError::Closed("expired")));
    let rejected = draft().reject(ProtocolDraftSide::Us, Some("no".to_owned()), SOON).unwrap();
    assert_eq!(
        rejected.clone().accept_for_us(&digest, Principal::Operator, SOON),
        Err(ProtocolDraftError::Closed("rejected"))
    );
    let stored = serde_json::to_string(&rejected).unwrap();
    assert_eq!(serde_json::from_str::<ProtocolDraft>(&stored).unwrap(), rejected);
}
