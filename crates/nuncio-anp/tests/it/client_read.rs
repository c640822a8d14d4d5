//! Tests of the ANP client: fetching and verifying descriptions, also from malicious hosts.

use nuncio_anp::client::{
    AgentTarget, AnpClient, AnpClientOptions, ClientErrorReason, DescriptionCheckOutcome, DescriptionClaim,
    VerifiedAgentDescription,
};
use nuncio_engine::ports::fetch::AddressTrust;
use nuncio_identity::proof::{AcceptedProofForms, ProofOptions, sign_literal};
use nuncio_identity::{NewDidDocument, SigningKey};
use serde_json::{Value, json};

use crate::client_fixtures::{
    AD, NOW, TestClient, TestReply, TestServer, arguments, description, did_document, did_line, grand_hotel, hotel_did,
    hotel_key, prove, usual_document,
};

const AD_LINE: &str = "GET /agents/hotel-assistant/ad.json";

fn target(text: &str) -> AgentTarget {
    AgentTarget::parse(text).unwrap()
}

async fn described(client: &AnpClient) -> VerifiedAgentDescription {
    client.describe(&target(AD)).await.unwrap()
}

fn outcomes(agent: &VerifiedAgentDescription) -> Vec<(DescriptionClaim, &'static str)> {
    let word = |outcome: &DescriptionCheckOutcome| match outcome {
        DescriptionCheckOutcome::Verified { .. } => "verified",
        DescriptionCheckOutcome::Unverified { .. } => "unverified",
        DescriptionCheckOutcome::Refuted { .. } => "refuted",
    };
    agent.checks.iter().map(|check| (check.subject, word(&check.outcome))).collect()
}

/// Test server with another agent description.
async fn describing(value: impl Fn() -> Value + Send + Sync + 'static) -> TestServer {
    grand_hotel(move |request, _| (request.line() == AD_LINE).then(|| TestReply::json(&value()))).await
}

/// Test server with another DID document.
async fn identified(value: impl Fn() -> TestReply + Send + Sync + 'static) -> TestServer {
    let line = did_line();
    grand_hotel(move |request, _| (request.line() == line).then(&value)).await
}

#[tokio::test]
async fn agent_named_by_url_did_or_host_is_found_and_verified() {
    let hotel = grand_hotel(|_, _| None).await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
    for named in [AD, hotel_did().as_str(), "grand-hotel.example"] {
        let agent = world.client.describe(&target(named)).await.unwrap();
        assert_eq!(agent.description.name, "Grand Hotel Assistant");
        assert_eq!(agent.did(), Some(&hotel_did()));
        use DescriptionClaim::{Address, Challenge, Did, Domain, Proof, Service};
        let all = [(Did, "verified"), (Service, "verified"), (Proof, "verified"), (Domain, "verified")];
        let rest = [(Challenge, "unverified"), (Address, "verified")];
        assert_eq!(outcomes(&agent), [&all[..], &rest].concat(), "{named}");
        assert_eq!(agent.notes, Vec::<String>::new());
        agent.checks.ensure_trusted().unwrap();
        let (methods, notes) = world.client.operations(&agent).await.unwrap();
        assert_eq!((methods.len(), notes.len()), (5, 0), "inline and by address are the same methods");
        assert!(methods.iter().any(|it| it.name == "search_rooms" && it.type_of("check_in") == Some("string")));
    }
    assert_eq!(world.trust_of(AD), Some(AddressTrust::Configured), "the host was named");
}

#[tokio::test]
async fn description_that_cannot_be_verified_is_reported_as_unverified_but_usable() {
    let bare = describing(|| {
        let mut value = description(|_| {});
        value.as_object_mut().unwrap().shift_remove("proof");
        value
    })
    .await;
    let unknown = identified(|| TestReply::status(404)).await;
    let nameless = describing(|| {
        let mut value = description(|_| {});
        value.as_object_mut().unwrap().shift_remove("did");
        value
    })
    .await;
    let elsewhere = identified(|| TestReply::json(&did_document(&[]))).await;
    let rows = [
        (&bare, DescriptionClaim::Proof, "no proof"),
        (&unknown, DescriptionClaim::Did, "answered 404"),
        (&unknown, DescriptionClaim::Proof, "unknown without the document"),
        (&nameless, DescriptionClaim::Did, "no DID"),
        (&elsewhere, DescriptionClaim::Service, "names no description"),
    ];
    for (server, subject, said) in rows {
        let world = TestClient::new(&[("grand-hotel.example", server)]);
        let agent = described(&world.client).await;
        match agent.checks.of(subject) {
            Some(DescriptionCheckOutcome::Unverified { why }) => assert!(why.contains(said), "{why}"),
            other => panic!("{subject:?}: {other:?}"),
        }
        agent.checks.ensure_trusted().unwrap();
    }
}

