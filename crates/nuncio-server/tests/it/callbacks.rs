//! Callbacks to callers about finished executions: sent once, verifiable, and retried.

#[path = "callbacks/receiver.rs"]
pub(crate) mod receiver;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock as _;
use nuncio_engine::ports::store::JobKind;
use nuncio_testkit::{Gateway, GatewayBuilder, ManualClock, RawHttpResponse, eventually};
use ring::{hmac, signature};
use serde_json::{Value, json};

use crate::agents::{DESK, desk, held, held_pid, tool};
use crate::executions::OPEN;
use receiver::{CallbackReceiver, ReceivedCallback, ReceiverReply};

const START: u64 = 1_794_740_400;

/// The callback secret of the tests, in the form of Standard Webhooks.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn builder(clock: &ManualClock, allowed: &[&str]) -> GatewayBuilder {
    let tools = [tool("fine", "printf '{\"n\":1}'", OPEN), tool("broken", "echo why >&2; exit 3", OPEN), held(OPEN)];
    let allowed: Vec<_> = allowed.iter().map(|&origin| origin.to_owned()).collect();
    Gateway::builder().agent(DESK, &desk(&tools)).clock(clock).settings(|settings| settings.outbound.allow = allowed)
}

async fn ask(gateway: &Gateway, method: &str, target: &str, body: &str) -> RawHttpResponse {
    let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    let head = format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    gateway.raw(head + body).await.unwrap()
}

async fn invoke(gateway: &Gateway, name: &str, origin: &str) -> String {
    let request = json!({
        "caller": {"id": "shop", "type": "service"}, "skill_id": format!("{DESK}/{name}"), "inputs": {},
        "context": {"timeout_ms": 5000, "callback_url": format!("{origin}/told?of={name}")},
    });
    let answer = ask(gateway, "POST", &format!("/skills/{DESK}/{name}/invoke"), &request.to_string()).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()["execution_id"].as_str().unwrap().to_owned()
}

async fn result(gateway: &Gateway, execution: &str) -> Value {
    ask(gateway, "GET", &format!("/executions/{execution}/result"), "").await.json()
}

async fn next_callback(gateway: &Gateway) -> Option<Timestamp> {
    let jobs = gateway.engine().jobs().next_jobs(JobKind::Callback, 1).await.unwrap();
    jobs.first().map(|job| job.due)
}

async fn nothing_is_owed(gateway: &Gateway) {
    eventually("no delivery is pending", async || next_callback(gateway).await.is_none().then_some(())).await;
}

/// Waits until a callback is scheduled in exactly `pause` seconds.
async fn owed_in(gateway: &Gateway, clock: &ManualClock, pause: u64) {
    let due = Some(clock.now().after(Duration::from_secs(pause)));
    eventually("the next delivery is due at that time", async || (next_callback(gateway).await == due).then_some(()))
        .await;
}

async fn pass(gateway: &Gateway, clock: &ManualClock, pause: u64) {
    owed_in(gateway, clock, pause).await;
    clock.advance(Duration::from_secs(pause));
}

fn signature_of(sent: &ReceivedCallback, kind: &str) -> Option<Vec<u8>> {
    let all = sent.header("webhook-signature").split(' ').filter_map(|one| one.split_once(','));
    let found: Vec<_> =
        all.filter(|(found, _)| *found == kind).map(|(_, text)| STANDARD.decode(text).unwrap()).collect();
    assert!(found.len() < 2, "{sent:?}");
    found.into_iter().next()
}

fn message(sent: &ReceivedCallback) -> Vec<u8> {
    let head = format!("{}.{}.", sent.header("webhook-id"), sent.header("webhook-timestamp"));
    [head.as_bytes(), &sent.body].concat()
}

