//! Protocols drafted for callers that no interface fits: written by a real brain, validated, accepted and used.

use std::time::Duration;

use nuncio_anp::wire::ProtocolArtifact;
use nuncio_core::approval::{Approval, ApprovalAnswer};
use nuncio_core::principal::Principal;
use nuncio_engine::drafting::ProtocolDraftingPolicy;
use nuncio_testkit::{Gateway, GatewayBuilder};
use serde_json::{Value, json};

use super::{ANP, AnpTestServer, nonce, outcome, post, to_service, world, world_with};
use crate::agents::{DESK, tool};
use crate::dids::peer::ForeignDid;

const MODE: &str = "natural_language_protocol_drafting";

/// Brain that answers with its files: `drafted` for a draft, `again` after a refused draft, `answered` for a call. It
/// records its prompts in `heard`.
const BRAIN: &str = r#"IFS= read -r step; printf "%s\n" "$step" >> heard
case $step in
*"cannot be used"*) cat again ;;
*"calls you under the protocol"*) cat answered ;;
*"Draft a small protocol"*) cat drafted ;;
*) echo "{\"text\":\"hm\"}" ;;
esac"#;

fn thinking() -> String {
    let brain = BRAIN.replace('\n', " \n");
    let head = format!(
        "[agent]\nname = \"{DESK}\"\nversion = \"1.0.0\"\n[allow]\nwrite = [\".\"]\n[brain]\nkind = \"process\"\ncommand = [\"sh\", \"-c\", '''{brain}''']\n"
    );
    head + &tool("echo", "cat", "")
}

fn definition() -> Value {
    json!({
        "description": "Hold a table.",
        "methods": [{
            "name": "table.hold",
            "description": "Holds a table.",
            "request_schema": {
                "type": "object", "properties": {"guests": {"type": "integer", "minimum": 1}}, "required": ["guests"],
                "additionalProperties": false,
            },
            "response_schema": {"type": "object", "properties": {"held": {"type": "boolean"}}, "required": ["held"]},
        }],
        "examples": [{"method": "table.hold", "request": {"guests": 2}, "response": {"held": true}}],
        "test_cases": [{"name": "nobody", "method": "table.hold", "request": {"guests": 0}, "expected": "invalid"}],
    })
}

fn says(gateway: &Gateway, file: &str, text: &str) {
    std::fs::write(gateway.file(DESK, file), format!("{}\n", json!({"text": text}))).unwrap();
}

async fn thinker(policy: ProtocolDraftingPolicy) -> AnpTestServer {
    let builder = |it: GatewayBuilder| it.agent(DESK, &thinking()).settings(|settings| settings.anp.drafting = policy);
    let world = world_with(builder).await;
    says(&world.gateway, "drafted", &definition().to_string());
    says(&world.gateway, "again", "still nothing");
    world
}

fn drafting_request() -> Value {
    json!({"mode": MODE, "intent": {"name": "hold_table", "description": "天气 zzz"},
           "constraints": {"allowNaturalLanguageFallback": true}})
}

async fn negotiate_as(world: &AnpTestServer, someone: &ForeignDid, meta: Value, body: Value) -> Value {
    world.ask(someone, ANP, &to_service(world, "anp.negotiate", meta, body)).await
}

async fn negotiate(world: &AnpTestServer, body: Value) -> Value {
    negotiate_as(world, &world.ada, json!({}), body).await
}

fn named(result: &Value) -> Value {
    let artifact = &result["selected"]["protocolArtifact"];
    json!({"protocol_id": artifact["protocol_id"], "digest": artifact["digest"]})
}

fn accept(named: &Value) -> Value {
    let mut body = drafting_request();
    body["candidateProtocols"] = json!([named]);
    body
}

fn reject(named: &Value) -> Value {
    let mut named = named.clone();
    named["decision"] = json!("reject");
    accept(&named)
}

fn state(answer: &Value) -> String {
    outcome(answer).unwrap()["protocolDraft"]["state"].as_str().unwrap().to_owned()
}

async fn decide(world: &AnpTestServer, approval: &Approval, answer: ApprovalAnswer) {
    world.gateway.engine().approvals().decide_approval(&approval.id, answer, Principal::Operator).await.unwrap();
}

