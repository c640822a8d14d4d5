//! Webhooks of agents: every event is delivered, signed and retried. Message bodies are opaque bytes.

#[path = "webhooks/disabled.rs"]
mod disabled;
#[path = "webhooks/guard.rs"]
mod guard;
#[path = "webhooks/owners.rs"]
mod owners;
#[path = "webhooks/retries.rs"]
mod retries;

use std::collections::HashSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock as _;
use nuncio_engine::ports::store::JobKind;
use nuncio_testkit::a2h::{A2hResponse as Answer, TestDevice};
use nuncio_testkit::{Gateway, GatewayBuilder, Method, eventually};
use ring::hmac;
use serde_json::{Value, json};

use super::{A2hTestServer, agent_body, seed};
use crate::callbacks::receiver::{CallbackReceiver, ReceivedCallback, ReceiverReply};

const START: i64 = 1_794_740_400;

/// An agent with a webhook, its owner, and a person with a relation to it.
struct WebhookSetup {
    world: A2hTestServer,
    owner: TestDevice,
    ada: TestDevice,
    agent: String,
    token: String,
    secret: String,
    conversation: String,
}

fn loopback(builder: GatewayBuilder) -> GatewayBuilder {
    builder.settings(|settings| settings.a2h.allow_loopback_webhooks = true)
}

fn called_at(url: &str) -> Value {
    let mut body = agent_body(&seed());
    body["connection_mode"] = json!("webhook");
    body["webhook_url"] = json!(url);
    body
}

impl WebhookSetup {
    async fn at(receiver: &CallbackReceiver) -> Self {
        let hooked = Self::make(&called_at(&format!("{}/hook?x=1", receiver.origin()))).await;
        hooked.nothing_waits().await;
        hooked
    }

    async fn make(body: &Value) -> Self {
        Self::of(A2hTestServer::with(loopback).await, body).await
    }

    async fn of(world: A2hTestServer, body: &Value) -> Self {
        let (owner, ada) = (world.person("owner").await, world.person("ada").await);
        let made = owner.send(Method::POST, "/agents", body).await;
        let text = |name: &str| made.data()[name].as_str().unwrap().to_owned();
        let (agent, token, secret) = (text("id"), text("token"), text("webhook_secret"));
        ada.allow(&agent, json!(["filesystem:read"])).await;
        let conversation = begin(&ada, &agent).await;
        Self { world, owner, ada, agent, token, secret, conversation }
    }

    async fn post(&self, name: &str) {
        self.post_in(&self.conversation, name).await;
    }

    async fn post_in(&self, conversation: &str, name: &str) {
        say(&self.ada, conversation, name).await;
    }

    async fn others(&self, count: usize) -> Vec<(TestDevice, String)> {
        let mut others = Vec::new();
        for number in 0..count {
            let person = self.world.person(&format!("p{number}")).await;
            person.allow(&self.agent, json!([])).await;
            let conversation = begin(&person, &self.agent).await;
            others.push((person, conversation));
        }
        self.nothing_waits().await;
        others
    }

    /// Advances the clock and renews the tokens of all clients.
    async fn pass(&mut self, span: Duration) {
        self.world.clock.advance(span);
        for device in [&mut self.owner, &mut self.ada] {
            device.refresh(self.world.clock.now()).await;
        }
    }

    /// Time of the next delivery; `None` when no delivery is scheduled, or the webhook is not reachable.
    async fn next(&self) -> Option<Timestamp> {
        let webhook = self.deliveries("").await.body["webhook"].clone();
        if webhook["state"] == "reachable" { next_delivery(&self.world.gateway).await } else { None }
    }

    async fn nothing_waits(&self) {
        eventually("no event is waiting", async || {
            self.deliveries("").await.body["webhook"]["waiting"].is_null().then_some(())
        })
        .await;
    }

    /// Waits until the next delivery is in the future, advances the clock to it, and returns the span.
    async fn pass_to_next(&mut self) -> Duration {
        let now = self.world.clock.now();
        let due = eventually("it is tried again later", async || self.next().await.filter(|due| *due > now)).await;
        let span = now.until(due);
        self.pass(span).await;
        span
    }

    async fn pass_pause(&mut self, pause: Duration) {
        let span = self.pass_to_next().await;
        assert!(span >= pause * 9 / 10 && span <= pause * 11 / 10, "{span:?} for {pause:?}");
    }

    async fn deliveries(&self, query: &str) -> Answer {
        self.owner.get(&format!("/agents/{}/deliveries{query}", self.agent)).await
    }

    async fn patch(&self, body: Value) -> Answer {
        self.owner.send(Method::PATCH, &format!("/agents/{}", self.agent), &body).await
    }