async fn assert_signed_by(gateway: &Gateway, sent: &ReceivedCallback) {
    let jwks = ask(gateway, "GET", "/.well-known/jwks.json", "").await;
    assert_eq!(jwks.header("content-type"), Some("application/jwk-set+json"));
    let jwks: Value = serde_json::from_str(&jwks.body).unwrap();
    let key = jwks["keys"].as_array().unwrap().iter().find(|key| key["kid"] == "webhooks").unwrap();
    assert_eq!((&key["kty"], &key["crv"], &key["alg"]), (&json!("OKP"), &json!("Ed25519"), &json!("EdDSA")));
    let key = URL_SAFE_NO_PAD.decode(key["x"].as_str().unwrap()).unwrap();
    let key = signature::UnparsedPublicKey::new(&signature::ED25519, key);
    let signed = signature_of(sent, "v1a").expect("signed with our key");
    key.verify(&message(sent), &signed).unwrap();
    key.verify(&[&message(sent)[..], b" "].concat(), &signed).unwrap_err();
}

#[tokio::test]
async fn signed_callback_is_sent_once_per_finished_execution() {
    let clock = ManualClock::new();
    let receiver = CallbackReceiver::start(&[ReceiverReply::Status(204)]).await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), format!("{SECRET}\n")).unwrap();
    let gateway = builder(&clock, &[&receiver.origin()])
        .settings(|settings| settings.webhooks.secret_file = Some(secret.path().to_owned()))
        .start()
        .await;
    let shared = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(&SECRET["whsec_".len()..]).unwrap());
    let mut seconds = START;
    let ends = [
        ("fine", "completed", json!(null)),
        ("broken", "failed", json!("tool_failed")),
        ("held", "failed", json!("cancelled")),
        ("held", "timeout", json!("tool_timeout")),
    ];
    for (told, (name, status, reason)) in ends.into_iter().enumerate() {
        let id = invoke(&gateway, name, &receiver.origin()).await;
        if name == "held" {
            held_pid(&gateway).await;
            std::fs::remove_file(gateway.file(DESK, "held.pid")).unwrap();
            assert_eq!(receiver.sent().len(), told, "no callback is sent before the execution ends");
        }
        if reason == "cancelled" {
            assert_eq!(ask(&gateway, "DELETE", &format!("/executions/{id}"), "").await.status, 202);
        }
        if status == "timeout" {
            clock.pass(Duration::from_secs(5)).await;
            seconds += 5;
        }
        let sent = receiver.nth(told + 1).await;
        assert_eq!(sent.line, format!("POST /told?of={name} HTTP/1.1"));
        assert_eq!(sent.header("content-type"), "application/json");
        assert_eq!(sent.header("webhook-id"), id);
        assert_eq!(sent.header("webhook-timestamp"), seconds.to_string());
        let body: Value = serde_json::from_slice(&sent.body).unwrap();
        assert_eq!(body, result(&gateway, &id).await, "the callback has the same body as the status request");
        assert_eq!((&body["status"], &body["error"]["details"]["reason"]), (&json!(status), &reason), "{body}");
        assert_signed_by(&gateway, &sent).await;
        let by_secret = signature_of(&sent, "v1").expect("signed with the shared secret");
        hmac::verify(&shared, &message(&sent), &by_secret).unwrap();
        nothing_is_owed(&gateway).await;
    }
    assert_eq!(receiver.sent().len(), 4, "each of them once");
}

#[tokio::test]
async fn callback_has_one_signature_without_a_shared_secret() {
    let receiver = CallbackReceiver::start(&[ReceiverReply::Status(200)]).await;
    let gateway = builder(&ManualClock::new(), &[&receiver.origin()]).start().await;
    invoke(&gateway, "fine", &receiver.origin()).await;
    let sent = receiver.nth(1).await;
    assert_signed_by(&gateway, &sent).await;
    assert_eq!(signature_of(&sent, "v1"), None);
}

#[tokio::test]
async fn empty_webhook_secret_file_prevents_the_server_start() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    let settings = |builder: GatewayBuilder| {
        builder.settings(|settings| settings.webhooks.secret_file = Some(empty.path().to_owned()))
    };
    for text in ["", " \n"] {
        std::fs::write(empty.path(), text).unwrap();
        let refused = settings(builder(&ManualClock::new(), &[])).try_start().await.unwrap_err();
        assert!(refused.to_string().contains("webhooks.secret_file"), "{refused}");
    }
    std::fs::write(empty.path(), "s").unwrap();
    settings(builder(&ManualClock::new(), &[])).try_start().await.unwrap();
}

