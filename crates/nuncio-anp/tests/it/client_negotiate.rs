//! Tests of negotiation by the ANP client: choice of the endpoint, minimal disclosure, no downgrade, and caching.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nuncio_anp::client::{
    AgentTarget, ChosenBy, ClientErrorReason, Invocation, MethodChoice, NegotiationRequest, VerifiedAgentDescription,
};
use nuncio_anp::negotiation::SecurityProfile;
use nuncio_anp::wire::{AnpErrorCode, NegotiationResult, RpcError};
use nuncio_identity::origin_proof::{OriginProof, OriginProofInput, verify_origin};
use nuncio_identity::{DidDocument, K1ProofRule, NewDidDocument, SignaturePolicy};
use serde_json::{Value, json};

use crate::client_fixtures::{
    AD, NOW, ReceivedPeerRequest, TestClient, TestReply, TestServer, arguments, caller_did, caller_key, capabilities,
    description, did_document, did_line, grand_hotel, hotel_did, negotiated, rpc,
};

const NEGOTIATE: &str = "anp.negotiate";
const CAPABILITIES: &str = "anp.get_capabilities";
const RPC: &str = "POST /agents/hotel-assistant/rpc";

fn sample_request() -> NegotiationRequest {
    NegotiationRequest {
        intent: Some("search for free rooms".to_owned()),
        calls_only: true,
        ..NegotiationRequest::default()
    }
}

async fn hotel_of(world: &TestClient) -> VerifiedAgentDescription {
    world.client.describe(&AgentTarget::parse(AD).unwrap()).await.unwrap()
}

fn is(request: &ReceivedPeerRequest, method: &str) -> bool {
    request.line() == "POST /anp" && request.json()["method"] == method
}

/// Server whose negotiation results are changed by `change`; the digest is recomputed if `sealed`.
async fn tampered(sealed: bool, change: impl Fn(&mut Value) + Send + Sync + 'static) -> TestServer {
    grand_hotel(move |request, _| {
        is(request, NEGOTIATE).then(|| {
            let mut result = negotiated(request).unwrap();
            change(&mut result);
            if sealed {
                let read: NegotiationResult = serde_json::from_value(result).unwrap();
                result = json!(read.sealed());
            }
            rpc(request, Ok(result))
        })
    })
    .await
}

#[tokio::test]
async fn intent_is_negotiated_without_identity_and_the_selected_method_is_called() {
    let hotel = grand_hotel(|_, _| None).await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
    let agent = hotel_of(&world).await;
    let agreement = world.client.negotiate(&agent, &sample_request()).await.unwrap();
    let selected = agreement.result.selected.clone().unwrap();
    assert_eq!(selected.capability.as_deref(), Some("cap.hotel-assistant.search_rooms"));
    assert!(matches!(&agreement.decided, ChosenBy::Agent(it) if it.endpoint.path() == "/anp"));
    assert_eq!(agreement.notes, Vec::<String>::new());

    // The request contains only the intent, and no identity.
    let asked = hotel.got("POST /anp").into_iter().find(|it| is(it, NEGOTIATE)).unwrap().json();
    let expected = json!({"description": "search for free rooms"});
    assert_eq!(asked["params"]["body"]["intent"], expected);
    let meta = &asked["params"]["meta"];
    assert_eq!(meta["target"], json!({"kind": "agent", "did": hotel_did().as_str()}));
    assert_eq!((&meta["sender_did"], &asked["params"]["auth"]), (&Value::Null, &Value::Null));

    let stay = arguments(json!({"check_in": "2027-01-01", "check_out": "2027-01-02"}));
    let target = AgentTarget::parse(AD).unwrap();
    let invocation =
        Invocation { target, method: MethodChoice::Negotiate(sample_request()), arguments: stay, timeout: None };
    let answer = world.client.invoke(&invocation).await.unwrap();
    assert_eq!(answer["called"], "search_rooms");
}

