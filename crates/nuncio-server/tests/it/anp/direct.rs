//! `direct.send`: messages between agents, authenticated by their origin proofs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nuncio_core::ids::AgentName;
use nuncio_engine::ports::Clock as _;
use nuncio_engine::ports::store::JobKind;
use nuncio_identity::http_signature::SignatureParameters;
use nuncio_identity::origin_proof::OriginProofInput;
use nuncio_identity::{DidService, NewDidDocument, SigningKey};
use nuncio_server::admin::AdminCommand;
use nuncio_testkit::{Gateway, ManualClock, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{ANP, AnpTestServer, nonce, outcome, post, to_service, world};
use crate::agents::{DESK, desk};
use crate::dids::peer::{DidHost, DidHostReply, ForeignDid};
use crate::dids::{desk_did, desk_name, dids, get};

fn prove(request: &mut Value, key: &SigningKey, key_id: &str, clock: &ManualClock) {
    let signed = OriginProofInput {
        method: request["method"].as_str().unwrap(),
        meta: &request["params"]["meta"],
        body: &request["params"]["body"],
    };
    let (now, nonce) = (clock.now(), nonce());
    let expires = Some(now.after(Duration::from_secs(300)));
    let proof = signed.sign(key, &SignatureParameters { key_id, created: now, expires, nonce: &nonce }).unwrap();
    request["params"]["auth"] = proof.to_auth();
}

/// A message to the agent with an origin proof.
fn message(world: &AnpTestServer, from: &ForeignDid, meta: Value, body: Value) -> Value {
    let mut whole = json!({
        "sender_did": from.did.as_str(), "operation_id": "op-1", "message_id": "msg-1", "content_type": "text/plain",
    });
    let Value::Object(meta) = meta else { panic!("meta is an object") };
    for (name, value) in meta {
        whole[name] = value;
    }
    let mut request = to_service(world, "direct.send", whole, body);
    prove(&mut request, &from.key, &from.key_id(), &world.clock);
    request
}

fn says(text: &str) -> Value {
    json!({"text": json!({"script": [[{"text": text}]]}).to_string()})
}

async fn send(world: &AnpTestServer, request: &Value) -> Value {
    let answer = post(&world.gateway, ANP, &[], &request.to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Number of turns that the agent `desk` has started, by the metrics.
async fn turns(gateway: &Gateway) -> usize {
    let key = gateway.key(&["metrics:read"]).await.secret;
    let text = get(gateway, "/metrics", "localhost", &format!("Authorization: Bearer {key}\r\n")).await.body;
    let line = text.lines().find_map(|line| line.strip_prefix("nuncio_turns_started_total{agent=\"desk\"} "));
    line.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn direct_message_is_accepted_once_per_origin_proof_and_operation_id() {
    let world = world().await;
    let good = message(&world, &world.ada, json!({}), says("hello"));
    let accepted = outcome(&send(&world, &good).await).unwrap();
    assert_eq!((&accepted["accepted"], &accepted["message_id"]), (&json!(true), &json!("msg-1")));
    assert_eq!(accepted["target_did"], desk_did(&world.gateway).as_str());
    eventually("the turn ran", async || (turns(&world.gateway).await == 1).then_some(())).await;

    assert_eq!(outcome(&send(&world, &good).await), Err(1005), "the same proof again");
    let again = message(&world, &world.ada, json!({}), says("hello"));
    assert_eq!(outcome(&send(&world, &again).await).unwrap()["operation_id"], "op-1");
    let other = message(&world, &world.ada, json!({}), says("something else"));
    assert_eq!(outcome(&send(&world, &other).await), Err(1008));
    assert_eq!(turns(&world.gateway).await, 1);

    // Operation ids are unique per sender.
    let bob = world.peer.someone("bob", world.clock.now());
    assert!(outcome(&send(&world, &message(&world, &bob, json!({}), says("hello"))).await).is_ok());
    eventually("bob's turn ran", async || (turns(&world.gateway).await == 2).then_some(())).await;
}

type InvalidMessageCase = (&'static str, Value, Value, fn(&mut Value), i64);

#[tokio::test]
async fn invalid_direct_message_is_refused_and_starts_no_turn() {
    let world = world().await;
    let bob = world.peer.someone("bob", world.clock.now());
    let same: fn(&mut Value) = |_| {};
    let service = dids(&world.gateway).service().unwrap().did().to_string();
    let meta = |name: &str, value: Value| json!({name: value});
    let none = || json!({});
    let wrong: Vec<InvalidMessageCase> = vec![
        ("no proof", none(), says("x"), |it| drop(it["params"].as_object_mut().unwrap().shift_remove("auth")), 1005),
        ("another text", none(), says("x"), |it| it["params"]["body"]["text"] = json!("y"), 1005),
        ("another time", none(), says("x"), |it| it["params"]["meta"]["x_more"] = json!(1), 1005),
        ("another id", none(), says("x"), |it| it["params"]["meta"]["operation_id"] = json!("op-2"), 1005),
        ("another's name", meta("sender_did", json!(bob.did.as_str())), says("x"), same, 1005),
        ("no name", meta("sender_did", Value::Null), says("x"), same, 1005),
        ("no operation", meta("operation_id", Value::Null), says("x"), same, 1003),
        ("an endless operation", meta("operation_id", json!("x".repeat(257))), says("x"), same, 1003),
        ("no message id", meta("message_id", Value::Null), says("x"), same, 1003),
        ("no type", meta("content_type", Value::Null), says("x"), same, 1003),
        ("a picture", meta("content_type", json!("image/png")), json!({"payload_b64u": "AA"}), same, 1009),
        ("to the service", meta("target", json!({"kind": "service", "did": service})), says("x"), same, 1003),
        (
            "to an unknown agent",
            meta("target", json!({"kind": "agent", "did": "did:wba:localhost%3A1:x"})),
            says("x"),
            same,
            1007,
        ),
        ("declared as encrypted", meta("security_profile", json!("direct-e2ee")), says("x"), same, 1002),
        ("of another profile", meta("profile", json!("anp.direct.e2ee.v2")), says("x"), same, 1001),
        ("nothing", none(), json!({}), same, 2002),
        ("an empty text", none(), json!({"text": ""}), same, 2002),
        ("two things", none(), json!({"text": "x", "payload": {}}), same, 2002),
        ("JSON as text", none(), json!({"payload": {"a": 1}}), same, 2002),
        ("text as JSON", meta("content_type", json!("application/json")), json!({"text": "x"}), same, 2002),
        (
            "a payload that is none",
            meta("content_type", json!("application/json")),
            json!({"payload": "x"}),
            same,
            2002,
        ),
    ];
    for (name, meta, body, after, code) in wrong {
        let mut request = message(&world, &world.ada, meta, body);
        after(&mut request);
        let answer = send(&world, &request).await;
        assert_eq!(outcome(&answer), Err(code), "{name}: {answer}");
        // A signed request without an origin proof is refused.
        if name == "no proof" {
            assert_eq!(outcome(&world.ask(&world.ada, ANP, &request).await), Err(1005));
        }
    }
    assert_eq!(turns(&world.gateway).await, 0);
    let payload = json!({"payload": {"script": [[{"text": "x"}]]}});
    let good = message(&world, &world.ada, json!({"content_type": "application/json; charset=utf-8"}), payload);
    assert!(outcome(&send(&world, &good).await).is_ok());
}

#[tokio::test]
async fn expired_origin_proof_is_refused() {
    let world = world().await;
    let request = message(&world, &world.ada, json!({}), says("x"));
    world.clock.advance(Duration::from_secs(301));
    assert_eq!(outcome(&send(&world, &request).await), Err(1005));
    assert!(outcome(&send(&world, &message(&world, &world.ada, json!({}), says("x"))).await).is_ok());
}

#[tokio::test]
async fn agent_with_conversation_disabled_refuses_direct_messages() {
    let silent = desk(&[]).replace("version = \"1.0.0\"\n", "version = \"1.0.0\"\nanp = { conversation = false }\n");
    let world = super::world_with(|it| it.agent(DESK, &silent)).await;
    assert_eq!(outcome(&send(&world, &message(&world, &world.ada, json!({}), says("x"))).await), Err(2001));
    let asked = to_service(&world, "anp.get_capabilities", json!({}), json!({}));
    let can = outcome(&send(&world, &asked).await).unwrap();
    assert!(!can["supported_profiles"].as_array().unwrap().contains(&json!("anp.direct.base.v1")), "{can}");
    assert_eq!(world.call(&world.ada, "chat", json!({"message": "x"})).await, Err(-32601));
}

#[derive(Clone)]
struct ForwardingProxy {
    port: u16,
    behind: Arc<Mutex<Option<std::net::SocketAddr>>>,
    passed: Arc<Mutex<Vec<u8>>>,
}

impl ForwardingProxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let front = Self { port, behind: Arc::default(), passed: Arc::default() };
        let shared = front.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let address = shared.behind.lock().unwrap().unwrap();
                let server = TcpStream::connect(address).await.unwrap();
                let ((client_in, client_out), (server_in, server_out)) = (client.into_split(), server.into_split());
                tokio::spawn(pass(client_in, server_out, Arc::clone(&shared.passed)));
                tokio::spawn(pass(server_in, client_out, Arc::clone(&shared.passed)));
            }
        });
        front
    }

    fn passed(&self) -> String {
        String::from_utf8_lossy(&self.passed.lock().unwrap()).into_owned()
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    passed: Arc<Mutex<Vec<u8>>>,
) {
    let mut piece = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        passed.lock().unwrap().extend_from_slice(&piece[..count]);
        if to.write_all(&piece[..count]).await.is_err() {
            break;
        }
    }
}

