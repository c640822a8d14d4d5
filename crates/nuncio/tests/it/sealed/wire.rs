//! Contents of sealed messages compared with the examples of the specification, and every response of a device.

use std::sync::{Arc, Mutex};

use nuncio_a2h::client::{AgentRelayCredentials, HttpRelayClient, RelayAddress, RelayClient as _, RelayEventKind};
use nuncio_a2h::wire::artifact::ToolOutcome;
use nuncio_core::bundle::SealMode;
use nuncio_core::conversation::{ContentType, ConversationType, MsgSubtype};
use nuncio_core::digest::canonical;
use nuncio_core::ids::{AgentId, ClientMessageId, DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_engine::ports::Clock as _;
use nuncio_engine::ports::fetch::AddressTrust;
use nuncio_engine::relay::MessageToPost;
use nuncio_identity::seal::{NewSealIdentity, PlaintextMessage, RecipientDevice, RelayMetadata, SealIdentity};
use nuncio_server::SystemClock;
use nuncio_testkit::a2h::{PeerDependencies, SealedDevice};
use serde_json::{Value, json};

use super::{RelayProcess, SCOPE, SealedSetup, memory, reads};

/// The tool call in the example of A2H §3.1, unchanged.
const CALL: &str = r#"{ "type": "artifact", "artifact": { "subtype": "tool_call", "call_id": "call_abc123", "tool_name": "read_file", "arguments": { "path": "/Users/alice/notes.md" }, "permission_scope": "filesystem:read", "timeout_ms": 5000 }}"#;
/// The tool response in the example of A2H §3.2, unchanged.
const ANSWER: &str = r#"{ "type": "artifact", "artifact": { "subtype": "tool_response", "call_id": "call_abc123", "status": "ok", "result": { "content": "...file content..." } }}"#;

fn bytes(text: &str) -> Vec<u8> {
    canonical(&serde_json::from_str::<Value>(text).unwrap())
}

fn specification_response(_: &nuncio_a2h::wire::artifact::ToolCall) -> ToolOutcome {
    ToolOutcome::Ok { result: json!({"content": "...file content..."}) }
}

#[tokio::test(flavor = "multi_thread")]
async fn specification_tool_call_reaches_the_device_with_only_its_source_added() {
    let world = SealedSetup::new().await;
    let device = world.device(specification_response).await;
    let (client, session) = world.session().await;
    let answer = client.play(&session, reads("call_abc123", "/Users/alice/notes.md")).await;
    assert!(answer.to_string().contains("...file content..."), "{answer}");
    let received = device.heard.lock().unwrap();
    assert_eq!(received.len(), 1);
    let mut payload = received[0].payload.clone();
    // The app and the conversation are an addition to the specification, for the question to the person.
    let source = payload["artifact"].as_object_mut().unwrap().shift_remove("source").unwrap();
    assert_eq!(source["conversation"], session.as_str(), "{source}");
    assert_eq!(canonical(&payload), bytes(CALL), "{payload}");
    assert_eq!((received[0].content_type, received[0].mode), (ContentType::Artifact, SealMode::Stateful));
}

/// The agent sends the call of the specification to a device and opens the device's answer.
#[tokio::test(flavor = "multi_thread")]
async fn agent_using_only_relay_client_and_sealing_library_exchanges_the_tool_call_and_response_of_the_specification() {
    let relay = RelayProcess::start(&[]).await;
    let (id, token) = relay.make_agent(&json!({"display_name": "Bare"})).await;
    let device = SealedDevice::start(&relay.url(), &relay.invite("ada"), memory(), specification_response).await;
    device.allow(&id, &[SCOPE]).await;

    let (me, ada) = (AgentId::parse(&id).unwrap(), RelayParty::Person(PersonName::parse("ada").unwrap()));
    let owner = Some((RelayParty::Agent(me.clone()), DeviceId::parse("dev_bare").unwrap()));
    let new = NewSealIdentity { named: owner, mode: SealMode::Stateful, now: SystemClock.now() };
    let mut party = SealIdentity::create(memory(), &new).unwrap();
    let address = RelayAddress { url: relay.url().parse().unwrap(), trust: AddressTrust::Configured };
    let network = PeerDependencies::direct();
    let at = HttpRelayClient::by_polling(address, Arc::new(AgentRelayCredentials::new(me, token)), network.fetch);
    at.register_keys(party.bundle().cloned(), party.one_time_keys(0, SystemClock.now()).unwrap()).await.unwrap();
    let conversation = at.conversation_with(&ada).await.unwrap();
    let bundles = at.keys_of(&ada).await.unwrap();
    party.review_keys(&ada, &bundles, None).unwrap();
    let one_time_key = at.one_time_key(&bundles[0].keys.id()).await.unwrap();
    let client_id = ClientMessageId::parse("m_1").unwrap();
    let letter = PlaintextMessage {
        conversation: conversation.id.clone(),
        conversation_type: ConversationType::H2a,
        client_id: client_id.clone(),
        content_type: ContentType::Artifact,
        subtype: Some(MsgSubtype::ArtifactToolCall),
        in_reply_to: None,
        created_at: SystemClock.now(),
        payload: serde_json::from_str(CALL).unwrap(),
    };
    let addressee = RecipientDevice { bundle: &bundles[0], one_time_key: Some(&one_time_key) };
    let envelope = party.seal(&letter, &[addressee]).unwrap();
    let post = MessageToPost {
        client_id,
        content_type: ContentType::Artifact,
        subtype: Some(MsgSubtype::ArtifactToolCall),
        envelope: envelope.into(),
    };
    at.post(&conversation.id, post).await.unwrap();
    let mut after = None;
    let answer = loop {
        let events = at.events(after).await.unwrap();
        after = events.last().map(|event| event.seq);
        let message = events.into_iter().find_map(|event| match event.what {
            RelayEventKind::Message(posted) => Some(posted),
            _ => None,
        });
        if let Some(message) = message {
            break message;
        }
    };
    assert_eq!(
        (answer.post.content_type, answer.post.subtype),
        (ContentType::Artifact, Some(MsgSubtype::ArtifactResponse))
    );
    let metadata = RelayMetadata {
        conversation: answer.conversation.clone(),
        conversation_type: ConversationType::H2a,
        sender: answer.post.sender.clone(),
        sender_device: answer.post.device.clone(),
        client_id: answer.post.client_id.clone(),
        content_type: answer.post.content_type,
        subtype: answer.post.subtype,
    };
    let opened = party.open(&metadata, &answer.post.envelope, SystemClock.now()).unwrap();
    assert_eq!(canonical(&opened.payload), bytes(ANSWER), "{}", opened.payload);
    assert_eq!(canonical(&device.heard.lock().unwrap()[0].payload), bytes(CALL));
}

/// Each row of A2H §3.3: the device's response, the text in the app's history, and the code in the audit record.
#[tokio::test(flavor = "multi_thread")]
async fn every_device_response_sets_the_text_for_the_app_and_the_code_in_the_audit_record() {
    let error = |code: &str, message: &str| json!({"status": "error", "error_code": code, "message": message});
    let denied = |reason: &str| json!({"status": "denied", "reason": reason});
    let rows = [
        (json!({"status": "ok", "result": {"content": "well"}}), "well", None),
        (error("TOOL_PLATFORM_ERROR", "the disk is on fire"), "the disk is on fire", Some("tool_failed")),
        (
            error("TOOL_INVALID_ARGUMENTS", "no such drive"),
            "refused the arguments: no such drive",
            Some("invalid_arguments"),
        ),
        (
            error("TOOL_UNAVAILABLE", "phones have no files"),
            "cannot run the tool now: phones have no files",
            Some("tool_unavailable"),
        ),
        (denied("user_refused"), "the person refused the call on their device", Some("denied")),
        (denied("scope_not_granted"), "the person has not granted this permission", Some("scope_not_granted")),
        (denied("tool_not_declared"), "does not have this tool", Some("tool_not_found")),
        (denied("user_timeout"), "the person did not answer in time", Some("approval_expired")),
        (denied("tool_not_supported_in_group"), "tools cannot be called in group conversations", Some("denied")),
    ];
    let world = SealedSetup::new().await;
    let next = Arc::new(Mutex::new(Value::Null));
    let says = Arc::clone(&next);
    let device = world.device(move |_| serde_json::from_value(says.lock().unwrap().clone()).unwrap()).await;
    let (client, session) = world.session().await;
    for (number, (answer, words, code)) in rows.into_iter().enumerate() {
        *next.lock().unwrap() = answer.clone();
        let turn = client.play(&session, reads(&format!("c{number}"), "/a")).await.to_string();
        assert!(turn.contains(words), "{answer}: {turn}");
        let record = world.last_record();
        assert_eq!(record["outcome"]["code"].as_str(), code, "{answer}: {record}");
        let result = if code.is_none() { "completed" } else { "failed" };
        assert_eq!(record["outcome"]["result"], result, "{answer}: {record}");
        assert_eq!(device.runs(), number + 1);
    }
}
