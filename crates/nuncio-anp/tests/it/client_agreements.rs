//! Tests of invocations by intent: agreements on disk, renegotiation, and deviations of an agreement from the
//! description.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nuncio_anp::client::{
    AgentTarget, ClientError, ClientErrorReason, InvocationDelegate, InvocationStep, MethodChoice, NegotiationRequest,
    RemoteMethod,
};
use nuncio_anp::negotiation::SecurityProfile;
use nuncio_anp::wire::{AnpErrorCode, NegotiationResult, RpcError};
use serde_json::{Map, Value, json};

use crate::client_fixtures::{
    AD, ReceivedPeerRequest, TestClient, TestReply, TestServer, arguments, grand_hotel, negotiated, rpc,
};
use crate::client_negotiate::supporting;

const NEGOTIATE: &str = "anp.negotiate";
const CAPABILITIES: &str = "anp.get_capabilities";
const RPC: &str = "POST /agents/hotel-assistant/rpc";

fn wish() -> NegotiationRequest {
    let intent = Some("search for free rooms".to_owned());
    NegotiationRequest { intent, calls_only: true, ..NegotiationRequest::default() }
}

/// Records the steps of an invocation.
#[derive(Default)]
struct RecordedInvocationSteps(Mutex<Vec<String>>);

impl RecordedInvocationSteps {
    fn list(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl InvocationDelegate for RecordedInvocationSteps {
    fn argument_names(&self) -> Vec<&str> {
        vec!["check_in", "check_out"]
    }

    fn arguments(&self, _: &RemoteMethod) -> Map<String, Value> {
        arguments(json!({"check_in": "2027-01-01", "check_out": "2027-01-02"}))
    }

    fn on_step(&self, step: InvocationStep<'_>) {
        self.0.lock().unwrap().push(match step {
            InvocationStep::Described(_) => "described".to_owned(),
            InvocationStep::Prepared { method, agreement, .. } => {
                let agreement = agreement.unwrap();
                let (server, notes) = (method.server.path(), agreement.notes.join("; "));
                let person = if method.asks_a_person { " person" } else { "" };
                let reused = if agreement.reused { " reused" } else { "" };
                format!("prepared {server}{person}{reused} [{notes}]")
            }
            InvocationStep::Outdated(error) => format!("outdated {}", error.rpc_error.as_ref().unwrap().code),
        });
    }
}

/// A new client on the same file, as in a new run of a command; returns its steps.
async fn run(hotel: &TestServer, file: &Path) -> (Result<Value, ClientError>, Vec<String>) {
    let world = TestClient::new(&[("grand-hotel.example", hotel)]);
    invoke(world, file).await
}

async fn invoke(mut world: TestClient, file: &Path) -> (Result<Value, ClientError>, Vec<String>) {
    world.client = world.client.with_agreement_file(file.to_owned());
    let steps = RecordedInvocationSteps::default();
    let target = AgentTarget::parse(AD).unwrap();
    let result = world.client.invoke_with(&target, &MethodChoice::Negotiate(wish()), &steps, None).await;
    (result, steps.list())
}

fn temporary_file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state/agreements.json");
    (folder, file)
}

#[tokio::test]
async fn three_runs_with_the_same_intent_negotiate_once() {
    let hotel = grand_hotel(|_, _| None).await;
    let (_folder, file) = temporary_file();
    for first in [true, false, false] {
        let (result, steps) = run(&hotel, &file).await;
        assert_eq!(result.unwrap()["called"], "search_rooms");
        let reused = if first { "" } else { " reused" };
        assert_eq!(steps, ["described".to_owned(), format!("prepared /agents/hotel-assistant/rpc{reused} []")]);
    }
    assert_eq!((hotel.asked(NEGOTIATE), hotel.hits(RPC)), (1, 3));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn expired_stored_agreement_is_not_used_and_a_new_one_is_negotiated() {
    let hotel = grand_hotel(|_, _| None).await;
    let (_folder, file) = temporary_file();
    run(&hotel, &file).await.0.unwrap();
    let later = TestClient::new(&[("grand-hotel.example", &hotel)]);
    later.clock.advance(Duration::from_secs(600));
    // The test server's clock does not advance, so that it refuses the new negotiation.
    assert!(invoke(later, &file).await.0.is_err());
    assert_eq!(hotel.asked(NEGOTIATE), 2);
}

#[tokio::test]
async fn damaged_stored_agreements_are_ignored_and_replaced() {
    let hotel = grand_hotel(|_, _| None).await;
    let (_folder, file) = temporary_file();
    run(&hotel, &file).await.0.unwrap();
    let good = fs::read_to_string(&file).unwrap();
    let changed = good.replace("interface.hotel-assistant.tools\"", "interface.hotel-assistant.other\"");
    assert_ne!(changed, good);
    let bad = [
        String::new(),
        "{".to_owned(),
        "[]".to_owned(),
        json!({"format": 99, "agreements": []}).to_string(),
        json!({"format": 1, "agreements": [7, {"key": {}}]}).to_string(),
        good[..good.len() / 2].to_owned(),
        changed,
        " ".repeat(2 << 20),
    ];
    for (index, text) in bad.iter().enumerate() {
        fs::write(&file, text).unwrap();
        run(&hotel, &file).await.0.unwrap();
        assert_eq!(hotel.asked(NEGOTIATE), 2 + index, "{:?}", &text[..text.len().min(80)]);
        run(&hotel, &file).await.0.unwrap();
        assert_eq!(hotel.asked(NEGOTIATE), 2 + index, "the file was replaced");
    }
    // Another user could have written a file that others can access.
    let negotiations = hotel.asked(NEGOTIATE);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o622)).unwrap();
    run(&hotel, &file).await.0.unwrap();
    assert_eq!(hotel.asked(NEGOTIATE), negotiations + 1);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn number_of_stored_agreements_is_limited() {
    let hotel = grand_hotel(|_, _| None).await;
    let (_folder, file) = temporary_file();
    let mut world = TestClient::new(&[("grand-hotel.example", &hotel)]);
    world.client = world.client.with_agreement_file(file.clone());
    let agent = world.client.describe(&AgentTarget::parse(AD).unwrap()).await.unwrap();
    for number in 0..130 {
        let intent = Some(format!("search for free rooms {number}"));
        world.client.agree(&agent, &NegotiationRequest { intent, ..wish() }).await.unwrap();
    }
    let stored: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(stored["agreements"].as_array().unwrap().len(), 128);
    assert!(fs::metadata(&file).unwrap().len() <= 1 << 20);
}

#[tokio::test]
async fn folder_that_cannot_be_written_does_not_stop_the_call() {
    let hotel = grand_hotel(|_, _| None).await;
    let (folder, _) = temporary_file();
    let blocked = folder.path().join("file");
    fs::write(&blocked, "").unwrap();
    let (result, _) = run(&hotel, &blocked.join("agreements.json")).await;
    assert_eq!(result.unwrap()["called"], "search_rooms");
}

#[tokio::test]
async fn call_answered_1603_is_renegotiated_once_and_repeated() {
    let refusal = || RpcError::new(AnpErrorCode::UnsupportedCandidateProfile);
    let hotel = grand_hotel(move |request, before| {
        (request.line() == RPC && before == 1).then(|| rpc(request, Err(refusal())))
    })
    .await;
    let (_folder, file) = temporary_file();
    run(&hotel, &file).await.0.unwrap();
    let (result, steps) = run(&hotel, &file).await;
    assert_eq!(result.unwrap()["called"], "search_rooms");
    let rpc_path = "/agents/hotel-assistant/rpc";
    let expected = [
        "described".to_owned(),
        format!("prepared {rpc_path} reused []"),
        "outdated 1603".to_owned(),
        format!("prepared {rpc_path} []"),
    ];
    assert_eq!(steps, expected);
    assert_eq!((hotel.asked(NEGOTIATE), hotel.hits(RPC)), (2, 3));

    // A second refusal is reported, and a refused negotiation is not repeated.
    let refusing = grand_hotel(move |request, _| (request.line() == RPC).then(|| rpc(request, Err(refusal())))).await;
    let (_folder, file) = temporary_file();
    assert_eq!(run(&refusing, &file).await.0.unwrap_err().rpc_error.as_ref().unwrap().code, 1603);
    assert_eq!((refusing.asked(NEGOTIATE), refusing.hits(RPC)), (2, 2));
    let unwilling = grand_hotel(move |request, _| {
        let negotiates = request.line() == "POST /anp" && request.json()["method"] == NEGOTIATE;
        negotiates.then(|| rpc(request, Err(RpcError::new(AnpErrorCode::NoMatchingInterface))))
    })
    .await;
    assert_eq!(run(&unwilling, &file).await.0.unwrap_err().reason, ClientErrorReason::NotAgreed);
    assert_eq!(unwilling.asked(NEGOTIATE), 1);
}

/// Server that changes its negotiation results, and has a second document for its tools.
async fn changing(change: impl Fn(&mut Value) + Send + Sync + 'static) -> TestServer {
    grand_hotel(move |request, _| {
        if request.line() == "GET /tools-v2.json" {
            return Some(TestReply::json(&json!({
                "openrpc": "1.3.2", "info": {"title": "Rooms", "version": "2"},
                "servers": [{"name": "v2", "url": "https://grand-hotel.example/v2/rpc"}],
                "methods": [{"name": "search_rooms", "params": [], "result": {"name": "r", "schema": {}}}],
            })));
        }
        if request.line() == "POST /v2/rpc" {
            return Some(rpc(request, Ok(json!("of v2"))));
        }
        let negotiates = request.line() == "POST /anp" && request.json()["method"] == NEGOTIATE;
        negotiates.then(|| {
            let mut result = negotiated(request).unwrap();
            change(&mut result);
            let read: NegotiationResult = serde_json::from_value(result).unwrap();
            rpc(request, Ok(json!(read.sealed())))
        })
    })
    .await
}

#[tokio::test]
async fn agreed_url_is_used_and_its_difference_from_the_description_is_reported() {
    let described = "but the description has interface.hotel-assistant.tools at \
                     https://grand-hotel.example/agents/hotel-assistant/interfaces/tools.json";
    let own = "/agents/hotel-assistant/rpc";
    for (agreed, server, note) in [
        ("https://grand-hotel.example/tools-v2.json", "/v2/rpc", "; the agreed one is used"),
        ("https://grand-hotel.example/missing.json", own, "; the latter is used, because"),
        (
            "https://elsewhere.example/tools.json",
            own,
            "; the latter is used, because the agreed one is on another host",
        ),
    ] {
        let hotel = changing(move |it| it["selected"]["url"] = json!(agreed)).await;
        let (_folder, file) = temporary_file();
        let (result, steps) = run(&hotel, &file).await;
        result.unwrap();
        assert!(steps[1].starts_with(&format!("prepared {server} [")), "{steps:?}");
        assert!(steps[1].contains(&format!("{agreed} was agreed upon, {described}{note}")), "{steps:?}");
    }
    // The URL of the endpoint is no difference.
    let hotel =
        changing(|it| it["selected"]["url"] = json!("https://grand-hotel.example/agents/hotel-assistant/rpc")).await;
    let (_folder, file) = temporary_file();
    assert_eq!(run(&hotel, &file).await.1[1], format!("prepared {own} []"));
}

#[tokio::test]
async fn agreed_interface_that_only_another_host_describes_is_not_called() {
    let hotel = changing(|it| {
        it["selected"]["interface"] = json!("interface.unknown");
        it["selected"]["url"] = json!("https://elsewhere.example/tools.json");
    })
    .await;
    let (_folder, file) = temporary_file();
    let refused = run(&hotel, &file).await.0.unwrap_err();
    assert!(refused.reason == ClientErrorReason::BadAgreement && refused.message.contains("another host"), "{refused}");
    assert_eq!(hotel.hits(RPC), 0);
}

#[tokio::test]
async fn human_authorization_in_a_negotiation_result_is_reported_before_the_call() {
    let hotel = changing(|it| it["execution"]["requiresHumanAuthorization"] = json!(true)).await;
    let (_folder, file) = temporary_file();
    for reused in ["", " reused"] {
        let expected = format!("prepared /agents/hotel-assistant/rpc person{reused} []");
        assert_eq!(run(&hotel, &file).await.1[1], expected);
    }
}

/// Test server whose service supports only end-to-end encryption from the moment the switch is on.
async fn hotel_with_strict_switch() -> (TestServer, Arc<AtomicBool>) {
    let strict = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&strict);
    let hotel = grand_hotel(move |request, _| {
        let asks = request.line() == "POST /anp" && request.json()["method"] == CAPABILITIES;
        let profiles = ["anp.meta.negotiation.v1"];
        (asks && strict.load(Ordering::SeqCst)).then(|| supporting(request, &profiles, &["direct-e2ee"]))
    })
    .await;
    (hotel, switch)
}

