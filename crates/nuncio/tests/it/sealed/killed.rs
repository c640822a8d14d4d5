//! `kill -9` of the relay, the agent and the device in turn while calls go on: nothing acknowledged is lost, and
//! nothing runs twice on the device.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nuncio_a2h::wire::artifact::{ToolCall, ToolOutcome};
use nuncio_core::conversation::ContentType;
use nuncio_core::ids::AgentId;
use nuncio_core::notification::RelayParty;
use nuncio_identity::seal::KeyStore;
use nuncio_store::SqliteKeyStore;
use nuncio_testkit::a2h::SealedDevice;
use serde_json::json;
use tokio::runtime::Runtime;

use super::{SCOPE, SealedSetup, echo_path, reads};
use crate::client::{Client, new_session, play, turns};
use crate::process::until;
use crate::random::random;
use crate::skill_client::Consumer;

/// Number of runs of `read_file` for each path.
type FileReadCounts = Arc<Mutex<BTreeMap<String, usize>>>;

fn counting(ran: &FileReadCounts) -> impl Fn(&ToolCall) -> ToolOutcome + Clone + Send + Sync + 'static {
    let ran = Arc::clone(ran);
    move |call| {
        let path = call.arguments["path"].as_str().unwrap().to_owned();
        *ran.lock().unwrap().entry(path).or_default() += 1;
        echo_path(call)
    }
}

/// Waits for a random time below 300 ms.
async fn random_pause() {
    tokio::time::sleep(Duration::from_millis(random(300))).await;
}

/// Number of concurrent callers.
const CALLERS: u64 = 2;
/// Pause of each caller between two calls, so that all together stay below the relay's limit of 60 calls in 60 s.
const CALL_PAUSE: Duration = Duration::from_millis(1_050 * CALLERS);

struct ConcurrentCalls {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    loops: Vec<tokio::task::JoinHandle<CallOutcomes>>,
}

/// Paths of the calls that returned a result, and of all others with their answer.
#[derive(Default)]
struct CallOutcomes {
    read: Vec<String>,
    other: Vec<(String, String)>,
}

impl ConcurrentCalls {
    fn start(client: &Client) -> Self {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let loops = (0..CALLERS).map(|number| {
            let (client, stop, answered) = (client.clone(), Arc::clone(&stop), Arc::clone(&answered));
            tokio::spawn(async move {
                let mut called = CallOutcomes::default();
                for call in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let path = format!("/{number}/{call}");
                    let answer = one_call(&client, &format!("c_{number}_{call}"), &path).await;
                    match answer {
                        Ok(answer) if answer.contains(&format!("read {path}\\\"")) => {
                            called.read.push(path);
                            answered.fetch_add(1, Ordering::SeqCst);
                        }
                        Ok(answer) | Err(answer) => called.other.push((path, answer)),
                    }
                    tokio::time::sleep(CALL_PAUSE).await;
                }
                called
            })
        });
        let loops = loops.collect();
        Self { stop, answered, loops }
    }

    /// Waits until at least two more calls were answered.
    async fn wait_for_more_answers(&self) {
        let before = self.answered.load(Ordering::SeqCst);
        until("calls are answered", async || (self.answered.load(Ordering::SeqCst) > before + 1).then_some(())).await;
    }

    async fn end(self) -> CallOutcomes {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = CallOutcomes::default();
        for one in self.loops {
            let one = one.await.unwrap();
            all.read.extend(one.read);
            all.other.extend(one.other);
        }
        all
    }
}

async fn one_call(client: &Client, id: &str, path: &str) -> Result<String, String> {
    let client = client.reconnected();
    let session = async {
        let (status, body) = client.try_post("/sessions", &new_session("script", &[])).await?;
        assert_eq!(status, 201, "{body}");
        let session = body["sessionId"].as_str().unwrap().to_owned();
        client.try_post(&turns(&session), &json!({"messages": [play(&reads(id, path))]})).await
    };
    match session.await {
        Ok((_, body)) => Ok(body.to_string()),
        Err(error) => {
            // While the server is down, the client waits before it tries again.
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err(error.to_string())
        }
    }
}

