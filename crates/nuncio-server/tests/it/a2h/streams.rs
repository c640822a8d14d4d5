//! Streams over sockets as the relay handles them: permission, recipients, size and time limits. Their contents are
//! opaque bytes.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nuncio_engine::ports::Clock as _;
use nuncio_testkit::Method;
use nuncio_testkit::a2h::{A2hTestSocket, text};
use serde_json::{Value, json};

use super::relay::RelayConversationSetup;

fn sealed(text: &str) -> String {
    STANDARD.encode(text)
}

fn start(conversation: &str, stream: &str) -> Value {
    json!({"type": "stream.start", "conversation_id": conversation, "stream_id": stream,
        "encrypted_payload": sealed("{\"key\":1}")})
}

fn delta(stream: &str, seq: u64) -> Value {
    delta_of(stream, seq, &format!("piece {seq}"))
}

fn delta_of(stream: &str, seq: u64, text: &str) -> Value {
    json!({"type": "stream.delta", "stream_id": stream, "stream_seq": seq, "encrypted_payload": sealed(text)})
}

fn done(stream: &str, seq: u64, message: &str) -> Value {
    json!({"type": "stream.done", "stream_id": stream, "stream_seq": seq, "client_message_id": message,
        "encrypted_payload": sealed("end")})
}

fn abort(stream: &str) -> Value {
    json!({"type": "stream.abort", "stream_id": stream})
}

/// Error code of a frame that the relay refuses on an agent's connection.
async fn refusal(socket: &mut A2hTestSocket, frame: &Value) -> String {
    socket.say(frame).await;
    let error = socket.event("stream.error").await;
    assert_eq!(error["stream_id"], frame["stream_id"]);
    assert!(!error["message"].as_str().unwrap().is_empty() && error["i18n_key"].is_string(), "{error}");
    error["code"].as_str().unwrap().to_owned()
}

async fn settled(socket: &mut A2hTestSocket) {
    socket.say(&json!({"type": "resume"})).await;
    socket.event("resume.ok").await;
}

async fn news(socket: &mut A2hTestSocket) -> Value {
    loop {
        let frame = socket.frame().await;
        if frame["type"].as_str().unwrap().starts_with("stream.") {
            return frame;
        }
    }
}