async fn call(
    world: &AnpTestServer,
    someone: &ForeignDid,
    named: &Value,
    method: &str,
    params: Value,
) -> Result<Value, i64> {
    let mut call = named.clone();
    call["method"] = json!(method);
    call["params"] = params;
    world.call(someone, "chat", json!({"call": call})).await
}

/// For each prompt that the brain received, whether the prompt had tools.
fn heard(gateway: &Gateway) -> Vec<bool> {
    let text = std::fs::read_to_string(gateway.file(DESK, "heard")).unwrap_or_default();
    text.lines().map(|line| !line.contains("\"tools\":[]")).collect()
}

async fn sessions(world: &AnpTestServer) -> usize {
    let caller = nuncio_engine::Caller::new(Principal::Did(world.ada.did.to_string()));
    world.gateway.engine().conversations().sessions(&caller, None).await.unwrap().items.len()
}

#[tokio::test]
async fn drafted_protocol_is_usable_only_after_both_sides_accept() {
    let world = thinker(ProtocolDraftingPolicy::Ask).await;
    says(&world.gateway, "answered", "{\"held\": true}");
    let drafted = negotiate(&world, drafting_request()).await;
    let result = outcome(&drafted).unwrap();
    assert_eq!((&result["status"], &result["execution"]["mode"]), (&json!("accepted"), &json!(MODE)));
    assert_eq!(state(&drafted), "draft");
    let artifact: ProtocolArtifact = serde_json::from_value(result["selected"]["protocolArtifact"].clone()).unwrap();
    assert!(artifact.is_intact());
    assert_eq!(artifact.publisher.as_deref(), Some(crate::dids::desk_did(&world.gateway).as_str()));
    assert_eq!((artifact.examples.len(), artifact.test_cases.len(), artifact.methods.len()), (1, 1, 1));
    assert_eq!(heard(&world.gateway), [false], "the brain has no tools while it drafts");
    assert_eq!(sessions(&world).await, 0, "the temporary conversation was deleted");

    let named = named(&result);
    assert_eq!(
        call(&world, &world.ada, &named, "table.hold", json!({"guests": 2})).await,
        Err(1006),
        "neither side has accepted"
    );
    assert_eq!(state(&negotiate(&world, accept(&named)).await), "accepted_by_them");
    assert_eq!(
        call(&world, &world.ada, &named, "table.hold", json!({"guests": 2})).await,
        Err(1006),
        "only one side has accepted"
    );
    let question = world.gateway.question().await;
    assert_eq!(question.question.arguments["protocol"], named["protocol_id"]);
    assert_eq!(question.question.arguments["methods"][0]["name"], "table.hold");
    decide(&world, &question, ApprovalAnswer::Allow).await;

    let both = negotiate(&world, accept(&named)).await;
    assert_eq!(state(&both), "accepted");
    let both = outcome(&both).unwrap();
    assert_eq!(both["execution"]["mode"], "natural_language");
    assert_eq!(both["schemas"]["responseSchema"], definition()["methods"][0]["response_schema"]);
    assert_eq!(both["selected"]["protocolArtifact"], result["selected"]["protocolArtifact"], "the same document");

    let made = call(&world, &world.ada, &named, "table.hold", json!({"guests": 2})).await;
    assert_eq!(made, Ok(json!({"response": {"held": true}})));
    assert_eq!(heard(&world.gateway), [false, true], "the brain has tools for a call");
    assert_eq!(sessions(&world).await, 0);
}