#[tokio::test]
async fn negotiation_with_did_carries_an_origin_proof() {
    let hotel = grand_hotel(|_, _| None).await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]).signed();
    let agent = hotel_of(&world).await;
    world.client.negotiate(&agent, &sample_request()).await.unwrap();
    let of = |method| hotel.got("POST /anp").into_iter().find(|it| is(it, method)).unwrap().json();
    assert_eq!(of(CAPABILITIES)["params"]["meta"]["sender_did"], Value::Null, "that needs no name");
    let asked = of(NEGOTIATE);
    let params = &asked["params"];
    assert_eq!(params["meta"]["sender_did"], json!(caller_did().as_str()));
    let did = caller_did();
    let document = DidDocument::from_json(NewDidDocument::new(&did, NOW).sign(&caller_key())).unwrap();
    let document = document.bind(&did, NOW, K1ProofRule::Optional).unwrap();
    let proof = OriginProof::from_auth(&params["auth"]).unwrap();
    let request = OriginProofInput { method: NEGOTIATE, meta: &params["meta"], body: &params["body"] };
    assert_eq!(verify_origin(&proof, &request, &document, NOW, &SignaturePolicy::default()).unwrap().did, did);
}

#[tokio::test]
async fn invalid_negotiation_result_is_refused() {
    type NegotiationResultChange = fn(&mut Value);
    let rows: [(&str, bool, NegotiationResultChange, ClientErrorReason); 12] = [
        (
            "changed on the way",
            false,
            |it| it["selected"]["url"] = json!("https://evil.example/x"),
            ClientErrorReason::BadAgreement,
        ),
        (
            "of another negotiation",
            true,
            |it| it["negotiationId"] = json!("neg-other"),
            ClientErrorReason::BadAgreement,
        ),
        ("over", true, |it| it["validUntil"] = json!("2020-01-01T00:00:00Z"), ClientErrorReason::BadAgreement),
        ("until no moment", true, |it| it["validUntil"] = json!("tomorrow"), ClientErrorReason::BadAgreement),
        ("rejected", true, |it| it["status"] = json!("rejected"), ClientErrorReason::NotAgreed),
        ("a question", true, |it| it["status"] = json!("needs_more_information"), ClientErrorReason::NotAgreed),
        (
            "nothing chosen",
            true,
            |it| drop(it.as_object_mut().unwrap().shift_remove("selected")),
            ClientErrorReason::BadAgreement,
        ),
        (
            "a profile we do not speak",
            true,
            |it| it["selected"]["profile"] = json!("x.v1"),
            ClientErrorReason::BadAgreement,
        ),
        (
            "an unknown protection",
            true,
            |it| it["selected"]["securityProfile"] = json!("none"),
            ClientErrorReason::Downgrade,
        ),
        (
            "a protection we did not offer",
            true,
            |it| it["selected"]["securityProfile"] = json!("group-e2ee"),
            ClientErrorReason::Downgrade,
        ),
        (
            "an interface nobody has",
            true,
            |it| it["selected"] = json!({"interface": "interface.none", "profile": "anp.rpc.v1"}),
            ClientErrorReason::BadAgreement,
        ),
        (
            "an artifact that is another",
            true,
            |it| it["selected"]["protocolArtifact"] = json!({"digest": "sha-256:x"}),
            ClientErrorReason::BadAgreement,
        ),
    ];
    for (what, sealed, change, reason) in rows {
        let hotel = tampered(sealed, change).await;
        let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
        let agent = hotel_of(&world).await;
        let error = world.client.negotiate(&agent, &sample_request()).await.unwrap_err();
        assert_eq!(error.reason, reason, "{what}: {error}");
        assert_eq!(hotel.hits(RPC), 0, "{what}");
    }
}