#[tokio::test]
async fn reply_to_a_direct_message_is_delivered_and_not_answered_again() {
    let world = world().await;
    let front = ForwardingProxy::start().await;
    let builder = Gateway::builder().agent(DESK, &desk(&[])).clock(&world.clock).dev();
    let b = builder.public_url(&format!("http://localhost:{}", front.port)).start().await;
    *front.behind.lock().unwrap() = Some(b.address());
    let own = dids(&b).agent(&desk_name()).unwrap();
    let from = ForeignDid { did: own.did().clone(), key: own.key().clone() };
    let accepted = send(&world, &message(&world, &from, json!({}), says("the answer is 42"))).await;
    assert!(outcome(&accepted).is_ok(), "{accepted}");

    let passed = eventually("the reply was delivered and accepted", async || {
        Some(front.passed()).filter(|passed| passed.contains("\"accepted\":true"))
    })
    .await;
    assert!(passed.contains("POST /anp HTTP/1.1") && passed.contains("the answer is 42"), "{passed}");
    assert!(passed.contains("\"reply_to_message_id\":\"msg-1\""), "{passed}");
    assert!(passed.to_ascii_lowercase().contains("signature-input: sig1="), "the HTTP request is signed too");
    assert_eq!((turns(&world.gateway).await, turns(&b).await), (1, 0), "an answer is not answered");
    // A reply is accepted and starts no turn; the proof covers the field that marks it as a reply.
    let meta = json!({"x_answers": "msg-0", "operation_id": "op-9", "message_id": "msg-9"});
    let answer = message(&world, &from, meta, says("and you?"));
    assert!(outcome(&send(&world, &answer).await).is_ok());
    let mut changed = message(&world, &from, json!({"x_answers": "msg-0", "operation_id": "op-8"}), says("and you?"));
    changed["params"]["meta"].as_object_mut().unwrap().shift_remove("x_answers");
    assert_eq!(outcome(&send(&world, &changed).await), Err(1005));
    assert_eq!(turns(&world.gateway).await, 1);
}

