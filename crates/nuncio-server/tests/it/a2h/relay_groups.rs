//! Groups: joining, leaving, and which messages each member can read.

use futures_util::future::join_all;
use nuncio_testkit::Method;
use nuncio_testkit::a2h::{TestDevice, artifact, text};
use serde_json::{Value, json};

use super::relay::{RelayConversationSetup, path};

fn members(data: &Value) -> Vec<&str> {
    data["members"].as_array().unwrap().iter().map(|member| member["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn any_member_adds_others_and_only_the_creator_removes_them() {
    let scene = RelayConversationSetup::start().await;
    let (ada, agent) = (&scene.ada, &scene.agent);
    let (bob, carol) = (scene.world.person("bob").await, scene.world.person("carol").await);
    let group = ada.converse("group", json!([TestDevice::member("bob"), agent.member()])).await;
    let here = path(&group);
    let there = format!("{here}/messages");
    assert_eq!(members(bob.get(&here).await.data()), ["ada", "bob", &agent.id]);
    ada.post(&group, &text("m1", json!({"n": 1}))).await.data();
    // Tool calls are relayed without being interpreted.
    agent.post(&group, &artifact("m2", "artifact_tool_call", json!({"n": 2}))).await.data();

    let missing = (404, "CONVERSATION_NOT_FOUND");
    assert_eq!(carol.get(&there).await.refusal(), missing);
    let (mut carols, hello) = carol.connect().await;
    assert_eq!(hello["type"], "auth.ok");
    // Any member can add others.
    let patch = |add: Value, remove: Value| json!({"add": add, "remove": remove});
    let added = bob.send(Method::PATCH, &here, &patch(json!([TestDevice::member("carol")]), json!([]))).await;
    assert_eq!(members(added.data()), ["ada", "bob", "carol", &agent.id]);
    assert_eq!(carols.event("conversation.updated").await["conversation_id"], json!(group));
    ada.post(&group, &text("m3", json!({"n": 3}))).await.data();
    let told = carols.event("message.new").await;
    assert_eq!((&told["conversation_id"], &told["conversation_seq"]), (&json!(group), &json!(3)));
    // A new member can fetch earlier messages, but not open them.
    assert_eq!(carol.get(&there).await.data().as_array().unwrap().len(), 3);

    // Only the creator can remove members.
    let out = patch(json!([]), json!([TestDevice::member("bob")]));
    assert_eq!(carol.send(Method::PATCH, &here, &out).await.refusal(), (403, "PERMISSION_DENIED"));
    let (mut bobs, _) = bob.connect().await;
    assert_eq!(members(ada.send(Method::PATCH, &here, &out).await.data()), ["ada", "carol", &agent.id]);
    while bobs.event("conversation.updated").await["conversation_id"] != json!(group) {}
    assert_eq!(bob.get(&there).await.refusal(), missing);
    assert_eq!(bob.post(&group, &text("m4", json!({}))).await.refusal(), missing);
    assert!(bob.get("/conversations").await.data().as_array().unwrap().is_empty());
    ada.post(&group, &text("m5", json!({"n": 5}))).await.data();
    assert_eq!(carols.event("message.new").await["conversation_seq"], 4);
    // Bob gets no event about it: his next event is a message of another conversation.
    let alone = ada.converse("h2h", json!([TestDevice::member("bob")])).await;
    ada.post(&alone, &text("m6", json!({}))).await.data();
    let (mut fresh, _) = bob.connect().await;
    let mut heard = Vec::new();
    loop {
        let message = fresh.event("message.new").await;
        heard.push((message["conversation_id"].clone(), message["conversation_seq"].clone()));
        if heard.last().unwrap().0 == json!(alone) {
            break;
        }
    }
    let group_ = json!(group);
    let seqs: Vec<_> = heard.iter().filter(|(id, _)| *id == group_).map(|(_, seq)| seq.clone()).collect();
    assert_eq!(seqs, [1, 2, 3]);
}

#[tokio::test]
async fn member_can_leave_a_group_but_not_a_conversation_of_two() {
    let scene = RelayConversationSetup::start().await;
    let bob = scene.world.person("bob").await;
    let group = scene.ada.converse("group", json!([TestDevice::member("bob")])).await;
    let here = path(&group);
    let leave = async |token: &str| scene.world.server.send(Method::DELETE, &here, Some(token), None).await;
    let remove = json!({"remove": [TestDevice::member("bob")]});
    assert_eq!(bob.send(Method::PATCH, &here, &remove).await.refusal(), (400, "BAD_REQUEST"), "DELETE does that");
    assert_eq!(leave(&scene.ada.token).await.data(), &json!({"id": group}));
    assert_eq!(scene.ada.get(&here).await.refusal(), (404, "CONVERSATION_NOT_FOUND"));
    assert_eq!(members(bob.get(&here).await.data()), ["bob"]);
    assert_eq!(leave(&scene.ada.token).await.refusal(), (404, "CONVERSATION_NOT_FOUND"));
    assert_eq!(leave(&bob.token).await.status, 200);
    // A member cannot leave a conversation of two.
    let alone = path(&scene.conversation);
    let stays = scene.world.server.send(Method::DELETE, &alone, Some(&scene.ada.token), None).await;
    assert_eq!(stays.refusal(), (400, "BAD_REQUEST"));
    assert_eq!(scene.ada.get(&alone).await.status, 200);
}

#[tokio::test]
async fn group_has_at_most_five_hundred_members() {
    let scene = RelayConversationSetup::start().await;
    let names: Vec<String> = (0..500).map(|number| format!("p{number}")).collect();
    for some in names.chunks(50) {
        join_all(some.iter().map(|name| scene.world.invite(name))).await;
    }
    let all: Vec<_> = names.iter().map(|name| TestDevice::member(name)).collect();
    let body = json!({"type": "group", "with": all});
    let refused = scene.ada.send(Method::POST, "/conversations", &body).await;
    assert_eq!(refused.refusal(), (400, "BAD_REQUEST"));
    let body = json!({"type": "group", "with": &all[..499]});
    let made = scene.ada.send(Method::POST, "/conversations", &body).await;
    let id = made.data()["id"].as_str().unwrap().to_owned();
    assert_eq!(made.data()["members"].as_array().unwrap().len(), 500);
    let (first, last) = (&all[0], &all[499]);
    let one_more = json!({"add": [last]});
    assert_eq!(scene.ada.send(Method::PATCH, &path(&id), &one_more).await.refusal(), (400, "BAD_REQUEST"));
    let instead = json!({"add": [last], "remove": [first]});
    let changed = scene.ada.send(Method::PATCH, &path(&id), &instead).await;
    assert_eq!(changed.data()["members"].as_array().unwrap().len(), 500);
    scene.ada.post(&id, &text("m1", json!({}))).await.data();
}

#[tokio::test]
async fn group_messages_are_numbered_without_gaps_while_membership_changes() {
    let scene = RelayConversationSetup::start().await;
    let bob = scene.world.person("bob").await;
    let group = scene.ada.converse("group", json!([scene.agent.member()])).await;
    let here = path(&group);
    let writing = join_all((0..30).map(|number| {
        let (scene, group, sent) = (&scene, &group, text(&format!("m{number}"), json!({"n": number})));
        async move { scene.agent.post(group, &sent).await.status }
    }));
    let changing = async {
        for _ in 0..10 {
            for body in [json!({"add": [TestDevice::member("bob")]}), json!({"remove": [TestDevice::member("bob")]})] {
                scene.ada.send(Method::PATCH, &here, &body).await.data();
            }
        }
        scene.ada.send(Method::PATCH, &here, &json!({"add": [TestDevice::member("bob")]})).await.data().clone()
    };
    let (written, changed) = futures_util::future::join(writing, changing).await;
    assert!(written.iter().all(|status| *status == 201), "{written:?}");
    assert_eq!(members(&changed), ["ada", "bob", &scene.agent.id]);
    let there = bob.get(&format!("{here}/messages?limit=50")).await;
    let seqs: Vec<_> =
        there.data().as_array().unwrap().iter().map(|message| message["conversation_seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=30).collect::<Vec<u64>>());
}