#[tokio::test]
async fn negotiation_result_with_another_security_profile_than_required_is_refused() {
    use SecurityProfile::{DirectE2ee, GroupE2ee, TransportProtected};
    for (wanted, given) in [
        (DirectE2ee, Some("transport-protected")),
        (DirectE2ee, Some("group-e2ee")),
        (DirectE2ee, None),
        (GroupE2ee, Some("transport-protected")),
        (GroupE2ee, Some("direct-e2ee")),
        (TransportProtected, Some("direct-e2ee")),
        (DirectE2ee, Some("DIRECT-E2EE")),
    ] {
        // A service that accepts any request and selects another profile.
        let hotel = grand_hotel(move |request, _| {
            if is(request, CAPABILITIES) {
                let all = ["transport-protected", "group-e2ee", "direct-e2ee"];
                return Some(supporting(request, &["anp.meta.negotiation.v1"], &all));
            }
            is(request, NEGOTIATE).then(|| {
                let id = request.json()["params"]["body"]["negotiation_id"].clone();
                let mut selected = json!({"interface": "interface.hotel-assistant.tools", "profile": "anp.rpc.v1"});
                if let Some(given) = given {
                    selected["securityProfile"] = json!(given);
                }
                rpc(request, Ok(json!({"negotiationId": id, "status": "accepted", "selected": selected})))
            })
        })
        .await;
        let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
        let agent = hotel_of(&world).await;
        let wish = NegotiationRequest { security: Some(wanted), ..sample_request() };
        let error = world.client.negotiate(&agent, &wish).await.unwrap_err();
        assert_eq!(error.reason, ClientErrorReason::Downgrade, "{wanted:?} {given:?}: {error}");
    }
}

/// Runtime capabilities with these profiles and security profiles.
pub(crate) fn supporting(request: &ReceivedPeerRequest, profiles: &[&str], securities: &[&str]) -> TestReply {
    let mut said = capabilities();
    said["supported_profiles"] = json!(profiles);
    said["supported_security_profiles"] = json!(securities);
    rpc(request, Ok(said))
}

#[tokio::test]
async fn negotiation_uses_endpoint_of_the_did_document_and_checks_its_service_did() {
    // The description has a foreign endpoint; the client uses the endpoint of the DID document and checks its DID.
    let hotel = grand_hotel(|request, _| {
        (request.line() == "GET /agents/hotel-assistant/ad.json")
            .then(|| TestReply::json(&description(|it| it["interfaces"][0]["url"] = json!("https://evil.example/anp"))))
    })
    .await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
    let agent = hotel_of(&world).await;
    let agreement = world.client.negotiate(&agent, &sample_request()).await.unwrap();
    assert!(agreement.notes[0].contains("evil.example"), "{:?}", agreement.notes);
    assert_eq!(hotel.asked(NEGOTIATE), 1);

    let other = grand_hotel(|request, _| {
        is(request, CAPABILITIES).then(|| {
            let mut said = capabilities();
            said["service_did"] = json!("did:wba:evil.example");
            rpc(request, Ok(said))
        })
    })
    .await;
    let world = TestClient::new(&[("grand-hotel.example", &other)]);
    let agent = hotel_of(&world).await;
    let error = world.client.negotiate(&agent, &sample_request()).await.unwrap_err();
    assert_eq!((error.reason, other.asked(NEGOTIATE)), (ClientErrorReason::Untrusted, 0));
}

