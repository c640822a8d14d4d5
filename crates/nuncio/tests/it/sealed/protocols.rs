//! Tools on a person's device called over every protocol, with the relay in the agent's own process.

use nuncio_core::conversation::ContentType;
use nuncio_core::ids::AgentId;
use nuncio_core::notification::RelayParty;
use nuncio_server::fetch::install_crypto;
use nuncio_testkit::a2h::SealedDevice;
use reqwest::Method;
use serde_json::{Value, json};

use super::{PLACE, SCOPE, SECRET, agent_file, invite, memory, read_file, reads};
use crate::client::play;
use crate::home::TestAgentFolder;
use crate::process::{Server, until};
use crate::skill_client::Consumer;

struct DeviceToolSetup {
    home: TestAgentFolder,
    server: Server,
    device: SealedDevice,
    hers: String,
    strangers: String,
}

impl DeviceToolSetup {
    async fn new() -> Self {
        install_crypto();
        let home = TestAgentFolder::with_agent(&agent_file("skill = { type = \"task\" }\n"));
        let (hers, strangers) = (home.key(&["--person", "ada"]), home.key(&[]));
        let server = home.start();
        let device = SealedDevice::start(server.url(), &invite(&home, "ada"), memory(), read_file).await;
        device.allow("script", &[SCOPE]).await;
        Self { home, server, device, hers, strangers }
    }

    fn consumer(&self, key: &str) -> Consumer {
        Consumer::of(&self.server).with("authorization", format!("Bearer {key}"))
    }