/// Description of the test agent with the proof that the text of ANP-07 defines.
fn description_with_literal_proof() -> Value {
    let Value::Object(mut members) = description(|_| {}) else { panic!("an object") };
    let key = hotel_did().url("key-1");
    let options = ProofOptions { verification_method: &key, created: NOW, domain: None, challenge: None };
    sign_literal(&mut members, &hotel_key(), &options);
    Value::Object(members)
}

async fn described_with(server: &TestServer, named: &str, proof_forms: AcceptedProofForms) -> VerifiedAgentDescription {
    let options = AnpClientOptions { proof_forms, ..AnpClientOptions::default() };
    let world = TestClient::with_options(&[("grand-hotel.example", server)], None, options);
    world.client.describe(&target(named)).await.unwrap()
}

#[tokio::test]
async fn literal_proof_of_anp_07_is_verified_only_on_request() {
    let good = grand_hotel(|request, _| {
        request.line().starts_with(AD_LINE).then(|| TestReply::json(&description_with_literal_proof()))
    })
    .await;
    let bad = grand_hotel(|request, _| {
        request.line().starts_with(AD_LINE).then(|| {
            let mut changed = description_with_literal_proof();
            changed["name"] = json!("Grander Hotel");
            TestReply::json(&changed)
        })
    })
    .await;
    let proof = async |server: &TestServer, forms| {
        described_with(server, AD, forms).await.checks.of(DescriptionClaim::Proof).unwrap().clone()
    };
    use AcceptedProofForms::{DataIntegrity, WithLiteral};
    assert!(matches!(proof(&good, DataIntegrity).await, DescriptionCheckOutcome::Unverified { .. }));
    assert!(matches!(proof(&good, WithLiteral).await, DescriptionCheckOutcome::Verified { .. }));
    assert!(matches!(proof(&bad, WithLiteral).await, DescriptionCheckOutcome::Refuted { .. }));
}

#[tokio::test]
async fn literal_proof_is_requested_and_leaves_the_address_of_the_description_unchanged() {
    let literal_line = format!("{AD_LINE}?proof=literal");
    let asked = literal_line.clone();
    let hotel = grand_hotel(move |request, _| {
        (request.line() == asked).then(|| TestReply::json(&description_with_literal_proof()))
    })
    .await;
    let literal_ad = format!("{AD}?proof=literal");
    for (number, named) in [AD, hotel_did().as_str(), &literal_ad].into_iter().enumerate() {
        let agent = described_with(&hotel, named, AcceptedProofForms::WithLiteral).await;
        for subject in [DescriptionClaim::Proof, DescriptionClaim::Service, DescriptionClaim::Address] {
            let outcome = agent.checks.of(subject);
            assert!(
                matches!(outcome, Some(DescriptionCheckOutcome::Verified { .. })),
                "{named} {subject:?}: {outcome:?}"
            );
        }
        assert_eq!((agent.url.as_str(), hotel.hits(&literal_line), hotel.hits(AD_LINE)), (AD, number + 1, 0));
    }
    described_with(&hotel, AD, AcceptedProofForms::DataIntegrity).await;
    assert_eq!(hotel.hits(AD_LINE), 1, "the literal form was not requested");
}

