//! Conversations and sealed messages over HTTP: accepted once, numbered without gaps, visible to members only.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures_util::future::join_all;
use nuncio_testkit::a2h::{A2hResponse, AnonymousA2hClient, ExternalAgent, TestDevice, artifact, text};
use nuncio_testkit::{Gateway, Method};
use serde_json::{Value, json};

use super::{A2hTestServer, agent_body, seed};
use crate::agents::{DESK, desk};

/// The person `ada`, an agent that she has a relation with, and their conversation.
pub(super) struct RelayConversationSetup {
    pub(super) world: A2hTestServer,
    pub(super) owner: TestDevice,
    pub(super) ada: TestDevice,
    pub(super) agent: ExternalAgent,
    pub(super) relation: String,
    pub(super) conversation: String,
}

impl RelayConversationSetup {
    pub(super) async fn start() -> Self {
        let world = A2hTestServer::start().await;
        let owner = world.person("owner").await;
        let ada = world.person("ada").await;
        let agent = ExternalAgent::new(&world.server, owner.make_agent(&agent_body(&seed())).await);
        let relation = ada.allow(&agent.id, json!(["filesystem:read"])).await["id"].as_str().unwrap().to_owned();
        let conversation = ada.converse("h2a", json!([agent.member()])).await;
        Self { world, owner, ada, agent, relation, conversation }
    }

    /// Another agent that the person `ada` has a relation with.
    pub(super) async fn another_agent(&self) -> ExternalAgent {
        let agent = ExternalAgent::new(&self.world.server, self.owner.make_agent(&agent_body(&seed())).await);
        self.ada.allow(&agent.id, json!(["filesystem:read"])).await;
        agent
    }

    /// The second device of the person `ada`.
    pub(super) async fn phone(&self) -> TestDevice {
        TestDevice::enrol(&self.world.server, &self.world.invite("ada").await).await
    }

    /// All messages of the conversation, page by page.
    pub(super) async fn messages(&self) -> Vec<Value> {
        let (mut all, mut after) = (Vec::new(), "0".to_owned());
        loop {
            let path = format!("/conversations/{}/messages?limit=50&after_seq={after}", self.conversation);
            let answer = self.ada.get(&path).await;
            all.extend(answer.data().as_array().unwrap().iter().cloned());
            match answer.body["next_cursor"].as_str() {
                Some(next) => after = next.to_owned(),
                None => return all,
            }
        }
    }
}

pub(super) fn path(conversation: &str) -> String {
    format!("/conversations/{conversation}")
}