    fn recorded(&self) -> Vec<(Value, Value, Value)> {
        let records = self.home.audit().into_iter().filter(|record| record["tool"] == "read_file");
        records
            .map(|record| {
                let code = [&record["outcome"]["code"], &record["decision"]["code"]];
                let code = code.into_iter().find(|code| !code.is_null()).cloned().unwrap_or_default();
                (record["protocol"].clone(), record["outcome"]["result"].clone(), code)
            })
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn aap_session_finds_the_device_tool_only_if_its_key_is_linked_to_a_person() {
    let house = DeviceToolSetup::new().await;
    let client = house.server.aap_with_key(&house.hers);
    let session = client.session("script", &[]).await;
    let answer = client.play(&session, reads("c1", PLACE)).await;
    assert!(answer.to_string().contains(SECRET), "{answer}\n{}", house.server.stderr());
    assert_eq!(house.device.runs(), 1);

    let stranger = house.server.aap_with_key(&house.strangers);
    let session = stranger.session("script", &[]).await;
    let answer = stranger.play(&session, reads("c2", PLACE)).await.to_string();
    assert!(answer.contains("Tool not found: read_file: it runs on a person's device"), "{answer}");
    assert!(answer.contains("nuncio key create --person NAME") && !answer.contains(SECRET), "{answer}");
    // No caller sees the name of the tool in `/meta`.
    for client in [&client, &stranger] {
        let meta = client.get("/meta").await.1.to_string();
        assert!(!meta.contains("read_file"), "{meta}");
    }
    assert_eq!(house.device.runs(), 1);
    let aap = |result: &str, code: Value| (json!("aap"), json!(result), code);
    assert_eq!(house.recorded(), [aap("completed", Value::Null), aap("not_run", json!("tool_not_found"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn skill_of_a_device_tool_is_offered_only_to_callers_linked_to_a_person() {
    let house = DeviceToolSetup::new().await;
    let hers = house.consumer(&house.hers);
    let (status, index) = hers.get("/.well-known/skill-sharing").await;
    assert!(status == 200 && index.to_string().contains("script/read_file"), "{index}");
    let (status, skill) = hers.get("/skills/script/read_file.json").await;
    assert!(status == 200 && skill.to_string().contains("read_file"), "{skill}");
    let execution = hers.submit("script/read_file", &json!({"path": PLACE})).await;
    let over = hers.wait_for_result(&execution).await;
    assert_eq!(over["status"], "completed", "{over}");
    let (_, result) = hers.get(&format!("/executions/{execution}/result")).await;
    assert!(result.to_string().contains(SECRET), "{result}");
    assert_eq!(house.device.runs(), 1);

    let nobody = Consumer::of(&house.server);
    for (who, other) in [("a stranger", house.consumer(&house.strangers)), ("nobody", nobody)] {
        let (_, index) = other.get("/.well-known/skill-sharing").await;
        assert!(!index.to_string().contains("read_file"), "{who}: {index}");
        let (status, body) = other.get("/skills/script/read_file.json").await;
        assert_eq!((status, &body["error"]["code"]), (404, &json!("SKILL_NOT_FOUND")), "{who}: {body}");
        let (status, absent) = other.get("/skills/script/no_such_thing.json").await;
        assert_eq!(status, 404);
        let renamed = body.to_string().replace("read_file", "no_such_thing");
        assert_eq!(renamed, absent.to_string(), "{who} cannot tell the two apart");
        let invocation = other.invocation("script/read_file", &json!({"path": PLACE}));
        let (status, body) = other.try_send(invocation).await.unwrap();
        assert_eq!((status, &body["error"]["code"]), (404, &json!("SKILL_NOT_FOUND")), "{who}: {body}");
    }
    assert_eq!(house.device.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn skill_of_a_device_tool_is_refused_at_submission_until_the_person_consents() {
    install_crypto();
    let home = TestAgentFolder::with_agent(&agent_file("skill = { type = \"task\" }\n"));
    let key = home.key(&["--person", "ada"]);
    let server = home.start();
    let device = SealedDevice::start(server.url(), &invite(&home, "ada"), memory(), read_file).await;
    let consumer = Consumer::of(&server).with("authorization", format!("Bearer {key}"));
    let submit = async || {
        let invocation = consumer.invocation("script/read_file", &json!({"path": PLACE}));
        consumer.try_send(invocation).await.unwrap()
    };
    let (status, body) = submit().await;
    assert_eq!((status, &body["error"]["code"]), (403, &json!("PERMISSION_DENIED")), "{body}");
    device.allow("script", &[SCOPE]).await;
    let (status, body) = submit().await;
    assert_eq!(status, 202, "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_rpc_method_of_a_device_tool_is_found_only_by_callers_linked_to_a_person() {
    let house = DeviceToolSetup::new().await;
    let ask = async |key: &str| {
        let consumer = house.consumer(key);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "read_file", "params": {"path": PLACE}});
        consumer.try_send(consumer.request(Method::POST, "/agents/script/rpc").json(&body)).await.unwrap().1
    };
    let answer = ask(&house.hers).await;
    assert!(answer["result"].to_string().contains(SECRET), "{answer}\n{}", house.server.stderr());
    let refused = ask(&house.strangers).await;
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    assert_eq!(house.device.runs(), 1);
    let anp = |result: &str, code: Value| (json!("anp"), json!(result), code);
    assert_eq!(house.recorded(), [anp("completed", Value::Null), anp("not_run", json!("tool_not_found"))]);
    // The published documents of the agent do not contain the method.
    let (_, described) = house.consumer(&house.strangers).get("/agents/script/ad.json").await;
    assert!(!described.to_string().contains("read_file"), "{described}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_message_is_answered_sealed_and_can_call_a_tool_on_the_senders_device() {
    let house = DeviceToolSetup::new().await;
    let device = &house.device;
    let agent = RelayParty::Agent(AgentId::parse("script").unwrap());
    let conversation = device.peer.conversation_with(&agent).await.unwrap();
    let invocation = json!({"type": "text", "text": play(&reads("c1", PLACE))["content"]});
    let sent = device.peer.outbox().send(&conversation.id, ContentType::Text, invocation).await.unwrap();
    let answer = until("the agent answers", async || {
        let received = device.heard.lock().unwrap();
        received.iter().find(|message| message.content_type == ContentType::Text).cloned()
    })
    .await;
    assert!(answer.payload["text"].as_str().unwrap().contains(SECRET), "{answer:?}");
    assert!(answer.seq > sent);
    assert_eq!(device.runs(), 1);
    assert_eq!(house.recorded(), [(json!("a2h"), json!("completed"), Value::Null)]);
    let path = format!("/conversations/{}/messages", conversation.id);
    let carried = device.relay.ask("GET", &path, None).await.unwrap().to_string();
    assert!(!carried.contains("treasure"), "{carried}");
}
