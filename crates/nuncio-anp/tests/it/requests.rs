//! Tests of requests and responses of the core binding, and of the error code for each invalid request.

use nuncio_anp::negotiation::SecurityProfile;
use nuncio_anp::wire::{AnpErrorCode, AnpRequest, AnpResponse, MAX_REQUEST_BYTES, RpcError};
use serde_json::{Value, json};

fn request() -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": "req-1",
        "method": "anp.negotiate",
        "params": {
            "meta": {
                "profile": "anp.meta.negotiation.v1",
                "security_profile": "transport-protected",
                "sender_did": "did:wba:a.example",
                "target": {"kind": "agent", "did": "did:wba:b.example"},
                "operation_id": "op-1",
                "created_at": "2026-06-27T12:00:05+08:00",
                "x_trace": {"any": "thing"},
                "anp_version": "1.1",
            },
            "auth": {"scheme": "anp-rfc9421-origin-proof-v1", "origin_proof": {"signature": "sig1=:x:"}},
            "body": {"anything": 1},
        },
    })
}

fn refused(request: &str) -> (Option<String>, Option<AnpErrorCode>) {
    let (id, error) = *AnpRequest::read(request.as_bytes()).unwrap_err();
    assert_eq!(error.anp_code(), error.known_code().unwrap().anp_code());
    (id, error.known_code())
}

#[test]
fn well_formed_request_round_trips() {
    let read = AnpRequest::read(request().to_string().as_bytes()).unwrap();
    assert_eq!(read.to_json(), request());
    assert_eq!(read.meta.security_profile, SecurityProfile::TransportProtected);
    assert_eq!(read.meta.created_at.unwrap().to_string(), "2026-06-27T04:00:05.000Z");
    // The origin proof covers method, `meta` with its extensions, and body as they were sent.
    let params = &request()["params"];
    let signed = json!({"method": "anp.negotiate", "meta": params["meta"], "body": params["body"]});
    assert_eq!(json!({"method": read.method, "meta": read.raw_meta, "body": read.body}), signed);
}

