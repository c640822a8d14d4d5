//! A malicious relay that drops, reorders, relabels, replays and truncates messages, swaps keys and invents devices.
//! Each attack is detected, nothing forbidden runs, and the next honest call works.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nuncio_a2h::peer::{DeviceCallError, DeviceCallOptions, SendError};
use nuncio_core::bundle::SealMode;
use nuncio_core::ids::{CallId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_identity::seal::{DistrustReason, KeyStore, SealError};
use nuncio_testkit::a2h::{
    AgentTransport, DeviceKey, JumpingClock, PeerDependencies, SealedAgent, SealedDevice, TamperingProxy,
};
use serde_json::{Value, json};

use super::{RelayProcess, SCOPE, decoded, echo_path, memory};
use crate::process::until;

/// A time longer than an agent waits for an answer.
const TOO_LONG: Duration = Duration::from_secs(60);

struct ManipulatedRelay {
    relay: RelayProcess,
    to_agent: TamperingProxy,
    to_device: TamperingProxy,
    clock: JumpingClock,
    id: String,
    token: String,
    agent_keep: Arc<dyn KeyStore>,
    device_keep: Arc<dyn KeyStore>,
    code: String,
    agent: SealedAgent,
    device: SealedDevice,
    calls: AtomicUsize,
}

impl ManipulatedRelay {
    async fn new() -> Self {
        let relay = RelayProcess::start(&[]).await;
        let (id, token) = relay.make_agent(&json!({"display_name": "Notes"})).await;
        let (to_agent, to_device, clock) = (TamperingProxy::new(), TamperingProxy::new(), JumpingClock::new());
        let (agent_keep, device_keep, code) = (memory(), memory(), relay.invite("ada"));
        let agent = start_agent(&relay, &to_agent, &clock, (&id, &token), &agent_keep).await;
        let device = start_device(&relay, &to_device, &code, &device_keep).await;
        device.allow(&id, &[SCOPE]).await;
        let calls = AtomicUsize::new(0);
        Self { relay, to_agent, to_device, clock, id, token, agent_keep, device_keep, code, agent, device, calls }
    }

    async fn restart_agent(&mut self) {
        let new =
            start_agent(&self.relay, &self.to_agent, &self.clock, (&self.id, &self.token), &self.agent_keep).await;
        self.agent = new;
    }

    async fn restart_device(&mut self) {
        self.device.stop();
        self.device = start_device(&self.relay, &self.to_device, &self.code, &self.device_keep).await;
    }

    async fn call(&self) -> Result<Value, DeviceCallError> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        self.agent.call("ada", "read_file", json!({"path": format!("/{number}")})).await
    }

    async fn honest_call(&self, after: &str) {
        self.to_agent.pass_through();
        self.to_device.pass_through();
        let before = self.device.runs();
        let answer = self.call().await.unwrap_or_else(|error| panic!("after {after}: {error}"));
        let last = self.calls.load(Ordering::SeqCst) - 1;
        assert_eq!(answer["content"], format!("read /{last}"), "after {after}");
        assert_eq!(self.device.runs(), before + 1, "after {after}");
    }

    async fn unanswered(&self, what: &str, seen: impl Fn() -> bool) {
        let waits = async {
            until(what, async || seen().then_some(())).await;
            self.clock.jump(TOO_LONG);
        };
        let (answer, ()) = tokio::join!(self.call(), waits);
        assert_eq!(answer, Err(DeviceCallError::NoAnswer), "{what}");
    }
}

async fn start_agent(
    relay: &RelayProcess,
    between: &TamperingProxy,
    clock: &JumpingClock,
    who: (&str, &str),
    keep: &Arc<dyn KeyStore>,
) -> SealedAgent {
    let network = PeerDependencies::through(between).with_clock(clock);
    SealedAgent::start(&network, &relay.url(), who, Arc::clone(keep), AgentTransport::Socket).await
}

async fn start_device(
    relay: &RelayProcess,
    between: &TamperingProxy,
    code: &str,
    keep: &Arc<dyn KeyStore>,
) -> SealedDevice {
    SealedDevice::start_by(&PeerDependencies::through(between), &relay.url(), code, Arc::clone(keep), echo_path).await
}

fn is_call(message: &Value) -> bool {
    message["msg_subtype"] == "artifact_tool_call"
}

fn within(message: &mut Value, change: impl FnOnce(String) -> String) {
    let text = decoded(&message["encrypted_payload"]);
    message["encrypted_payload"] = json!(STANDARD.encode(change(text)));
}