#[tokio::test]
async fn interface_is_chosen_locally_if_the_agent_does_not_negotiate() {
    let silent = grand_hotel(|request, _| {
        (request.line() == "GET /agents/hotel-assistant/ad.json")
            .then(|| TestReply::json(&description(|it| drop(it["interfaces"].as_array_mut().unwrap().remove(0)))))
    })
    .await;
    let switched_off = grand_hotel(|request, _| {
        is(request, CAPABILITIES).then(|| {
            let mut said = capabilities();
            said["supported_profiles"] = json!(["anp.core.binding.v1"]);
            rpc(request, Ok(said))
        })
    })
    .await;
    let mute = grand_hotel(|request, _| {
        is(request, CAPABILITIES).then(|| rpc(request, Err(RpcError::new(AnpErrorCode::MethodNotFound))))
    })
    .await;
    let rows = [
        (&silent, "declares no"),
        (&switched_off, "does not negotiate now"),
        (&mute, "did not return its capabilities"),
    ];
    for (server, said) in rows {
        let world = TestClient::new(&[("grand-hotel.example", server)]);
        let agent = hotel_of(&world).await;
        let agreement = world.client.negotiate(&agent, &sample_request()).await.unwrap();
        assert!(
            matches!(&agreement.decided, ChosenBy::Client { why } if why.contains(said)),
            "{:?}",
            agreement.decided
        );
        let selected = agreement.result.selected.unwrap();
        assert_eq!(selected.interface.as_deref(), Some("interface.hotel-assistant.tools"));
        assert_eq!((server.asked(NEGOTIATE), agreement.notes.len()), (0, 1));
        let refused = NegotiationRequest { security: Some(SecurityProfile::DirectE2ee), ..sample_request() };
        assert_eq!(world.client.negotiate(&agent, &refused).await.unwrap_err().reason, ClientErrorReason::NotAgreed);
    }
}

#[tokio::test]
async fn agreement_is_reused_until_request_or_caller_changes_or_it_expires() {
    let hotel = grand_hotel(|_, _| None).await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
    let agent = hotel_of(&world).await;
    let first = world.client.agree(&agent, &sample_request()).await.unwrap();
    let again = world
        .client
        .agree(&agent, &NegotiationRequest { intent: Some("Search  for FREE rooms".to_owned()), ..sample_request() })
        .await;
    let again = again.unwrap();
    assert!(!first.reused && again.reused, "the same words are the same wish");
    assert_eq!(again.result, first.result);
    assert_eq!((hotel.asked(NEGOTIATE), hotel.asked(CAPABILITIES)), (1, 1), "without a round trip");

    // Another request, security profile or caller needs another agreement.
    let others = [
        NegotiationRequest { tags: vec!["rooms".to_owned()], ..sample_request() },
        NegotiationRequest { security: Some(SecurityProfile::TransportProtected), ..sample_request() },
        NegotiationRequest { human_authorization: Some(false), ..sample_request() },
    ];
    for other in &others {
        assert!(!world.client.agree(&agent, other).await.unwrap().reused, "{other:?}");
    }
    let signed = TestClient::new(&[("grand-hotel.example", &hotel)]).signed();
    assert!(!signed.client.agree(&agent, &sample_request()).await.unwrap().reused);

    // The agreement expires.
    world.clock.advance(Duration::from_secs(599));
    assert!(world.client.agree(&agent, &sample_request()).await.unwrap().reused);
    let before = hotel.asked(NEGOTIATE);
    world.clock.advance(Duration::from_secs(1));
    // The test server's clock does not advance, so the server refuses; the request shows that the agreement expired.
    assert!(world.client.agree(&agent, &sample_request()).await.is_err());
    assert_eq!(hotel.asked(NEGOTIATE), before + 1);
}

#[tokio::test]
async fn changed_capabilities_of_the_agent_discard_the_agreement() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let hotel = grand_hotel(move |request, _| {
        is(request, CAPABILITIES).then(|| {
            let mut said = capabilities();
            if counter.fetch_add(1, Ordering::Relaxed) == 1 {
                said["supported_content_types"] = json!(["application/json"]);
            }
            rpc(request, Ok(said))
        })
    })
    .await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
    let agent = hotel_of(&world).await;
    world.client.agree(&agent, &sample_request()).await.unwrap();
    world.client.refresh(&agent).await.unwrap();
    assert!(!world.client.agree(&agent, &sample_request()).await.unwrap().reused);
}

