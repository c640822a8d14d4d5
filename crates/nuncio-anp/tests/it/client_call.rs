//! Tests of calls by the ANP client: signatures with a DID, granted tokens, and refused responses.

use nuncio_anp::client::{AgentTarget, ClientErrorReason, RemoteMethod, VerifiedAgentDescription};
use nuncio_core::time::Timestamp;
use nuncio_identity::{
    BoundDidDocument, DidDocument, K1ProofRule, NewDidDocument, SignableRequest, SignaturePolicy, verify_request,
};
use serde_json::{Value, json};

use crate::client_fixtures::{
    AD, HOTEL, NOW, ReceivedPeerRequest, TestClient, TestReply, TestServer, arguments, caller_did, caller_key,
    grand_hotel, rpc,
};

const RPC: &str = "POST /agents/hotel-assistant/rpc";

fn stay() -> serde_json::Map<String, Value> {
    arguments(json!({"check_in": "2027-01-01", "check_out": "2027-01-02"}))
}

fn caller_document() -> BoundDidDocument {
    let did = caller_did();
    let document = DidDocument::from_json(NewDidDocument::new(&did, NOW).sign(&caller_key())).unwrap();
    document.bind(&did, NOW, K1ProofRule::Optional).unwrap()
}

/// Verifies the signature of a request as a server would; returns the DID and the nonce.
fn signer(request: &ReceivedPeerRequest, now: Timestamp) -> Option<(String, Option<String>)> {
    request.header("signature")?;
    let target = format!("{HOTEL}{}", request.line().split(' ').nth(1).unwrap());
    let headers = request.headers();
    let asked =
        SignableRequest { method: "POST", target_uri: &target, headers: &headers, body: request.body.as_bytes() };
    let verified = verify_request(&asked, &caller_document(), now, &SignaturePolicy::default()).unwrap();
    Some((verified.did.to_string(), verified.nonce))
}

async fn search(world: &TestClient) -> (VerifiedAgentDescription, RemoteMethod) {
    let agent = world.client.describe(&AgentTarget::parse(AD).unwrap()).await.unwrap();
    let operation = world.client.operation(&agent, "search_rooms").await.unwrap();
    (agent, operation)
}

fn challenge(value: &str) -> TestReply {
    TestReply::status(401).with("www-authenticate", format!("DIDWba realm=\"x\", {value}")).with(
        "accept-signature",
        "sig1=(\"@method\" \"@target-uri\" \"@authority\" \"content-digest\" \"content-type\")",
    )
}

#[tokio::test]
async fn granted_token_is_reused_for_calls_until_it_is_refused() {
    let hotel = grand_hotel(|request, before| {
        if request.line() != RPC {
            return None;
        }
        let known = signer(request, NOW).is_some() || request.header("authorization").as_deref() == Some("Bearer t-1");
        // The third time, the token is refused.
        if !known || (before == 2 && request.header("signature").is_none()) {
            return Some(challenge("error=\"invalid_access_token\""));
        }
        let answer = rpc(request, Ok(json!("done")));
        Some(answer.with("authentication-info", "access_token=\"t-1\", token_type=\"Bearer\", expires_in=3600"))
    })
    .await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]).signed();
    let (agent, operation) = search(&world).await;
    for _ in 0..3 {
        assert_eq!(world.client.call(&agent, &operation, &stay(), None).await.unwrap(), json!("done"));
    }
    let sent = hotel.got(RPC);
    let how: Vec<_> = sent.iter().map(|one| (one.header("signature").is_some(), one.header("authorization"))).collect();
    let bearer = || Some("Bearer t-1".to_owned());
    assert_eq!(
        how,
        [(true, None), (false, bearer()), (false, bearer()), (true, None)],
        "a refused token is signed over"
    );
    assert_eq!(signer(&sent[0], NOW).unwrap().0, caller_did().to_string());
    let body = sent[0].json();
    assert_eq!((&body["method"], &body["params"]), (&json!("search_rooms"), &Value::Object(stay())));
    assert!(hotel.got("GET /agents/hotel-assistant/ad.json").iter().all(|one| one.header("signature").is_none()));
}

#[tokio::test]
async fn authentication_challenge_is_answered_once_with_its_nonce_and_components() {
    let hotel = grand_hotel(|request, _| {
        let nonce = signer(request, NOW).and_then(|(_, nonce)| nonce);
        (request.line() == RPC && nonce.as_deref() != Some("server-nonce"))
            .then(|| challenge("error=\"invalid_nonce\", nonce=\"server-nonce\""))
    })
    .await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]).signed();
    let (agent, operation) = search(&world).await;
    let answer = world.client.call(&agent, &operation, &stay(), None).await.unwrap();
    assert_eq!(answer["called"], "search_rooms");
    let sent = hotel.got(RPC);
    assert_eq!(sent.len(), 2);
    let input = sent[1].header("signature-input").unwrap();
    assert!(input.contains("\"content-type\"") && input.contains("nonce=\"server-nonce\""), "{input}");

    for (value, tries) in [("error=\"invalid_signature\"", 2), ("error=\"forbidden_did\"", 1)] {
        let refusing = grand_hotel(move |request, _| (request.line() == RPC).then(|| challenge(value))).await;
        let world = TestClient::new(&[("grand-hotel.example", &refusing)]).signed();
        let (agent, operation) = search(&world).await;
        let error = world.client.call(&agent, &operation, &stay(), None).await.unwrap_err();
        assert_eq!((error.reason, refusing.hits(RPC)), (ClientErrorReason::IdentityNeeded, tries), "{value}");
    }
}

