//! `/anp`: the rules of the core binding.

use serde_json::{Value, json};

use super::{ANP, bearer, outcome, post, to_service, world};
use crate::dids::dids;

#[tokio::test]
async fn service_capabilities_are_public() {
    let world = world().await;
    let whole = to_service(&world, "anp.get_capabilities", json!({"target": null}), json!({}));
    let bare = json!({"jsonrpc": "2.0", "id": "r1", "method": "anp.get_capabilities"});
    let empty = json!({"jsonrpc": "2.0", "id": "r1", "method": "anp.get_capabilities", "params": {}});
    let mut answers = Vec::new();
    for request in [whole, bare, empty] {
        let answer = post(&world.gateway, ANP, &[], &request.to_string()).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let answer = answer.json();
        assert_eq!(answer["id"], "r1");
        answers.push(outcome(&answer).unwrap());
    }
    let service = dids(&world.gateway).service().unwrap().did().to_string();
    assert_eq!(answers[0]["service_did"], service);
    assert_eq!(answers[0]["supported_security_profiles"], json!(["transport-protected"]));
    assert_eq!(answers[0]["limits"]["max_request_bytes"], "1048576");
    let profiles = answers[0]["supported_profiles"].as_array().unwrap();
    for profile in ["anp.core.binding.v1", "anp.meta.negotiation.v1", "anp.rpc.v1"] {
        assert!(profiles.contains(&json!(profile)), "{profiles:?}");
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
}

#[tokio::test]
async fn messaging_capability_is_offered_only_to_did_callers() {
    let world = world().await;
    let asked = json!({"jsonrpc": "2.0", "id": "r1", "method": "anp.get_capabilities"});
    let takes = |answer: &Value| {
        let profiles = outcome(answer).unwrap()["supported_profiles"].clone();
        profiles.as_array().unwrap().contains(&json!("anp.direct.base.v1"))
    };
    assert!(!takes(&post(&world.gateway, ANP, &[], &asked.to_string()).await.json()), "an anonymous caller has no DID");
    let key = world.gateway.key(&[]).await.secret;
    assert!(!takes(&post(&world.gateway, ANP, &bearer(&key), &asked.to_string()).await.json()), "a key has no DID");
    assert!(takes(&world.ask(&world.ada, ANP, &asked).await));

    // A caller with a key is referred to the negotiation method; an anonymous one is asked to authenticate.
    let body = json!({"intent": {"description": "天气"}});
    let request = to_service(&world, "anp.negotiate", json!({}), body);
    let chosen = async |headers: &[(String, String)]| {
        let answer = post(&world.gateway, ANP, headers, &request.to_string()).await.json();
        outcome(&answer).map(|result| result["selected"]["profile"].clone())
    };
    assert_eq!(chosen(&bearer(&key)).await, Ok(json!("anp.rpc.v1")));
    assert_eq!(chosen(&[]).await, Err(1607));
    let result = outcome(&world.ask(&world.ada, ANP, &request).await).unwrap();
    assert_eq!(result["selected"]["profile"], "anp.direct.base.v1");
}

type ServiceRuleCase = (&'static str, fn(&mut Value), i64);

#[tokio::test]
async fn each_violated_anp_core_binding_rule_gets_its_error_code() {
    let world = world().await;
    let rules: Vec<ServiceRuleCase> = vec![
        ("id a number", |it| it["id"] = json!(1), 1000),
        ("id empty", |it| it["id"] = json!(""), 1000),
        ("id null", |it| it["id"] = Value::Null, 1000),
        ("no id", |it| drop(it.as_object_mut().unwrap().shift_remove("id")), 1000),
        ("id too long", |it| it["id"] = json!("x".repeat(257)), 1000),
        ("a batch", |it| *it = json!([it.clone()]), 1004),
        ("an empty batch", |it| *it = json!([]), 1004),
        ("no object", |it| *it = json!("text"), -32600),
        ("another version", |it| it["jsonrpc"] = json!("1.0"), -32600),
        ("more members", |it| it["more"] = json!(1), -32600),
        ("method in capitals", |it| it["method"] = json!("ANP.get_capabilities"), -32600),
        ("a reserved method", |it| it["method"] = json!("rpc.discover"), -32600),
        ("an unknown method", |it| it["method"] = json!("anp.nothing"), -32601),
        ("another protocol's method", |it| it["method"] = json!("group.send"), -32601),
        ("params a list", |it| it["params"] = json!([]), 1003),
        ("more params", |it| it["params"]["more"] = json!(1), 1003),
        ("no meta", |it| drop(it["params"].as_object_mut().unwrap().shift_remove("meta")), 1003),
        ("no body", |it| drop(it["params"].as_object_mut().unwrap().shift_remove("body")), 1003),
        ("unknown meta", |it| it["params"]["meta"]["more"] = json!(1), 1003),
        ("unknown auth", |it| it["params"]["auth"] = json!({"origin_proof": {}, "more": 1}), 1003),
        ("no profile", |it| drop(it["params"]["meta"].as_object_mut().unwrap().shift_remove("profile")), 1003),
        ("sender that is not a DID", |it| it["params"]["meta"]["sender_did"] = json!("ada"), 1003),
        ("a kind of target", |it| it["params"]["meta"]["target"] = json!({"kind": "all", "did": "did:wba:x"}), 1003),
        ("no time", |it| it["params"]["meta"]["created_at"] = json!("today"), 1003),
        ("another profile", |it| it["params"]["meta"]["profile"] = json!("anp.meta.negotiation.v1"), 1001),
        ("an unknown profile", |it| it["params"]["meta"]["profile"] = json!("anp.core.binding.v2"), 1001),
        ("a stronger protection", |it| it["params"]["meta"]["security_profile"] = json!("direct-e2ee"), 1002),
        ("no protection", |it| it["params"]["meta"]["security_profile"] = json!("none"), 1002),
        ("an empty proof", |it| it["params"]["auth"] = json!({"scheme": "x", "origin_proof": {}}), 1005),
    ];
    let good = to_service(&world, "anp.get_capabilities", json!({}), json!({}));
    assert!(outcome(&post(&world.gateway, ANP, &[], &good.to_string()).await.json()).is_ok());
    for (name, change, code) in rules {
        let mut request = good.clone();
        change(&mut request);
        let answer = post(&world.gateway, ANP, &[], &request.to_string()).await;
        assert_eq!(answer.status, 200, "{name}");
        let answer = answer.json();
        assert_eq!(outcome(&answer), Err(code), "{name}: {answer}");
        let word = answer["error"]["data"]["anp_code"].as_str();
        assert_eq!(word.is_some(), code > 0, "{name}: {answer}");
        let id = if code == 1000 || request.is_array() || request.is_string() { Value::Null } else { json!("r1") };
        assert_eq!(answer["id"], id, "{name}");
    }
    for more in ["x_anything", "trace_id", "anp_version"] {
        let mut request = good.clone();
        request["params"]["meta"][more] = json!("1.1");
        assert!(outcome(&post(&world.gateway, ANP, &[], &request.to_string()).await.json()).is_ok(), "{more}");
    }
}

#[tokio::test]
async fn sender_did_must_match_the_caller() {
    let world = world().await;
    let bob = world.peer.someone("bob", world.gateway.engine().now());
    let claims = |did: &str| to_service(&world, "anp.get_capabilities", json!({"sender_did": did}), json!({}));
    assert!(outcome(&world.ask(&world.ada, ANP, &claims(world.ada.did.as_str())).await).is_ok());
    assert_eq!(outcome(&world.ask(&bob, ANP, &claims(world.ada.did.as_str())).await), Err(1005));
    // A request with an invalid signature is not treated as unsigned.
    let body = claims(world.ada.did.as_str()).to_string();
    let mut headers = super::signed(&world.gateway, &world.ada, ANP, &body);
    headers.retain(|(name, _)| name != "signature");
    assert_eq!(post(&world.gateway, ANP, &headers, &body).await.status, 401);
}

/// ANP-06 §13: negotiation messages of the earlier protocol are refused in every form.
#[tokio::test]
async fn legacy_negotiation_messages_are_refused() {
    let world = world().await;
    let hello = json!({"action": "protocolNegotiation", "type": "sourceHello", "candidateProtocols": "x"});
    let binary = format!("\u{0}{hello}");
    let answer = post(&world.gateway, ANP, &[], &binary).await;
    assert_eq!(outcome(&answer.json()), Err(-32700));
    assert_eq!(
        outcome(&post(&world.gateway, ANP, &[], &hello.to_string()).await.json()),
        Err(1000),
        "no request at all"
    );
    for method in ["protocolNegotiation", "anp.source_hello", "anp.code_generation"] {
        let request = to_service(&world, method, json!({}), json!({}));
        let code = outcome(&post(&world.gateway, ANP, &[], &request.to_string()).await.json());
        assert!(matches!(code, Err(-32600 | -32601)), "{method}: {code:?}");
    }
}

/// ANP-06 §3.3, §7.1: a negotiation request must name the negotiation profile.
#[tokio::test]
async fn negotiation_requires_its_own_profile() {
    let world = world().await;
    for profile in ["anp.core.binding.v1", "anp.meta.negotiation.v2", "ANP.META.NEGOTIATION.V1"] {
        let body = json!({"intent": {"intentTags": ["echo"]}});
        let request = to_service(&world, "anp.negotiate", json!({"profile": profile}), body);
        assert_eq!(outcome(&world.ask(&world.ada, ANP, &request).await), Err(1001), "{profile}");
    }
}