#[tokio::test]
async fn changed_did_document_discards_the_agreement() {
    let line = did_line();
    let hotel = grand_hotel(move |request, before| {
        let services = [("AgentDescription", AD), ("ANPMessageService", "https://grand-hotel.example/anp")];
        let more = [("ANPMessageService", "https://grand-hotel.example/other")];
        (request.line() == line && before > 0).then(|| TestReply::json(&did_document(&[&services[..], &more].concat())))
    })
    .await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
    let agent = hotel_of(&world).await;
    world.client.agree(&agent, &sample_request()).await.unwrap();
    assert!(world.client.agree(&agent, &sample_request()).await.unwrap().reused);
    let changed = hotel_of(&world).await;
    assert!(!world.client.agree(&changed, &sample_request()).await.unwrap().reused);
}

#[tokio::test]
async fn call_refused_as_outdated_is_renegotiated_and_other_failures_are_not_repeated() {
    for code in [
        AnpErrorCode::MethodNotFound,
        AnpErrorCode::UnsupportedProfile,
        AnpErrorCode::UnsupportedSecurityProfile,
        AnpErrorCode::UnsupportedContentType,
        AnpErrorCode::UnsupportedCandidateProfile,
        AnpErrorCode::NegotiationExpired,
    ] {
        // The first call succeeds, and the second is refused.
        let hotel = grand_hotel(move |request, before| {
            (request.line() == RPC && before == 1).then(|| rpc(request, Err(RpcError::new(code))))
        })
        .await;
        let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
        let stay = arguments(json!({"check_in": "2027-01-01", "check_out": "2027-01-02"}));
        let target = AgentTarget::parse(AD).unwrap();
        let invocation =
            Invocation { target, method: MethodChoice::Negotiate(sample_request()), arguments: stay, timeout: None };
        world.client.invoke(&invocation).await.unwrap();
        assert_eq!(hotel.asked(NEGOTIATE), 1);
        world.client.invoke(&invocation).await.unwrap();
        assert_eq!((hotel.asked(NEGOTIATE), hotel.hits(RPC)), (2, 3), "{code:?}");
    }
    // A call that failed for another reason is not repeated, because it may have been executed.
    let failing = grand_hotel(|request, _| {
        (request.line() == RPC).then(|| rpc(request, Err(RpcError::new(AnpErrorCode::InternalError))))
    })
    .await;
    let world = TestClient::new(&[("grand-hotel.example", &failing)]);
    let stay = arguments(json!({"check_in": "2027-01-01", "check_out": "2027-01-02"}));
    let target = AgentTarget::parse(AD).unwrap();
    let invocation =
        Invocation { target, method: MethodChoice::Negotiate(sample_request()), arguments: stay, timeout: None };
    assert_eq!(world.client.invoke(&invocation).await.unwrap_err().reason, ClientErrorReason::Failed);
    assert_eq!(failing.hits(RPC), 1);
}

#[tokio::test]
async fn negotiation_result_with_stream_execution_mode_is_refused() {
    let hotel = tampered(true, |it| it["execution"]["mode"] = json!("stream")).await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
    let (target, arguments) = (AgentTarget::parse(AD).unwrap(), arguments(json!({})));
    let method = MethodChoice::Negotiate(sample_request());
    let error = world.client.invoke(&Invocation { target, method, arguments, timeout: None }).await.unwrap_err();
    assert_eq!((error.reason, hotel.hits(RPC)), (ClientErrorReason::CannotUse, 0));
}

#[tokio::test]
async fn note_names_the_missing_scope_of_an_interface_that_fits_better() {
    let hotel = tampered(true, |result| {
        result["alternatives"] = json!([
            {"interface": "interface.hotel.tools", "capability": "cap.hotel.booking", "missingScopes": ["booking:write"]},
            {"interface": "interface.hotel.other", "reason": "has 3 points less"},
        ]);
    })
    .await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
    let agreement = world.client.negotiate(&hotel_of(&world).await, &sample_request()).await.unwrap();
    let [note] = agreement.notes.as_slice() else { panic!("{:?}", agreement.notes) };
    assert!(note.contains("cap.hotel.booking") && note.contains("booking:write"), "{note}");
}