type RelayManipulation = (&'static str, fn(&mut Value), Option<&'static str>);

type MessageChange = Box<dyn Fn(&mut Value) + Send>;

/// Changes that a relay may make to a call, each with the device's error; `None` where the device asks the relay about
/// an unknown conversation.
const LIES: [RelayManipulation; 13] = [
    (
        "no subtype",
        |message| drop(message.as_object_mut().unwrap().shift_remove("msg_subtype")),
        Some("the msg_subtype from the relay differs from the sender's"),
    ),
    (
        "another subtype",
        |message| message["msg_subtype"] = json!("artifact_response"),
        Some("the msg_subtype from the relay differs from the sender's"),
    ),
    (
        "another content",
        |message| message["content_type"] = json!("text"),
        Some("the content_type from the relay differs from the sender's"),
    ),
    (
        "another sender",
        |message| message["sender_id"] = json!("agt_other"),
        Some("the sender_id from the relay differs from the sender's"),
    ),
    (
        "a person",
        |message| (message["sender_type"], message["sender_id"]) = (json!("human"), json!("bob")),
        Some("the sender_type from the relay differs from the sender's"),
    ),
    (
        "another name",
        |message| message["client_message_id"] = json!("m_other"),
        Some("the client_message_id from the relay differs from the sender's"),
    ),
    (
        "another device",
        |message| message["sender_device_id"] = json!("dev_other"),
        Some("the sender_device_id from the relay differs from the sender's"),
    ),
    ("another conversation", |message| message["conversation_id"] = json!("cnv_other"), None),
    (
        "half of it",
        |message| within(message, |text| text[..text.len() / 2].to_owned()),
        Some("it is not a sealed message"),
    ),
    ("nothing of it", |message| message["encrypted_payload"] = json!(""), Some("it is not a sealed message")),
    ("another body", |message| within(message, |text| flip(&text, "\"ct\":\"")), Some("the sender did not sign this")),
    ("another time", |message| within(message, |text| flip_digit(&text)), Some("the sender did not sign this")),
    (
        "another key",
        |message| within(message, |text| flip(&text, "\"alg\":\"olm-v1\",\"ct\":\"")),
        Some("the sender did not sign this"),
    ),
];

fn flip(text: &str, mark: &str) -> String {
    let offset = text.find(mark).unwrap() + mark.len() + 20;
    let other = if &text[offset..=offset] == "A" { "B" } else { "A" };
    format!("{}{other}{}", &text[..offset], &text[offset + 1..])
}

/// The text with a changed digit in the seconds of `created_at`.
fn flip_digit(text: &str) -> String {
    let mark = "\"created_at\":\"";
    let offset = text.find(mark).unwrap() + mark.len() + 18;
    let other = if &text[offset..=offset] == "1" { "2" } else { "1" };
    format!("{}{other}{}", &text[..offset], &text[offset + 1..])
}

