//! `anp.negotiate` over HTTP: the choice depends on the load of the tools and the permissions of the caller.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock as _;
use nuncio_identity::jcs;
use serde_json::{Value, json};

use super::{ANP, APPROVAL, AnpTestServer, outcome, post, to_service, world, world_with};
use crate::agents::{held_pid, release};
use crate::dids::dids;

async fn negotiate(world: &AnpTestServer, meta: Value, body: Value) -> Value {
    let request = to_service(world, "anp.negotiate", meta, body);
    world.ask(&world.ada, ANP, &request).await
}

/// A request for a capability by calls only, without conversation.
fn needs(capability: &str) -> Value {
    json!({
        "intent": {"name": "anything"},
        "requiredCapabilities": [capability],
        "constraints": {"allowNaturalLanguageFallback": false},
    })
}

#[tokio::test]
async fn negotiation_result_names_an_interface_and_has_a_digest_over_all_its_fields() {
    let world = world().await;
    let body = json!({"negotiation_id": "neg-1", "intent": {"intentTags": ["echo"]}});
    let answer = negotiate(&world, json!({}), body).await;
    let result = outcome(&answer).unwrap();
    assert_eq!((&result["negotiationId"], &result["status"]), (&json!("neg-1"), &json!("accepted")));
    assert_eq!(result["selected"]["interface"], "interface.desk.tools");
    assert_eq!(result["selected"]["capability"], "cap.desk.echo");
    assert_eq!(result["selected"]["securityProfile"], "transport-protected");
    assert_eq!(result["execution"]["requiresHumanAuthorization"], false);
    let until = Timestamp::try_from(result["validUntil"].as_str().unwrap().to_owned()).unwrap();
    assert!(until > world.clock.now());
    let mut bare = result.clone();
    bare.as_object_mut().unwrap().shift_remove("negotiationDigest");
    let digest = URL_SAFE_NO_PAD.encode(Digest::of_bytes(&jcs::canonical(&bare)).as_bytes());
    assert_eq!(result["negotiationDigest"], format!("sha-256:{digest}"));
    // The chosen interface exists and has the method.
    let (_, path) = result["selected"]["url"].as_str().unwrap().split_once("/agents").unwrap();
    let document = crate::dids::get(&world.gateway, &format!("/agents{path}"), "localhost", "").await;
    assert!(document.body.contains("\"echo\""));
    // A service with one agent can be addressed by its own DID.
    let service = dids(&world.gateway).service().unwrap().did().to_string();
    let target = json!({"target": {"kind": "service", "did": service}});
    assert!(outcome(&negotiate(&world, target, json!({"intent": {"intentTags": ["echo"]}})).await).is_ok());
}

#[tokio::test]
async fn repeated_operation_id_returns_the_same_result_and_conflicts_with_another_request() {
    let world = world().await;
    let operation = || json!({"operation_id": "op-1"});
    let echo = || json!({"negotiation_id": "neg-1", "intent": {"intentTags": ["echo"]}});
    let first = outcome(&negotiate(&world, operation(), echo()).await).unwrap();
    world.clock.advance(std::time::Duration::from_secs(60));
    assert_eq!(
        outcome(&negotiate(&world, operation(), echo()).await),
        Ok(first.clone()),
        "the repeated answer has the same expiry"
    );
    let mut other = echo();
    other["intent"]["intentTags"] = json!(["count"]);
    assert_eq!(outcome(&negotiate(&world, operation(), other.clone()).await), Err(1008));
    // Another operation id or caller is another operation.
    let again = outcome(&negotiate(&world, json!({"operation_id": "op-2"}), echo()).await).unwrap();
    assert_ne!(again["validUntil"], first["validUntil"]);
    let bob = world.peer.someone("bob", world.clock.now());
    let request = to_service(&world, "anp.negotiate", operation(), echo());
    assert_ne!(outcome(&world.ask(&bob, ANP, &request).await).unwrap()["validUntil"], first["validUntil"]);
    // The id can be used again when the result is not valid any more.
    world.clock.advance(std::time::Duration::from_secs(600));
    assert!(outcome(&negotiate(&world, operation(), echo()).await).is_ok_and(|result| result != first));
}