#[tokio::test]
async fn two_parties_share_one_conversation_even_if_both_open_it_concurrently() {
    let scene = RelayConversationSetup::start().await;
    let (ada, agent) = (&scene.ada, &scene.agent);
    let body = json!({"type": "h2a", "with": [TestDevice::member("ada")]});
    let found = agent.send(Method::POST, "/conversations", &body).await;
    assert_eq!((found.status, &found.data()["id"]), (200, &json!(scene.conversation)));
    let shown = ada.get(&path(&scene.conversation)).await.data().clone();
    assert_eq!(
        shown,
        json!({
            "id": scene.conversation, "type": "h2a",
            "members": [TestDevice::member("ada"), agent.member()],
            "created_by": TestDevice::member("ada"), "created_at": shown["created_at"],
            "last_seq": 0, "read_seq": 0,
        })
    );
    let bob = scene.world.person("bob").await;
    let new =
        bob.send(Method::POST, "/conversations", &json!({"type": "h2h", "with": [TestDevice::member("ada")]})).await;
    assert_eq!(new.status, 201);
    assert_eq!(new.headers["location"], format!("/a2h{}", path(new.data()["id"].as_str().unwrap())));
    // Both sides open the conversation concurrently, many times.
    let (carol, dan) = (scene.world.person("carol").await, scene.world.person("dan").await);
    let begin = async |who: &TestDevice, whom: &str| {
        let body = json!({"type": "h2h", "with": [TestDevice::member(whom)]});
        let answer = who.send(Method::POST, "/conversations", &body).await;
        (answer.status, answer.data()["id"].clone())
    };
    let begun = join_all((0..20).map(|number| {
        let (carol, dan, begin) = (&carol, &dan, &begin);
        async move { if number % 2 == 0 { begin(carol, "dan").await } else { begin(dan, "carol").await } }
    }))
    .await;
    assert_eq!(begun.iter().filter(|(status, _)| *status == 201).count(), 1);
    assert!(begun.iter().all(|(_, id)| *id == begun[0].1), "{begun:?}");
    // Lists are sorted by id and paged.
    let first = ada.get("/conversations?limit=1").await;
    assert_eq!(first.data().as_array().unwrap().len(), 1);
    let cursor = first.body["next_cursor"].as_str().unwrap();
    let second = ada.get(&format!("/conversations?limit=1&cursor={cursor}")).await;
    assert_eq!(second.body["next_cursor"], Value::Null);
    let ids: Vec<_> = [&first, &second].iter().map(|page| page.data()[0]["id"].clone()).collect();
    let mut expected = [json!(scene.conversation), new.data()["id"].clone()];
    expected.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn conversation_with_invalid_members_or_without_a_relation_is_refused() {
    let scene = RelayConversationSetup::start().await;
    let ada = &scene.ada;
    scene.world.person("bob").await;
    let foreign = scene.owner.make_agent(&agent_body(&seed())).await.0;
    let agent = |id: &str| json!({"type": "agent", "id": id});
    let [ada_, bob, nobody] = ["ada", "bob", "nobody"].map(TestDevice::member);
    let bad = (400, "BAD_REQUEST");
    for (body, refusal) in [
        (json!({"type": "h2a", "with": [bob]}), bad),
        (json!({"type": "h2h", "with": [scene.agent.member()]}), bad),
        (json!({"type": "h2h", "with": [ada_]}), bad),
        (json!({"type": "h2h", "with": []}), bad),
        (json!({"type": "h2a", "with": [bob, scene.agent.member()]}), bad),
        (json!({"type": "group", "with": []}), bad),
        (json!({"type": "a2a", "with": [bob]}), bad),
        (json!({"type": "h2h", "with": ["bob"]}), bad),
        (json!({"type": "h2h"}), bad),
        (json!({"type": "h2h", "with": [bob], "title": "x"}), bad),
        (json!([]), bad),
        (json!({"type": "h2h", "with": [nobody]}), (404, "PERSON_NOT_FOUND")),
        (json!({"type": "h2a", "with": [agent("agt_none")]}), (404, "UNKNOWN_AGENT")),
        (json!({"type": "h2a", "with": [agent(&foreign)]}), (403, "RELATION_REQUIRED")),
        (json!({"type": "group", "with": [bob, agent(&foreign)]}), (403, "RELATION_REQUIRED")),
    ] {
        let refused = ada.send(Method::POST, "/conversations", &body).await;
        assert_eq!(refused.refusal(), refusal, "{body}");
    }
    // An agent can talk only with people who have a relation with it.
    let cold = json!({"type": "h2a", "with": [TestDevice::member("bob")]});
    let refused = scene.agent.send(Method::POST, "/conversations", &cold).await;
    assert_eq!(refused.refusal(), (403, "RELATION_REQUIRED"));
    // Anonymous callers and API keys have no conversations.
    let key = scene.world.gateway.key(&[]).await.secret;
    for token in [None, Some(key.as_str())] {
        let refused = scene.world.server.send(Method::GET, "/conversations", token, None).await;
        assert_eq!(refused.refusal(), (401, "UNAUTHORIZED"));
    }
    assert_eq!(ada.get("/conversations").await.data().as_array().unwrap().len(), 1, "no conversation was created");
}

#[tokio::test]
async fn conversation_is_not_found_for_non_members() {
    let scene = RelayConversationSetup::start().await;
    let bob = scene.world.person("bob").await;
    let other = scene.another_agent().await;
    let here = path(&scene.conversation);
    let sent = scene.ada.post(&scene.conversation, &text("m1", json!({"ct": "x"}))).await;
    let call = scene.agent.post(&scene.conversation, &artifact("m1", "artifact_tool_call", json!({}))).await;
    let claim = format!("/messages/{}/claim", call.data()["message_id"].as_str().unwrap());
    let missing = (404, "CONVERSATION_NOT_FOUND");
    for (method, path, body) in [
        (Method::GET, here.clone(), None),
        (Method::PATCH, here.clone(), Some(json!({"read_seq": 1}))),
        (Method::PATCH, here.clone(), Some(json!({"add": [TestDevice::member("bob")]}))),
        (Method::DELETE, here.clone(), None),
        (Method::GET, format!("{here}/messages"), None),
        (Method::POST, format!("{here}/messages"), Some(text("m9", json!({})))),
        (Method::GET, format!("/keys/groups/{}", scene.conversation), None),
        (Method::GET, "/conversations/cnv_none".to_owned(), None),
        (Method::GET, "/conversations/a%2Fb".to_owned(), None),
        (Method::GET, "/conversations/%ff".to_owned(), None),
    ] {
        for token in [&bob.token, &other.token] {
            let refused = scene.world.server.send(method.clone(), &path, Some(token), body.as_ref()).await;
            assert_eq!(refused.refusal(), missing, "{method} {path}");
        }
    }
    assert_eq!(bob.send(Method::POST, &claim, &json!({})).await.refusal(), (404, "MESSAGE_NOT_FOUND"));
    assert_eq!(bob.get("/conversations").await.data(), &json!([]));
    assert_eq!(scene.messages().await.len(), 2);
    assert_eq!(sent.status, 201);
}

/// A2H §3: both messages are relayed as sealed bytes, with their subtype in clear.
#[tokio::test]
async fn sealed_example_messages_of_the_specification_are_relayed_unchanged() {
    let scene = RelayConversationSetup::start().await;
    let call = br#"{"type":"artifact","artifact":{"subtype":"tool_call","call_id":"call_abc123","tool_name":"read_file","arguments":{"path":"/Users/alice/notes.md"},"permission_scope":"filesystem:read","timeout_ms":5000}}"#;
    let answer = br#"{"type":"artifact","artifact":{"subtype":"tool_response","call_id":"call_abc123","status":"ok","result":{"content":"...file content..."}}}"#;
    // The relay treats the sealed content as opaque bytes.
    let seal = |bytes: &[u8]| bytes.iter().map(|byte| byte ^ 0xa5).collect::<Vec<u8>>();
    let sent = artifact("call-1", "artifact_tool_call", json!(STANDARD.encode(seal(call))));
    let receipt = scene.agent.post(&scene.conversation, &sent).await.data().clone();
    let name = scene.conversation.strip_prefix("cnv_").unwrap();
    assert_eq!(
        receipt,
        json!({
            "message_id": format!("msg_{name}-1"), "conversation_id": scene.conversation, "conversation_seq": 1,
            "client_message_id": "call-1", "created_at": receipt["created_at"],
        })
    );
    let sent = artifact("answer-1", "artifact_response", json!(URL_SAFE_NO_PAD.encode(seal(answer))));
    scene.ada.post(&scene.conversation, &sent).await.data();
    let there = scene.messages().await;
    assert_eq!(
        there[0],
        json!({
            "conversation_id": scene.conversation, "message_id": receipt["message_id"],
            "client_message_id": "call-1", "sender_id": scene.agent.id, "sender_type": "agent",
            "content_type": "artifact", "msg_subtype": "artifact_tool_call",
            "encrypted_payload": STANDARD.encode(seal(call)), "conversation_seq": 1,
            "created_at": receipt["created_at"],
        })
    );
    let second = &there[1];
    assert_eq!(
        (&second["sender_id"], &second["sender_type"], &second["sender_device_id"]),
        (&json!("ada"), &json!("human"), &json!(scene.ada.id))
    );
    assert_eq!((&second["content_type"], &second["msg_subtype"]), (&json!("artifact"), &json!("artifact_response")));
    assert_eq!(second["encrypted_payload"], json!(STANDARD.encode(seal(answer))));
}

#[tokio::test]
async fn invalid_messages_are_refused_and_not_stored() {
    let scene = RelayConversationSetup::start().await;
    let (bad, large) = ((400, "BAD_REQUEST"), (413, "BODY_TOO_LARGE"));
    let full = STANDARD.encode(vec![1; 512 * 1024 + 1]);
    let call = |subtype: &str| artifact("m", subtype, json!({}));
    let mut wrong_type = call("artifact_response");
    wrong_type["content_type"] = json!("text");
    let no_id = json!({"content_type": "text", "envelope": {}});
    let unknown = json!({"client_message_id": "m", "content_type": "text", "envelope": {}, "to": ["dev_1"]});
    for (body, refusal) in [
        (text("m", json!("")), bad),
        (text("m", json!("no base64 at all")), bad),
        (text("m", json!("QUI=QUI=")), bad),
        (text("m", json!(["QUI="])), bad),
        (text("m", json!(7)), bad),
        (text("m", Value::Null), bad),
        (text("", json!({})), bad),
        (text("a b", json!({})), bad),
        (text(&"m".repeat(65), json!({})), bad),
        (no_id, bad),
        (unknown, bad),
        (wrong_type, bad),
        // Version 1 has two subtypes; others, and tool calls by people, are refused.
        (call("tool_call"), bad),
        (call("artifact_update"), bad),
        (call("artifact_tool_call"), bad),
        (text("m", json!(full)), large),
        (text("m", json!({"ct": "x".repeat(512 * 1024)})), large),
        (text("m", json!("A".repeat(1024 * 1024))), large),
    ] {
        let refused = scene.ada.post(&scene.conversation, &body).await;
        assert_eq!(refused.refusal(), refusal, "{:.200}", body.to_string());
    }
    let refused = scene.agent.post(&scene.conversation, &call("artifact_response")).await;
    assert_eq!(refused.refusal(), bad, "an agent cannot send a response");
    let raw = async |body: String| {
        let here = format!("{}/messages", path(&scene.conversation));
        let sent = scene.world.server.send_text(Method::POST, &here, Some(&scene.ada.token), Some(body), &[]).await;
        sent.unwrap()
    };
    let deep = format!(
        r#"{{"client_message_id":"m","content_type":"text","envelope":{{"a":{}1{}}}}}"#,
        "[".repeat(50_000),
        "]".repeat(50_000)
    );
    assert_eq!(raw(deep).await.refusal(), (400, "BAD_JSON"));
    assert_eq!(raw("{".to_owned()).await.refusal(), (400, "BAD_JSON"));
    assert_eq!(scene.messages().await, Vec::<Value>::new());

    // A message of the maximum size is returned unchanged.
    let most = STANDARD.encode(vec![1; 512 * 1024]);
    scene.ada.post(&scene.conversation, &text("large", json!(most))).await.data();
    let written = r#"{ "b" : 1.50,  "a":"\u0041", "a": [ ] }"#;
    let body = format!(r#"{{"envelope": {written}, "content_type": "system", "client_message_id": "raw"}}"#);
    assert_eq!(raw(body).await.status, 201);
    let there = scene.messages().await;
    assert_eq!(there[0]["encrypted_payload"], json!(most));
    assert_eq!(there[1]["encrypted_payload"], json!(STANDARD.encode(written)));
}

#[tokio::test]
async fn repeated_message_is_stored_once_and_a_reused_id_with_other_content_refused() {
    let scene = RelayConversationSetup::start().await;
    let sent = text("m1", json!({"ct": "one"}));
    let first = scene.ada.post(&scene.conversation, &sent).await;
    let again = scene.ada.post(&scene.conversation, &sent).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(first.body, again.body);
    let clash = (409, "MESSAGE_CLASH");
    let other = [
        text("m1", json!({"ct": "two"})),
        json!({
            "client_message_id": "m1", "content_type": "system", "envelope": {"ct": "one"},
        }),
    ];
    for other in other {
        assert_eq!(scene.ada.post(&scene.conversation, &other).await.refusal(), clash);
    }
    // Message ids are unique per sender and conversation.
    assert_eq!(scene.agent.post(&scene.conversation, &text("m1", json!({"ct": "three"}))).await.status, 201);
    scene.world.person("bob").await;
    let with_bob = scene.ada.converse("h2h", json!([TestDevice::member("bob")])).await;
    assert_eq!(scene.ada.post(&with_bob, &text("m1", json!({"ct": "four"}))).await.status, 201);

    let racing = text("race", json!({"ct": "race"}));
    let answers: Vec<A2hResponse> = join_all((0..20).map(|_| scene.ada.post(&scene.conversation, &racing))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    assert!(answers.iter().all(|answer| answer.data() == answers[0].data()));
    let names: Vec<_> = scene.messages().await.iter().map(|message| message["client_message_id"].clone()).collect();
    assert_eq!(names, ["m1", "m1", "race"]);
}

/// A2H §5: sixty tool calls per minute and agent.
#[tokio::test]
async fn agent_tool_calls_are_limited_to_sixty_per_minute() {
    let scene = RelayConversationSetup::start().await;
    let other = scene.another_agent().await;
    let elsewhere = scene.ada.converse("h2a", json!([other.member()])).await;
    scene.world.person("bob").await;
    let group = scene.ada.converse("group", json!([scene.agent.member(), TestDevice::member("bob")])).await;
    let call = |number: usize| artifact(&format!("c{number}"), "artifact_tool_call", json!({"n": number}));
    // Tool calls in groups are relayed and count too.
    assert_eq!(scene.agent.post(&group, &call(0)).await.status, 201);
    let first: Vec<_> = join_all((1..60).map(|number| {
        let (agent, conversation, call) = (&scene.agent, &scene.conversation, call(number));
        async move { agent.post(conversation, &call).await.status }
    }))
    .await;
    assert!(first.iter().all(|status| *status == 201), "{first:?}");
    for conversation in [&scene.conversation, &group] {
        let refused = scene.agent.post(conversation, &call(60)).await;
        assert_eq!(refused.refusal(), (429, "RATE_LIMITED"));
        assert_eq!(refused.headers["retry-after"], "60");
        assert_eq!(refused.body["error"]["params"]["retry_after"], 60);
    }
    // Repeated messages, messages that are no calls, and other agents are not limited.
    assert_eq!(scene.agent.post(&scene.conversation, &call(7)).await.status, 200);
    assert_eq!(scene.agent.post(&scene.conversation, &text("words", json!({}))).await.status, 201);
    assert_eq!(other.post(&elsewhere, &call(1)).await.status, 201);
    // Any sixty seconds have at most sixty calls, so none is accepted before the first call is sixty seconds old.
    scene.world.clock.advance(Duration::from_millis(59_999));
    let refused = scene.agent.post(&scene.conversation, &call(60)).await;
    assert_eq!((refused.status, &refused.headers["retry-after"].to_str().unwrap()), (429, &"1"));
    scene.world.clock.advance(Duration::from_millis(1));
    for number in 100..160 {
        assert_eq!(scene.agent.post(&scene.conversation, &call(number)).await.status, 201, "{number}");
    }
    assert_eq!(scene.agent.post(&scene.conversation, &call(160)).await.status, 429);
}

#[tokio::test]
async fn tool_calls_of_the_last_minute_count_after_a_restart() {
    let mut scene = RelayConversationSetup::start().await;
    let call = |number: usize| artifact(&format!("c{number}"), "artifact_tool_call", json!({"n": number}));
    assert_eq!(scene.agent.post(&scene.conversation, &call(0)).await.status, 201);
    scene.world.clock.advance(Duration::from_secs(20));
    for number in 1..60 {
        assert_eq!(scene.agent.post(&scene.conversation, &call(number)).await.status, 201, "{number}");
    }
    scene.world.clock.advance(Duration::from_secs(20));
    let builder = Gateway::builder().agent(DESK, &desk(&[])).clock(&scene.world.clock);
    let restarted = builder.data(scene.world.gateway.data_as_after_a_crash()).start().await;
    scene.agent.server = AnonymousA2hClient::at(restarted.url());
    let refused = scene.agent.post(&scene.conversation, &call(60)).await;
    assert_eq!((refused.status, &refused.headers["retry-after"].to_str().unwrap()), (429, &"20"));
    scene.world.clock.advance(Duration::from_secs(20));
    assert_eq!(scene.agent.post(&scene.conversation, &call(60)).await.status, 201, "the first call is a minute old");
    assert_eq!(scene.agent.post(&scene.conversation, &call(61)).await.status, 429);
}

#[tokio::test]
async fn concurrent_messages_are_numbered_without_gaps() {
    let scene = RelayConversationSetup::start().await;
    let posted = join_all((0..50).map(|number| {
        let (scene, sent) = (&scene, text(&format!("m{number}"), json!({"n": number})));
        async move {
            let answer = match number % 2 {
                0 => scene.ada.post(&scene.conversation, &sent).await,
                _ => scene.agent.post(&scene.conversation, &sent).await,
            };
            answer.data()["conversation_seq"].as_u64().unwrap()
        }
    }))
    .await;
    let mut sorted = posted.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (1..=50).collect::<Vec<u64>>());
    let there = scene.messages().await;
    for (number, seq) in posted.iter().enumerate() {
        let at = usize::try_from(*seq).unwrap() - 1;
        assert_eq!(there[at]["client_message_id"], format!("m{number}"));
        assert_eq!(there[at]["conversation_seq"], json!(seq));
    }
}

#[tokio::test]
async fn message_pages_are_limited_in_count_and_bytes() {
    let scene = RelayConversationSetup::start().await;
    for number in 1..=25 {
        scene.ada.post(&scene.conversation, &text(&format!("m{number}"), json!({"n": number}))).await.data();
    }
    let here = format!("{}/messages", path(&scene.conversation));
    let seqs = |page: &A2hResponse| -> Vec<u64> {
        page.data().as_array().unwrap().iter().map(|message| message["conversation_seq"].as_u64().unwrap()).collect()
    };
    let first = scene.agent.get(&here).await;
    assert_eq!((seqs(&first), &first.body["next_cursor"]), ((1..=20).collect(), &json!("20")));
    let rest = scene.agent.get(&format!("{here}?after_seq=20")).await;
    assert_eq!((seqs(&rest), &rest.body["next_cursor"]), ((21..=25).collect(), &Value::Null));
    let exact = scene.agent.get(&format!("{here}?after_seq=20&limit=5")).await;
    assert_eq!(exact.body["next_cursor"], Value::Null);
    assert_eq!(seqs(&scene.agent.get(&format!("{here}?after_seq=99")).await), Vec::<u64>::new());
    for wrong in ["after_seq=x", "after_seq=-1", "limit=0", "limit=51"] {
        assert_eq!(scene.agent.get(&format!("{here}?{wrong}")).await.refusal(), (400, "BAD_REQUEST"), "{wrong}");
    }
    let large = STANDARD.encode(vec![7; 512 * 1024]);
    for number in 26..=31 {
        scene.ada.post(&scene.conversation, &text(&format!("m{number}"), json!(large))).await.data();
    }
    let page = scene.agent.get(&format!("{here}?after_seq=24&limit=50")).await;
    assert_eq!((seqs(&page), &page.body["next_cursor"]), ((25..=28).collect(), &json!("28")));
    assert_eq!(scene.messages().await.len(), 31);
}

#[tokio::test]
async fn read_position_of_each_side_only_moves_forward_up_to_the_last_message() {
    let scene = RelayConversationSetup::start().await;
    for number in 1..=3 {
        scene.agent.post(&scene.conversation, &text(&format!("m{number}"), json!({}))).await.data();
    }
    let here = path(&scene.conversation);
    // Sending a message sets the sender's read position to it.
    let places = |reply: A2hResponse| (reply.data()["read_seq"].clone(), reply.data()["last_seq"].clone());
    assert_eq!(places(scene.ada.get(&here).await), (json!(0), json!(3)));
    assert_eq!(places(scene.agent.get(&here).await), (json!(3), json!(3)));
    let read = async |seq: u64| places(scene.ada.send(Method::PATCH, &here, &json!({"read_seq": seq})).await);
    assert_eq!(read(2).await, (json!(2), json!(3)));
    assert_eq!(read(1).await, (json!(2), json!(3)), "never back");
    assert_eq!(read(99).await, (json!(3), json!(3)), "never beyond");
    assert_eq!(places(scene.ada.get(&here).await), (json!(3), json!(3)));
    for wrong in [
        json!({}),
        json!({"read_seq": -1}),
        json!({"read_seq": null}),
        json!({"read_seq": 1, "add": []}),
        json!({"read": 1}),
        json!({"add": [TestDevice::member("owner")]}),
    ] {
        let refused = scene.ada.send(Method::PATCH, &here, &wrong).await;
        assert_eq!(refused.refusal(), (400, "BAD_REQUEST"), "{wrong}");
    }
}

#[tokio::test]
async fn messages_are_refused_after_the_relation_ended() {
    let scene = RelayConversationSetup::start().await;
    scene.agent.post(&scene.conversation, &text("m1", json!({}))).await.data();
    scene.ada.consent(Method::DELETE, &format!("/h2a/relations/{}", scene.relation), json!({})).await.data();
    let required = (403, "RELATION_REQUIRED");
    assert_eq!(scene.agent.post(&scene.conversation, &text("m2", json!({}))).await.refusal(), required);
    assert_eq!(scene.ada.post(&scene.conversation, &text("m2", json!({}))).await.refusal(), required);
    // Earlier messages stay readable.
    assert_eq!(scene.messages().await.len(), 1);
    scene.ada.allow(&scene.agent.id, json!([])).await;
    assert_eq!(scene.ada.post(&scene.conversation, &text("m2", json!({}))).await.data()["conversation_seq"], 2);
}

#[tokio::test]
async fn agent_routes_refuse_other_callers() {
    let scene = RelayConversationSetup::start().await;
    let other = scene.another_agent().await;
    let poll = format!("/agents/{}/messages/poll?wait=0", scene.agent.id);
    let keys = format!("/agents/{}/keys/register", scene.agent.id);
    let denied = (403, "PERMISSION_DENIED");
    for token in [&scene.owner.token, &scene.ada.token, &other.token] {
        let server = &scene.world.server;
        assert_eq!(server.send(Method::GET, &poll, Some(token), None).await.refusal(), denied);
        assert_eq!(server.send(Method::POST, &keys, Some(token), Some(&json!({}))).await.refusal(), denied);
    }
    let refused = scene.world.server.send(Method::GET, &poll, None, None).await;
    assert_eq!(refused.refusal(), (401, "UNAUTHORIZED"));
    assert_eq!(scene.agent.get("/agents/A%20B/messages/poll").await.refusal(), (404, "UNKNOWN_AGENT"));
    assert_eq!(scene.agent.poll("?wait=0").await.status, 200);
}
