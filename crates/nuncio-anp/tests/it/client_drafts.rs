//! Tests of the ANP client: negotiation errors, invalidation of agreements, and protocol drafts.

use nuncio_anp::client::{
    AgentTarget, ClientErrorReason, Invocation, MethodChoice, NegotiationRequest, ProtocolDraftDecision,
    VerifiedAgentDescription,
};
use nuncio_anp::negotiation::SecurityProfile;
use nuncio_anp::wire::{AnpErrorCode, NegotiationResult, ProtocolArtifact, RpcError};
use serde_json::{Value, json};

use crate::client_fixtures::{
    AD, ReceivedPeerRequest, TestClient, TestReply, TestServer, arguments, grand_hotel, hotel_did, rpc,
};

const NEGOTIATE: &str = "anp.negotiate";
const RPC: &str = "POST /agents/hotel-assistant/rpc";

fn is(request: &ReceivedPeerRequest, method: &str) -> bool {
    request.line() == "POST /anp" && request.json()["method"] == method
}

async fn hotel_of(world: &TestClient) -> VerifiedAgentDescription {
    world.client.describe(&AgentTarget::parse(AD).unwrap()).await.unwrap()
}

fn needs() -> NegotiationRequest {
    NegotiationRequest {
        intent: Some("search for free rooms".to_owned()),
        calls_only: true,
        ..NegotiationRequest::default()
    }
}

fn invocation() -> Invocation {
    let stay = arguments(json!({"check_in": "2027-01-01", "check_out": "2027-01-02"}));
    Invocation {
        target: AgentTarget::parse(AD).unwrap(),
        method: MethodChoice::Negotiate(needs()),
        arguments: stay,
        timeout: None,
    }
}

#[tokio::test]
async fn each_negotiation_error_is_reported_and_no_method_is_called() {
    let nine = [
        (AnpErrorCode::NegotiationRejected, 1600, "meta.negotiation_rejected"),
        (AnpErrorCode::NoMatchingInterface, 1601, "meta.no_matching_interface"),
        (AnpErrorCode::UnsupportedNegotiationMode, 1602, "meta.unsupported_negotiation_mode"),
        (AnpErrorCode::UnsupportedCandidateProfile, 1603, "meta.unsupported_candidate_profile"),
        (AnpErrorCode::UnsupportedCandidateSecurity, 1604, "meta.unsupported_security_profile"),
        (AnpErrorCode::UnsupportedCandidateContent, 1605, "meta.unsupported_content_type"),
        (AnpErrorCode::MoreInformationRequired, 1606, "meta.more_information_required"),
        (AnpErrorCode::AuthorizationRequired, 1607, "meta.authorization_required"),
        (AnpErrorCode::NegotiationExpired, 1608, "meta.negotiation_expired"),
    ];
    for (code, number, decision) in nine {
        let hotel =
            grand_hotel(move |request, _| is(request, NEGOTIATE).then(|| rpc(request, Err(RpcError::new(code))))).await;
        let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
        let error = world.client.negotiate(&hotel_of(&world).await, &needs()).await.unwrap_err();
        let rpc_error = error.rpc_error.as_ref().unwrap();
        assert_eq!((rpc_error.code, rpc_error.anp_code()), (number, Some(decision)));
        let reason = if number == 1607 { ClientErrorReason::IdentityNeeded } else { ClientErrorReason::NotAgreed };
        assert_eq!(error.reason, reason, "{error}");
        assert!(world.client.invoke(&invocation()).await.is_err());
        assert_eq!(hotel.hits(RPC), 0, "{decision}");
    }
}

/// Change of the negotiation request or of the client.
type NegotiationSetupChange = fn(TestClient, NegotiationRequest) -> (TestClient, NegotiationRequest);

#[tokio::test]
async fn changed_request_or_caller_requires_a_new_agreement() {
    let changes: [(&str, NegotiationSetupChange); 9] = [
        ("another protection", |world, needs| {
            (world, NegotiationRequest { security: Some(SecurityProfile::TransportProtected), ..needs })
        }),
        ("a person is to be asked", |world, needs| {
            (world, NegotiationRequest { human_authorization: Some(false), ..needs })
        }),
        ("less time", |world, needs| (world, NegotiationRequest { max_latency_ms: Some(60_000), ..needs })),
        ("talking will do", |world, needs| (world, NegotiationRequest { calls_only: false, ..needs })),
        ("another capability", |world, needs| {
            (world, NegotiationRequest { required: vec!["cap.hotel-assistant.search_rooms".to_owned()], ..needs })
        }),
        ("other words", |world, needs| {
            (world, NegotiationRequest { intent: Some("search rooms".to_owned()), ..needs })
        }),
        ("other tags", |world, needs| (world, NegotiationRequest { tags: vec!["rooms".to_owned()], ..needs })),
        ("a token", |world, needs| (with_bearer(world, "one"), needs)),
        ("a name", |world, needs| (world.signed(), needs)),
    ];
    for (what, change) in changes {
        let hotel = grand_hotel(|_, _| None).await;
        let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
        let agent = hotel_of(&world).await;
        assert!(!world.client.agree(&agent, &needs()).await.unwrap().reused);
        assert!(world.client.agree(&agent, &needs()).await.unwrap().reused, "{what}: as long as nothing changes");
        let (world, other) = change(world, needs());
        assert!(!world.client.agree(&agent, &other).await.unwrap().reused, "{what}");
    }
    let hotel = grand_hotel(|_, _| None).await;
    let world = with_bearer(TestClient::new(&[("grand-hotel.example", &hotel)]), "one");
    let agent = hotel_of(&world).await;
    assert!(!world.client.agree(&agent, &needs()).await.unwrap().reused);
    assert!(world.client.agree(&agent, &needs()).await.unwrap().reused);
    let world = with_bearer(world, "another");
    assert!(!world.client.agree(&agent, &needs()).await.unwrap().reused, "another token may allow something else");
}