async fn trap() -> (u16, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, caught) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(0)));
    let count = Arc::clone(&caught);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            *count.lock().unwrap() += 1;
        }
    });
    (port, caught)
}

/// Advances the clock from attempt to attempt, until no reply is pending any more.
async fn until_given_up(world: &AnpTestServer) {
    let next = async || {
        let jobs = world.gateway.engine().jobs().next_jobs(JobKind::Reply, 1).await.unwrap();
        jobs.first().map(|job| job.due)
    };
    while let Some(due) = next().await {
        world.clock.advance(world.clock.now().until(due));
        eventually("it was tried", async || (next().await != Some(due)).then_some(())).await;
    }
}

#[tokio::test]
async fn replies_are_never_sent_to_private_or_invalid_addresses() {
    // In development mode, this machine is the only private address that may be reached.
    let clock = ManualClock::new();
    let peer = DidHost::start().await;
    let (port, caught) = trap().await;
    let world = AnpTestServer {
        gateway: Gateway::builder().agent(DESK, &super::agent()).clock(&clock).dev().start().await,
        ada: peer.stranger("ada"),
        clock,
        peer,
    };
    for (number, endpoint) in [
        format!("http://10.0.0.1:{port}/anp"),
        format!("https://192.168.0.1:{port}/anp"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        format!("http://user:pass@localhost:{port}/anp"),
        "file:///etc/passwd".to_owned(),
        "http://example.com/anp".to_owned(),
        "nonsense".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        let someone = world.peer.stranger(&format!("someone-{number}"));
        let mut document = NewDidDocument::new(&someone.did, world.clock.now());
        document.services = vec![DidService::messages(&someone.did, endpoint.clone(), &someone.did, &[], &[])];
        world.peer.publish(&someone.did, DidHostReply::Document(document.sign(&someone.key)));
        let answer = send(&world, &message(&world, &someone, json!({}), says("hello"))).await;
        assert!(outcome(&answer).is_ok(), "{endpoint}: {answer}");
        // The reply is given up, at once or after some attempts.
        until_given_up(&world).await;
    }
    assert_eq!(*caught.lock().unwrap(), 0);
}

#[tokio::test]
async fn undeliverable_reply_does_not_delay_shutdown() {
    let world = world().await;
    assert!(outcome(&send(&world, &message(&world, &world.ada, json!({}), says("x"))).await).is_ok());
    world.clock.wait_for_sleeper(Duration::from_secs(5)).await;
    // The clock stands still, and the server still stops.
    tokio::time::timeout(Duration::from_secs(60), world.gateway.stop()).await.unwrap();
}

/// Sends a message of a local agent, as the operator's command does.
async fn say(gateway: &Gateway, to: &str, text: &str) -> Result<Value, nuncio_server::OperatorError> {
    let order = AdminCommand::MessageSend { agent: desk_name(), to: to.to_owned(), text: text.to_owned() };
    gateway.order(order).await.map(|answer| answer["letter"].clone())
}

async fn answer_to(gateway: &Gateway, agent: &str, letter: &Value) -> Value {
    let (agent, id) = (AgentName::parse(agent).unwrap(), letter["id"].as_str().unwrap().to_owned());
    eventually("the answer came", async || {
        let order = AdminCommand::MessageShow { agent: agent.clone(), id: id.clone() };
        let letter = gateway.order(order).await.unwrap()["letter"].clone();
        letter["answer"]["text"].is_string().then_some(letter)
    })
    .await
}

fn script(text: &str) -> String {
    json!({"script": [[{"text": text}]]}).to_string()
}

#[tokio::test]
async fn reply_to_a_sent_direct_message_is_stored_with_it() {
    let clock = ManualClock::new();
    let a = Gateway::builder().agent(DESK, &desk(&[])).clock(&clock).dev().start().await;
    let b = Gateway::builder().agent(DESK, &desk(&[])).clock(&clock).dev().start().await;
    let theirs = desk_did(&b);
    let sent = say(&a, theirs.as_str(), &script("the answer is 42")).await.unwrap();
    assert_eq!(sent["to"], theirs.as_str());
    let answered = answer_to(&a, DESK, &sent).await;
    assert_eq!(answered["answer"]["text"], "the answer is 42");
    assert_eq!((turns(&a).await, turns(&b).await), (0, 1), "an answer is not answered");
    // The URL of a description works too; unknown or unverifiable receivers are refused.
    let described = format!("{}/agents/{DESK}/ad.json", b.server().url());
    let sent = say(&a, &described, &script("again")).await.unwrap();
    assert_eq!(answer_to(&a, DESK, &sent).await["answer"]["text"], "again");
    for wrong in ["", "did:wba:localhost%3A1:agents:x", "did:key:z6Mk", "did:wba:10.0.0.1"] {
        assert!(say(&a, wrong, "x").await.is_err(), "{wrong}");
    }
    assert!(say(&a, theirs.as_str(), " ").await.is_err());
    assert!(say(&a, desk_did(&a).as_str(), "x").await.is_err(), "to itself");
    let unknown =
        AdminCommand::MessageSend { agent: AgentName::parse("x").unwrap(), to: theirs.to_string(), text: "x".into() };
    assert!(a.order(unknown).await.is_err());
}

#[tokio::test]
async fn agents_of_one_server_exchange_messages_without_network() {
    let other = desk(&[]).replace("name = \"desk\"", "name = \"other\"");
    // Without development mode, no address of this machine may be reached.
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).agent("other", &other).start().await;
    let did = dids(&gateway).agent(&AgentName::parse("other").unwrap()).unwrap().did().to_string();
    let sent = say(&gateway, &did, &script("from next door")).await.unwrap();
    assert_eq!(answer_to(&gateway, DESK, &sent).await["answer"]["text"], "from next door");
    let gone = did.replace("other", "nobody");
    assert!(say(&gateway, &gone, "x").await.is_err());
}

