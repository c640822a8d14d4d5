//! Messages over WebSockets and polls: delivered to everyone, replayed after a reconnect, and in order.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use nuncio_engine::ports::Clock as _;
use nuncio_testkit::a2h::{A2hTestSocket, ExternalAgent, TestDevice, artifact, text};
use nuncio_testkit::{Method, eventually};
use serde_json::{Value, json};

use super::relay::{RelayConversationSetup, path};
use super::sockets::socket_gauge;

/// Sends messages of the agent with the given numbers in their ids.
async fn write(scene: &RelayConversationSetup, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        scene.agent.post(&scene.conversation, &text(&format!("m{number}"), json!({"n": number}))).await.data();
    }
}

/// The next `count` events about new messages on a connection, in the order of arrival.
async fn read(socket: &mut A2hTestSocket, count: usize) -> Vec<Value> {
    let mut found = Vec::new();
    while found.len() < count {
        found.push(socket.event("message.new").await);
    }
    found
}

fn seqs(messages: &[Value]) -> Vec<u64> {
    messages.iter().map(|message| message["conversation_seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn message_is_pushed_to_every_device_and_the_agent() {
    let scene = RelayConversationSetup::start().await;
    let phone = scene.phone().await;
    let (mut one, _) = scene.ada.connect().await;
    let (mut two, _) = phone.connect().await;
    let (mut agents, _) = scene.agent.connect().await;
    let sent = scene.agent.post(&scene.conversation, &artifact("c1", "artifact_tool_call", json!({"n": 1}))).await;
    let mut ids = Vec::new();
    for socket in [&mut one, &mut two] {
        let told = socket.event("message.new").await;
        for field in ["message_id", "conversation_id", "conversation_seq", "client_message_id", "created_at"] {
            assert_eq!(told[field], sent.data()[field], "{field}");
        }
        assert_eq!((&told["sender_id"], &told["sender_type"]), (&json!(scene.agent.id), &json!("agent")));
        assert_eq!((&told["content_type"], &told["msg_subtype"]), (&json!("artifact"), &json!("artifact_tool_call")));
        assert_eq!(told["encrypted_payload"], json!(STANDARD.encode(r#"{"n":1}"#)));
        ids.push((told["event_id"].clone(), told["seq"].clone()));
    }
    assert_eq!(ids[0], ids[1], "one event for both devices");
    // A person's message goes to the person's other devices; an agent does not get its own message.
    scene.ada.post(&scene.conversation, &artifact("a1", "artifact_response", json!({"n": 2}))).await.data();
    for socket in [&mut one, &mut two, &mut agents] {
        let told = socket.event("message.new").await;
        assert_eq!((&told["conversation_seq"], &told["sender_device_id"]), (&json!(2), &json!(scene.ada.id)));
    }
}

#[tokio::test]
async fn first_connection_of_a_person_gets_earlier_messages_in_order_without_gaps() {
    let scene = RelayConversationSetup::start().await;
    write(&scene, 1..=30).await;
    let (mut socket, _) = scene.ada.connect().await;
    let there = read(&mut socket, 30).await;
    assert_eq!(seqs(&there), (1..=30).collect::<Vec<u64>>());
    let numbers: Vec<_> = there.iter().map(|message| message["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, next| next - one == 1), "{numbers:?}");
}

#[tokio::test]
async fn reconnected_socket_resumes_after_the_last_acknowledged_event() {
    let scene = RelayConversationSetup::start().await;
    let (mut socket, _) = scene.ada.connect().await;
    write(&scene, 1..=4).await;
    let first = read(&mut socket, 4).await;
    // Two messages were acknowledged when the connection broke.
    socket.say(&json!({"type": "ack", "seq": first[1]["seq"]})).await;
    socket.say(&json!({"type": "resume", "after": first[3]["seq"]})).await;
    socket.event("resume.ok").await;
    drop(socket);
    write(&scene, 5..=6).await;
    let (mut socket, hello) = scene.ada.connect().await;
    assert_eq!(hello["after"], first[1]["seq"]);
    let second = read(&mut socket, 4).await;
    assert_eq!(seqs(&second), [3, 4, 5, 6]);
    assert_eq!(second[..2], first[2..], "repeated events have the same bytes and ids");
    drop(socket);
    // A client may also resume from a position that it gives.
    let mut socket = scene.world.server.socket("human").await;
    socket.say(&json!({"type": "auth", "token": scene.ada.token, "after": second[2]["seq"]})).await;
    assert_eq!(seqs(&read(&mut socket, 1).await), [6]);
}

#[tokio::test]
async fn resume_with_conversation_positions_replays_the_messages_after_them() {
    let scene = RelayConversationSetup::start().await;
    let other = scene.another_agent().await;
    let elsewhere = scene.ada.converse("h2a", json!([other.member()])).await;
    write(&scene, 1..=40).await;
    other.post(&elsewhere, &text("x1", json!({}))).await.data();
    let (mut socket, hello) = scene.ada.connect().await;
    let told = read(&mut socket, 41).await;
    let (here, there) = (&scene.conversation, &elsewhere);
    let resume = json!({"type": "resume", "after": hello["last_seq"], "conversations": {here: 3, there: 0}});
    socket.say(&resume).await;
    let mut again = Vec::new();
    let end = loop {
        let frame = socket.frame().await;
        if frame["type"] == "resume.ok" {
            break frame;
        }
        again.push(frame);
    };
    assert_eq!(end, json!({"type": "resume.ok", "after": hello["last_seq"], "last_seq": hello["last_seq"]}));
    assert_eq!(again.len(), 38);
    for message in &again {
        // The same messages, without event numbers.
        let same = told.iter().find(|first| first["message_id"] == message["message_id"]).unwrap();
        for field in ["encrypted_payload", "conversation_id", "conversation_seq", "created_at", "type"] {
            assert_eq!(message[field], same[field], "{field}");
        }
        assert_eq!(message["seq"], 0);
    }
    let of = |id: &str| -> Vec<Value> {
        again.iter().filter(|message| message["conversation_id"] == json!(id)).cloned().collect()
    };
    assert_eq!((seqs(&of(here)), seqs(&of(there))), ((4..=40).collect(), vec![1]));
    // Messages that arrive meanwhile follow; conversations of others are not found.
    let bob = scene.world.person("bob").await;
    let (mut bobs, _) = bob.connect().await;
    bobs.say(&json!({"type": "resume", "conversations": {here: 0, "cnv_none": 7}})).await;
    assert_eq!(bobs.event("error").await["code"], "CONVERSATION_NOT_FOUND");
    assert_eq!(bobs.event("error").await["code"], "CONVERSATION_NOT_FOUND");
    bobs.event("resume.ok").await;
    for wrong in [json!({"a b": 1}), json!({"cnv_1": -1}), json!([1])] {
        bobs.say(&json!({"type": "resume", "conversations": wrong})).await;
        assert_eq!(bobs.event("error").await["code"], "BAD_REQUEST");
    }
}

#[tokio::test]
async fn largest_message_is_sent_in_frames_of_at_most_twenty_kib() {
    let scene = RelayConversationSetup::start().await;
    let url = format!("{}/a2h/ws/human", scene.world.server.url());
    let mut socket = A2hTestSocket::open_for_frames(&url, 20 * 1024).await;
    socket.say(&json!({"type": "auth", "token": scene.ada.token})).await;
    socket.event("auth.ok").await;
    let large = STANDARD.encode((0..512 * 1024).map(|at| u8::try_from(at % 251).unwrap()).collect::<Vec<u8>>());
    scene.agent.post(&scene.conversation, &text("large", json!(large))).await.data();
    assert_eq!(socket.event("message.new").await["encrypted_payload"], json!(large));
    scene.agent.post(&scene.conversation, &text("small", json!({}))).await.data();
    assert_eq!(socket.event("message.new").await["client_message_id"], "small");
}

#[tokio::test]
async fn read_positions_are_pushed_to_the_other_side_and_own_devices() {
    let scene = RelayConversationSetup::start().await;
    let phone = scene.phone().await;
    write(&scene, 1..=2).await;
    let (mut agents, _) = scene.agent.connect().await;
    let (mut phones, _) = phone.connect().await;
    let here = path(&scene.conversation);
    scene.ada.send(Method::PATCH, &here, &json!({"read_seq": 2})).await.data();
    for socket in [&mut agents, &mut phones] {
        let told = socket.event("message.read").await;
        assert_eq!((&told["conversation_id"], &told["conversation_seq"]), (&json!(scene.conversation), &json!(2)));
        assert_eq!((&told["reader_id"], &told["reader_type"]), (&json!("ada"), &json!("human")));
    }
    scene.ada.post(&scene.conversation, &text("a1", json!({}))).await.data();
    scene.agent.send(Method::PATCH, &here, &json!({"read_seq": 3})).await.data();
    let told = phones.event("message.read").await;
    assert_eq!((&told["reader_id"], &told["reader_type"]), (&json!(scene.agent.id), &json!("agent")));
    assert_eq!(told["conversation_seq"], 3);
}

#[tokio::test]
async fn only_one_device_of_a_person_can_claim_a_tool_call() {
    let scene = RelayConversationSetup::start().await;
    let (laptop, phone) = (&scene.ada, scene.phone().await);
    let (mut one, _) = laptop.connect().await;
    let (mut two, _) = phone.connect().await;
    let call = scene.agent.post(&scene.conversation, &artifact("c1", "artifact_tool_call", json!({}))).await;
    let id = call.data()["message_id"].as_str().unwrap();
    let claim = format!("/messages/{id}/claim");
    let body = |device: &TestDevice| json!({"device_id": device.id});
    // A call cannot be claimed for another device.
    assert_eq!(phone.send(Method::POST, &claim, &body(laptop)).await.refusal(), (403, "PERMISSION_DENIED"));
    assert_eq!(scene.agent.send(Method::POST, &claim, &json!({})).await.refusal(), (401, "UNAUTHORIZED"));
    let bodies = [body(laptop), body(&phone)];
    let claims = join_all((0..10).map(|number| {
        let device = [laptop, &phone][number % 2];
        device.send(Method::POST, &claim, &bodies[number % 2])
    }))
    .await;
    let winner = claims.iter().find(|claim| claim.status == 200).unwrap().data().clone();
    let won = usize::from(winner["device_id"] == json!(phone.id));
    let device = [laptop, &phone][won];
    for (number, claim) in claims.iter().enumerate() {
        match number % 2 == won {
            true => assert_eq!(claim.data(), &winner),
            false => assert_eq!(claim.refusal(), (409, "MESSAGE_CLAIMED")),
        }
    }
    assert_eq!(winner, json!({"message_id": id, "device_id": device.id, "claimed_at": winner["claimed_at"]}));
    for socket in [&mut one, &mut two] {
        let told = socket.event("message.claimed").await;
        assert_eq!((&told["message_id"], &told["device_id"]), (&json!(id), &winner["device_id"]));
        assert_eq!(told["conversation_id"], json!(scene.conversation));
    }
    // The same device may claim again, without a body; messages that are no calls cannot be claimed.
    let again = scene.world.server.send(Method::POST, &claim, Some(&device.token), None).await;
    assert_eq!(again.data(), &winner);
    let words = scene.agent.post(&scene.conversation, &text("t1", json!({}))).await.data()["message_id"].clone();
    for unknown in [words.as_str().unwrap(), "msg_none-1", "msg_1", "a%20b"] {
        let refused = laptop.send(Method::POST, &format!("/messages/{unknown}/claim"), &json!({})).await;
        assert_eq!(refused.refusal(), (404, "MESSAGE_NOT_FOUND"), "{unknown}");
    }
}

fn messages(page: &Value) -> Vec<u64> {
    let all = page["data"].as_array().unwrap().iter();
    all.filter(|event| event["type"] == "message.new")
        .map(|event| event["conversation_seq"].as_u64().unwrap())
        .collect()
}

async fn say(scene: &RelayConversationSetup, number: u64) {
    scene.ada.post(&scene.conversation, &text(&format!("m{number}"), json!({"n": number}))).await.data();
}

#[tokio::test]
async fn agent_poll_returns_events_and_acknowledges_those_up_to_its_cursor() {
    let scene = RelayConversationSetup::start().await;
    let agent = &scene.agent;
    for number in 1..=3 {
        say(&scene, number).await;
    }
    let first = agent.poll("?wait=0").await;
    assert_eq!(messages(&first.body), [1, 2, 3]);
    // Polling acknowledges nothing by itself.
    assert_eq!(agent.poll("").await.body, first.body);
    let cursor = first.body["next_cursor"].as_str().unwrap().to_owned();
    let last = first.body["data"].as_array().unwrap().last().unwrap()["seq"].clone();
    assert_eq!(json!(cursor.parse::<u64>().unwrap()), last);
    // Polling after a position acknowledges everything before it, for sockets too.
    let none = agent.poll(&format!("?after={cursor}&wait=0")).await;
    assert_eq!(none.body, json!({"data": [], "next_cursor": cursor}));
    assert_eq!(agent.poll("?wait=0").await.body, none.body);
    let (socket, hello) = agent.connect().await;
    assert_eq!(hello["after"], last);
    drop(socket);
    let early = agent.poll("?after=0&wait=0&limit=2").await;
    assert_eq!(early.body["next_cursor"], "2", "stored events can be read from the beginning");
    assert_eq!(agent.poll("?after=999999&wait=0").await.body, none.body);
    for wrong in ["after=x", "wait=61", "wait=-1", "wait=x", "limit=0", "limit=51"] {
        assert_eq!(agent.poll(&format!("?{wrong}")).await.refusal(), (400, "BAD_REQUEST"), "{wrong}");
    }
}

fn polling(agent: &ExternalAgent, query: &str) -> tokio::task::JoinHandle<nuncio_testkit::a2h::A2hResponse> {
    let (server, token) = (agent.server.clone(), agent.token.clone());
    let path = format!("/agents/{}/messages/poll{query}", agent.id);
    tokio::spawn(async move { server.send(Method::GET, &path, Some(&token), None).await })
}

#[tokio::test]
async fn long_poll_returns_on_a_message_at_its_timeout_or_when_the_server_stops() {
    let scene = RelayConversationSetup::start().await;
    let agent = &scene.agent;
    let cursor = agent.poll("?wait=0").await.body["next_cursor"].as_str().unwrap().to_owned();
    let query = format!("?after={cursor}");
    // Concurrent polls return the same events.
    let both = [polling(agent, &query), polling(agent, &query)];
    eventually("both wait", async || (socket_gauge(&scene.world).await == 2).then_some(())).await;
    say(&scene, 1).await;
    let [one, two] = both;
    let (one, two) = (one.await.unwrap(), two.await.unwrap());
    assert_eq!(messages(&one.body), [1]);
    assert_eq!(one.body, two.body);
    let cursor = one.body["next_cursor"].as_str().unwrap().to_owned();
    let late = polling(agent, &format!("?after={cursor}"));
    scene.world.clock.pass(Duration::from_secs(25)).await;
    assert_eq!(late.await.unwrap().body, json!({"data": [], "next_cursor": cursor}));
    let longest = polling(agent, &format!("?after={cursor}&wait=60"));
    scene.world.clock.pass(Duration::from_secs(60)).await;
    assert_eq!(longest.await.unwrap().status, 200);
    // A client that disconnects frees its slot.
    let gone = polling(agent, &format!("?after={cursor}"));
    eventually("it waits", async || (socket_gauge(&scene.world).await == 1).then_some(())).await;
    gone.abort();
    eventually("the closed socket is no longer counted", async || {
        (socket_gauge(&scene.world).await == 0).then_some(())
    })
    .await;
    // A stopping server ends waiting polls.
    let last = polling(agent, &format!("?after={cursor}"));
    eventually("it waits", async || (socket_gauge(&scene.world).await == 1).then_some(())).await;
    scene.world.gateway.stop().await;
    assert_eq!(last.await.unwrap().body, json!({"data": [], "next_cursor": cursor}));
}

#[tokio::test]
async fn poll_response_is_limited_in_bytes_and_continues_by_cursor() {
    let scene = RelayConversationSetup::start().await;
    let large = STANDARD.encode(vec![7; 512 * 1024]);
    for number in 1..=6 {
        scene.ada.post(&scene.conversation, &text(&format!("m{number}"), json!(large))).await.data();
    }
    let (mut found, mut after) = (Vec::new(), "0".to_owned());
    while found.last() != Some(&6) {
        let page = scene.agent.poll(&format!("?wait=0&after={after}")).await;
        let some = messages(&page.body);
        assert!((1..=4).contains(&some.len()), "{some:?}");
        found.extend(some);
        after = page.body["next_cursor"].as_str().unwrap().to_owned();
    }
    assert_eq!(found, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn deleted_messages_are_skipped_by_polls_and_sockets() {
    let mut scene = RelayConversationSetup::start().await;
    for number in 1..=2 {
        say(&scene, number).await;
    }
    scene.world.clock.advance(Duration::from_secs(366 * 24 * 3600));
    scene.world.gateway.engine().relay().forget_old_messages().await.unwrap();
    scene.ada.refresh(scene.world.clock.now()).await;
    say(&scene, 3).await;
    let page = scene.agent.poll("?wait=0&limit=50").await;
    assert_eq!(messages(&page.body), [3]);
    let (mut socket, hello) = scene.agent.connect().await;
    assert_eq!(seqs(&read(&mut socket, 1).await), [3]);
    socket.say(&json!({"type": "ack", "seq": hello["last_seq"]})).await;
    socket.say(&json!({"type": "resume"})).await;
    assert_eq!(socket.event("resume.ok").await["after"], hello["last_seq"]);
    assert_eq!(scene.messages().await.len(), 1);
}