#[tokio::test]
async fn requests_and_answers_are_validated_against_the_drafted_protocol() {
    let world = thinker(ProtocolDraftingPolicy::Accept).await;
    let named = named(&outcome(&negotiate(&world, drafting_request()).await).unwrap());
    assert_eq!(
        state(&negotiate(&world, accept(&named)).await),
        "accepted",
        "this server accepted because of its settings"
    );
    assert!(world.gateway.engine().approvals().pending_approvals().await.unwrap().is_empty());
    let asked = heard(&world.gateway).len();
    for params in [json!({}), json!({"guests": 0}), json!({"guests": "2"}), json!({"guests": 2, "more": 1})] {
        assert_eq!(call(&world, &world.ada, &named, "table.hold", params.clone()).await, Err(-32602), "{params}");
    }
    assert_eq!(call(&world, &world.ada, &named, "table.free", json!({})).await, Err(-32602));
    let mut other = named.clone();
    other["digest"] = json!(format!("sha-256:{}", "A".repeat(43)));
    assert_eq!(
        call(&world, &world.ada, &other, "table.hold", json!({"guests": 2})).await,
        Err(1006),
        "another document"
    );
    let bob = world.peer.someone("bob", nuncio_engine::ports::Clock::now(&world.clock));
    assert_eq!(
        call(&world, &bob, &named, "table.hold", json!({"guests": 2})).await,
        Err(1006),
        "the protocol belongs to another caller"
    );
    for wrong in [json!("x"), json!({}), json!({"protocol_id": 1}), json!({"call": {}})] {
        assert_eq!(world.call(&world.ada, "chat", json!({"call": wrong})).await, Err(-32602), "{wrong}");
    }
    let both = json!({"call": named, "message": "x"});
    assert_eq!(world.call(&world.ada, "chat", both).await, Err(-32602));
    assert_eq!(heard(&world.gateway).len(), asked, "the brain received none of these requests");

    // An invalid answer of the brain is requested once more and not sent to the caller.
    says(&world.gateway, "answered", "It is held.");
    assert_eq!(call(&world, &world.ada, &named, "table.hold", json!({"guests": 2})).await, Err(-32000));
    says(&world.gateway, "answered", "{\"held\": 1}");
    says(&world.gateway, "again", "```json\n{\"held\": false}\n```");
    let made = call(&world, &world.ada, &named, "table.hold", json!({"guests": 2})).await;
    assert_eq!(made, Ok(json!({"response": {"held": false}})));
    assert_eq!(heard(&world.gateway).len(), asked + 4);
    // A caller that rejects the drafted protocol ends it.
    let over = outcome(&negotiate(&world, reject(&named)).await).unwrap();
    assert_eq!((&over["status"], over.get("selected")), (&json!("rejected"), None));
    assert_eq!(call(&world, &world.ada, &named, "table.hold", json!({"guests": 2})).await, Err(1006));
}

#[tokio::test]
async fn invalid_draft_of_a_brain_is_a_protocol_error_and_not_stored() {
    let world = thinker(ProtocolDraftingPolicy::Ask).await;
    let mut lying = definition();
    lying["examples"][0]["response"]["held"] = json!("maybe");
    let mut coded = definition();
    coded["methods"][0]["code"] = json!("import os");
    for garbage in ["I would rather not.", "{}", "[1, 2]", &lying.to_string(), &coded.to_string()] {
        says(&world.gateway, "drafted", garbage);
        let before = heard(&world.gateway).len();
        let answer = negotiate(&world, drafting_request()).await;
        assert_eq!(outcome(&answer), Err(1601), "{garbage}: {answer}");
        assert_eq!(answer["error"]["data"]["anp_code"], "meta.no_matching_interface");
        assert_eq!(heard(&world.gateway).len() - before, 2, "the brain was asked to correct the draft once");
    }
    assert!(world.gateway.engine().approvals().pending_approvals().await.unwrap().is_empty());
    assert_eq!(sessions(&world).await, 0);
    says(&world.gateway, "again", &format!("Sorry. {}", definition()));
    assert_eq!(state(&negotiate(&world, drafting_request()).await), "draft", "the second draft was valid");
    std::fs::write(world.gateway.file(DESK, "drafted"), "{\"error\":\"the model is down\"}\n").unwrap();
    assert_eq!(outcome(&negotiate(&world, drafting_request()).await), Err(1601));
}