#[tokio::test]
async fn unexpected_reply_is_accepted_and_not_stored() {
    let world = world().await;
    let engine = world.gateway.engine();
    let ours =
        engine.direct_messages().record_direct_message(&desk_name(), "msg-ours", world.ada.did.as_str()).await.unwrap();
    let bob = world.peer.someone("bob", world.clock.now());
    let meta = |answers: &str| json!({"x_answers": answers, "operation_id": nonce(), "message_id": nonce()});
    for (from, answers) in [(&world.ada, "msg-unknown"), (&bob, "msg-ours"), (&world.ada, "")] {
        let answer = message(&world, from, meta(answers), json!({"text": "for nobody"}));
        assert!(outcome(&send(&world, &answer).await).is_ok());
    }
    assert_eq!(engine.direct_messages().direct_message(&desk_name(), "msg-ours").await.unwrap(), ours);
    let answer = message(&world, &world.ada, meta("msg-ours"), json!({"text": "for you"}));
    assert!(outcome(&send(&world, &answer).await).is_ok());
    let kept = engine.direct_messages().direct_message(&desk_name(), "msg-ours").await.unwrap().answer.unwrap();
    assert_eq!(kept.text, "for you");
    assert_eq!(turns(&world.gateway).await, 0);
}

#[tokio::test]
async fn origin_proof_used_before_a_restart_is_refused_after_it() {
    let before = world().await;
    let request = message(&before, &before.ada, json!({}), says("x"));
    assert!(outcome(&send(&before, &request).await).is_ok());
    let port = before.gateway.address().port();
    let AnpTestServer { gateway, clock, peer, ada } = before;
    let data = gateway.stop().await;
    let gateway =
        Gateway::builder().agent(DESK, &super::agent()).clock(&clock).dev().data(data).port(port).start().await;
    let after = AnpTestServer { gateway, clock, peer, ada };
    let answer = send(&after, &request).await;
    assert_eq!(outcome(&answer), Err(1005), "{answer}");
    assert!(outcome(&send(&after, &message(&after, &after.ada, json!({}), says("x"))).await).is_ok());
}

