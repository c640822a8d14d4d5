//! Events over WebSockets: pushed to connected devices, replayed to those that were offline, none lost.

use std::time::Duration;

use nuncio_engine::ports::Clock as _;
use nuncio_testkit::a2h::{A2hTestSocket, SocketMessage, TestDevice};
use nuncio_testkit::{Method, eventually};
use serde_json::{Value, json};

use super::{A2hTestServer, agent_body, seed, with_required};

const PING: Duration = Duration::from_secs(30);

async fn connect_agent(world: &A2hTestServer, id: &str, token: &str) -> A2hTestSocket {
    let mut socket = world.server.socket(&format!("agent?agent_id={id}")).await;
    socket.say(&json!({"type": "auth", "agent_id": id, "token": token})).await;
    assert_eq!(socket.frame().await["type"], "auth.ok");
    socket
}

async fn caught_up(device: &TestDevice) {
    let (mut socket, hello) = device.connect().await;
    let last = hello["last_seq"].as_u64().unwrap();
    let mut seq = hello["after"].as_u64().unwrap();
    while seq < last {
        seq = socket.frame().await["seq"].as_u64().unwrap();
    }
    acknowledge(&mut socket, seq).await;
}

/// Acknowledges an event, and waits until the acknowledgement is stored.
async fn acknowledge(socket: &mut A2hTestSocket, seq: u64) {
    socket.say(&json!({"type": "ack", "seq": seq})).await;
    // Responses come in the order of the frames.
    socket.say(&json!({"type": "resume"})).await;
    loop {
        let frame = socket.frame().await;
        if frame["type"] == "resume.ok" {
            assert_eq!(frame["after"], seq);
            return;
        }
    }
}