#[tokio::test]
async fn drafting_is_refused_if_disabled_unneeded_or_caller_unknown() {
    let off = thinker(ProtocolDraftingPolicy::Off).await;
    assert_eq!(outcome(&negotiate(&off, drafting_request()).await), Err(1602));
    assert_eq!(
        outcome(
            &negotiate(&off, accept(&json!({"protocol_id": "x", "digest": format!("sha-256:{}", "A".repeat(43))})))
                .await
        ),
        Err(1602)
    );
    // A script brain cannot draft, whatever the settings are.
    assert_eq!(outcome(&negotiate(&world().await, drafting_request()).await), Err(1602));

    let world = thinker(ProtocolDraftingPolicy::Ask).await;
    let mut fits = drafting_request();
    fits["intent"] = json!({"intentTags": ["echo"]});
    let chosen = outcome(&negotiate(&world, fits).await).unwrap();
    assert_eq!(chosen["selected"]["interface"], "interface.desk.tools");
    let mut unwilling = drafting_request();
    unwilling["constraints"]["allowNaturalLanguageFallback"] = json!(false);
    assert_eq!(outcome(&negotiate(&world, unwilling).await), Err(1601));
    let mut elsewhere = drafting_request();
    elsewhere["callerCapabilities"] =
        json!({"supportedExecutionModes": ["direct_structured_call", "natural_language"]});
    assert_eq!(outcome(&negotiate(&world, elsewhere).await), Err(1601), "a caller without drafting gets no draft");
    let mut stronger = drafting_request();
    stronger["constraints"]["requiredSecurityProfile"] = json!("direct-e2ee");
    assert_eq!(outcome(&negotiate(&world, stronger).await), Err(1604));
    let anonymous = to_service(&world, "anp.negotiate", json!({}), drafting_request()).to_string();
    assert_eq!(outcome(&post(&world.gateway, ANP, &[], &anonymous).await.json()), Err(1607));
    assert_eq!(heard(&world.gateway), [] as [bool; 0]);
    let said = crate::dids::get(&world.gateway, "/agents/desk/ad.json", "localhost", "").await.body;
    assert!(said.contains("protocol_artifacts"), "the description announces drafting");
    let said = crate::dids::get(&off.gateway, "/agents/desk/ad.json", "localhost", "").await.body;
    assert!(!said.contains("protocol_artifacts"), "the description does not announce disabled drafting");
}

#[tokio::test]
async fn draft_that_is_rejected_or_not_approved_in_time_cannot_be_accepted() {
    let world = thinker(ProtocolDraftingPolicy::Ask).await;
    let first = named(&outcome(&negotiate(&world, drafting_request()).await).unwrap());
    let question = world.gateway.question().await;
    decide(&world, &question, ApprovalAnswer::Deny { reason: Some("no".to_owned()) }).await;
    assert_eq!(outcome(&negotiate(&world, accept(&first)).await), Err(1600), "the operator denied the draft");
    assert_eq!(outcome(&negotiate(&world, accept(&first)).await), Err(1600));

    let second = named(&outcome(&negotiate(&world, drafting_request()).await).unwrap());
    assert_ne!(first, second);
    let over = outcome(&negotiate(&world, reject(&second)).await).unwrap();
    assert_eq!(over["protocolDraft"]["state"], "rejected");
    assert!(
        world.gateway.engine().approvals().pending_approvals().await.unwrap().is_empty(),
        "no approval is pending any more"
    );

    let third = named(&outcome(&negotiate(&world, drafting_request()).await).unwrap());
    assert_eq!(state(&negotiate(&world, accept(&third)).await), "accepted_by_them");
    world.clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(outcome(&negotiate(&world, accept(&third)).await), Err(1608), "the approval expired");
}