#[tokio::test(flavor = "multi_thread")]
async fn call_altered_by_the_relay_does_not_run() {
    let stage = ManipulatedRelay::new().await;
    stage.honest_call("nothing").await;
    for (name, lie, refusal) in LIES {
        let (before, refusals) = (stage.device.refusals().len(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&refusals);
        stage.to_device.rewrite_messages(move |mut message| {
            if is_call(&message) {
                lie(&mut message);
                count.fetch_add(1, Ordering::SeqCst);
            }
            vec![message]
        });
        let ran = stage.device.runs();
        let seen = || match refusal {
            Some(_) => stage.device.refusals().len() > before,
            None => refusals.load(Ordering::SeqCst) > 0,
        };
        stage.unanswered(name, seen).await;
        if let Some(refusal) = refusal {
            let last = stage.device.refusals().pop().unwrap();
            assert!(last.contains(refusal), "{name}: {last}");
        }
        stage.honest_call(name).await;
        assert_eq!(stage.device.runs(), ran + 1, "{name}: only the honest call ran");
    }
    println!("{} lies about calls, all caught", LIES.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_altered_by_the_relay_is_refused_by_the_agent() {
    let stage = ManipulatedRelay::new().await;
    stage.honest_call("nothing").await;
    // Three of the changes are wrong for a call but correct for an answer.
    let lies = LIES.into_iter().filter(|(name, ..)| !["another sender", "another subtype", "a person"].contains(name));
    let bob: RelayManipulation = (
        "another person",
        |message| message["sender_id"] = json!("bob"),
        Some("the sender_id from the relay differs from the sender's"),
    );
    for (name, lie, refusal) in lies.chain([bob]) {
        let before = stage.agent.refused.lock().unwrap().len();
        let refusals = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&refusals);
        stage.to_agent.rewrite_messages(move |mut message| {
            lie(&mut message);
            count.fetch_add(1, Ordering::SeqCst);
            vec![message]
        });
        let refused = || stage.agent.refused.lock().unwrap().iter().map(|one| one.why.to_string()).collect::<Vec<_>>();
        let seen = || match refusal {
            Some(_) => refused().len() > before,
            None => refusals.load(Ordering::SeqCst) > 0,
        };
        stage.unanswered(name, seen).await;
        if let Some(refusal) = refusal {
            let last = refused().pop().unwrap();
            assert!(last.contains(refusal), "{name}: {last}");
        }
        stage.honest_call(name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_calls_time_out_and_repeated_or_reordered_calls_run_once() {
    let stage = ManipulatedRelay::new().await;
    stage.honest_call("nothing").await;

    // A call that is dropped on the way to the device never runs.
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dropped);
    stage.to_device.rewrite_messages(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Vec::new()
    });
    stage.unanswered("a dropped call", || dropped.load(Ordering::SeqCst) > 0).await;
    stage.honest_call("a dropped call").await;
    assert_eq!(stage.device.runs(), 2);

    // If the answer is dropped, the call has run; repeated with the same id it returns the outcome without running again.
    let ada = RelayParty::Person(PersonName::parse("ada").unwrap());
    let conversation = stage.agent.peer.conversation_with(&ada).await.unwrap();
    let again =
        DeviceCallOptions { call_id: Some(CallId::parse("call_again").unwrap()), ..DeviceCallOptions::default() };
    let ask = || {
        stage.agent.peer.calls().call_tool_with(&conversation.id, "read_file", json!({"path": "/again"}), again.clone())
    };
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dropped);
    stage.to_agent.rewrite_messages(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Vec::new()
    });
    let waits = async {
        until("the answer is dropped", async || (dropped.load(Ordering::SeqCst) > 0).then_some(())).await;
        stage.clock.jump(TOO_LONG);
    };
    assert_eq!(tokio::join!(ask(), waits).0, Err(DeviceCallError::NoAnswer));
    stage.to_agent.pass_through();
    assert_eq!(ask().await.unwrap()["content"], "read /again");
    assert_eq!(stage.device.runs(), 3);

    // Each call is repeated at once under another message number, and again with every later call.
    let mut stored: Vec<Value> = Vec::new();
    stage.to_device.rewrite_messages(move |message| {
        let mut copy = message.clone();
        copy["conversation_seq"] = json!(message["conversation_seq"].as_u64().unwrap() + 100);
        stored.extend([message.clone(), copy]);
        [stored.clone(), vec![message]].concat()
    });
    let before = stage.device.runs();
    for _ in 0..5 {
        stage.call().await.unwrap();
    }
    assert_eq!(stage.device.runs(), before + 5, "however often each came");
    stage.honest_call("repetitions").await;

    // Two calls arrive in reverse order, and each gets its own answer.
    let mut delayed = None;
    stage.to_device.rewrite_messages(move |message| match delayed.take() {
        None => {
            delayed = Some(message);
            Vec::new()
        }
        Some(first) => vec![message, first],
    });
    let before = stage.device.runs();
    let (one, two) = tokio::join!(
        stage.agent.call("ada", "read_file", json!({"path": "/one"})),
        stage.agent.call("ada", "read_file", json!({"path": "/two"})),
    );
    assert_eq!((&one.unwrap()["content"], &two.unwrap()["content"]), (&json!("read /one"), &json!("read /two")));
    assert_eq!(stage.device.runs(), before + 2);
    stage.honest_call("a reordering").await;

    // An earlier answer is sent in place of the current one.
    let mut old = None;
    let replaced = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&replaced);
    stage.to_agent.rewrite_messages(move |message| match &old {
        None => {
            old = Some(message.clone());
            vec![message]
        }
        Some(old) => {
            count.fetch_add(1, Ordering::SeqCst);
            vec![old.clone()]
        }
    });
    stage.call().await.unwrap();
    stage.unanswered("an old answer", || replaced.load(Ordering::SeqCst) > 0).await;
    stage.honest_call("an old answer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_swapped_or_invented_by_the_relay_are_never_used() {
    let mut stage = ManipulatedRelay::new().await;
    let eve = Arc::new(DeviceKey::new());

    // At first contact the relay offers a one-time key that the device did not sign.
    let forged = Arc::clone(&eve);
    stage.to_agent.rewrite(move |path, mut message| {
        if path.is_some_and(|path| path.ends_with("/one-time-key")) {
            message["data"] = json!(forged.one_time_key("dev_x", message["data"]["key_id"].as_str().unwrap(), false));
        }
        vec![message]
    });
    let refused = stage.call().await.unwrap_err();
    assert!(matches!(refused, DeviceCallError::Unsent(SendError::Seal(SealError::BadOneTimeKey(_)))), "{refused:?}");
    stage.honest_call("a forged one-time key").await;

    // After the first contact the device's keys are pinned.
    let swapped = Arc::clone(&eve);
    let swap = move |bundle: &mut Value| {
        let device = bundle["device_id"].as_str().unwrap().to_owned();
        let owner = RelayParty::Person(PersonName::parse("ada").unwrap());
        *bundle = json!(swapped.bundle(owner, &device, u64::MAX >> 12, SealMode::Stateful));
    };
    let changes: [(&str, MessageChange, DistrustReason); 4] = [
        ("another device under its name", Box::new(swap), DistrustReason::KeyChanged),
        (
            "another key to be sealed to",
            Box::new(|bundle| bundle["olm_key"] = bundle["hpke_key"].clone()),
            DistrustReason::BadSignature,
        ),
        ("no forward secrecy", Box::new(|bundle| bundle["mode"] = json!("stateless")), DistrustReason::BadSignature),
        ("an older number", Box::new(|bundle| bundle["seq"] = json!(1)), DistrustReason::BadSignature),
    ];
    for (name, change, why) in changes {
        stage.to_agent.rewrite(move |path, mut message| {
            if path.is_some_and(|path| path.ends_with("/keys/users/ada/devices")) {
                change(&mut message["data"][0]);
            }
            vec![message]
        });
        stage.restart_agent().await;
        let (sent, ran) = (stage.to_agent.sent_to("/messages").len(), stage.device.runs());
        let refused = stage.call().await.unwrap_err();
        let DeviceCallError::Unsent(SendError::KeysChanged { devices, .. }) = &refused else {
            panic!("{name}: {refused:?}")
        };
        assert!(devices.iter().all(|(_, found)| *found == why), "{name}: {devices:?}");
        assert_eq!(
            (stage.to_agent.sent_to("/messages").len(), stage.device.runs()),
            (sent, ran),
            "{name}: nothing left"
        );
        stage.honest_call(name).await;
    }

    // The relay adds a correctly signed device that no trusted device confirms: nothing is sealed for it.
    let invented = Arc::clone(&eve);
    stage.to_agent.rewrite(move |path, mut message| {
        if path.is_some_and(|path| path.ends_with("/keys/users/ada/devices")) {
            let owner = RelayParty::Person(PersonName::parse("ada").unwrap());
            let bundle = invented.bundle(owner, "dev_eve", 1, SealMode::Stateful);
            message["data"].as_array_mut().unwrap().push(json!(bundle));
        }
        vec![message]
    });
    stage.restart_agent().await;
    stage.call().await.unwrap();
    let last = stage.to_agent.sent_to("/messages").pop().unwrap();
    let envelope: Value = serde_json::from_str(&decoded(&last["envelope"])).unwrap();
    let to: Vec<_> = envelope["to"].as_array().unwrap().iter().map(|entry| &entry["device_id"]).collect();
    assert_eq!(to, [&json!(stage.device.bundle().await.keys.device_id)]);
    stage.honest_call("an invented device").await;

    // The relay swaps the agent's keys for the device: the device answers no call.
    let agents = Arc::clone(&eve);
    let me = RelayParty::Agent(nuncio_core::ids::AgentId::parse(&stage.id).unwrap());
    stage.to_device.rewrite(move |path, mut message| {
        if path.is_some_and(|path| path.contains("/keys/agents/")) {
            let device = message["data"][0]["device_id"].as_str().unwrap().to_owned();
            message["data"][0] = json!(agents.bundle(me.clone(), &device, u64::MAX >> 12, SealMode::Stateful));
        }
        vec![message]
    });
    stage.restart_device().await;
    let before = stage.device.runs();
    stage.unanswered("the agent's keys swapped", || stage.device.runs() > before).await;
    assert!(stage.to_device.sent_to("/messages").iter().all(|sent| !sent.to_string().contains("dev_eve")));
    stage.honest_call("the agent's keys swapped").await;
}