#[tokio::test]
async fn pending_reply_is_sent_after_a_restart() {
    // The message service of the sender is down, so the reply stays pending.
    let world = world().await;
    // The port is kept, so that no other test can listen there meanwhile.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = closed.local_addr().unwrap().port();
    let ada = world.peer.stranger("writer");
    let mut document = NewDidDocument::new(&ada.did, world.clock.now());
    let endpoint = format!("http://localhost:{port}/anp");
    document.services = vec![DidService::messages(&ada.did, endpoint, &ada.did, &[], &[])];
    world.peer.publish(&ada.did, DidHostReply::Document(document.sign(&ada.key)));
    assert!(outcome(&send(&world, &message(&world, &ada, json!({}), says("late, but here"))).await).is_ok());
    world.clock.wait_for_sleeper(Duration::from_secs(5)).await;

    let here = world.gateway.address().port();
    let data = world.gateway.data_as_after_a_crash();
    drop(world.gateway.stop().await);
    let listener = closed.listen(16).unwrap();
    let builder = Gateway::builder().agent(DESK, &super::agent()).clock(&world.clock).dev();
    let _after = builder.data(data).port(here).start().await;
    let (mut stream, _) = tokio::time::timeout(Duration::from_secs(60), listener.accept()).await.unwrap().unwrap();
    let mut heard = Vec::new();
    let mut piece = [0; 8192];
    while !String::from_utf8_lossy(&heard).contains("late, but here") {
        let count = stream.read(&mut piece).await.unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&piece[..count]);
    }
    assert!(String::from_utf8_lossy(&heard).contains("\"reply_to_message_id\":\"msg-1\""));
}
