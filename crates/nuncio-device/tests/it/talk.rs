//! Tests of conversations between a person and an agent: order, delivery, restarts and refusals.

use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::bundle::SealMode;
use nuncio_core::conversation::ContentType;
use nuncio_core::ids::{AgentId, ClientMessageId};
use nuncio_core::notification::RelayParty;
use nuncio_device::DeviceEvent;
use nuncio_device::guard::SensitivityFloors;
use nuncio_device::talk::{
    ChatContent, ChatMessage, MAX_TEXT, MAX_UNSENT, MessageDeliveryState, StreamedReplyProgress,
};
use nuncio_identity::seal::{KeyStore, MemoryKeyStore};
use nuncio_testkit::a2h::{AgentTransport, PeerDependencies, SealedAgent, TamperingProxy};
use nuncio_testkit::eventually;
use serde_json::{Value, json};

use super::scene::{RelayAndAgentFixture, RunningDevice, manifest};

fn named(name: &str) -> ClientMessageId {
    ClientMessageId::parse(name).unwrap()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// One-line form of a message: sender, content and delivery state.
fn short(line: &ChatMessage) -> String {
    let who = if line.record.mine { "me" } else { "it" };
    let state = match &line.state {
        MessageDeliveryState::Sent => String::new(),
        MessageDeliveryState::Sending => " (sending)".to_owned(),
        MessageDeliveryState::Failed { code, .. } => format!(" (failed: {code})"),
    };
    match &line.record.content {
        ChatContent::Text { text, .. } => format!("{who}: {text}{state}"),
        ChatContent::Other => format!("{who}: (something){state}"),
        ChatContent::Refused { why, .. } => format!("{who}: (not opened: {why:?}){state}"),
        ChatContent::Stranger => format!("{who}: (a stranger)"),
    }
}

fn transcript(running: &RunningDevice, agent: &AgentId) -> Vec<String> {
    running.device.messages().page(agent, None, 100).unwrap().messages.iter().map(short).collect()
}

/// Waits until the transcript equals `expected`.
async fn reads(running: &RunningDevice, agent: &AgentId, expected: &[&str]) {
    let there = async || (transcript(running, agent) == expected).then_some(());
    eventually(&format!("there is {expected:?}"), there).await;
}

fn heard(scene: &RelayAndAgentFixture) -> Vec<String> {
    let words = |payload: &Value| payload["text"].as_str().unwrap_or_default().to_owned();
    scene.agent.heard.lock().unwrap().iter().map(|message| words(&message.payload)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_keep_order_across_restart_and_resubmission_sends_no_duplicate() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let mut news = ada.device.events();
    ada.device.messages().send(&scene.id, &named("m_1"), "Good morning.\r\nHow are you?\n\n").unwrap();
    reads(&ada, &scene.id, &["me: Good morning.\nHow are you?"]).await;
    assert!(matches!(news.recv().await, Ok(DeviceEvent::Talk { agent }) if agent == scene.id));
    eventually("the agent hears it", async || (heard(&scene).len() == 1).then_some(())).await;
    scene.agent.say("ada", text("Well.\u{202e}")).await.unwrap();
    scene.agent.say("ada", text("And you?")).await.unwrap();
    let all = ["me: Good morning.\nHow are you?", "it: Well. ", "it: And you?"];
    reads(&ada, &scene.id, &all).await;
    // The same message is submitted again, also after a restart.
    ada.device.messages().send(&scene.id, &named("m_1"), "Good morning.\r\nHow are you?\n\n").unwrap();
    let ada = ada.restart();
    assert_eq!(transcript(&ada, &scene.id), all);
    ada.device.messages().send(&scene.id, &named("m_1"), "Good morning.").unwrap();
    ada.device.messages().send(&scene.id, &named("m_2"), "Fine.").unwrap();
    reads(&ada, &scene.id, &[all[0], all[1], all[2], "me: Fine."]).await;
    eventually("the agent hears it", async || (heard(&scene).len() > 1).then_some(())).await;
    assert_eq!(heard(&scene), ["Good morning.\nHow are you?", "Fine."]);
    let last = ada.device.messages().page(&scene.id, None, 2).unwrap();
    assert!(
        last.more && last.messages.iter().all(|line| line.state == MessageDeliveryState::Sent && !line.record.new_keys)
    );
    assert_eq!(last.messages[0].record.mode, Some(SealMode::Stateful));
    let older = ada.device.messages().page(&scene.id, last.messages[0].position, 2).unwrap();
    assert_eq!(older.messages.iter().map(short).collect::<Vec<_>>(), all[..2]);
    assert!(!older.more);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_process_neither_loses_nor_duplicates_messages() {
    let scene = RelayAndAgentFixture::start().await;
    let mut ada = scene.ada(&["notification:send"]).await;
    let mut said = Vec::new();
    for number in 0..4 {
        let words = format!("number {number}");
        ada.device.messages().send(&scene.id, &named(&format!("m_{number}")), &words).unwrap();
        // The process is killed at a different moment in each round.
        for _ in 0..number * 3 {
            tokio::task::yield_now().await;
        }
        ada = ada.restart();
        said.push(words);
        let expected: Vec<_> = said.iter().map(|words| format!("me: {words}")).collect();
        reads(&ada, &scene.id, &expected.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    eventually("the agent hears all", async || (heard(&scene).len() >= 4).then_some(())).await;
    assert_eq!(heard(&scene), said);
}

#[tokio::test(flavor = "multi_thread")]
async fn message_refused_by_the_relay_is_marked_failed_and_can_be_retried_or_deleted() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.device("ada").await;
    ada.device.messages().send(&scene.id, &named("m_1"), "Hello?").unwrap();
    ada.device.messages().send(&scene.id, &named("m_2"), "Never mind.").unwrap();
    let failed = ["me: Hello? (failed: relation_required)", "me: Never mind. (failed: relation_required)"];
    reads(&ada, &scene.id, &failed).await;
    // The failed state survives a restart, and failed messages are not sent automatically.
    let ada = ada.restart();
    assert_eq!(transcript(&ada, &scene.id), failed);
    scene.allow(&ada, &["notification:send"], nuncio_core::grant::GrantTerm::UntilRevoked).await;
    ada.device.messages().delete_failed(&scene.id, &named("m_2")).unwrap();
    ada.device.messages().retry(&scene.id, &named("m_1")).unwrap();
    reads(&ada, &scene.id, &["me: Hello?"]).await;
    // Sent messages can be neither retried nor deleted.
    ada.device.messages().delete_failed(&scene.id, &named("m_1")).unwrap();
    ada.device.messages().retry(&scene.id, &named("m_1")).unwrap();
    assert_eq!(transcript(&ada, &scene.id), ["me: Hello?"]);
    eventually("the agent hears it", async || (heard(&scene).len() == 1).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_too_long_and_too_many_unsent_messages_are_refused() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.device("ada").await;
    let say = |name: &str, words: &str| {
        ada.device.messages().send(&scene.id, &named(name), words).map_err(|error| error.code)
    };
    for nothing in ["", " \n\t ", "\u{0}\u{202e}"] {
        assert_eq!(say("m_1", nothing), Err(ErrorCode::BadRequest));
    }
    assert_eq!(say("m_1", &"x".repeat(MAX_TEXT + 1)), Err(ErrorCode::BodyTooLarge));
    assert!(transcript(&ada, &scene.id).is_empty());
    for number in 0..MAX_UNSENT {
        say(&format!("m_{number}"), "x").unwrap();
    }
    assert_eq!(say("m_more", "x"), Err(ErrorCode::LimitReached));
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_maximum_length_is_delivered_and_longer_replies_are_cut() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    for (name, long) in [("m_1", "\"\\".repeat(MAX_TEXT / 2)), ("m_2", "a\n".repeat(MAX_TEXT / 2 - 1) + "a")] {
        ada.device.messages().send(&scene.id, &named(name), &long).unwrap();
        eventually("the agent hears it", async || heard(&scene).contains(&long).then_some(())).await;
    }
    // A longer incoming text is cut.
    scene.agent.say("ada", text(&"x".repeat(2 * MAX_TEXT))).await.unwrap();
    let last = eventually("it is there", async || {
        ada.device.messages().page(&scene.id, None, 3).unwrap().messages.into_iter().nth(2)
    });
    assert_eq!(last.await.record.content, ChatContent::Text { text: "x".repeat(MAX_TEXT), cut: true });
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_of_a_person_show_the_same_conversation() {
    let scene = RelayAndAgentFixture::start().await;
    let laptop = scene.ada(&["notification:send"]).await;
    let phone = scene.device("ada").await;
    laptop.device.own_devices().trust(&phone.device.identity().device, None).await.unwrap();
    phone.device.own_devices().trust(&laptop.device.identity().device, None).await.unwrap();
    laptop.device.messages().send(&scene.id, &named("m_1"), "From the laptop.").unwrap();
    reads(&laptop, &scene.id, &["me: From the laptop."]).await;
    reads(&phone, &scene.id, &["me: From the laptop."]).await;
    phone.device.messages().send(&scene.id, &named("m_2"), "From the phone.").unwrap();
    reads(&phone, &scene.id, &["me: From the laptop.", "me: From the phone."]).await;
    scene.agent.say("ada", text("I hear both.")).await.unwrap();
    let all = ["me: From the laptop.", "me: From the phone.", "it: I hear both."];
    for device in [&laptop, &phone] {
        reads(device, &scene.id, &all).await;
        let lines = device.device.messages().page(&scene.id, None, 3).unwrap().messages;
        let on = |line: &ChatMessage| line.record.device.clone().unwrap();
        assert_eq!(on(&lines[0]), laptop.device.identity().device);
        assert_eq!(on(&lines[1]), phone.device.identity().device);
    }
    assert_eq!(heard(&scene), ["From the laptop.", "From the phone."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tampered_message_is_shown_as_not_opened() {
    let scene = RelayAndAgentFixture::start().await;
    let between = TamperingProxy::new();
    let ada = scene.device_by(&PeerDependencies::through(&between), "ada", SensitivityFloors::new()).await;
    scene.allow(&ada, &["notification:send"], nuncio_core::grant::GrantTerm::UntilRevoked).await;
    scene.agent.say("ada", text("one")).await.unwrap();
    reads(&ada, &scene.id, &["it: one"]).await;
    between.rewrite_messages(|mut message| {
        message["content_type"] = json!("file");
        vec![message]
    });
    scene.agent.say("ada", text("two")).await.unwrap();
    reads(&ada, &scene.id, &["it: one", "it: (not opened: Changed)"]).await;
    between.pass_through();
    scene.agent.say("ada", text("three")).await.unwrap();
    let all = ["it: one", "it: (not opened: Changed)", "it: three"];
    reads(&ada, &scene.id, &all).await;
    let refused = ada.device.messages().page(&scene.id, None, 2).unwrap().messages.remove(0);
    let ChatContent::Refused { because, .. } = refused.record.content else { panic!("{refused:?}") };
    assert!(because.contains("content_type"), "{because}");
    assert_eq!(transcript(&ada.restart(), &scene.id), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_with_new_agent_keys_are_refused_until_accepted_and_then_marked() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    scene.agent.say("ada", text("with the old keys")).await.unwrap();
    reads(&ada, &scene.id, &["it: with the old keys"]).await;
    let key_store: Arc<dyn KeyStore> = Arc::new(MemoryKeyStore::new());
    let way = PeerDependencies::direct().with_clock(&scene.clock);
    let url = scene.gateway.url();
    let anew =
        SealedAgent::start(&way, &url, (scene.id.as_str(), &scene.token), key_store, AgentTransport::Socket).await;
    anew.say("ada", text("with new keys")).await.unwrap();
    reads(&ada, &scene.id, &["it: with the old keys", "it: (not opened: Untrusted)"]).await;
    let owner = RelayParty::Agent(scene.id.clone());
    let waiting = ada.device.peer().keys().waiting(&owner).await.unwrap();
    let keys = &waiting[0].bundle.keys;
    ada.device.peer().keys().accept_key(&owner, &keys.device_id, &keys.signing_key.fingerprint()).await.unwrap();
    anew.say("ada", text("accepted")).await.unwrap();
    let all = ["it: with the old keys", "it: (not opened: Untrusted)", "it: accepted"];
    reads(&ada, &scene.id, &all).await;
    let marks: Vec<_> = ada
        .device
        .messages()
        .page(&scene.id, None, 9)
        .unwrap()
        .messages
        .iter()
        .map(|line| line.record.new_keys)
        .collect();
    assert_eq!(marks, [false, false, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn message_without_text_becomes_a_placeholder_and_stateless_sealing_is_recorded() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let conversation = scene.conversation().await;
    let image = json!({"type": "image", "url": "somewhere"});
    scene.agent.peer.outbox().send(&conversation, ContentType::Image, image).await.unwrap();
    scene
        .agent
        .peer
        .outbox()
        .send(&conversation, ContentType::Text, json!({"type": "text", "words": 1}))
        .await
        .unwrap();
    reads(&ada, &scene.id, &["it: (something)", "it: (something)"]).await;
    // An agent with stateless keys.
    let (id, token) = scene.owner.make_agent(&json!({"display_name": "Forgetful"})).await;
    scene.owner.publish(&id, &manifest()).await.data();
    let (way, key_store) = (PeerDependencies::direct().with_clock(&scene.clock), Arc::new(MemoryKeyStore::new()));
    let forgetful =
        SealedAgent::start(&way, &scene.gateway.url(), (&id, &token), key_store, AgentTransport::Hooks).await;
    let id = AgentId::parse(&id).unwrap();
    let ask = ada.device.consents().access_request(&id).await.unwrap();
    ada.device.consents().allow(&ask, &std::collections::BTreeMap::new()).await.unwrap();
    forgetful.say("ada", text("Who are you?")).await.unwrap();
    reads(&ada, &id, &["it: Who are you?"]).await;
    assert_eq!(ada.device.messages().page(&id, None, 1).unwrap().messages[0].record.mode, Some(SealMode::Stateless));
    assert_eq!(transcript(&ada, &scene.id).len(), 2, "each has its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_an_agent_without_consent_are_shown_as_one_placeholder() {
    let scene = RelayAndAgentFixture::start().await;
    let laptop = scene.device("ada").await;
    // The grant is signed by a device that the laptop does not trust, so it does not count there.
    let _other = scene.ada(&["notification:send"]).await;
    let mut news = laptop.device.events();
    for number in 0..5 {
        scene.agent.say("ada", text(&"x".repeat(1000 * number))).await.unwrap();
        while !matches!(news.recv().await.unwrap(), DeviceEvent::Talk { .. }) {}
    }
    reads(&laptop, &scene.id, &["it: (a stranger)"]).await;
    assert!(laptop.device.consents().agents().unwrap().is_empty(), "looking at it leaves nothing behind");
    // A message by the person starts the conversation.
    laptop.device.messages().send(&scene.id, &named("m_1"), "Who is there?").unwrap();
    reads(&laptop, &scene.id, &["me: Who is there?"]).await;
    scene.agent.say("ada", text("I am.")).await.unwrap();
    reads(&laptop, &scene.id, &["me: Who is there?", "it: I am."]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_reply_is_reported_live_and_stored_only_when_complete() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let (mut live, _) = ada.device.messages().live();
    // A received message shows that the device is connected; streams reach only connected devices.
    scene.agent.say("ada", text("Listen.")).await.unwrap();
    reads(&ada, &scene.id, &["it: Listen."]).await;
    let conversation = scene.conversation().await;
    let writer = scene.agent.peer.streams().begin(&conversation).await.unwrap().unwrap();
    writer.push("It grows");
    let mut whats = Vec::new();
    while !matches!(whats.last(), Some(StreamedReplyProgress::Piece { .. })) {
        whats.push(live.recv().await.unwrap().what);
    }
    assert_eq!(
        whats,
        [StreamedReplyProgress::Begun, StreamedReplyProgress::Piece { piece: 0, text: "It grows".to_owned() }]
    );
    let growing = ada.device.messages().live().1;
    assert_eq!((growing[0].agent.clone(), growing[0].text.as_str()), (scene.id.clone(), "It grows"));
    assert_eq!(transcript(&ada, &scene.id).len(), 1);
    writer.finish(ContentType::Text, text("It grows, and ends.")).await.unwrap();
    assert_eq!(live.recv().await.unwrap().what, StreamedReplyProgress::Done);
    assert!(ada.device.messages().live().1.is_empty());
    reads(&ada, &scene.id, &["it: Listen.", "it: It grows, and ends."]).await;
    // An aborted stream stores no message.
    drop(scene.agent.peer.streams().begin(&conversation).await.unwrap());
    assert_eq!(live.recv().await.unwrap().what, StreamedReplyProgress::Begun);
    assert_eq!(live.recv().await.unwrap().what, StreamedReplyProgress::Aborted);
    assert_eq!(transcript(&ada, &scene.id).len(), 2);
}