pub(super) async fn socket_gauge(world: &A2hTestServer) -> i64 {
    let metrics =
        world.gateway.raw("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let line = metrics.body.lines().find(|line| line.starts_with("nuncio_sockets_open ")).unwrap().to_owned();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn relation_and_manifest_events_are_pushed_to_every_device_and_the_agent() {
    let world = A2hTestServer::start().await;
    let owner = world.person("owner").await;
    let (agent, token) = owner.make_agent(&agent_body(&seed())).await;
    let laptop = world.person("ada").await;
    let phone = TestDevice::enrol(&world.server, &world.invite("ada").await).await;
    let mut observer = connect_agent(&world, &agent, &token).await;
    caught_up(&laptop).await;
    caught_up(&phone).await;
    let (mut one, _) = laptop.connect().await;
    let (mut two, _) = phone.connect().await;

    let relation = laptop.allow(&agent, json!(["filesystem:read"])).await;
    for socket in [&mut one, &mut two, &mut observer] {
        let told = socket.frame().await;
        assert_eq!((&told["type"], &told["relation_id"]), (&json!("relation.established"), &relation["id"]));
        assert_eq!(
            (&told["granted_scopes"], &told["payload"]["user_id"]),
            (&json!(["filesystem:read"]), &json!("ada"))
        );
    }
    let hash = owner.publish(&agent, &with_required(&["mode"])).await.data()["capability_manifest_hash"].clone();
    let mut ids = Vec::new();
    for socket in [&mut one, &mut two, &mut observer] {
        let told = socket.frame().await;
        // The four fields of the specification, without nesting.
        assert_eq!(told["type"], "h2a.reauth_required");
        assert_eq!(told["agent_id"], json!(agent));
        assert_eq!(told["new_manifest_version"], 2);
        assert_eq!(told["new_manifest_hash"], hash);
        assert_eq!(told["scopes_requiring_reauth"], json!(["filesystem:read"]));
        ids.push(told["event_id"].clone());
    }
    assert_eq!(ids[0], ids[1], "one event for both devices");
    assert_ne!(ids[0], ids[2]);
    let path = format!("/h2a/relations/{}", relation["id"].as_str().unwrap());
    phone.consent(Method::PATCH, &path, json!({"granted_scopes": ["filesystem:read"]})).await.data();
    let told = observer.frame().await;
    assert_eq!((&told["type"], &told["manifest_version"]), (&json!("agent.capability_changed"), &json!(2)));
    assert_eq!(one.frame().await["type"], "agent.capability_changed");
    phone.consent(Method::DELETE, &path, json!({})).await.data();
    assert_eq!(observer.frame().await["type"], "relation.revoked");
    assert_eq!(socket_gauge(&world).await, 3);
    drop((one, two, observer));
    eventually("the sockets are closed", async || (socket_gauge(&world).await == 0).then_some(())).await;
}

/// The person is offline during three breaking changes and a restart of the server.
#[tokio::test]
async fn reconnecting_person_gets_every_manifest_change_and_consents_to_the_latest() {
    let world = A2hTestServer::start().await;
    let owner = world.person("owner").await;
    let (agent, _) = owner.make_agent(&agent_body(&seed())).await;
    let mut ada = world.person("ada").await;
    let relation = ada.allow(&agent, json!(["filesystem:read"])).await;
    caught_up(&ada).await;
    let versions = [&["a"][..], &["a", "b"], &["a", "b", "c"]];
    for names in versions {
        owner.publish(&agent, &with_required(names)).await.data();
    }
    // The person reconnects a week later, after a restart of the server.
    let data = world.gateway.stop().await;
    let clock = world.clock.clone();
    clock.advance(Duration::from_secs(7 * 24 * 3600));
    let gateway = nuncio_testkit::Gateway::builder()
        .agent(crate::agents::DESK, &crate::agents::desk(&[]))
        .data(data)
        .clock(&clock)
        .start()
        .await;
    ada.server = nuncio_testkit::a2h::AnonymousA2hClient::at(gateway.url());
    // The server has another address now and returns it.
    let keys = ada.server.send(Method::GET, "/auth/keys", None, None).await;
    ada.audience = keys.data()["audience"].as_str().unwrap().to_owned();
    ada.refresh(clock.now()).await;

    let (mut socket, hello) = ada.connect().await;
    let mut told = Vec::new();
    for _ in versions {
        told.push(socket.frame().await);
    }
    let first = hello["after"].as_u64().unwrap();
    let places: Vec<_> = told.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(places, [first + 1, first + 2, first + 3]);
    let numbers: Vec<_> = told.iter().map(|event| event["new_manifest_version"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [2, 3, 4]);
    // The question is about the current manifest.
    let path = format!("/h2a/relations/{}", relation["id"].as_str().unwrap());
    let pending = ada.get(&path).await.data().clone();
    assert_eq!(pending["pending_reauth"]["manifest_version"], 4);
    assert_eq!(pending["pending_reauth"]["manifest_hash"], told[2]["new_manifest_hash"]);
    let body = json!({"granted_scopes": ["filesystem:read"], "manifest_hash": told[2]["new_manifest_hash"]});
    assert_eq!(ada.consent(Method::PATCH, &path, body).await.data()["status"], "active");
}

#[tokio::test]
async fn unacknowledged_events_are_replayed_and_acknowledged_ones_are_not() {
    let world = A2hTestServer::start().await;
    let owner = world.person("owner").await;
    let (agent, _) = owner.make_agent(&agent_body(&seed())).await;
    let ada = world.person("ada").await;
    let phone = TestDevice::enrol(&world.server, &world.invite("ada").await).await;
    ada.allow(&agent, json!(["filesystem:read"])).await;
    // The events: two devices were enrolled and a relation began.
    let (mut socket, hello) = ada.connect().await;
    assert_eq!((&hello["after"], &hello["last_seq"]), (&json!(0), &json!(3)));
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(socket.frame().await);
    }
    acknowledge(&mut socket, 2).await;
    assert_eq!(socket.frame().await, seen[2], "events after the acknowledged one are sent again");
    drop(socket);
    let (mut socket, hello) = ada.connect().await;
    assert_eq!(hello["after"], 2);
    assert_eq!(socket.frame().await, seen[2], "the same bytes, the same event_id");
    // The client may start at any position.
    socket.say(&json!({"type": "resume", "after": 1})).await;
    assert_eq!(socket.frame().await, json!({"type": "resume.ok", "after": 1, "last_seq": 3}));
    assert_eq!(socket.frame().await, seen[1]);
    assert_eq!(socket.frame().await, seen[2]);
    // An event that was not sent cannot be acknowledged.
    socket.say(&json!({"type": "ack", "seq": 4})).await;
    assert_eq!(socket.frame().await["code"], "BAD_REQUEST");
    // Another device has its own position and may start anywhere.
    let mut other = world.server.socket("human").await;
    other.say(&json!({"type": "auth", "token": phone.token, "after": 2})).await;
    assert_eq!(other.frame().await["after"], 2);
    assert_eq!(other.frame().await["seq"], 3);
    assert_eq!(phone.connect().await.1["after"], 0);
}

/// Waits for a ping and its answer; only notifications about changed devices may come between.
async fn pinged(socket: &mut A2hTestSocket) {
    loop {
        match socket.hear().await {
            // Frames are handled in order: after this response the ping was answered too.
            SocketMessage::Ping => socket.say(&json!({"type": "resume", "after": 1000})).await,
            SocketMessage::Frame(frame) if frame["type"] == "resume.ok" => return,
            SocketMessage::Frame(frame) => assert_eq!(frame["type"], "user.devices_changed"),
            SocketMessage::Closed(code) => panic!("the connection ended: {code}"),
        }
    }
}

/// Waits for the given number of pings, each of which is answered.
async fn live(world: &A2hTestServer, socket: &mut A2hTestSocket, pings: u32) {
    for _ in 0..pings {
        world.clock.pass(PING).await;
        pinged(socket).await;
    }
}

#[tokio::test]
async fn socket_is_warned_before_its_token_expires_and_closed_when_it_does() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let (mut socket, hello) = ada.connect().await;
    live(&world, &mut socket, 7).await;
    // After 240 seconds the token is valid for another minute.
    world.clock.pass(PING).await;
    let expiring = json!({"type": "auth.expiring", "expires_at": hello["expires_at"]});
    assert_eq!(socket.hear().await, SocketMessage::Frame(expiring));
    pinged(&mut socket).await;
    live(&world, &mut socket, 1).await;
    world.clock.pass(PING).await;
    let refused = socket.frame().await;
    assert_eq!((&refused["type"], &refused["reason"]), (&json!("auth.error"), &json!("expired")));
    assert_eq!(socket.closed().await, 4401);
}