#[tokio::test]
async fn failing_callback_receiver_is_retried_and_then_given_up() {
    let clock = ManualClock::new();
    let receiver = CallbackReceiver::start(&[
        ReceiverReply::Status(500),
        ReceiverReply::Status(302),
        ReceiverReply::Status(404),
        ReceiverReply::Status(503),
    ])
    .await;
    let gateway = builder(&clock, &[&receiver.origin()]).start().await;
    let id = invoke(&gateway, "fine", &receiver.origin()).await;
    let first = receiver.nth(1).await;
    let (mut pause, mut seconds) = (10, START);
    for attempt in 2..=12 {
        pass(&gateway, &clock, pause).await;
        seconds += pause;
        pause *= 2;
        let again = receiver.nth(attempt).await;
        assert_eq!(again.body, first.body, "the same bytes");
        assert_eq!((again.header("webhook-id"), &again.line), (id.as_str(), &first.line));
        assert_eq!(again.header("webhook-timestamp"), seconds.to_string(), "a retry has a new signature");
        assert_signed_by(&gateway, &again).await;
    }
    nothing_is_owed(&gateway).await;
    assert_eq!(receiver.sent().len(), 12);
    assert_eq!(
        result(&gateway, &id).await["status"],
        "completed",
        "the outcome is stored although no callback was delivered"
    );
}

#[tokio::test]
async fn callback_is_not_repeated_after_a_successful_retry() {
    let clock = ManualClock::new();
    let receiver = CallbackReceiver::start(&[ReceiverReply::Status(500), ReceiverReply::Status(201)]).await;
    let gateway = builder(&clock, &[&receiver.origin()]).start().await;
    invoke(&gateway, "fine", &receiver.origin()).await;
    pass(&gateway, &clock, 10).await;
    receiver.nth(2).await;
    nothing_is_owed(&gateway).await;
    assert_eq!(receiver.sent().len(), 2);
}

#[tokio::test]
async fn callback_receiver_answering_410_is_not_retried() {
    let receiver = CallbackReceiver::start(&[ReceiverReply::Status(410)]).await;
    let gateway = builder(&ManualClock::new(), &[&receiver.origin()]).start().await;
    invoke(&gateway, "broken", &receiver.origin()).await;
    receiver.nth(1).await;
    nothing_is_owed(&gateway).await;
    assert_eq!(receiver.sent().len(), 1);
}

#[tokio::test]
async fn oversized_callback_response_is_judged_by_its_status() {
    let clock = ManualClock::new();
    let receiver =
        CallbackReceiver::start(&[ReceiverReply::Long(500, 100_000), ReceiverReply::Long(200, 100_000)]).await;
    let gateway = builder(&clock, &[&receiver.origin()]).start().await;
    invoke(&gateway, "fine", &receiver.origin()).await;
    pass(&gateway, &clock, 10).await;
    receiver.nth(2).await;
    nothing_is_owed(&gateway).await;
    assert_eq!(receiver.sent().len(), 2);
}