#[test]
fn each_malformed_request_gets_its_error_code() {
    let change = |path: &str, value: Value| {
        let mut request = request();
        let (above, name) = path.rsplit_once('/').unwrap();
        request.pointer_mut(above).unwrap()[name] = value;
        request.to_string()
    };
    let without = |path: &str| {
        let mut request = request();
        let (above, name) = path.rsplit_once('/').unwrap();
        request.pointer_mut(above).unwrap().as_object_mut().unwrap().shift_remove(name).unwrap();
        request.to_string()
    };
    let known = Some("req-1".to_owned());
    for (request, id, code) in [
        ("{".to_owned(), None, AnpErrorCode::ParseError),
        (" ".repeat(MAX_REQUEST_BYTES + 1), None, AnpErrorCode::InvalidRequest),
        (r#"{"id":"a","id":"b"}"#.to_owned(), None, AnpErrorCode::InvalidRequest),
        ("7".to_owned(), None, AnpErrorCode::InvalidRequest),
        (json!([request()]).to_string(), None, AnpErrorCode::BatchNotSupported),
        ("[]".to_owned(), None, AnpErrorCode::BatchNotSupported),
        (change("/id", json!(1)), None, AnpErrorCode::InvalidRequestId),
        (change("/id", json!("")), None, AnpErrorCode::InvalidRequestId),
        (change("/id", json!(null)), None, AnpErrorCode::InvalidRequestId),
        (without("/id"), None, AnpErrorCode::InvalidRequestId),
        (change("/jsonrpc", json!("1.0")), known.clone(), AnpErrorCode::InvalidRequest),
        (change("/extra", json!(1)), known.clone(), AnpErrorCode::InvalidRequest),
        (change("/method", json!("rpc.discover")), known.clone(), AnpErrorCode::InvalidRequest),
        (change("/method", json!("Anp.Negotiate")), known.clone(), AnpErrorCode::InvalidRequest),
        (change("/method", json!("anp..negotiate")), known.clone(), AnpErrorCode::InvalidRequest),
        (change("/method", json!(1)), known.clone(), AnpErrorCode::InvalidRequest),
        (change("/params", json!([1])), known.clone(), AnpErrorCode::InvalidParamsShape),
        (without("/params"), known.clone(), AnpErrorCode::InvalidParamsShape),
        (change("/params/more", json!(1)), known.clone(), AnpErrorCode::InvalidParamsShape),
        (without("/params/meta"), known.clone(), AnpErrorCode::InvalidParamsShape),
        (without("/params/body"), known.clone(), AnpErrorCode::InvalidParamsShape),
        (change("/params/body", json!("{}")), known.clone(), AnpErrorCode::InvalidParamsShape),
        (without("/params/meta/profile"), known.clone(), AnpErrorCode::InvalidParamsShape),
        (change("/params/meta/profile", json!("")), known.clone(), AnpErrorCode::InvalidParamsShape),
        (without("/params/meta/security_profile"), known.clone(), AnpErrorCode::InvalidParamsShape),
        (
            change("/params/meta/security_profile", json!("none")),
            known.clone(),
            AnpErrorCode::UnsupportedSecurityProfile,
        ),
        (change("/params/meta/unknown", json!(1)), known.clone(), AnpErrorCode::InvalidParamsShape),
        (change("/params/meta/sender_did", json!("a.example")), known.clone(), AnpErrorCode::InvalidParamsShape),
        (
            change("/params/meta/target", json!({"kind": "robot", "did": "did:wba:b"})),
            known.clone(),
            AnpErrorCode::InvalidParamsShape,
        ),
        (change("/params/meta/target/more", json!(1)), known.clone(), AnpErrorCode::InvalidParamsShape),
        (change("/params/meta/created_at", json!("today")), known.clone(), AnpErrorCode::InvalidParamsShape),
        (change("/params/meta/operation_id", json!(7)), known.clone(), AnpErrorCode::InvalidParamsShape),
        (change("/params/auth/more", json!(1)), known.clone(), AnpErrorCode::InvalidParamsShape),
        (without("/params/auth/origin_proof"), known, AnpErrorCode::InvalidParamsShape),
    ] {
        let cut: String = request.chars().take(300).collect();
        assert_eq!(refused(&request), (id, Some(code)), "{cut}");
    }
}

#[test]
fn capabilities_request_needs_no_params() {
    for params in [json!({}), Value::Null] {
        let mut request = json!({"jsonrpc": "2.0", "id": "1", "method": "anp.get_capabilities", "params": params});
        if params.is_null() {
            request.as_object_mut().unwrap().shift_remove("params");
        }
        let read = AnpRequest::read(request.to_string().as_bytes()).unwrap();
        assert_eq!((read.meta.profile.as_str(), read.meta.sender_did), ("anp.core.binding.v1", None));
    }
}

#[test]
fn numbers_and_names_of_error_codes_match_the_specification() {
    for (code, word) in [
        (1000, "anp.invalid_request_id"),
        (1001, "anp.unsupported_profile"),
        (1002, "anp.unsupported_security_profile"),
        (1003, "anp.invalid_params_shape"),
        (1004, "anp.batch_not_supported"),
        (1005, "anp.unauthorized"),
        (1006, "anp.forbidden"),
        (1007, "anp.target_not_found"),
        (1008, "anp.idempotency_conflict"),
        (1009, "anp.unsupported_content_type"),
        (1010, "anp.delivery_rejected"),
        (1011, "anp.rate_limited"),
        (1012, "anp.temporarily_unavailable"),
        (1013, "anp.invalid_security_binding"),
        (1014, "anp.invalid_target_binding"),
        (1019, "anp.did_superseded"),
        (1020, "anp.did_transition_invalid"),
        (1021, "anp.did_transition_conflict"),
        (1600, "meta.negotiation_rejected"),
        (1601, "meta.no_matching_interface"),
        (1602, "meta.unsupported_negotiation_mode"),
        (1603, "meta.unsupported_candidate_profile"),
        (1604, "meta.unsupported_security_profile"),
        (1605, "meta.unsupported_content_type"),
        (1606, "meta.more_information_required"),
        (1607, "meta.authorization_required"),
        (1608, "meta.negotiation_expired"),
        (2000, "direct.recipient_unreachable"),
        (2001, "direct.policy_violation"),
        (2002, "direct.invalid_payload_shape"),
        (2003, "direct.conversation_conflict"),
        (2004, "direct.security_mode_required"),
    ] {
        let error = RpcError::new(AnpErrorCode::from_code(code).unwrap());
        assert_eq!((error.code, error.anp_code()), (code, Some(word)));
        assert!(error.data.unwrap()["retryable"].is_boolean());
    }
    let error = RpcError::new(AnpErrorCode::MethodNotFound);
    assert_eq!(serde_json::to_value(&error).unwrap(), json!({"code": -32601, "message": "Method not found"}));
}

#[test]
fn response_without_matching_id_or_exactly_one_of_result_and_error_is_refused() {
    let id = json!("a");
    let read = |value: Value| AnpResponse::read(value.to_string().as_bytes(), 1000, &id);
    let good = json!({"jsonrpc": "2.0", "id": "a", "result": null});
    assert_eq!(read(good.clone()).unwrap(), AnpResponse::result("a", Value::Null));
    assert_eq!(read(good.clone()).unwrap().to_json(), good);
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1004, "message": "m"}});
    assert_eq!(read(error.clone()).unwrap().to_json(), error);
    for bad in [
        json!({"jsonrpc": "2.0", "id": "b", "result": 1}),
        json!({"jsonrpc": "2.0", "result": 1}),
        json!({"jsonrpc": "2.0", "id": "a"}),
        json!({"jsonrpc": "2.0", "id": "a", "result": 1, "error": {"code": 1, "message": "m"}}),
        json!({"jsonrpc": "1.0", "id": "a", "result": 1}),
        json!({"jsonrpc": "2.0", "id": "a", "error": "no"}),
        json!([]),
    ] {
        assert!(read(bad.clone()).is_err(), "{bad}");
    }
}