    /// Waits until the webhook has the given state, and returns the webhook as its owner sees it.
    async fn until_state(&self, state: &str) -> Value {
        eventually("the webhook has this state", async || {
            let webhook = self.deliveries("").await.body["webhook"].clone();
            (webhook["state"] == state).then_some(webhook)
        })
        .await
    }

    async fn told_owner(&self) -> Vec<String> {
        let (mut socket, hello) = self.owner.connect().await;
        socket.say(&json!({"type": "resume", "after": 0})).await;
        let last = hello["last_seq"].as_u64().unwrap();
        let mut states = Vec::new();
        let mut seq = 0;
        while seq < last {
            let frame = socket.frame().await;
            seq = frame["seq"].as_u64().unwrap_or(seq);
            if frame["type"] == "agent.governance" {
                assert_eq!(frame["agent_id"], json!(self.agent));
                states.push(frame["state"].as_str().unwrap().to_owned());
            }
        }
        states
    }
}

async fn next_delivery(gateway: &Gateway) -> Option<Timestamp> {
    let jobs = gateway.engine().jobs().next_jobs(JobKind::Delivery, 1).await.unwrap();
    jobs.first().map(|job| job.due)
}

async fn begin(person: &TestDevice, agent: &str) -> String {
    let body = json!({"type": "h2a", "with": [{"type": "agent", "id": agent}]});
    person.send(Method::POST, "/conversations", &body).await.data()["id"].as_str().unwrap().to_owned()
}

/// Sends a message whose bytes are its name.
async fn say(person: &TestDevice, conversation: &str, name: &str) {
    let body = json!({"client_message_id": name, "content_type": "text", "envelope": STANDARD.encode(name)});
    person.send(Method::POST, &format!("/conversations/{conversation}/messages"), &body).await.data();
}

fn body(sent: &ReceivedCallback) -> Value {
    // Health checks have no body.
    if sent.body.is_empty() { Value::Null } else { serde_json::from_slice(&sent.body).unwrap() }
}

/// Name of the message that a webhook request is about.
fn name(sent: &ReceivedCallback) -> String {
    body(sent)["metadata"]["client_message_id"].as_str().unwrap_or_default().to_owned()
}

/// Names of the messages that a receiver got, in order.
fn names(receiver: &CallbackReceiver) -> Vec<String> {
    receiver.sent().iter().map(name).filter(|name| !name.is_empty()).collect()
}

/// Waits until a receiver got at least `count` messages; returns their names.
async fn messages(receiver: &CallbackReceiver, count: usize) -> Vec<String> {
    eventually("messages arrive", async || Some(names(receiver)).filter(|names| names.len() >= count)).await
}

fn is_message(sent: &ReceivedCallback) -> bool {
    !name(sent).is_empty()
}

/// Verifies the signature of a webhook request without code of the server.
fn assert_signed(sent: &ReceivedCallback, secret: &str, agent: &str) {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    assert_eq!(key.len(), 32);
    let (seconds, id) = (sent.header("x-hashee-timestamp"), sent.header("x-hashee-delivery-id"));
    let message = [format!("{seconds}.{id}.").as_bytes(), &sent.body].concat();
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), &message);
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((sent.header("x-hashee-signature"), hex.len()), (hex.as_str(), 64));
    assert_eq!(sent.header("x-hashee-agent-id"), agent);
    assert_eq!((sent.header("webhook-id"), sent.header("webhook-timestamp")), (id, seconds));
}

/// Script that verifies with the Standard Webhooks library, `late` seconds after the request's time.
const VERIFY: &str = r#"
const { Webhook } = require(process.env.NUNCIO_TEST_STANDARDWEBHOOKS);
const { secret, headers, body, late } = JSON.parse(require("fs").readFileSync(0, "utf8"));
Date.now = () => (Number(headers["webhook-timestamp"]) + late) * 1000;
try {
  process.stdout.write(JSON.stringify({ verified: new Webhook(secret).verify(Buffer.from(body, "base64"), headers) }));
} catch (error) {
  process.stdout.write(JSON.stringify({ refused: error.message }));
}
"#;