#[tokio::test]
async fn stored_agreement_is_not_used_once_the_service_supports_other_security_profiles() {
    let (hotel, strict) = hotel_with_strict_switch().await;
    let (_folder, file) = temporary_file();
    run(&hotel, &file).await.0.unwrap();
    strict.store(true, Ordering::SeqCst);
    let (refused, _) = run(&hotel, &file).await;
    assert_eq!(refused.unwrap_err().reason, ClientErrorReason::NotAgreed);
    assert_eq!((hotel.asked(NEGOTIATE), hotel.hits(RPC)), (1, 1), "nothing was called under the old agreement");
    strict.store(false, Ordering::SeqCst);
    run(&hotel, &file).await.0.unwrap();
    assert_eq!((hotel.asked(NEGOTIATE), hotel.hits(RPC)), (2, 2));
}

#[tokio::test]
async fn named_method_is_not_called_while_the_service_requires_another_security_profile() {
    let (hotel, strict) = hotel_with_strict_switch().await;
    let call = async || {
        let world = TestClient::new(&[("grand-hotel.example", &hotel)]);
        let method = MethodChoice::Method("search_rooms".to_owned());
        let values = arguments(json!({"check_in": "2027-01-01", "check_out": "2027-01-02"}));
        world.client.invoke_with(&AgentTarget::parse(AD).unwrap(), &method, &values, None).await
    };
    assert_eq!(call().await.unwrap()["called"], "search_rooms");
    strict.store(true, Ordering::SeqCst);
    let refused = call().await.unwrap_err();
    assert!(refused.reason == ClientErrorReason::NotAgreed && refused.message.contains("direct-e2ee"), "{refused}");
    assert_eq!(hotel.hits(RPC), 1);
}