/// Checks that every answered call ran, and none ran twice.
fn check(ran: &FileReadCounts, called: &CallOutcomes) {
    let ran = ran.lock().unwrap();
    let twice: Vec<_> = ran.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "ran twice: {twice:?}");
    let unread: Vec<_> = called.read.iter().filter(|path| !ran.contains_key(*path)).collect();
    assert!(unread.is_empty(), "answered, and never ran: {unread:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_answered_across_ten_relay_kills() {
    const KILLS: usize = 10;
    let mut world = SealedSetup::new().await;
    let ran = FileReadCounts::default();
    let device = world.device(counting(&ran)).await;
    let calls = ConcurrentCalls::start(&world.client());
    for _ in 0..KILLS {
        calls.wait_for_more_answers().await;
        random_pause().await;
        world.relay.kill9();
        world.relay.again();
    }
    calls.wait_for_more_answers().await;
    let called = calls.end().await;
    check(&ran, &called);
    assert!(called.other.is_empty(), "{:?}\n{}", called.other, world.agent.as_ref().unwrap().stderr());
    assert_eq!(called.read.len(), ran.lock().unwrap().len());
    println!("{KILLS} kills of the relay: {} calls, {} ran, none lost, none twice", called.read.len(), device.runs());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_runs_twice_and_every_message_is_answered_across_ten_agent_kills() {
    const KILLS: usize = 10;
    let mut world = SealedSetup::new().await;
    let ran = FileReadCounts::default();
    let device = world.device(counting(&ran)).await;
    let calls = ConcurrentCalls::start(&world.client());
    // Meanwhile the person sends messages; each message that the relay accepted is answered once.
    let (peer, me) = (device.peer.clone(), RelayParty::Agent(AgentId::parse(&world.agent_id).unwrap()));
    let stop = Arc::clone(&calls.stop);
    let writes = tokio::spawn(async move {
        let conversation = peer.conversation_with(&me).await.unwrap();
        let mut sent = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            let script = json!([[{"text": format!("pong {}", sent.len())}]]);
            let content = json!({"type": "text", "text": play(&script)["content"]});
            sent.push(peer.outbox().send(&conversation.id, ContentType::Text, content).await.unwrap());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        sent
    });
    for _ in 0..KILLS {
        calls.wait_for_more_answers().await;
        random_pause().await;
        world.kill_agent();
        world.start_agent();
    }
    calls.wait_for_more_answers().await;
    let called = calls.end().await;
    let sent = writes.await.unwrap();
    check(&ran, &called);
    let answers = || {
        let received = device.heard.lock().unwrap();
        let texts = received.iter().filter(|message| message.content_type == ContentType::Text);
        texts.map(|message| message.payload["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    until("everything written is answered", async || (answers().len() >= sent.len()).then_some(())).await;
    let answers = answers();
    let mut pongs: Vec<_> = answers.iter().filter(|answer| answer.starts_with("pong")).collect();
    let pong_count = pongs.len();
    pongs.sort();
    pongs.dedup();
    assert_eq!((answers.len(), pongs.len()), (sent.len(), pong_count), "each answered once: {answers:?}");
    println!(
        "{KILLS} kills of the agent: {} calls answered, {} cut off, {} ran, none twice; {} written, {} answered ({pong_count} to the point)",
        called.read.len(),
        called.other.len(),
        ran.lock().unwrap().len(),
        sent.len(),
        answers.len(),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_survive_agent_kills_and_run_once_on_the_device() {
    const KILLS: usize = 5;
    let mut world = SealedSetup::new().await;
    let ran = FileReadCounts::default();
    let _device = world.device(counting(&ran)).await;
    let (mut executions, mut again) = (Vec::new(), 0);
    for kill in 0..KILLS {
        let bearer = format!("Bearer {}", world.key);
        let consumer = Consumer::of(world.agent.as_ref().unwrap()).with("authorization", bearer);
        let mut wishes = Vec::new();
        for number in 0..4 {
            wishes.push(consumer.submit("script/read_file", &json!({"path": format!("/{kill}/{number}")})).await);
        }
        if kill % 2 == 1 {
            until("one of them runs", async || {
                let ran = ran.lock().unwrap();
                ran.keys().any(|path| path.starts_with(&format!("/{kill}/"))).then_some(())
            })
            .await;
        }
        world.kill_agent();
        world.start_agent();
        for id in &wishes {
            let over = consumer.wait_for_result(id).await;
            assert_eq!(over["status"], "completed", "{over}\n{}", world.agent.as_ref().unwrap().stderr());
            again += usize::from(over["attempt"].as_u64() > Some(1));
        }
        executions.extend(wishes);
    }
    let ran = ran.lock().unwrap();
    assert!(ran.values().all(|count| *count == 1), "{ran:?}");
    assert_eq!(ran.len(), executions.len());
    println!(
        "{KILLS} kills of the agent: {} executions, {again} begun again, {} ran, none twice",
        ran.len(),
        ran.len()
    );
}

/// A device in its own Tokio runtime, which is dropped at any point, like a killed process.
struct KillableDevice {
    runtime: Runtime,
    device: SealedDevice,
}

impl KillableDevice {
    async fn begin(
        url: &str,
        code: &str,
        keys: &Path,
        act: impl Fn(&ToolCall) -> ToolOutcome + Send + Sync + 'static,
    ) -> Self {
        let (url, code, keys) = (url.to_owned(), code.to_owned(), PathBuf::from(keys));
        let begun = tokio::task::spawn_blocking(move || {
            let runtime = Runtime::new().unwrap();
            let keep: Arc<dyn KeyStore> = Arc::new(SqliteKeyStore::open(&keys).unwrap());
            let device = runtime.block_on(SealedDevice::start(&url, &code, keep, act));
            Self { runtime, device }
        });
        begun.await.unwrap()
    }

    async fn end(self) {
        let ended = tokio::task::spawn_blocking(move || {
            self.runtime.shutdown_timeout(Duration::from_secs(60));
            drop(self.device);
        });
        ended.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn started_calls_are_never_repeated_across_twenty_device_kills() {
    const KILLS: usize = 20;
    let world = SealedSetup::new().await;
    let (ran, folder) = (FileReadCounts::default(), tempfile::tempdir().unwrap());
    let (url, code, keys) = (world.relay.url(), world.relay.invite("ada"), folder.path().join("device.db"));
    let mut life = KillableDevice::begin(&url, &code, &keys, counting(&ran)).await;
    life.device.allow(&world.agent_id, &[SCOPE]).await;
    let calls = ConcurrentCalls::start(&world.client());
    for _ in 0..KILLS {
        calls.wait_for_more_answers().await;
        random_pause().await;
        life.end().await;
        life = KillableDevice::begin(&url, &code, &keys, counting(&ran)).await;
    }
    calls.wait_for_more_answers().await;
    let called = calls.end().await;
    life.end().await;
    check(&ran, &called);
    let stopped = |answer: &str| answer.contains("the device stopped while it ran");
    let unexpected: Vec<_> = called.other.iter().filter(|(_, answer)| !stopped(answer)).collect();
    assert!(unexpected.is_empty(), "every call is answered, if only to say that it may have run: {unexpected:?}");
    println!(
        "{KILLS} ends of the device: {} calls answered, {} stopped while they ran, {} ran, none twice",
        called.read.len(),
        called.other.len(),
        ran.lock().unwrap().len(),
    );
}