#[tokio::test]
async fn each_cause_of_a_failed_negotiation_has_its_own_error_code() {
    let world = world().await;
    let at = |span: i64| json!({"created_at": Timestamp::from_millis(world.clock.now().as_millis() + span * 1000)});
    let echo = || json!({"intent": {"intentTags": ["echo"]}});
    let with = |name: &str, value: Value| {
        let mut body = echo();
        body[name] = value;
        body
    };
    let none = || json!({});
    let unlike = json!({"intent": {"intentTags": ["zzz.qqq"]}, "constraints": {"allowNaturalLanguageFallback": false}});
    let cases = [
        ("from the future", at(61), echo(), 1600),
        ("no matching interface", none(), unlike, 1601),
        ("another mode", none(), with("mode", json!("telepathy")), 1602),
        ("drafting is not offered", none(), with("mode", json!("natural_language_protocol_drafting")), 1602),
        ("another protocol", none(), with("candidateProtocols", json!(["acme.v9"])), 1603),
        ("other profiles", none(), with("callerCapabilities", json!({"supportedProfiles": ["acme.v9"]})), 1603),
        ("other protection", none(), with("constraints", json!({"requiredSecurityProfile": "direct-e2ee"})), 1604),
        ("other content", none(), with("callerCapabilities", json!({"supportedContentTypes": ["image/png"]})), 1605),
        ("an empty intent", none(), json!({"intent": {}}), 1606),
        ("not granted", none(), needs("cap.desk.count"), 1607),
        ("too old", at(-301), echo(), 1608),
    ];
    for (name, meta, body, code) in cases {
        let answer = negotiate(&world, meta, body).await;
        assert_eq!(outcome(&answer), Err(code), "{name}: {answer}");
        assert!(answer["error"]["data"]["anp_code"].as_str().unwrap().starts_with("meta."), "{answer}");
    }
    for span in [60, -300] {
        assert!(outcome(&negotiate(&world, at(span), echo()).await).is_ok(), "{span}");
    }
    let gone = json!({"target": {"kind": "agent", "did": "did:wba:localhost%3A1:agents:nobody"}});
    assert_eq!(outcome(&negotiate(&world, gone, echo()).await), Err(1007));
    assert_eq!(outcome(&negotiate(&world, json!({"target": null}), echo()).await), Err(1014));
    assert_eq!(outcome(&negotiate(&world, none(), json!({"intent": "echo"})).await), Err(-32602));
}

#[tokio::test]
async fn negotiation_of_an_unsupported_or_unknown_security_profile_is_refused() {
    let world = world().await;
    let echo = json!({"intent": {"intentTags": ["echo"]}});
    let with = |name: &str, value: Value| {
        let mut body = echo.clone();
        body[name] = value;
        body
    };
    let e2ee = ["direct-e2ee", "group-e2ee"];
    for profile in e2ee {
        let cases = [
            (json!({"security_profile": profile}), echo.clone()),
            (json!({}), with("constraints", json!({"requiredSecurityProfile": profile}))),
            (json!({}), with("callerCapabilities", json!({"supportedSecurityProfiles": [profile]}))),
            (
                json!({"security_profile": profile}),
                with("callerCapabilities", json!({"supportedSecurityProfiles": ["transport-protected"]})),
            ),
        ];
        for (meta, body) in cases {
            let answer = negotiate(&world, meta.clone(), body.clone()).await;
            assert_eq!(outcome(&answer), Err(1604), "{meta} {body}: {answer}");
        }
    }
    for unknown in ["none", "plaintext", "TRANSPORT-PROTECTED", "transport-protected "] {
        let answer = negotiate(&world, json!({"security_profile": unknown}), echo.clone()).await;
        assert_eq!(outcome(&answer), Err(1002), "{unknown}: {answer}");
        let required = with("constraints", json!({"requiredSecurityProfile": unknown}));
        assert_eq!(outcome(&negotiate(&world, json!({}), required).await), Err(1604), "{unknown}");
    }
    assert!(outcome(&negotiate(&world, json!({}), echo).await).is_ok());
}

#[tokio::test]
async fn negotiation_offers_only_capabilities_that_the_caller_may_use() {
    let world = world().await;
    assert_eq!(outcome(&negotiate(&world, json!({}), needs("cap.desk.count")).await), Err(1607));
    world.grant(&world.ada, "notes:write").await;
    let chosen = outcome(&negotiate(&world, json!({}), needs("cap.desk.count")).await).unwrap();
    assert_eq!(chosen["selected"]["capability"], "cap.desk.count");
    // Anonymous callers get no restricted interface, and hidden ones are never offered.
    let request = to_service(&world, "anp.negotiate", json!({}), needs("cap.desk.count")).to_string();
    assert_eq!(outcome(&post(&world.gateway, ANP, &[], &request).await.json()), Err(1607));
    assert_eq!(outcome(&negotiate(&world, json!({}), needs("cap.desk.secret")).await), Err(1601));
    // An interface that needs an approval is marked; it is not chosen if the caller excludes approvals.
    let asked = outcome(&negotiate(&world, json!({}), needs("cap.desk.careful")).await).unwrap();
    assert_eq!(asked["execution"]["requiresHumanAuthorization"], true);
    assert_eq!(asked["selected"]["interface"], "interface.desk.authorized");
    let mut unasked = needs("cap.desk.careful");
    unasked["constraints"]["requiresHumanAuthorization"] = json!(false);
    assert_eq!(outcome(&negotiate(&world, json!({}), unasked).await), Err(1601));
    // A negotiated choice grants no permission.
    let bob = world.peer.someone("bob", world.clock.now());
    assert_eq!(world.call(&bob, "count", json!({})).await, Err(1006));
}