#[tokio::test]
async fn security_profile_that_the_service_does_not_support_now_is_neither_requested_nor_used() {
    let asks =
        |request: &ReceivedPeerRequest| request.line() == "POST /anp" && request.json()["method"] == CAPABILITIES;
    let strict = grand_hotel(move |request, _| {
        asks(request).then(|| supporting(request, &["anp.meta.negotiation.v1"], &["direct-e2ee"]))
    })
    .await;
    let strict_and_silent = grand_hotel(move |request, _| {
        asks(request).then(|| supporting(request, &["anp.core.binding.v1"], &["direct-e2ee"]))
    })
    .await;
    let usual = grand_hotel(|_, _| None).await;
    for (hotel, security, message) in [
        (&strict, None, "does not support transport-protected now; it supports direct-e2ee"),
        (&strict_and_silent, None, "does not support transport-protected now; it supports direct-e2ee"),
        (
            &usual,
            Some(SecurityProfile::DirectE2ee),
            "does not support direct-e2ee now; it supports transport-protected",
        ),
    ] {
        let world = TestClient::new(&[("grand-hotel.example", hotel)]);
        let agent = world.client.describe(&AgentTarget::parse(AD).unwrap()).await.unwrap();
        let wish = NegotiationRequest { security, ..wish() };
        let error = world.client.negotiate(&agent, &wish).await.unwrap_err();
        assert_eq!((error.reason, hotel.asked(NEGOTIATE)), (ClientErrorReason::NotAgreed, 0), "{error}");
        assert!(error.message.contains(message), "{error}");
    }
}