#[tokio::test]
async fn draft_can_be_accepted_only_by_its_own_caller_with_its_digest() {
    let world = thinker(ProtocolDraftingPolicy::Ask).await;
    let named = named(&outcome(&negotiate(&world, drafting_request()).await).unwrap());
    let with = |name: &str, value: Value| {
        let mut named = named.clone();
        named[name] = value;
        accept(&named)
    };
    let other = json!(format!("sha-256:{}", "A".repeat(43)));
    assert_eq!(outcome(&negotiate(&world, with("digest", other)).await), Err(1600), "another document");
    assert_eq!(outcome(&negotiate(&world, accept(&json!({"protocol_id": named["protocol_id"]}))).await), Err(1606));
    assert_eq!(outcome(&negotiate(&world, with("digest", json!("md5:x"))).await), Err(-32602));
    assert_eq!(outcome(&negotiate(&world, with("decision", json!("maybe"))).await), Err(-32602));
    assert_eq!(outcome(&negotiate(&world, with("protocol_id", json!("drf_nothing"))).await), Err(1603));
    let bob = world.peer.someone("bob", nuncio_engine::ports::Clock::now(&world.clock));
    let answer = negotiate_as(&world, &bob, json!({}), accept(&named)).await;
    assert_eq!(outcome(&answer), Err(1603), "another caller cannot see the draft");
    let anonymous = to_service(&world, "anp.negotiate", json!({}), accept(&named)).to_string();
    assert_eq!(outcome(&post(&world.gateway, ANP, &[], &anonymous).await.json()), Err(1607));
    let old =
        nuncio_core::time::Timestamp::from_millis(nuncio_engine::ports::Clock::now(&world.clock).as_millis() - 301_000);
    let late = negotiate_as(&world, &world.ada, json!({"created_at": old}), accept(&named)).await;
    assert_eq!(outcome(&late), Err(1608));
    let encrypted = negotiate_as(&world, &world.ada, json!({"security_profile": "direct-e2ee"}), accept(&named)).await;
    assert_eq!(outcome(&encrypted), Err(1604));
    let standing = world.gateway.engine().approvals().pending_approvals().await.unwrap();
    assert_eq!(standing.len(), 1, "the approval is still pending");
}

#[tokio::test]
async fn repeated_operation_returns_the_same_draft_and_drafts_per_caller_are_limited() {
    let world = thinker(ProtocolDraftingPolicy::Ask).await;
    let operation = json!({"operation_id": nonce()});
    let first = outcome(&negotiate_as(&world, &world.ada, operation.clone(), drafting_request()).await).unwrap();
    let again = outcome(&negotiate_as(&world, &world.ada, operation.clone(), drafting_request()).await).unwrap();
    assert_eq!(named(&first), named(&again));
    assert_eq!(heard(&world.gateway).len(), 1);
    let mut other = drafting_request();
    other["intent"]["description"] = json!("qqq");
    assert_eq!(outcome(&negotiate_as(&world, &world.ada, operation, other).await), Err(1008));
    for _ in 0..3 {
        assert_eq!(state(&negotiate(&world, drafting_request()).await), "draft");
    }
    assert_eq!(outcome(&negotiate(&world, drafting_request()).await), Err(1011), "four wait");
    let bob = world.peer.someone("bob", nuncio_engine::ports::Clock::now(&world.clock));
    assert_eq!(
        state(&negotiate_as(&world, &bob, json!({}), drafting_request()).await),
        "draft",
        "the limit applies to each caller"
    );
    assert_eq!(outcome(&negotiate(&world, reject(&named(&first))).await).unwrap()["status"], "rejected");
    assert_eq!(state(&negotiate(&world, drafting_request()).await), "draft");
}

#[tokio::test]
async fn drafts_and_their_approvals_survive_a_restart() {
    let before = thinker(ProtocolDraftingPolicy::Ask).await;
    says(&before.gateway, "answered", "{\"held\": true}");
    let named = named(&outcome(&negotiate(&before, drafting_request()).await).unwrap());
    let port = before.gateway.address().port();
    let AnpTestServer { gateway, clock, peer, ada } = before;
    let data = gateway.data_as_after_a_crash();
    drop(gateway.stop().await);
    let builder = Gateway::builder().agent(DESK, &thinking()).clock(&clock).dev().data(data).port(port);
    let after = AnpTestServer { gateway: builder.start().await, clock, peer, ada };
    says(&after.gateway, "answered", "{\"held\": true}");
    let question = after.gateway.question().await;
    decide(&after, &question, ApprovalAnswer::Allow).await;
    assert_eq!(state(&negotiate(&after, accept(&named)).await), "accepted");
    let made = call(&after, &after.ada, &named, "table.hold", json!({"guests": 1})).await;
    assert_eq!(made, Ok(json!({"response": {"held": true}})));
}
