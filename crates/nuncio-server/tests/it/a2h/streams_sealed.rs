//! Sealed streams between real devices and real agents, also with an attacker between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nuncio_a2h::peer::{IncomingStreamEventKind, StreamWriter};
use nuncio_a2h::wire::artifact::{ToolCall, ToolOutcome};
use nuncio_core::conversation::ContentType;
use nuncio_core::ids::{AgentId, ConversationId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_identity::seal::{KeyStore, MemoryKeyStore};
use nuncio_server::admin::AdminCommand;
use nuncio_server::fetch::install_crypto;
use nuncio_testkit::a2h::{
    AgentTransport, AnonymousA2hClient, JumpingClock, PeerDependencies, SealedAgent, SealedDevice, TamperingProxy,
    TestDevice,
};
use nuncio_testkit::{Gateway, eventually};
use serde_json::{Value, json};

use super::{agent_body, seed};
use crate::agents::{DESK, call, desk, echo, scope};

const SCOPE: &str = "filesystem:read";

fn memory() -> Arc<dyn KeyStore> {
    Arc::new(MemoryKeyStore::new())
}

fn never(_: &ToolCall) -> ToolOutcome {
    panic!("this test calls no tool")
}

async fn invite(gateway: &Gateway, name: &str) -> String {
    let order = AdminCommand::UserInvite { name: PersonName::parse(name).unwrap(), seconds: None };
    gateway.order(order).await.unwrap()["code"].as_str().unwrap().to_owned()
}

/// A relay, an external agent and a device of the person `ada`.
struct RemoteAgentSetup {
    gateway: Gateway,
    agent: SealedAgent,
    device: SealedDevice,
    conversation: ConversationId,
}

impl RemoteAgentSetup {
    async fn start(way: &PeerDependencies, reached: AgentTransport) -> Self {
        install_crypto();
        let gateway = Gateway::builder().agent(DESK, &desk(&[])).start().await;
        let owner = TestDevice::enrol(&AnonymousA2hClient::at(gateway.url()), &invite(&gateway, "owner").await).await;
        let (id, token) = owner.make_agent(&agent_body(&seed())).await;
        let device = SealedDevice::start_by(way, &gateway.url(), &invite(&gateway, "ada").await, memory(), never).await;
        device.allow(&id, &[SCOPE]).await;
        let agent =
            SealedAgent::start(&PeerDependencies::direct(), &gateway.url(), (&id, &token), memory(), reached).await;
        let ada = RelayParty::Person(PersonName::parse("ada").unwrap());
        let conversation = agent.peer.conversation_with(&ada).await.unwrap().id.clone();
        // An event over its connection shows that the device is connected.
        agent.say("ada", says("hello")).await.unwrap();
        came(&device, &["hello"]).await;
        Self { gateway, agent, device, conversation }
    }

    /// Starts a stream once the agent is connected.
    async fn stream(&self) -> StreamWriter {
        eventually("the agent is connected", async || {
            self.agent.peer.streams().begin(&self.conversation).await.unwrap()
        })
        .await
    }

    async fn heard(&self, streams: &[&str]) {
        heard(&self.device, streams).await;
    }

    /// All messages of the conversation, as the relay returns them.
    async fn messages(&self) -> Vec<Value> {
        let path = format!("/conversations/{}/messages", self.conversation);
        self.device.relay.ask("GET", &path, None).await.unwrap().as_array().unwrap().clone()
    }
}

async fn heard(device: &SealedDevice, streams: &[&str]) {
    eventually(&format!("{streams:?} are received"), async || (device.streams() == streams).then_some(())).await;
}

async fn came(device: &SealedDevice, texts: &[&str]) {
    eventually(&format!("{texts:?} come"), async || (device.texts() == texts).then_some(())).await;
}

fn says(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[tokio::test]
async fn sealed_message_is_readable_while_it_is_streamed() {
    let apart = RemoteAgentSetup::start(&PeerDependencies::direct(), AgentTransport::Socket).await;
    let writer = apart.stream().await;
    writer.push("Your");
    writer.push(" room");
    apart.heard(&["begun", "Your room"]).await;
    assert_eq!(apart.messages().await.len(), 1, "no message is stored yet");
    // More text than one piece holds, with multi-byte characters at the cut.
    let long = "是".repeat(3000);
    writer.push(&long);
    apart.heard(&["begun", &format!("Your room{long}")]).await;
    let whole = format!("Your room{long} is ready.");
    writer.push(" is ready.");
    writer.finish(ContentType::Text, says(&whole)).await.unwrap();
    apart.heard(&["begun", &whole, "done"]).await;
    came(&apart.device, &["hello", &whole]).await;
    // The end of the stream names the message.
    let streamed = apart.device.streamed.lock().unwrap().clone();
    let IncomingStreamEventKind::Done { client_message_id } = &streamed.last().unwrap().what else {
        panic!("{streamed:?}")
    };
    assert_eq!(apart.messages().await[1]["client_message_id"], json!(client_message_id));
    assert!(
        streamed.iter().all(|event| event.conversation == apart.conversation && event.sender == *apart.agent.peer.me())
    );
    assert!(streamed.iter().all(|event| event.stream == streamed[0].stream));
}

#[tokio::test]
async fn stream_dropped_by_the_agent_is_aborted_without_a_message() {
    let apart = RemoteAgentSetup::start(&PeerDependencies::direct(), AgentTransport::Socket).await;
    let writer = apart.stream().await;
    writer.push("Never mi");
    apart.heard(&["begun", "Never mi"]).await;
    drop(writer);
    apart.heard(&["begun", "Never mi", "aborted"]).await;
    assert_eq!(apart.messages().await.len(), 1);
}

#[tokio::test]
async fn answer_repeated_with_or_without_streaming_is_stored_as_one_message() {
    let apart = RemoteAgentSetup::start(&PeerDependencies::direct(), AgentTransport::Socket).await;
    apart.device.peer.outbox().send(&apart.conversation, ContentType::Text, says("well?")).await.unwrap();
    let question = eventually("the question comes", async || apart.agent.heard.lock().unwrap().first().cloned()).await;
    for text in ["yes", "again"] {
        let writer = apart.agent.peer.streams().begin_reply(&question).await.unwrap().unwrap();
        writer.push(text);
        writer.finish(ContentType::Text, says(text)).await.unwrap();
    }
    apart.agent.peer.outbox().reply(&question, ContentType::Text, says("and again")).await.unwrap();
    apart.agent.say("ada", says("bye")).await.unwrap();
    came(&apart.device, &["hello", "yes", "bye"]).await;
    apart.heard(&["begun", "yes", "done", "begun", "again", "done"]).await;
}

#[tokio::test]
async fn polling_agent_sends_its_message_without_streaming() {
    let apart = RemoteAgentSetup::start(&PeerDependencies::direct(), AgentTransport::Polling).await;
    assert!(apart.agent.peer.streams().begin(&apart.conversation).await.unwrap().is_none());
    apart.agent.say("ada", says("whole")).await.unwrap();
    came(&apart.device, &["hello", "whole"]).await;
    assert!(apart.device.streams().is_empty());
}

#[tokio::test]
async fn unverified_device_gets_no_stream() {
    let apart = RemoteAgentSetup::start(&PeerDependencies::direct(), AgentTransport::Socket).await;
    let code = invite(&apart.gateway, "ada").await;
    let second = SealedDevice::start(&apart.gateway.url(), &code, memory(), never).await;
    apart.agent.say("ada", says("for one")).await.unwrap();
    eventually("the second is connected", async || (second.refusals().len() == 2).then_some(())).await;
    let writer = apart.stream().await;
    writer.push("a secret");
    apart.heard(&["begun", "a secret"]).await;
    writer.finish(ContentType::Text, says("a secret")).await.unwrap();
    apart.heard(&["begun", "a secret", "done"]).await;
    eventually("the second connection received the refusals", async || (second.refusals().len() == 3).then_some(()))
        .await;
    assert!(second.streams().is_empty());
}

type StreamTampering = fn(usize, Value) -> Vec<Value>;

fn broken(mut frame: Value) -> Value {
    let sealed = frame["encrypted_payload"].as_str().unwrap();
    let first = if sealed.starts_with('A') { "B" } else { "A" };
    frame["encrypted_payload"] = json!(format!("{first}{}", &sealed[1..]));
    frame
}

fn with(mut frame: Value, field: &str, value: Value) -> Value {
    frame[field] = value;
    frame
}

#[tokio::test]
async fn tampered_stream_is_aborted_and_the_final_message_still_arrives() {
    let between = TamperingProxy::new();
    let apart = RemoteAgentSetup::start(&PeerDependencies::through(&between), AgentTransport::Socket).await;
    // Frames by index: 0 opens the stream, 1 to 3 are pieces, 4 is the end.
    let tricks: [(&str, StreamTampering, &[&str]); 12] = [
        ("nothing", |_, frame| vec![frame], &["begun", "one two three", "done"]),
        ("a changed beginning", |place, frame| vec![if place == 0 { broken(frame) } else { frame }], &[]),
        (
            "a changed piece",
            |place, frame| vec![if place == 2 { broken(frame) } else { frame }],
            &["begun", "one ", "aborted"],
        ),
        (
            "a piece twice",
            |place, frame| if place == 2 { vec![frame.clone(), frame] } else { vec![frame] },
            &["begun", "one two ", "aborted"],
        ),
        (
            "a missing piece",
            |place, frame| if place == 2 { vec![] } else { vec![frame] },
            &["begun", "one ", "aborted"],
        ),
        (
            "a piece with another number",
            |place, frame| vec![if place == 2 { with(frame, "stream_seq", json!(3)) } else { frame }],
            &["begun", "one ", "aborted"],
        ),
        (
            "a piece turned into an end",
            |place, frame| {
                vec![if place == 3 {
                    with(with(frame, "type", json!("stream.done")), "client_message_id", json!("m_x"))
                } else {
                    frame
                }]
            },
            &["begun", "one two ", "aborted"],
        ),
        (
            "an end that names another message",
            |place, frame| vec![if place == 4 { with(frame, "client_message_id", json!("m_x")) } else { frame }],
            &["begun", "one two three", "aborted"],
        ),
        (
            "an end that never comes",
            |place, frame| if place == 4 { vec![] } else { vec![frame] },
            &["begun", "one two three"],
        ),
        ("a beginning that never comes", |place, frame| if place == 0 { vec![] } else { vec![frame] }, &[]),
        (
            "a beginning twice",
            |place, frame| if place == 0 { vec![frame.clone(), frame] } else { vec![frame] },
            &["begun", "one two three", "done"],
        ),
        (
            "a beginning by another",
            |place, frame| vec![if place == 0 { with(frame, "sender_id", json!("agt_x")) } else { frame }],
            &[],
        ),
    ];
    let mut texts = vec!["hello".to_owned()];
    for (number, (name, trick, expected)) in tricks.into_iter().enumerate() {
        apart.device.streamed.lock().unwrap().clear();
        let seen = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&seen);
        between.rewrite(move |path, told| {
            let streams = told["type"].as_str().is_some_and(|kind| kind.starts_with("stream."));
            match path.is_none() && streams {
                true => trick(counted.fetch_add(1, Ordering::SeqCst), told),
                false => vec![told],
            }
        });
        let writer = apart.stream().await;
        for (place, piece) in (2..).zip(["one ", "two ", "three"]) {
            writer.push(piece);
            eventually(name, async || (seen.load(Ordering::SeqCst) >= place).then_some(())).await;
        }
        let whole = format!("{number}: one two three");
        writer.finish(ContentType::Text, says(&whole)).await.unwrap();
        texts.push(whole);
        came(&apart.device, &texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
        eventually(name, async || (seen.load(Ordering::SeqCst) == 5).then_some(())).await;
        eventually(&format!("{name}: {expected:?}"), async || (apart.device.streams() == expected).then_some(())).await;
    }
    assert!(apart.device.refusals().is_empty(), "{:?}", apart.device.refusals());
}

#[tokio::test]
async fn relay_restart_ends_the_stream_and_the_final_message_still_arrives() {
    let apart = RemoteAgentSetup::start(&PeerDependencies::direct(), AgentTransport::Socket).await;
    let writer = apart.stream().await;
    writer.push("Your room");
    apart.heard(&["begun", "Your room"]).await;
    let RemoteAgentSetup { gateway, agent: _agent, device, .. } = apart;
    let port = gateway.address().port();
    let data = gateway.stop().await;
    heard(&device, &["begun", "Your room", "aborted"]).await;
    eventually("the writer sees it", async || writer.is_over().then_some(())).await;
    writer.push(" is ready.");
    let finishing = tokio::spawn(writer.finish(ContentType::Text, says("Your room is ready.")));
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).data(data).port(port).start().await;
    finishing.await.unwrap().unwrap();
    came(&device, &["hello", "Your room is ready."]).await;
    assert_eq!(device.streams(), ["begun", "Your room", "aborted"]);
    drop(gateway);
}

/// An agent served in the relay's process, and a device of the person `ada`, with a jumping clock.
struct HostedAgentSetup {
    _gateway: Gateway,
    clock: JumpingClock,
    device: SealedDevice,
    conversation: ConversationId,
}

impl HostedAgentSetup {
    async fn start() -> Self {
        install_crypto();
        let clock = JumpingClock::new();
        let on_device = "[[tool]]\nname = \"read_file\"\ndescription = \"Reads.\"\nscope = \"filesystem:read\"\n\
            input = { type = \"object\" }\nrun = { device = true }\n";
        let agent = desk(&[scope(SCOPE, "medium"), on_device.to_owned(), echo()]);
        let gateway = Gateway::builder().agent(DESK, &agent).clock(&clock).start().await;
        let (way, code) = (PeerDependencies::direct().with_clock(&clock), invite(&gateway, "ada").await);
        let device = SealedDevice::start_by(&way, &gateway.url(), &code, memory(), never).await;
        device.allow(DESK, &[SCOPE]).await;
        let agent = RelayParty::Agent(AgentId::parse(DESK).unwrap());
        let conversation = device.peer.conversation_with(&agent).await.unwrap().id.clone();
        let hosted = Self { _gateway: gateway, clock, device, conversation };
        // An event over its connection shows that the device is connected.
        hosted.say("hello").await;
        came(&hosted.device, &["You said: hello"]).await;
        hosted.device.streamed.lock().unwrap().clear();
        hosted
    }

    async fn say(&self, text: &str) {
        // The keys may not be uploaded yet.
        eventually("the agent can be written to", async || {
            self.device.peer.outbox().send(&self.conversation, ContentType::Text, says(text)).await.ok()
        })
        .await;
    }

    async fn play(&self, script: Value) {
        self.say(&json!({"script": script}).to_string()).await;
    }
}

const WHILE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn served_agent_streams_the_output_of_its_brain() {
    let hosted = HostedAgentSetup::start().await;
    hosted.play(json!([[{"thinking": "hm"}, {"text": "Your room"}, {"sleep": 20_000}, {"text": " is ready."}]])).await;
    heard(&hosted.device, &["begun", "Your room"]).await;
    assert_eq!(hosted.device.texts().len(), 1, "no message has arrived yet");
    hosted.clock.jump(WHILE);
    came(&hosted.device, &["You said: hello", "Your room is ready."]).await;
    heard(&hosted.device, &["begun", "Your room is ready.", "done"]).await;
}

#[tokio::test]
async fn text_streamed_before_a_tool_call_or_brain_failure_is_aborted() {
    let hosted = HostedAgentSetup::start().await;
    let calls = [json!({"text": "Let me see."}), json!({"sleep": 20_000}), call("c1", "echo", json!({}))];
    hosted.play(json!([calls, [{"text": "Found"}, {"sleep": 20_000}, {"text": " it."}]])).await;
    heard(&hosted.device, &["begun", "Let me see."]).await;
    hosted.clock.jump(WHILE);
    heard(&hosted.device, &["begun", "Let me see.", "aborted", "begun", "Found"]).await;
    hosted.clock.jump(WHILE);
    came(&hosted.device, &["You said: hello", "Found it."]).await;
    heard(&hosted.device, &["begun", "Let me see.", "aborted", "begun", "Found it.", "done"]).await;
    // A brain that fails during the answer cancels the stream.
    hosted.device.streamed.lock().unwrap().clear();
    hosted.play(json!([[{"text": "Half"}, {"sleep": 20_000}, {"throw": "no more"}]])).await;
    heard(&hosted.device, &["begun", "Half"]).await;
    hosted.clock.jump(WHILE);
    heard(&hosted.device, &["begun", "Half", "aborted"]).await;
    let last = eventually("the error arrives as a message", async || hosted.device.texts().get(2).cloned()).await;
    assert!(last.contains("no more"), "{last}");
}

#[tokio::test]
async fn stream_of_an_idle_agent_ends_and_a_new_stream_repeats_its_text() {
    let hosted = HostedAgentSetup::start().await;
    hosted
        .play(json!([[{"text": "Wait"}, {"sleep": 40_000}, {"text": " for it"}, {"sleep": 20_000}, {"text": "."}]]))
        .await;
    heard(&hosted.device, &["begun", "Wait"]).await;
    hosted.clock.jump(Duration::from_secs(31));
    heard(&hosted.device, &["begun", "Wait", "aborted"]).await;
    // A new stream starts with the whole text so far.
    hosted.clock.jump(Duration::from_secs(9));
    heard(&hosted.device, &["begun", "Wait", "aborted", "begun", "Wait for it"]).await;
    hosted.clock.jump(WHILE);
    came(&hosted.device, &["You said: hello", "Wait for it."]).await;
    heard(&hosted.device, &["begun", "Wait", "aborted", "begun", "Wait for it.", "done"]).await;
}