async fn aborted(socket: &mut A2hTestSocket, stream: &str) -> String {
    let frame = news(socket).await;
    assert_eq!((&frame["type"], &frame["stream_id"]), (&json!("stream.abort"), &json!(stream)), "{frame}");
    frame["reason"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn stream_pieces_reach_every_device_in_order_before_the_message() {
    let scene = RelayConversationSetup::start().await;
    let conversation = &scene.conversation;
    let phone = scene.phone().await;
    let bob = scene.world.person("bob").await;
    let (mut one, _) = scene.ada.connect().await;
    let (mut two, _) = phone.connect().await;
    let (mut bobs, _) = bob.connect().await;
    let (mut agent, _) = scene.agent.connect().await;
    agent.say(&start(conversation, "s1")).await;
    for seq in 1..=5 {
        agent.say(&delta("s1", seq)).await;
    }
    agent.say(&done("s1", 6, "m1")).await;
    settled(&mut agent).await;
    scene.agent.post(conversation, &text("m1", json!({"n": 1}))).await.data();
    for socket in [&mut one, &mut two] {
        let begun = news(socket).await;
        assert_eq!(
            begun,
            json!({"type": "stream.start", "conversation_id": conversation, "stream_id": "s1",
                "sender_id": scene.agent.id, "sender_type": "agent", "encrypted_payload": sealed("{\"key\":1}"),
                "created_at": begun["created_at"]})
        );
        for seq in 1..=5 {
            let piece = sealed(&format!("piece {seq}"));
            let expected = json!({"type": "stream.delta", "conversation_id": conversation, "stream_id": "s1",
                "stream_seq": seq, "encrypted_payload": piece});
            assert_eq!(socket.frame().await, expected);
        }
        let expected = json!({"type": "stream.done", "conversation_id": conversation, "stream_id": "s1",
            "stream_seq": 6, "client_message_id": "m1", "encrypted_payload": sealed("end")});
        assert_eq!(socket.frame().await, expected);
        let message = socket.frame().await;
        assert_eq!((&message["type"], &message["client_message_id"]), (&json!("message.new"), &json!("m1")));
    }
    // No other member receives the stream, and nothing of it is stored.
    settled(&mut bobs).await;
    drop(one);
    let (mut again, hello) = scene.ada.connect().await;
    assert_eq!(hello["after"], 0);
    let mut kinds = Vec::new();
    while kinds.last() != Some(&json!("message.new")) {
        kinds.push(again.frame().await["type"].clone());
    }
    assert!(kinds.iter().all(|kind| !kind.as_str().unwrap().starts_with("stream.")), "{kinds:?}");
    assert_eq!(scene.messages().await.len(), 1);
}

#[tokio::test]
async fn device_that_connects_mid_stream_gets_only_the_final_message() {
    let scene = RelayConversationSetup::start().await;
    let (mut agent, _) = scene.agent.connect().await;
    agent.say(&start(&scene.conversation, "s1")).await;
    settled(&mut agent).await;
    let (mut ada, _) = scene.ada.connect().await;
    agent.say(&delta("s1", 1)).await;
    agent.say(&done("s1", 2, "m1")).await;
    settled(&mut agent).await;
    scene.agent.post(&scene.conversation, &text("m1", json!({"n": 1}))).await.data();
    loop {
        let frame = ada.frame().await;
        let kind = frame["type"].as_str().unwrap();
        assert!(!kind.starts_with("stream."), "{frame}");
        if kind == "message.new" {
            break;
        }
    }
}

#[tokio::test]
async fn only_the_agent_of_a_direct_conversation_can_stream() {
    let scene = RelayConversationSetup::start().await;
    let (mut ada, people) = scene.ada.connect().await;
    let (mut agent, agents) = scene.agent.connect().await;
    assert_eq!((&people["streams"], &agents["streams"]), (&Value::Null, &json!(true)));
    let conversation = &scene.conversation;
    // People cannot open streams.
    assert_eq!(refusal(&mut ada, &start(conversation, "s1")).await, "PERMISSION_DENIED");
    assert_eq!(refusal(&mut ada, &delta("s1", 1)).await, "PERMISSION_DENIED");
    // An agent that is no member of the conversation cannot open a stream either.
    let foreign = scene.another_agent().await;
    let (mut foreigner, _) = foreign.connect().await;
    assert_eq!(refusal(&mut foreigner, &start(conversation, "s1")).await, "CONVERSATION_NOT_FOUND");
    assert_eq!(refusal(&mut agent, &start("cnv_none", "s1")).await, "CONVERSATION_NOT_FOUND");
    // An agent cannot write to a stream of another agent.
    agent.say(&start(conversation, "s1")).await;
    settled(&mut agent).await;
    for frame in [delta("s1", 1), done("s1", 1, "m1"), abort("s1")] {
        assert_eq!(refusal(&mut foreigner, &frame).await, "STREAM_NOT_FOUND", "{frame}");
    }
    // Groups have no streams.
    let group = json!([scene.agent.member(), {"type": "human", "id": "owner"}]);
    let group = scene.ada.converse("group", group).await;
    assert_eq!(refusal(&mut agent, &start(&group, "g1")).await, "BAD_REQUEST");
    // Only the permitted stream arrived.
    agent.say(&delta("s1", 1)).await;
    let told = [news(&mut ada).await, news(&mut ada).await];
    assert_eq!((&told[0]["type"], &told[0]["sender_id"]), (&json!("stream.start"), &json!(scene.agent.id)));
    assert_eq!((&told[1]["type"], &told[1]["stream_seq"]), (&json!("stream.delta"), &json!(1)));
}

#[tokio::test]
async fn stream_ends_with_the_socket_of_its_agent_and_cannot_be_resumed() {
    let scene = RelayConversationSetup::start().await;
    let (mut ada, _) = scene.ada.connect().await;
    let (mut agent, _) = scene.agent.connect().await;
    agent.say(&start(&scene.conversation, "s1")).await;
    agent.say(&delta("s1", 1)).await;
    news(&mut ada).await;
    news(&mut ada).await;
    let (mut newer, _) = scene.agent.connect().await;
    assert_eq!(agent.closed().await, 4409);
    assert_eq!(aborted(&mut ada, "s1").await, "gone");
    assert_eq!(refusal(&mut newer, &delta("s1", 2)).await, "STREAM_NOT_FOUND");
    // A stream also ends if the agent disconnects or cancels it.
    newer.say(&start(&scene.conversation, "s2")).await;
    newer.say(&start(&scene.conversation, "s3")).await;
    newer.say(&abort("s2")).await;
    assert_eq!(news(&mut ada).await["stream_id"], "s2");
    assert_eq!(news(&mut ada).await["stream_id"], "s3");
    assert_eq!(aborted(&mut ada, "s2").await, "sender");
    drop(newer);
    assert_eq!(aborted(&mut ada, "s3").await, "gone");
}

#[tokio::test]
async fn idle_or_overlong_stream_is_ended() {
    let mut scene = RelayConversationSetup::start().await;
    let (mut ada, _) = scene.ada.connect().await;
    let (mut agent, _) = scene.agent.connect().await;
    let clock = scene.world.clock.clone();
    agent.say(&start(&scene.conversation, "s1")).await;
    news(&mut ada).await;
    clock.pass(Duration::from_secs(30)).await;
    assert_eq!(aborted(&mut ada, "s1").await, "silent");
    let error = agent.event("stream.error").await;
    assert_eq!((&error["stream_id"], &error["code"]), (&json!("s1"), &json!("STREAM_NOT_FOUND")));
    // A piece within the time limit keeps the stream open, for five minutes in all.
    agent.say(&start(&scene.conversation, "s2")).await;
    news(&mut ada).await;
    for seq in 1..=15 {
        clock.advance(Duration::from_secs(19));
        agent.say(&delta("s2", seq)).await;
        settled(&mut agent).await;
        assert_eq!(renewing(&mut ada, &mut scene).await["stream_seq"], seq);
    }
    clock.advance(Duration::from_secs(15));
    assert_eq!(aborted(&mut ada, "s2").await, "too_long");
    assert_eq!(agent.event("stream.error").await["stream_id"], "s2");
}

/// The next frame of a stream, renewing tokens that expire meanwhile.
async fn renewing(ada: &mut A2hTestSocket, scene: &mut RelayConversationSetup) -> Value {
    loop {
        let frame = ada.frame().await;
        match frame["type"].as_str().unwrap() {
            "auth.expiring" => {
                scene.ada.refresh(scene.world.clock.now()).await;
                ada.say(&json!({"type": "auth.renew", "access_token": scene.ada.token})).await;
            }
            kind if kind.starts_with("stream.") => return frame,
            _ => {}
        }
    }
}

#[tokio::test]
async fn oversized_too_fast_or_misordered_pieces_end_the_stream() {
    let scene = RelayConversationSetup::start().await;
    let (mut ada, _) = scene.ada.connect().await;
    let (mut agent, _) = scene.agent.connect().await;
    let conversation = &scene.conversation;
    let large = "x".repeat(4113);
    for (number, (frame, code, reason)) in [
        (delta("s", 2), "BAD_REQUEST", "refused"),
        (delta("s", 0), "BAD_REQUEST", "refused"),
        (delta_of("s", 1, ""), "BAD_REQUEST", "refused"),
        (delta_of("s", 1, &large), "BODY_TOO_LARGE", "refused"),
        (done("s", 3, "m1"), "BAD_REQUEST", "refused"),
    ]
    .into_iter()
    .enumerate()
    {
        let stream = format!("s{number}");
        agent.say(&start(conversation, &stream)).await;
        assert_eq!(news(&mut ada).await["type"], "stream.start");
        let mut frame = frame;
        frame["stream_id"] = json!(stream);
        assert_eq!(refusal(&mut agent, &frame).await, code, "{frame}");
        assert_eq!(aborted(&mut ada, &stream).await, reason);
        frame["stream_seq"] = json!(1);
        assert_eq!(refusal(&mut agent, &frame).await, "STREAM_NOT_FOUND");
    }
    // A piece of the maximum size is relayed.
    agent.say(&start(conversation, "big")).await;
    agent.say(&delta_of("big", 1, &large[1..])).await;
    assert_eq!(news(&mut ada).await["type"], "stream.start");
    assert_eq!(news(&mut ada).await["stream_seq"], 1);
    agent.say(&abort("big")).await;
    aborted(&mut ada, "big").await;
    // The number of pieces per second is limited; the clock stands still here.
    agent.say(&start(conversation, "fast")).await;
    for seq in 1..=60 {
        agent.say(&delta("fast", seq)).await;
    }
    assert_eq!(refusal(&mut agent, &delta("fast", 61)).await, "RATE_LIMITED");
    assert_eq!(news(&mut ada).await["type"], "stream.start");
    for seq in 1..=60 {
        assert_eq!(news(&mut ada).await["stream_seq"], seq);
    }
    assert_eq!(aborted(&mut ada, "fast").await, "too_fast");
    // The opening frame has a size limit and needs a new stream id.
    let mut begin = start(conversation, "again");
    begin["encrypted_payload"] = json!(sealed(&"x".repeat(11 * 1024 + 1)));
    assert_eq!(refusal(&mut agent, &begin).await, "BODY_TOO_LARGE");
    agent.say(&start(conversation, "again")).await;
    assert_eq!(refusal(&mut agent, &start(conversation, "again")).await, "MESSAGE_CLASH");
    // The number of concurrent streams is limited.
    for number in 1..4 {
        agent.say(&start(conversation, &format!("m{number}"))).await;
    }
    assert_eq!(refusal(&mut agent, &start(conversation, "m4")).await, "LIMIT_REACHED");
    agent.say(&done("m1", 1, "x1")).await;
    agent.say(&start(conversation, "m4")).await;
    settled(&mut agent).await;
    // Malformed frames are answered with an error.
    agent.say(&json!({"type": "stream.start", "conversation_id": conversation})).await;
    assert_eq!(agent.event("error").await["code"], "BAD_REQUEST");
}

#[tokio::test]
async fn stream_pieces_do_not_count_against_the_frame_limit() {
    let scene = RelayConversationSetup::start().await;
    let (mut agent, _) = scene.agent.connect().await;
    for number in 0..12 {
        let stream = format!("s{number}");
        agent.say(&start(&scene.conversation, &stream)).await;
        for seq in 1..=59 {
            agent.say(&delta(&stream, seq)).await;
        }
        agent.say(&done(&stream, 60, "m1")).await;
    }
    settled(&mut agent).await;
    for _ in 0..300 {
        agent.say(&delta("none", 1)).await;
    }
    assert_eq!(agent.closed().await, 4429);
}

#[tokio::test]
async fn agent_whose_relation_was_revoked_cannot_stream_to_the_person() {
    let scene = RelayConversationSetup::start().await;
    let (mut ada, _) = scene.ada.connect().await;
    let (mut agent, _) = scene.agent.connect().await;
    agent.say(&start(&scene.conversation, "s1")).await;
    agent.say(&delta("s1", 1)).await;
    news(&mut ada).await;
    news(&mut ada).await;
    let relation = format!("/h2a/relations/{}", scene.relation);
    scene.ada.consent(Method::DELETE, &relation, json!({})).await.data();
    assert_eq!(refusal(&mut agent, &start(&scene.conversation, "s2")).await, "RELATION_REQUIRED");
    scene.world.clock.advance(Duration::from_secs(10));
    assert_eq!(refusal(&mut agent, &delta("s1", 2)).await, "RELATION_REQUIRED");
    assert_eq!(aborted(&mut ada, "s1").await, "refused");
}

#[tokio::test]
async fn streams_to_a_slowly_reading_socket_are_aborted_and_its_messages_still_arrive() {
    let scene = RelayConversationSetup::start().await;
    let phone = scene.phone().await;
    let (mut slow, _) = scene.ada.connect().await;
    let (mut quick, _) = phone.connect().await;
    let piece = "x".repeat(4096);
    // Eight agents stream more than the queue of a device holds.
    let mut agents = Vec::new();
    for number in 0..8 {
        let agent = scene.another_agent().await;
        let conversation = scene.ada.converse("h2a", json!([agent.member()])).await;
        let (mut socket, _) = agent.connect().await;
        let streams: Vec<_> = (0..4).map(|stream| format!("s{number}_{stream}")).collect();
        for stream in &streams {
            socket.say(&start(&conversation, stream)).await;
            assert_eq!(news(&mut quick).await["type"], "stream.start");
        }
        agents.push((socket, streams));
    }
    for seq in 1..=59 {
        for (socket, streams) in &mut agents {
            for stream in streams {
                socket.say(&delta_of(stream, seq, &piece)).await;
                let told = news(&mut quick).await;
                assert_eq!((&told["stream_id"], &told["stream_seq"]), (&json!(stream), &json!(seq)));
            }
        }
    }
    scene.agent.post(&scene.conversation, &text("m1", json!({"n": 1}))).await.data();
    // A device that reads again gets the queued pieces, the ids of lost streams, and every message.
    let (mut lost, mut heard) = (Vec::new(), 0);
    loop {
        let frame = slow.frame().await;
        match frame["type"].as_str().unwrap() {
            "stream.abort" => lost.push(frame),
            "stream.delta" => heard += 1,
            "message.new" => break,
            _ => {}
        }
    }
    assert!(!lost.is_empty(), "{heard} pieces were received");
    assert!(lost.iter().all(|frame| frame["reason"] == "slow"), "{lost:?}");
    assert!(heard < 32 * 59, "{heard}");
    // The device also gets streams that begin afterwards.
    let (mut agent, _) = scene.agent.connect().await;
    agent.say(&start(&scene.conversation, "new")).await;
    loop {
        if news(&mut slow).await["stream_id"] == "new" {
            break;
        }
    }
}