#[tokio::test]
async fn better_interface_that_lacks_a_grant_is_named_with_its_scope_beside_the_choice() {
    let world = world().await;
    // With conversation allowed, the caller without the scope is sent there.
    let wanted = json!({"intent": {"name": "anything"}, "requiredCapabilities": ["cap.desk.count"]});
    let without = json!({"intent": {"description": "count something, please"}});
    let chosen = outcome(&negotiate(&world, json!({}), without.clone()).await).unwrap();
    assert_eq!(chosen["selected"]["interface"], "interface.desk.conversation", "{chosen}");
    let missed = &chosen["alternatives"][0];
    assert_eq!(
        (&missed["interface"], &missed["capability"]),
        (&json!("interface.desk.tools"), &json!("cap.desk.count"))
    );
    assert_eq!(missed["missingScopes"], json!(["notes:write"]), "{chosen}");
    assert!(missed["reason"].as_str().unwrap().contains("notes:write"), "{missed}");

    world.grant(&world.ada, "notes:write").await;
    for body in [wanted, without] {
        let chosen = outcome(&negotiate(&world, json!({}), body).await).unwrap();
        assert_eq!(chosen["selected"]["capability"], "cap.desk.count", "{chosen}");
        assert!(!chosen.to_string().contains("missingScopes"), "{chosen}");
    }
}

#[tokio::test]
async fn negotiation_of_a_high_sensitivity_tool_adds_human_authorization_and_approval_time() {
    let world = world().await;
    world.grant(&world.ada, "danger:do").await;
    let plain = outcome(&negotiate(&world, json!({}), needs("cap.desk.echo")).await).unwrap();
    for demanded in [Value::Null, json!(true)] {
        let mut body = needs("cap.desk.danger");
        if demanded == true {
            body["constraints"]["requiresHumanAuthorization"] = demanded;
        }
        let chosen = outcome(&negotiate(&world, json!({}), body).await).unwrap();
        assert_eq!(chosen["execution"]["requiresHumanAuthorization"], true, "{chosen}");
        assert_eq!(chosen["selected"]["interface"], "interface.desk.authorized", "{chosen}");
        // Both tools have the same timeout; the difference is the time that an approval may wait.
        let millis = |result: &Value| result["execution"]["timeoutMs"].as_u64().unwrap();
        assert_eq!(u128::from(millis(&chosen) - millis(&plain)), APPROVAL.as_millis(), "{chosen}");
    }
    let mut unasked = needs("cap.desk.danger");
    unasked["constraints"]["requiresHumanAuthorization"] = json!(false);
    assert_eq!(outcome(&negotiate(&world, json!({}), unasked).await), Err(1601));
}

#[tokio::test]
async fn overloaded_tool_is_not_offered_in_negotiation() {
    let builder = |it: nuncio_testkit::GatewayBuilder| it.settings(|settings| settings.limits.calls_per_tool = 1);
    let world = std::sync::Arc::new(world_with(builder).await);
    assert!(outcome(&negotiate(&world, json!({}), needs("cap.desk.held")).await).is_ok());
    let calling = {
        let world = std::sync::Arc::clone(&world);
        tokio::spawn(async move { world.call(&world.ada, "held", json!({})).await })
    };
    held_pid(&world.gateway).await;
    assert_eq!(outcome(&negotiate(&world, json!({}), needs("cap.desk.held")).await), Err(1601));
    assert!(
        outcome(&negotiate(&world, json!({}), needs("cap.desk.echo")).await).is_ok(),
        "other interfaces can still be negotiated"
    );
    release(&world.gateway, "held.gate", "let go").await;
    assert_eq!(calling.await.unwrap(), Ok(json!("let go")));
    assert!(outcome(&negotiate(&world, json!({}), needs("cap.desk.held")).await).is_ok());
}