fn with_bearer(mut world: TestClient, token: &str) -> TestClient {
    world.client = world.client.clone().with_bearer(Some(token.to_owned()));
    world
}

#[tokio::test]
async fn forbidden_or_unauthorized_call_discards_the_agreement_and_is_not_repeated() {
    for code in [AnpErrorCode::Forbidden, AnpErrorCode::Unauthorized] {
        let hotel = grand_hotel(move |request, before| {
            (request.line() == RPC && before == 1).then(|| rpc(request, Err(RpcError::new(code))))
        })
        .await;
        let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
        world.client.invoke(&invocation()).await.unwrap();
        world.client.invoke(&invocation()).await.unwrap_err();
        assert_eq!((hotel.asked(NEGOTIATE), hotel.hits(RPC)), (1, 2), "{code:?}: it is not tried again");
        world.client.invoke(&invocation()).await.unwrap();
        assert_eq!((hotel.asked(NEGOTIATE), hotel.hits(RPC)), (2, 3), "{code:?}");
    }
}

fn artifact() -> ProtocolArtifact {
    let artifact: ProtocolArtifact = serde_json::from_value(json!({
        "protocol_id": "drf_1",
        "version": "1.0",
        "description": "Hold a table.",
        "depends_on_profiles": ["anp.core.binding.v1"],
        "methods": [{
            "name": "table.hold",
            "request_schema": {"type": "object", "required": ["guests"]},
            "response_schema": {"type": "object"},
        }],
        "content_types": ["application/json"],
        "security_profiles": ["transport-protected"],
        "examples": [{"method": "table.hold", "request": {"guests": 2}, "response": {}}],
        "test_cases": [{"name": "nobody", "method": "table.hold", "request": {}, "expected": "invalid"}],
        "publisher": hotel_did().as_str(),
    }))
    .unwrap();
    artifact.sealed()
}

fn drafting() -> NegotiationRequest {
    NegotiationRequest { intent: Some("hold a table".to_owned()), draft: true, ..NegotiationRequest::default() }
}

/// Server that answers with a changed protocol draft; the draft's digest is recomputed if `sealed`.
async fn drafting_hotel(sealed: bool, change: impl Fn(&mut Value) + Send + Sync + 'static) -> TestServer {
    grand_hotel(move |request, _| {
        is(request, NEGOTIATE).then(|| {
            let mut artifact = json!(artifact());
            change(&mut artifact);
            if sealed && let Ok(read) = serde_json::from_value::<ProtocolArtifact>(artifact.clone()) {
                artifact = json!(read.sealed());
            }
            answer(request, "accepted", &artifact)
        })
    })
    .await
}

fn answer(request: &ReceivedPeerRequest, status: &str, artifact: &Value) -> TestReply {
    let id = request.json()["params"]["body"]["negotiation_id"].clone();
    let mut result = json!({
        "negotiationId": id, "status": status,
        "selected": {
            "interface": "interface.hotel-assistant.conversation", "profile": "anp.meta.negotiation.v1",
            "securityProfile": "transport-protected", "protocolArtifact": artifact,
        },
        "execution": {"mode": "natural_language_protocol_drafting"},
    });
    if status == "rejected" {
        result.as_object_mut().unwrap().shift_remove("selected");
    }
    let read: NegotiationResult = serde_json::from_value(result).unwrap();
    rpc(request, Ok(json!(read.sealed())))
}