#[tokio::test]
async fn agent_whose_description_fails_verification_cannot_be_called() {
    let changed = describing(|| {
        let mut value = description(|_| {});
        value["name"] = json!("Grander Hotel");
        value
    })
    .await;
    let strange = describing(|| {
        let value = description(|it| it["did"] = json!("did:wba:grand-hotel.example:agents:other"));
        prove(value, None)
    })
    .await;
    let abroad = describing(|| prove(description(|_| {}), Some("other.example"))).await;
    let moved = identified(|| {
        let url = "https://grand-hotel.example/agents/other/ad.json";
        TestReply::json(&did_document(&[("AgentDescription", url)]))
    })
    .await;
    let forged = identified(|| {
        let did = hotel_did();
        TestReply::json(&NewDidDocument::new(&did, NOW).sign(&SigningKey::from_seed(&[1; 32])))
    })
    .await;
    let mismatched = identified(|| {
        let mut document = usual_document();
        document["id"] = json!("did:wba:grand-hotel.example:agents:other");
        TestReply::json(&document)
    })
    .await;
    let gone = identified(|| {
        let (did, next) = (hotel_did(), nuncio_identity::Did::parse("did:wba:grand-hotel.example:b").unwrap());
        let mut document = NewDidDocument::new(&did, NOW);
        document.successor = Some(&next);
        TestReply::json(&document.sign(&hotel_key()))
    })
    .await;
    for (server, subject, said) in [
        (&changed, DescriptionClaim::Proof, "does not match the document"),
        (&abroad, DescriptionClaim::Domain, "differs from the host"),
        (&moved, DescriptionClaim::Service, "is described at https://grand-hotel.example/agents/other/ad.json"),
        (&forged, DescriptionClaim::Did, "not the document of"),
        (&mismatched, DescriptionClaim::Did, "not the document of"),
        (&gone, DescriptionClaim::Did, "is deactivated"),
        (&strange, DescriptionClaim::Proof, "its proof is by did:wba:grand-hotel.example:"),
    ] {
        let world = TestClient::new(&[("grand-hotel.example", server)]);
        let agent = described(&world.client).await;
        let Some(DescriptionCheckOutcome::Refuted { why }) = agent.checks.of(subject) else {
            panic!("{subject:?}: {:?}", agent.checks)
        };
        assert!(why.contains(said), "{why}");
        let stopped = agent.checks.ensure_trusted().unwrap_err();
        assert_eq!(stopped.reason, ClientErrorReason::Untrusted);
        // The methods of an untrusted agent can be listed, but not called.
        let operation = world.client.operation(&agent, "search_rooms").await.unwrap();
        let stay = arguments(json!({"check_in": "2027-01-01", "check_out": "2027-01-02"}));
        let error = world.client.call(&agent, &operation, &stay, None).await.unwrap_err();
        assert_eq!(error.reason, ClientErrorReason::Untrusted);
        assert_eq!(server.hits("POST /agents/hotel-assistant/rpc"), 0);
    }
}

#[tokio::test]
async fn description_copied_to_a_lookalike_domain_fails_verification() {
    let hotel = grand_hotel(|_, _| None).await;
    // The same documents under another host name.
    let copy = grand_hotel(|_, _| None).await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel), ("grand-hotei.example", &copy)]);
    let named = target("https://grand-hotei.example/agents/hotel-assistant/ad.json");
    let agent = world.client.describe(&named).await.unwrap();
    assert!(
        matches!(agent.checks.of(DescriptionClaim::Service), Some(DescriptionCheckOutcome::Refuted { .. })),
        "{:?}",
        agent.checks
    );
    assert!(
        matches!(agent.checks.of(DescriptionClaim::Domain), Some(DescriptionCheckOutcome::Refuted { .. })),
        "{:?}",
        agent.checks
    );
    assert_eq!(
        world.client.negotiate(&agent, &Default::default()).await.unwrap_err().reason,
        ClientErrorReason::Untrusted
    );
    assert_eq!((copy.hits("POST /anp"), hotel.hits("POST /anp")), (0, 0));
}