#[tokio::test]
async fn token_can_be_renewed_on_an_open_socket() {
    let world = A2hTestServer::start().await;
    let mut ada = world.person("ada").await;
    let (mut socket, hello) = ada.connect().await;
    live(&world, &mut socket, 7).await;
    ada.refresh(world.clock.now()).await;
    socket.say(&json!({"type": "auth.renew", "access_token": ada.token})).await;
    let renewed = socket.frame().await;
    assert_eq!(renewed["type"], "auth.ok");
    assert_ne!(renewed["expires_at"], hello["expires_at"]);
    // The first token has expired; the renewed connection gets no notice of that.
    live(&world, &mut socket, 7).await;

    // A token of another person does not renew the connection.
    let bob = world.person("bob").await;
    socket.say(&json!({"type": "auth.renew", "access_token": bob.token})).await;
    assert_eq!(socket.frame().await["reason"], "invalid_token");
    assert_eq!(socket.closed().await, 4401);
}

#[tokio::test]
async fn socket_that_answers_no_ping_is_closed() {
    let world = A2hTestServer::start().await;
    let owner = world.person("owner").await;
    let (agent, token) = owner.make_agent(&agent_body(&seed())).await;
    // The client does not read, so it answers no ping.
    let mut silent = connect_agent(&world, &agent, &token).await;
    for _ in 0..3 {
        world.clock.pass(PING).await;
    }
    eventually("the socket is closed", async || (socket_gauge_after_close(&world).await == 0).then_some(())).await;
    assert_eq!(silent.closed().await, 4408);
}