#[tokio::test]
async fn drafting_request_has_specified_fields_and_drafts_are_not_cached() {
    let hotel = drafting_hotel(true, |_| {}).await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]).signed();
    let agent = hotel_of(&world).await;
    for _ in 0..2 {
        let agreement = world.client.agree(&agent, &drafting()).await.unwrap();
        assert!(!agreement.reused, "a draft changes with every word");
        assert!(agreement.result.selected.unwrap().protocol_artifact.is_some());
    }
    let asked = hotel.got("POST /anp").into_iter().find(|it| is(it, NEGOTIATE)).unwrap().json();
    let body = &asked["params"]["body"];
    assert_eq!(body["mode"], "natural_language_protocol_drafting");
    assert_eq!(body["constraints"]["allowNaturalLanguageFallback"], true);

    let decision =
        |accepts| ProtocolDraftDecision { protocol: "drf_1".to_owned(), digest: artifact().digest.unwrap(), accepts };
    world
        .client
        .negotiate(
            &agent,
            &NegotiationRequest { draft_decision: Some(decision(true)), ..NegotiationRequest::default() },
        )
        .await
        .unwrap();
    let asked = hotel.got("POST /anp").into_iter().rfind(|it| is(it, NEGOTIATE)).unwrap().json();
    let named = json!([{"protocol_id": "drf_1", "digest": artifact().digest, "decision": "accept"}]);
    assert_eq!(asked["params"]["body"]["candidateProtocols"], named);
    // A draft that was not requested is refused.
    let error = world.client.negotiate(&agent, &needs()).await.unwrap_err();
    assert_eq!(error.reason, ClientErrorReason::BadAgreement, "{error}");

    let refusing =
        grand_hotel(|request, _| is(request, NEGOTIATE).then(|| answer(request, "rejected", &Value::Null))).await;
    let world = TestClient::new(&[("grand-hotel.example", &refusing)]).signed();
    let agent = hotel_of(&world).await;
    assert!(
        world
            .client
            .negotiate(
                &agent,
                &NegotiationRequest { draft_decision: Some(decision(false)), ..NegotiationRequest::default() }
            )
            .await
            .is_ok()
    );
    let error = world
        .client
        .negotiate(
            &agent,
            &NegotiationRequest { draft_decision: Some(decision(true)), ..NegotiationRequest::default() },
        )
        .await
        .unwrap_err();
    assert_eq!(error.reason, ClientErrorReason::NotAgreed);
}

#[tokio::test]
async fn invalid_draft_artifact_is_refused() {
    type InvalidProtocolArtifactCase = (&'static str, bool, fn(&mut Value), ClientErrorReason);
    let rows: [InvalidProtocolArtifactCase; 13] = [
        ("changed on the way", false, |it| it["version"] = json!("2"), ClientErrorReason::BadAgreement),
        (
            "without a digest",
            false,
            |it| drop(it.as_object_mut().unwrap().shift_remove("digest")),
            ClientErrorReason::BadAgreement,
        ),
        ("only an address", true, |it| *it = json!("https://evil.example/p"), ClientErrorReason::BadAgreement),
        (
            "published by another agent",
            true,
            |it| it["publisher"] = json!("did:wba:evil.example"),
            ClientErrorReason::BadAgreement,
        ),
        ("with code", true, |it| it["code"] = json!("import os"), ClientErrorReason::BadAgreement),
        ("with code in a method", true, |it| it["methods"][0]["run"] = json!("sh"), ClientErrorReason::BadAgreement),
        ("weaker", true, |it| it["security_profiles"] = json!(["none"]), ClientErrorReason::Downgrade),
        ("no methods", true, |it| it["methods"] = json!([]), ClientErrorReason::BadAgreement),
        (
            "no schema",
            true,
            |it| it["methods"][0]["request_schema"] = json!({"type": "nothing"}),
            ClientErrorReason::BadAgreement,
        ),
        (
            "a schema from elsewhere",
            true,
            |it| it["methods"][0]["response_schema"] = json!({"$ref": "https://evil.example/s.json"}),
            ClientErrorReason::BadAgreement,
        ),
        ("an example that lies", true, |it| it["examples"][0]["request"] = json!({}), ClientErrorReason::BadAgreement),
        (
            "a test case that lies",
            true,
            |it| it["test_cases"][0]["expected"] = json!("valid"),
            ClientErrorReason::BadAgreement,
        ),
        ("no object at all", true, |it| it["methods"] = json!("x"), ClientErrorReason::BadAgreement),
    ];
    for (what, sealed, change, reason) in rows {
        let hotel = drafting_hotel(sealed, change).await;
        let world = TestClient::new(&[("grand-hotel.example", &hotel)]).signed();
        let error = world.client.negotiate(&hotel_of(&world).await, &drafting()).await.unwrap_err();
        assert_eq!(error.reason, reason, "{what}: {error}");
    }
    // A draft other than the named one is refused.
    let hotel = drafting_hotel(true, |it| it["version"] = json!("2")).await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]).signed();
    let decision =
        ProtocolDraftDecision { protocol: "drf_1".to_owned(), digest: artifact().digest.unwrap(), accepts: true };
    let needs = NegotiationRequest { draft_decision: Some(decision), ..NegotiationRequest::default() };
    let error = world.client.negotiate(&hotel_of(&world).await, &needs).await.unwrap_err();
    assert_eq!(error.reason, ClientErrorReason::BadAgreement, "{error}");
}