#[tokio::test]
async fn callback_address_that_can_never_be_called_is_refused_at_once() {
    let allowed = CallbackReceiver::start(&[ReceiverReply::Status(200)]).await;
    let gateway = builder(&ManualClock::new(), &[&allowed.origin()]).start().await;
    let inside = CallbackReceiver::start(&[ReceiverReply::Status(200)]).await;
    for address in [
        json!(format!("{}/told", inside.origin())),
        json!("https://10.0.0.7/told"),
        json!("https://[fd00::7]/told"),
        json!("https://localhost/told"),
        json!("https://ip6-localhost/told"),
        json!("https://intranet/told"),
        json!("https://printer.local/told"),
        json!("https://metadata.google.internal./told"),
        json!("https://x.onion/told"),
        json!("http://shop.example/told"),
        json!("ftp://shop.example/told"),
        json!("mailto:ada@shop.example"),
        json!("https://ada:secret@shop.example/told"),
        json!("shop.example/told"),
        json!(""),
        json!(7),
        json!({"url": "https://shop.example/told"}),
    ] {
        let request = json!({
            "caller": {"id": "shop", "type": "service"}, "skill_id": format!("{DESK}/fine"), "inputs": {},
            "context": {"callback_url": address},
        });
        let answer = ask(&gateway, "POST", &format!("/skills/{DESK}/fine/invoke"), &request.to_string()).await;
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"]), (400, &json!("VALIDATION_ERROR")), "{address}: {error}");
        let violations = &error["details"]["violations"];
        assert_eq!(violations[0]["path"], "/context/callback_url", "{address}: {error}");
        assert!(violations[0]["message"].as_str().is_some_and(|why| !why.is_empty()), "{error}");
        assert!(!answer.body.contains("secret"), "{error}");
    }
    assert!(gateway.audit().await.is_empty(), "no tool was run");
    assert_eq!(inside.sent(), []);
    invoke(&gateway, "fine", &allowed.origin()).await;
    allowed.nth(1).await;
}

#[tokio::test]
async fn callback_to_an_address_forbidden_since_the_request_is_not_sent() {
    let clock = ManualClock::new();
    let address = CallbackReceiver::absent().await;
    let origin = format!("http://{address}");
    let gateway = builder(&clock, &[&origin]).start().await;
    let id = invoke(&gateway, "fine", &origin).await;
    owed_in(&gateway, &clock, 10).await;
    let data = gateway.stop().await;
    let receiver = CallbackReceiver::at(address, &[ReceiverReply::Status(200)]).await;
    let gateway = builder(&clock, &[]).data(data).start().await;
    pass(&gateway, &clock, 10).await;
    nothing_is_owed(&gateway).await;
    assert_eq!(receiver.sent(), []);
    assert_eq!(result(&gateway, &id).await["status"], "completed");
}

#[tokio::test]
async fn pending_callbacks_are_sent_after_a_restart() {
    let clock = ManualClock::new();
    let address = CallbackReceiver::absent().await;
    let origin = format!("http://{address}");
    let gateway = builder(&clock, &[&origin]).start().await;
    let id = invoke(&gateway, "fine", &origin).await;
    owed_in(&gateway, &clock, 10).await;
    let over = result(&gateway, &id).await;
    let crashed = gateway.data_as_after_a_crash();
    let stopped = gateway.stop().await;

    for (told, data) in [stopped, crashed].into_iter().enumerate() {
        let receiver = CallbackReceiver::at(address, &[ReceiverReply::Status(200)]).await;
        let gateway = builder(&clock, &[&origin]).data(data).start().await;
        if told == 0 {
            pass(&gateway, &clock, 10).await;
        }
        let sent = receiver.nth(1).await;
        assert_eq!(sent.header("webhook-id"), id);
        assert_eq!(serde_json::from_slice::<Value>(&sent.body).unwrap(), over);
        assert_signed_by(&gateway, &sent).await;
        nothing_is_owed(&gateway).await;
        gateway.stop().await;
        receiver.leave().await;
    }
}

#[tokio::test]
async fn slow_callback_receiver_does_not_delay_others() {
    let clock = ManualClock::new();
    let (slow, quick) = (
        CallbackReceiver::start(&[ReceiverReply::Silence]).await,
        CallbackReceiver::start(&[ReceiverReply::Status(200)]).await,
    );
    let gateway = builder(&clock, &[&slow.origin(), &quick.origin()]).start().await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(invoke(&gateway, "broken", &slow.origin()).await);
    }
    for id in &ids {
        eventually("it is over", async || (result(&gateway, id).await["status"] == "failed").then_some(())).await;
    }
    for count in 1..=3 {
        invoke(&gateway, "fine", &quick.origin()).await;
        quick.nth(count).await;
    }
    slow.nth(4).await;
    assert_eq!(slow.hung_up(), 0, "all requests still wait for the answer");
}