fn verified_by_others(sent: &ReceivedCallback, secret: &str, body: &[u8], late: i64) -> Value {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let headers = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| (name, sent.header(name)));
    let headers: serde_json::Map<_, _> =
        headers.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    assert!(
        std::env::var_os("NUNCIO_TEST_STANDARDWEBHOOKS").is_some(),
        "NUNCIO_TEST_STANDARDWEBHOOKS must name dist/index.js of the npm package standardwebhooks: run `cargo xtask test`",
    );
    let mut node =
        Command::new("node").args(["-e", VERIFY]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let question = json!({"secret": secret, "headers": headers, "body": STANDARD.encode(body), "late": late});
    node.stdin.take().unwrap().write_all(question.to_string().as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn webhook_delivers_every_event_of_an_agent() {
    let receiver = CallbackReceiver::start(&[ReceiverReply::Status(204)]).await;
    let hooked = WebhookSetup::at(&receiver).await;
    let WebhookSetup { agent, conversation, .. } = &hooked;
    hooked.post("m1").await;
    messages(&receiver, 1).await;
    let answer = json!({
        "client_message_id": "m2", "content_type": "artifact", "msg_subtype": "artifact_response",
        "envelope": {"sealed": [1, 2, 3]},
    });
    let path = format!("/conversations/{conversation}/messages");
    let taken = hooked.ada.send(Method::POST, &path, &answer).await;
    messages(&receiver, 2).await;
    hooked.nothing_waits().await;

    let sent = receiver.sent();
    let kinds: Vec<_> = sent.iter().map(|sent| body(sent)["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["relation.established", "conversation.updated", "message.new", "artifact_response"]);
    for one in &sent {
        assert_eq!(one.line, "POST /hook?x=1 HTTP/1.1");
        assert_eq!((one.header("content-type"), &body(one)["version"]), ("application/json", &json!("v1")));
        assert_eq!(one.header("webhook-timestamp"), START.to_string());
        assert_signed(one, &hooked.secret, agent);
    }
    let first = body(&sent[0]);
    assert_eq!(
        (&first["metadata"]["agent_id"], &first["metadata"]["payload"]["user_id"]),
        (&json!(agent), &json!("ada"))
    );
    assert_eq!(first.get("wire_envelope"), None);
    assert_eq!(body(&sent[1])["metadata"]["conversation_id"], json!(conversation));
    let (plain, response) = (body(&sent[2]), body(&sent[3]));
    assert_eq!(plain["wire_envelope"], json!(STANDARD.encode("m1")));
    assert_eq!(plain["metadata"].get("msg_subtype"), None);
    assert_eq!(response["wire_envelope"], json!(STANDARD.encode(r#"{"sealed":[1,2,3]}"#)));
    assert_eq!(
        response["metadata"],
        json!({
            "conversation_id": conversation, "sender_id": "ada", "sender_type": "human",
            "created_at": taken.data()["created_at"], "message_id": taken.data()["message_id"],
            "client_message_id": "m2", "conversation_seq": 2, "content_type": "artifact",
            "msg_subtype": "artifact_response",
        })
    );
    // Each event has its own delivery, whose id contains the time.
    let ids: HashSet<_> = sent.iter().map(|sent| sent.header("webhook-id").to_owned()).collect();
    assert_eq!(ids.len(), 4);
    for id in &ids {
        assert_eq!((id.len(), &id[14..15], &id[..13]), (36, "7", "01a1dedd-2f80"), "{id}");
    }
    // The delivery log has the outcome, and nothing of the message.
    let log = hooked.deliveries("").await;
    let logged = log.body["data"].as_array().unwrap();
    assert_eq!(
        logged.iter().map(|one| &one["type"]).collect::<Vec<_>>(),
        ["artifact_response", "message.new", "conversation.updated", "relation.established"]
    );
    assert_eq!(logged[0]["delivery_id"], json!(sent[3].header("webhook-id")));
    assert_eq!((&logged[0]["delivered"], &logged[0]["attempts"]), (&json!(true), &json!(1)));
    assert_eq!(logged[0]["outcome"], "it answered 204");
    assert!(!log.body.to_string().contains(&STANDARD.encode("m1")));
    assert_eq!(
        log.body["webhook"],
        json!({"state": "reachable", "failing_since": null, "probe_at": null, "waiting": null})
    );
}

#[tokio::test]
async fn webhook_signature_verifies_with_the_standard_webhooks_library() {
    let receiver = CallbackReceiver::start(&[ReceiverReply::Status(200)]).await;
    let hooked = WebhookSetup::at(&receiver).await;
    hooked.post("m1").await;
    messages(&receiver, 1).await;
    let sent = receiver.sent().pop().unwrap();
    let verify = |secret: &str, body: &[u8], late| verified_by_others(&sent, secret, body, late);
    assert_eq!(verify(&hooked.secret, &sent.body, 0), json!({"verified": body(&sent)}));
    assert_eq!(verify(&hooked.secret, &sent.body, 299), json!({"verified": body(&sent)}));
    let other = format!("whsec_{}", STANDARD.encode([0; 32]));
    for refused in [
        verify(&other, &sent.body, 0),
        verify(&hooked.secret, &[&sent.body[..], b" "].concat(), 0),
        verify(&hooked.secret, &sent.body, 301),
    ] {
        assert!(refused["refused"].is_string(), "{refused}");
    }
}
