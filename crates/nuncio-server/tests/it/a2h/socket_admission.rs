//! Unauthenticated and malformed input on the sockets: each is refused and changes nothing.

use std::time::Duration;

use nuncio_testkit::a2h::tungstenite::Message;
use nuncio_testkit::a2h::{A2hTestSocket, TestDevice};
use nuncio_testkit::eventually;
use serde_json::json;

use super::{A2hTestServer, agent_body, seed};

async fn first(world: &A2hTestServer, path: &str, message: Message) -> (Option<String>, u16) {
    let mut socket = world.server.socket(path).await;
    socket.send(message).await;
    let mut reason = None;
    loop {
        match socket.hear().await {
            nuncio_testkit::a2h::SocketMessage::Frame(frame) => {
                assert_eq!(frame["type"], "auth.error");
                reason = frame["reason"].as_str().map(str::to_owned);
            }
            nuncio_testkit::a2h::SocketMessage::Ping => {}
            nuncio_testkit::a2h::SocketMessage::Closed(code) => return (reason, code),
        }
    }
}

#[tokio::test]
async fn socket_without_a_valid_first_auth_frame_is_closed() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let (agent, token) = ada.make_agent(&agent_body(&seed())).await;
    let (other, _) = ada.make_agent(&agent_body(&seed())).await;
    let text = |value: serde_json::Value| Message::text(value.to_string());
    let auth = |token: &str| text(json!({"type": "auth", "token": token}));
    let malformed = (Some("malformed".to_owned()), 4401);
    let invalid = (Some("invalid_token".to_owned()), 4401);
    let wrong = (Some("wrong_agent".to_owned()), 4401);
    assert_eq!(first(&world, "human", text(json!({"type": "ack", "seq": 1}))).await, malformed);
    assert_eq!(first(&world, "human", Message::text("not json")).await, malformed);
    let twice = format!("{{\"type\":\"auth\",\"token\":\"x\",\"token\":\"{}\"}}", ada.token);
    assert_eq!(first(&world, "human", Message::text(twice)).await, malformed);
    assert_eq!(first(&world, "human", auth("x")).await, invalid);
    assert_eq!(first(&world, "human", auth(&format!("{}x", ada.token))).await, invalid);
    assert_eq!(first(&world, "human", auth(&"e".repeat(8000))).await, invalid);
    // An API key does not authenticate a device.
    assert_eq!(first(&world, "human", auth(&world.gateway.key(&[]).await.secret)).await, invalid);
    assert_eq!(first(&world, "human", auth(&token)).await, wrong, "an agent's token on the socket for people");
    assert_eq!(first(&world, "agent", auth(&ada.token)).await, wrong, "a person's token on the socket for agents");
    let named = text(json!({"type": "auth", "token": token, "agent_id": other}));
    assert_eq!(first(&world, "agent", named.clone()).await, wrong);
    assert_eq!(first(&world, &format!("agent?agent_id={agent}"), named).await, wrong);
    assert_eq!(first(&world, &format!("agent?agent_id={other}"), auth(&token)).await, wrong);
    // A binary frame, and one that is too large.
    assert_eq!(first(&world, "human", Message::binary(vec![0; 10])).await, (None, 1003));
    assert_eq!(first(&world, "human", Message::text("x".repeat(100_000))).await, (None, 1009));
}

#[tokio::test]
async fn socket_without_auth_frame_is_closed_after_five_seconds() {
    let world = A2hTestServer::start().await;
    let mut socket = world.server.socket("human").await;
    // Pings do not authenticate a connection.
    socket.send(Message::Ping(vec![1].into())).await;
    world.clock.pass(Duration::from_secs(5)).await;
    assert_eq!(socket.closed().await, 4408);
}

#[tokio::test]
async fn too_many_frames_or_an_oversized_frame_close_the_socket() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let (mut socket, _) = ada.connect().await;
    for _ in 0..400 {
        socket.say(&json!({"type": "ack", "seq": 0})).await;
    }
    assert_eq!(socket.closed().await, 4429);
    let (mut socket, _) = ada.connect().await;
    socket.send(Message::text("x".repeat(100_000))).await;
    assert_eq!(socket.closed().await, 1009);
}

#[tokio::test]
async fn sockets_beyond_the_connection_limit_are_refused() {
    let world = A2hTestServer::with(|builder| builder.settings(|settings| settings.limits.connections = 8)).await;
    let url = format!("{}/a2h/ws/human", world.server.url());
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(A2hTestSocket::open(&url).await);
    }
    // The ninth connection is beyond the limit, for probes and operators only.
    assert_eq!(A2hTestSocket::try_open(&url, &[]).await.unwrap_err(), 503);
    drop(open);
    // A closed connection frees its slot.
    eventually("there is room again", async || A2hTestSocket::try_open(&url, &[]).await.ok()).await;
}

#[tokio::test]
async fn foreign_origin_cannot_open_a_socket_on_an_open_server() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let url = format!("{}/a2h/ws/human", world.server.url());
    let foreign = [("origin", "https://evil.example")];
    assert_eq!(A2hTestSocket::try_open(&url, &foreign).await.unwrap_err(), 403);
    let rebound = [("host", "evil.example")];
    assert_eq!(A2hTestSocket::try_open(&url, &rebound).await.unwrap_err(), 403);
    // On a server with keys, a page can open a socket but has no token to authenticate it.
    world.gateway.key(&[]).await;
    let mut socket = A2hTestSocket::try_open(&url, &foreign).await.unwrap();
    socket.say(&json!({"type": "auth", "token": ada.token})).await;
    assert_eq!(socket.frame().await["type"], "auth.ok");
}

#[tokio::test]
async fn request_without_websocket_upgrade_is_refused() {
    let world = A2hTestServer::start().await;
    for path in ["/ws/human", "/ws/agent?agent_id=agt_1"] {
        let answer = world.server.send(nuncio_testkit::Method::GET, path, None, None).await;
        assert_eq!(answer.refusal(), (400, "BAD_REQUEST"), "{path}");
    }
    let answer = world.server.send(nuncio_testkit::Method::GET, "/nothing", None, None).await;
    assert_eq!(answer.refusal(), (404, "NOT_FOUND"));
    let answer = world.server.send(nuncio_testkit::Method::PUT, "/agents", None, Some(&json!({}))).await;
    assert_eq!(answer.refusal(), (405, "METHOD_NOT_ALLOWED"));
    assert_eq!(answer.headers["allow"], "GET,HEAD,POST");
}

#[tokio::test]
async fn oversized_or_deeply_nested_a2h_bodies_are_refused() {
    let world = A2hTestServer::start().await;
    let ada: TestDevice = world.person("ada").await;
    let body = json!({"agent_id": "agt_1", "granted_scopes": ["x".repeat(300_000)]});
    let refused = ada.send(nuncio_testkit::Method::POST, "/h2a/relations", &body).await;
    assert_eq!(refused.refusal(), (413, "BODY_TOO_LARGE"));
    let deep = format!("{{\"granted_scopes\": {}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    let method = nuncio_testkit::Method::POST;
    let refused = world.server.send_text(method, "/h2a/relations", Some(&ada.token), Some(deep), &[]).await.unwrap();
    assert_eq!(refused.refusal(), (400, "BAD_JSON"));
}