#[tokio::test]
async fn call_without_did_reports_that_authentication_is_required() {
    let hotel = grand_hotel(|request, _| (request.line() == RPC).then(|| challenge("error=\"invalid_request\""))).await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
    let (agent, operation) = search(&world).await;
    let error = world.client.call(&agent, &operation, &stay(), None).await.unwrap_err();
    assert_eq!((error.reason, error.status, hotel.hits(RPC)), (ClientErrorReason::IdentityNeeded, Some(401), 1));
}

#[tokio::test]
async fn protected_document_is_fetched_again_with_a_signature() {
    let line = "GET /agents/hotel-assistant/ad.json";
    let hotel = grand_hotel(move |request, _| {
        (request.line() == line && request.header("signature").is_none()).then(|| TestReply::status(401))
    })
    .await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]).signed();
    search(&world).await;
    assert_eq!(hotel.hits(line), 2, "without, and then with a signature");
}

#[tokio::test]
async fn bearer_token_is_sent_only_to_the_named_host() {
    let elsewhere = TestServer::start(|request, _| rpc(request, Ok(json!("elsewhere")))).await;
    let hotel = grand_hotel(|request, _| {
        let document = "GET /agents/hotel-assistant/ad.json";
        (request.line() == document).then(|| {
            TestReply::json(&crate::client_fixtures::description(|it| {
                for interface in it["interfaces"].as_array_mut().unwrap() {
                    if interface["content"].is_object() {
                        interface["content"]["servers"][0]["url"] = json!("https://elsewhere.example/rpc");
                    }
                }
            }))
        })
    })
    .await;
    let names = [("grand-hotel.example", &hotel), ("elsewhere.example", &elsewhere)];
    let mut world = TestClient::new(&names);
    world.client = world.client.with_bearer(Some("mine".to_owned()));
    let agent = world.client.describe(&AgentTarget::parse(AD).unwrap()).await.unwrap();
    let (methods, notes) = world.client.operations(&agent).await.unwrap();
    assert!(notes.iter().any(|note| note.contains("called on another host: elsewhere.example")), "{notes:?}");
    for server in ["grand-hotel.example", "elsewhere.example"] {
        let operation = methods.iter().find(|it| it.name == "search_rooms" && it.server.host_str() == Some(server));
        world.client.call(&agent, operation.unwrap(), &stay(), None).await.unwrap();
    }
    assert_eq!(hotel.got(RPC)[0].header("authorization").as_deref(), Some("Bearer mine"));
    assert_eq!(elsewhere.got("POST /rpc")[0].header("authorization"), None);
}

#[tokio::test]
async fn invalid_arguments_and_unknown_method_names_are_refused_before_sending() {
    let hotel = grand_hotel(|_, _| None).await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
    let (agent, operation) = search(&world).await;
    for wrong in [json!({}), json!({"check_in": 1, "check_out": "2027-01-02"}), json!({"nights": 3})] {
        let error = world.client.call(&agent, &operation, &arguments(wrong), None).await.unwrap_err();
        assert_eq!(error.reason, ClientErrorReason::BadArguments);
    }
    assert_eq!(hotel.hits(RPC), 0);
    let error = world.client.operation(&agent, "seerch_rooms").await.unwrap_err();
    assert_eq!(error.reason, ClientErrorReason::WhichMethod);
    assert!(error.message.contains("search_rooms"), "{error}");
}

#[tokio::test]
async fn malformed_responses_and_rpc_errors_fail_the_call_with_a_specific_reason() {
    for (answer, reason) in [
        (json!({"jsonrpc": "2.0", "id": "other", "result": 1}), ClientErrorReason::InvalidDocument),
        (json!({"jsonrpc": "2.0", "result": 1}), ClientErrorReason::InvalidDocument),
        (json!([]), ClientErrorReason::InvalidDocument),
        (json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "m"}}), ClientErrorReason::Failed),
        (json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1006, "message": "m"}}), ClientErrorReason::Forbidden),
        (
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32602, "message": "m"}}),
            ClientErrorReason::BadArguments,
        ),
    ] {
        let shown = answer.to_string();
        let hotel = grand_hotel(move |request, _| (request.line() == RPC).then(|| TestReply::json(&answer))).await;
        let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
        let (agent, operation) = search(&world).await;
        let error = world.client.call(&agent, &operation, &stay(), None).await.unwrap_err();
        assert_eq!(error.reason, reason, "{shown}");
    }
}