async fn socket_gauge_after_close(world: &A2hTestServer) -> i64 {
    world.clock.advance(Duration::from_millis(100));
    socket_gauge(world).await
}

#[tokio::test]
async fn revoked_device_and_rotated_token_close_their_sockets() {
    let world = A2hTestServer::start().await;
    let laptop = world.person("ada").await;
    let phone = TestDevice::enrol(&world.server, &world.invite("ada").await).await;
    caught_up(&phone).await;
    caught_up(&laptop).await;
    let (mut lost, _) = phone.connect().await;
    let (mut kept, _) = laptop.connect().await;
    let path = format!("/users/me/devices/{}", phone.id);
    world.server.send(Method::DELETE, &path, Some(&laptop.token), None).await.data();
    // The connection is closed at once.
    assert_eq!(lost.frame().await, json!({"type": "session.invalidated", "reason": "device_revoked"}));
    assert_eq!(lost.closed().await, 4401);
    assert_eq!(kept.frame().await["type"], "user.devices_changed");

    let (agent, token) = laptop.make_agent(&agent_body(&seed())).await;
    let mut socket = connect_agent(&world, &agent, &token).await;
    let rotated = laptop.send(Method::POST, &format!("/agents/{agent}/token:rotate"), &json!({})).await;
    assert_eq!(rotated.status, 200);
    world.clock.pass(PING).await;
    assert_eq!(socket.frame().await, json!({"type": "session.invalidated", "reason": "token_revoked"}));
    assert_eq!(socket.closed().await, 4401);
}

#[tokio::test]
async fn newer_socket_of_a_device_closes_the_older_one() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let phone = TestDevice::enrol(&world.server, &world.invite("ada").await).await;
    let (mut other, _) = phone.connect().await;
    let (mut first, _) = ada.connect().await;
    let (mut second, hello) = ada.connect().await;
    assert_eq!(hello["type"], "auth.ok");
    assert_eq!(first.closed().await, 4409);
    // The newer connection and the other device stay connected.
    for socket in [&mut second, &mut other] {
        socket.say(&json!({"type": "resume", "after": 0})).await;
        loop {
            if socket.frame().await["type"] == "resume.ok" {
                break;
            }
        }
    }
}

#[tokio::test]
async fn stopping_server_closes_sockets_with_close_code_1001() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    caught_up(&ada).await;
    let (mut socket, _) = ada.connect().await;
    // The client closes the connection; the clock of the server's timeout stands still.
    let (_, code) = tokio::join!(world.gateway.stop(), async move { socket.closed().await });
    assert_eq!(code, 1001);
}

#[tokio::test]
async fn malformed_frame_is_answered_with_an_error_and_the_socket_stays_open() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    caught_up(&ada).await;
    let (mut socket, _) = ada.connect().await;
    for wrong in [
        json!({"type": "hello"}),
        json!({"type": "ack"}),
        json!({"type": "ack", "seq": -1}),
        json!({"type": "ack", "seq": 1, "more": 1}),
        json!({"type": "auth", "token": ada.token}),
        json!([]),
        Value::Null,
    ] {
        socket.say(&wrong).await;
        let answer = socket.frame().await;
        assert_eq!((&answer["type"], &answer["code"]), (&json!("error"), &json!("BAD_REQUEST")), "{wrong}");
    }
    socket.say(&json!({"type": "resume"})).await;
    assert_eq!(socket.frame().await["type"], "resume.ok");
}
