//! `direct.send`: messages between agents, by the proof inside them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nuncio_engine::ports::Clock as _;
use nuncio_identity::http_signature::SigningOptions;
use nuncio_identity::origin_proof::OriginRequest;
use nuncio_identity::{NewDocument, Service, SigningKey};
use nuncio_testkit::{Gateway, ManualClock, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{ANP, World, nonce, outcome, post, to_service, world};
use crate::agents::{DESK, desk};
use crate::dids::peer::{Peer, Reply, Someone};
use crate::dids::{desk_did, desk_name, dids, get};

/// The proof that a request is from whoever has that key.
fn prove(request: &mut Value, key: &SigningKey, key_id: &str, clock: &ManualClock) {
    let signed = OriginRequest {
        method: request["method"].as_str().unwrap(),
        meta: &request["params"]["meta"],
        body: &request["params"]["body"],
    };
    let (now, nonce) = (clock.now(), nonce());
    let expires = Some(now.after(Duration::from_secs(300)));
    let proof = signed.sign(key, &SigningOptions { key_id, created: now, expires, nonce: &nonce }).unwrap();
    request["params"]["auth"] = proof.to_auth();
}

/// A message from someone to the agent of a world, proved.
fn message(world: &World, from: &Someone, meta: Value, body: Value) -> Value {
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

/// Sent by nobody in particular: the proof inside is what counts.
async fn send(world: &World, request: &Value) -> Value {
    let answer = post(&world.gateway, ANP, &[], &request.to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// How many turns an agent has begun.
async fn turns(gateway: &Gateway) -> usize {
    let key = gateway.key(&[]).await.secret;
    let text = get(gateway, "/metrics", "localhost", &format!("Authorization: Bearer {key}\r\n")).await.body;
    let line = text.lines().find_map(|line| line.strip_prefix("nuncio_turns_started_total{agent=\"desk\"} "));
    line.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn a_message_is_taken_once_and_only_from_who_proves_it_is_theirs() {
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

    // Another sender's operation of the same name is another operation.
    let bob = world.peer.someone("bob", world.clock.now());
    assert!(outcome(&send(&world, &message(&world, &bob, json!({}), says("hello"))).await).is_ok());
    eventually("bob's turn ran", async || (turns(&world.gateway).await == 2).then_some(())).await;
}

/// What is changed about a message before it is proved, and after; and the error it has then.
type Wrong = (&'static str, Value, Value, fn(&mut Value), i64);

#[tokio::test]
async fn what_is_wrong_with_a_message_is_told_and_begins_nothing() {
    let world = world().await;
    let bob = world.peer.someone("bob", world.clock.now());
    let same: fn(&mut Value) = |_| {};
    let service = dids(&world.gateway).service().unwrap().did().to_string();
    let meta = |name: &str, value: Value| json!({name: value});
    let none = || json!({});
    let wrong: Vec<Wrong> = vec![
        ("no proof", none(), says("x"), |it| drop(it["params"].as_object_mut().unwrap().remove("auth")), 1005),
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
            "to nobody",
            meta("target", json!({"kind": "agent", "did": "did:wba:localhost%3A1:x"})),
            says("x"),
            same,
            1007,
        ),
        ("encrypted, they say", meta("security_profile", json!("direct-e2ee")), says("x"), same, 1002),
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
        // A signature around it is no substitute for the proof.
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
async fn an_old_or_early_proof_does_not_count() {
    let world = world().await;
    let request = message(&world, &world.ada, json!({}), says("x"));
    world.clock.advance(Duration::from_secs(301));
    assert_eq!(outcome(&send(&world, &request).await), Err(1005));
    assert!(outcome(&send(&world, &message(&world, &world.ada, json!({}), says("x"))).await).is_ok());
}

#[tokio::test]
async fn an_agent_that_takes_no_messages_says_so() {
    let silent = desk(&[]).replace("version = \"1.0.0\"\n", "version = \"1.0.0\"\nanp = { conversation = false }\n");
    let world = super::world_with(|it| it.agent(DESK, &silent)).await;
    assert_eq!(outcome(&send(&world, &message(&world, &world.ada, json!({}), says("x"))).await), Err(2001));
    let asked = to_service(&world, "anp.get_capabilities", json!({}), json!({}));
    let can = outcome(&send(&world, &asked).await).unwrap();
    assert!(!can["supported_profiles"].as_array().unwrap().contains(&json!("anp.direct.base.v1")), "{can}");
    assert_eq!(world.call(&world.ada, "chat", json!({"message": "x"})).await, Err(-32601));
}

/// Somebody in the middle who passes everything on and keeps what passed.
#[derive(Clone)]
struct Front {
    port: u16,
    behind: Arc<Mutex<Option<std::net::SocketAddr>>>,
    passed: Arc<Mutex<Vec<u8>>>,
}

impl Front {
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
async fn two_gateways_talk_and_neither_goes_on_for_ever() {
    let world = world().await;
    let front = Front::start().await;
    let builder = Gateway::builder().agent(DESK, &desk(&[])).clock(&world.clock).dev();
    let b = builder.public_url(&format!("http://localhost:{}", front.port)).start().await;
    *front.behind.lock().unwrap() = Some(b.address());
    let own = dids(&b).agent(&desk_name()).unwrap();
    let from = Someone { did: own.did().clone(), key: own.key().clone() };
    let accepted = send(&world, &message(&world, &from, json!({}), says("the answer is 42"))).await;
    assert!(outcome(&accepted).is_ok(), "{accepted}");

    let passed = eventually("the answer came and was taken", async || {
        Some(front.passed()).filter(|passed| passed.contains("\"accepted\":true"))
    })
    .await;
    assert!(passed.contains("POST /anp HTTP/1.1") && passed.contains("the answer is 42"), "{passed}");
    assert!(passed.contains("\"reply_to_message_id\":\"msg-1\""), "{passed}");
    assert!(passed.to_ascii_lowercase().contains("signature-input: sig1="), "the hop is signed too");
    assert_eq!((turns(&world.gateway).await, turns(&b).await), (1, 0), "an answer is not answered");
    // What says it is an answer is taken, and begins nothing; the proof covers that it says so.
    let meta = json!({"x_answers": "msg-0", "operation_id": "op-9", "message_id": "msg-9"});
    let answer = message(&world, &from, meta, says("and you?"));
    assert!(outcome(&send(&world, &answer).await).is_ok());
    let mut changed = message(&world, &from, json!({"x_answers": "msg-0", "operation_id": "op-8"}), says("and you?"));
    changed["params"]["meta"].as_object_mut().unwrap().remove("x_answers");
    assert_eq!(outcome(&send(&world, &changed).await), Err(1005));
    assert_eq!(turns(&world.gateway).await, 1);
}

/// A listener that counts who comes, and answers nobody.
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

#[tokio::test]
async fn answers_go_where_strangers_may_be_reached_and_nowhere_else() {
    // Also when developing, this machine is the only one inside that may be reached.
    let clock = ManualClock::new();
    let peer = Peer::start().await;
    let (port, caught) = trap().await;
    let world = World {
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
        let mut document = NewDocument::new(&someone.did, world.clock.now());
        document.services = vec![Service::messages(&someone.did, endpoint.clone(), &someone.did, &[], &[])];
        world.peer.publish(&someone.did, Reply::Document(document.sign(&someone.key)));
        let answer = send(&world, &message(&world, &someone, json!({}), says("hello"))).await;
        assert!(outcome(&answer).is_ok(), "{endpoint}: {answer}");
        // It is tried again, and given up.
        for pause in [5, 10, 20, 40, 80, 160] {
            world.clock.pass(Duration::from_secs(pause)).await;
        }
    }
    assert_eq!(*caught.lock().unwrap(), 0);
}

#[tokio::test]
async fn an_answer_that_cannot_be_sent_does_not_hold_up_the_end() {
    let world = world().await;
    assert!(outcome(&send(&world, &message(&world, &world.ada, json!({}), says("x"))).await).is_ok());
    world.clock.someone_waits_for(Duration::from_secs(5)).await;
    // Nobody moves the clock, and it ends all the same.
    tokio::time::timeout(Duration::from_secs(60), world.gateway.stop()).await.unwrap();
}