#[tokio::test]
async fn successor_did_is_followed_only_for_the_same_subject() {
    let old = hotel_did();
    let path = |did: &nuncio_identity::Did| {
        let url = url::Url::parse(&did.resolution_url()).unwrap();
        format!("GET {}", url.path())
    };
    let key = SigningKey::from_seed(&[5; 32]);
    let make = |segments: &[&str]| nuncio_identity::Did::for_key("grand-hotel.example", None, segments, &key).unwrap();
    let (same, other) = (make(&["agents", "hotel-assistant"]), make(&["agents", "other"]));
    for (next, said) in [(same, None), (other, Some("another subject"))] {
        let (old_line, next_line) = (path(&old), path(&next));
        let (was, is, signing) = (old.clone(), next.clone(), key.clone());
        let hotel = grand_hotel(move |request, _| match request.line() {
            line if line == old_line => {
                let mut document = NewDidDocument::new(&was, NOW);
                document.successor = Some(&is);
                Some(TestReply::json(&document.sign(&hotel_key())))
            }
            line if line == next_line => {
                let mut document = NewDidDocument::new(&is, NOW);
                document.services.push(nuncio_identity::DidService::agent_description(&is, AD));
                Some(TestReply::json(&document.sign(&signing)))
            }
            AD_LINE => {
                let mut value = description(|_| {});
                value.as_object_mut().unwrap().shift_remove("proof");
                value["did"] = json!(is.as_str());
                Some(TestReply::json(&value))
            }
            _ => None,
        })
        .await;
        let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
        let found = world.client.describe(&target(old.as_str())).await;
        match said {
            None => {
                let agent = found.unwrap();
                assert_eq!(agent.did(), Some(&next));
                assert!(agent.notes.iter().any(|note| note.contains("was replaced by")), "{:?}", agent.notes);
            }
            Some(said) => {
                let error = found.unwrap_err();
                assert_eq!(error.reason, ClientErrorReason::Superseded);
                assert!(error.message.contains(said), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn agent_list_pages_are_merged_and_foreign_circular_or_endless_pages_refused() {
    let item = |name: &str| json!({"@type": "ad:AgentDescription", "name": name, "@id": format!("https://many.example/{name}/ad.json")});
    let page = move |items: Value, next: Option<&str>| {
        let mut page = json!({"@type": "CollectionPage", "items": items});
        if let Some(next) = next {
            page["next"] = json!(next);
        }
        TestReply::json(&page)
    };
    let first = "GET /.well-known/agent-descriptions";
    let good = TestServer::start(move |request, _| match request.line() {
        line if line == first => page(json!([item("a")]), Some("https://many.example/2")),
        "GET /2" => page(json!([item("b"), item("a"), {"@id": "https://other.example/ad.json"}]), None),
        _ => TestReply::status(404),
    })
    .await;
    let world = TestClient::new(&[("many.example", &good)]);
    let host = url::Url::parse("https://many.example/").unwrap();
    let listing = world.client.list(&host).await.unwrap();
    let urls: Vec<_> = listing.agents.iter().map(|agent| agent.url.as_str()).collect();
    assert_eq!(
        urls,
        ["https://many.example/a/ad.json", "https://many.example/b/ad.json", "https://other.example/ad.json"]
    );
    assert!(listing.notes[0].contains("twice") && listing.notes[1].contains("another host"), "{:?}", listing.notes);
    let error = world.client.describe(&target("many.example")).await.unwrap_err();
    assert_eq!(error.reason, ClientErrorReason::WhichAgent);

    let elsewhere = TestServer::start(move |_, _| page(json!([]), Some("https://other.example/2"))).await;
    let circle =
        TestServer::start(move |_, _| page(json!([]), Some("https://many.example/.well-known/agent-descriptions")))
            .await;
    let endless = TestServer::start(move |request, _| {
        let next = format!("https://many.example{}0", request.line().trim_start_matches("GET "));
        page(json!([]), Some(&next))
    })
    .await;
    for (server, said) in [(&elsewhere, "another host"), (&circle, "no end"), (&endless, "no end: 5 pages")] {
        let world = TestClient::new(&[("many.example", server)]);
        let error = world.client.list(&host).await.unwrap_err();
        assert_eq!(error.reason, ClientErrorReason::InvalidDocument);
        assert!(error.message.contains(said), "{error}");
    }
}

#[tokio::test]
async fn each_malformed_or_hostile_response_has_its_own_error_reason() {
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let whole = |status: u16, kind: &str, body: &str| {
        TestReply::Whole(status, vec![("content-type", kind.to_owned())], body.to_owned())
    };
    let rows = [
        (TestReply::Endless, ClientErrorReason::TooLarge),
        (TestReply::Silent, ClientErrorReason::TooSlow),
        (TestReply::status(302).with("location", "https://evil.example/"), ClientErrorReason::Redirected),
        (TestReply::status(404), ClientErrorReason::Answered),
        (TestReply::status(401), ClientErrorReason::IdentityNeeded),
        (whole(200, "application/json", &deep), ClientErrorReason::InvalidDocument),
        (whole(200, "application/json", "{\"name\":1,\"name\":2}"), ClientErrorReason::InvalidDocument),
        (whole(200, "application/json", "[]"), ClientErrorReason::InvalidDocument),
        (whole(200, "application/json", "{}"), ClientErrorReason::InvalidDocument),
        (whole(200, "text/html", "{}"), ClientErrorReason::WrongType),
    ];
    for (reply, reason) in rows {
        let shown = format!("{reply:?}");
        let server = TestServer::start(move |_, _| reply.clone()).await;
        let world = TestClient::hurried(
            &[("grand-hotel.example", &server)],
            matches!(reason, ClientErrorReason::TooSlow).then_some("/agents/hotel-assistant/ad.json"),
        );
        let error = world.client.describe(&target(AD)).await.unwrap_err();
        assert_eq!(error.reason, reason, "{shown:.80}: {error}");
    }
}

#[tokio::test]
async fn urls_in_documents_that_lead_to_internal_addresses_are_refused() {
    for (url, why) in [
        ("http://127.0.0.1:9/tools.json", "https"),
        ("https://127.0.0.1:9/tools.json", "127.0.0.1"),
        ("https://10.0.0.1/tools.json", "10.0.0.1"),
        ("https://localhost/tools.json", "this machine"),
        ("file:///etc/passwd", "http"),
    ] {
        let hotel = describing(move || {
            description(|it| {
                it["interfaces"] =
                    json!([{"id": "a", "type": "StructuredInterface", "protocol": "openrpc", "url": url}]);
            })
        })
        .await;
        let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
        let agent = described(&world.client).await;
        let error = world.client.operations(&agent).await.unwrap_err();
        assert_eq!(error.reason, ClientErrorReason::Refused, "{url}: {error}");
        assert!(error.message.contains(why), "{error}");
    }
    // A DID of this machine in a foreign description is not resolved.
    let inside = describing(|| description(|it| it["did"] = json!("did:wba:localhost%3A9:agents:a"))).await;
    let world = TestClient::new(&[("grand-hotel.example", &inside)]);
    let agent = described(&world.client).await;
    assert!(
        matches!(agent.checks.of(DescriptionClaim::Did), Some(DescriptionCheckOutcome::Unverified { .. })),
        "{:?}",
        agent.checks
    );
}

#[tokio::test]
async fn description_that_deviates_from_the_specification_is_used_with_a_warning() {
    let openrpc = json!({
        "openrpc": "1.3.2", "info": {"title": "t", "version": "1"}, "servers": [{"url": "/rpc"}],
        "methods": [
            {"name": "ask", "params": [{"name": "q", "required": true, "schema": {"$ref": "#/components/schemas/Q"}}],
             "result": {"name": "r", "schema": {"type": "string"}}},
            {"$ref": "#/components/methods/other"},
        ],
        "components": {"schemas": {"Q": {"type": "string"}}, "methods": {"other": {"name": "other", "params": []}}},
    });
    let described = json!({
        "@context": {}, "type": "Product", "name": "Agent", "description": "d", "identifier": hotel_did().as_str(),
        "security": {"didwba": {"scheme": "didwba", "in": "header", "name": "Authorization"}},
        "interfaces": [{"type": "InlineOpenRPC", "protocol": "openrpc", "definition": openrpc}],
    });
    let hotel = describing(move || described.clone()).await;
    let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
    let agent = world.client.describe(&target(AD)).await.unwrap();
    assert!(agent.notes[0].contains("breaks the specification"), "{:?}", agent.notes);
    assert_eq!(agent.did(), Some(&hotel_did()), "its DID is said in another place");
    let (methods, _) = world.client.operations(&agent).await.unwrap();
    let names: Vec<_> = methods.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["ask", "other"]);
    assert_eq!(methods[0].server.as_str(), "https://grand-hotel.example/rpc");
    methods[0].check(&arguments(json!({"q": "hi"}))).unwrap();
    for wrong in [json!({}), json!({"q": 1}), json!({"q": "hi", "more": 1})] {
        assert_eq!(methods[0].check(&arguments(wrong)).unwrap_err().reason, ClientErrorReason::BadArguments);
    }
}
