//! Several devices of one person: a call is answered once, by a device that can decide.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_a2h::peer::DeviceCallError;
use nuncio_a2h::wire::artifact::ToolErrorCode;
use nuncio_core::grant::GrantTerm;
use nuncio_core::time::Timestamp;
use nuncio_device::guard::SensitivityFloors;
use nuncio_device::prompt::PromptAnswer;
use nuncio_engine::ports::fetch::{FetchError, FetchRequest, FetchResponse};
use nuncio_engine::ports::{Clock as _, Fetch};
use nuncio_testkit::a2h::PeerDependencies;
use nuncio_testkit::eventually;
use serde_json::json;

use super::scene::{RelayAndAgentFixture, RunningDevice};

/// Makes two devices of a person trust each other.
async fn befriend(scene: &RelayAndAgentFixture, one: &RunningDevice, other: &RunningDevice) {
    one.device.own_devices().trust(&other.device.identity().device, None).await.unwrap();
    other.device.own_devices().trust(&one.device.identity().device, None).await.unwrap();
    other.device.consents().refresh(&scene.id).await.unwrap();
}

async fn ended(running: &RunningDevice, count: usize) -> Vec<String> {
    let words = async || {
        let entries = running.device.audit().entries().unwrap().into_iter().map(|chained| chained.entry);
        let words: Vec<_> = entries.map(|entry| entry.reason.unwrap_or(entry.status)).collect();
        (words.len() >= count).then_some(words)
    };
    eventually("it is written down", words).await
}

/// Waits until a device has loaded the agent's account again after `before`, which it does before it refuses a call for
/// lack of permission.
async fn wait_for_reload_after(running: &RunningDevice, before: Timestamp) {
    let looked = || running.device.consents().agents().unwrap().iter().any(|known| known.at > before);
    eventually("it looks the agent up", async || looked().then_some(())).await;
}

/// Advances the clock in small steps until `count` calls have ended on the device.
async fn ended_in_time(scene: &RelayAndAgentFixture, running: &RunningDevice, count: usize) {
    eventually("it has ended", async || {
        scene.clock.jump(Duration::from_millis(50));
        (running.device.audit().entries().unwrap().len() >= count).then_some(())
    })
    .await;
}

/// The phone does not trust the device that signed the grant, so the laptop decides.
#[tokio::test(flavor = "multi_thread")]
async fn device_with_unverifiable_ledger_lets_other_devices_answer_first() {
    let scene = RelayAndAgentFixture::start().await;
    let laptop = scene.ada(&["location:read"]).await;
    let phone = scene.device("ada").await;
    laptop.device.own_devices().trust(&phone.device.identity().device, None).await.unwrap();
    let answers = async {
        laptop.prompt.questions(1).await;
        wait_for_reload_after(&phone, Timestamp::from_millis(0)).await;
        // Gives a faulty phone time to refuse.
        for _ in 0..5 {
            phone.device.consents().refresh(&scene.id).await.unwrap();
        }
        laptop.prompt.will_say(&[PromptAnswer::Yes]);
    };
    let (answer, ()) = tokio::join!(scene.call("where", json!({})), answers);
    assert_eq!(answer, Ok(json!({"run": 1})));
    scene.clock.jump(Duration::from_secs(31));
    assert_eq!(ended(&phone, 1).await, ["elsewhere"]);
    assert_eq!((phone.tool.runs(), phone.prompt.count()), (0, 0));
    // If no other device answers, the call is refused.
    drop(laptop);
    let before = scene.clock.now();
    let later = async {
        wait_for_reload_after(&phone, before).await;
        ended_in_time(&scene, &phone, 2).await;
    };
    let (answer, ()) = tokio::join!(scene.call("where", json!({})), later);
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(ended(&phone, 2).await[1], "scope_not_granted");
    assert_eq!(phone.tool.runs(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_time_grant_is_used_once_across_devices() {
    let scene = RelayAndAgentFixture::start().await;
    let laptop = scene.device("ada").await;
    scene.allow(&laptop, &["location:read"], GrantTerm::Once).await;
    let phone = scene.device("ada").await;
    befriend(&scene, &laptop, &phone).await;
    let answers = async {
        laptop.prompt.questions(1).await;
        phone.prompt.questions(1).await;
        laptop.prompt.will_say(&[PromptAnswer::Yes]);
    };
    let (answer, ()) = tokio::join!(scene.call("where", json!({})), answers);
    assert_eq!(answer, Ok(json!({"run": 1})));
    assert_eq!(ended(&phone, 1).await, ["elsewhere"]);
    drop(laptop);
    phone.prompt.will_say(&[PromptAnswer::Yes]);
    let before = scene.clock.now();
    let later = async {
        // A faulty device would prompt and run the call again.
        let looked = || phone.device.consents().agents().unwrap().iter().any(|known| known.at > before);
        eventually("the call is there", async || (looked() || phone.tool.runs() > 0).then_some(())).await;
        ended_in_time(&scene, &phone, 2).await;
    };
    let (answer, ()) = tokio::join!(scene.call("where", json!({})), later);
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(ended(&phone, 2).await[1], "scope_not_granted");
    assert_eq!((phone.tool.runs(), phone.prompt.count()), (0, 1));
}

/// The second message has the same call id, and the phone was enrolled after the first.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_call_is_not_run_by_a_device_that_missed_the_first_message() {
    let scene = RelayAndAgentFixture::start().await;
    let laptop = scene.ada(&["location:read"]).await;
    let repetition = async {
        laptop.prompt.questions(1).await;
        let phone = scene.device("ada").await;
        befriend(&scene, &laptop, &phone).await;
        let more = async {
            assert_eq!(ended(&phone, 1).await, ["elsewhere"], "the laptop has it");
            phone.prompt.will_say(&[PromptAnswer::Yes]);
            laptop.prompt.will_say(&[PromptAnswer::Yes]);
            assert_eq!(ended(&laptop, 1).await, ["ok"]);
            // Of two calls with the same id only one gets the answer; the other must time out.
            scene.clock.jump(Duration::from_secs(60));
        };
        let _ = tokio::join!(scene.call_named("call_1", "where", json!({})), more);
        phone
    };
    let (_, phone) = tokio::join!(scene.call_named("call_1", "where", json!({})), repetition);
    assert_eq!((laptop.tool.runs(), phone.tool.runs()), (1, 0));
}

/// HTTP client whose requests to claim a call fail while `cut` is set.
#[derive(Debug)]
struct ClaimFailingFetch {
    real: Arc<dyn Fetch>,
    cut: AtomicBool,
    tried: AtomicUsize,
}

#[async_trait]
impl Fetch for ClaimFailingFetch {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        if request.url.path().ends_with("/claim") && self.cut.load(Ordering::SeqCst) {
            self.tried.fetch_add(1, Ordering::SeqCst);
            return Err(FetchError::Unreachable { url: request.url.to_string(), why: "it is cut".to_owned() });
        }
        self.real.fetch(request).await
    }
}

/// A device must not answer before the relay has confirmed its claim of the call.
#[tokio::test(flavor = "multi_thread")]
async fn denial_by_a_device_that_cannot_claim_the_call_does_not_override_another_device() {
    let scene = RelayAndAgentFixture::start().await;
    let cut = Arc::new(ClaimFailingFetch {
        real: PeerDependencies::direct().fetch,
        cut: AtomicBool::new(true),
        tried: AtomicUsize::new(0),
    });
    let laptop = scene
        .device_by(
            &PeerDependencies { fetch: Arc::clone(&cut) as _, ..PeerDependencies::direct() },
            "ada",
            SensitivityFloors::new(),
        )
        .await;
    scene.allow(&laptop, &["location:read"], GrantTerm::UntilRevoked).await;
    let phone = scene.device("ada").await;
    befriend(&scene, &laptop, &phone).await;
    let answers = async {
        laptop.prompt.questions(1).await;
        phone.prompt.questions(1).await;
        laptop.prompt.will_say(&[PromptAnswer::No]);
        eventually("the laptop tries", async || (cut.tried.load(Ordering::SeqCst) > 1).then_some(())).await;
        phone.prompt.will_say(&[PromptAnswer::Yes]);
    };
    let (answer, ()) = tokio::join!(scene.call("where", json!({})), answers);
    assert_eq!(answer, Ok(json!({"run": 1})), "the phone's is the answer");
    cut.cut.store(false, Ordering::SeqCst);
    assert_eq!(ended(&laptop, 1).await, ["elsewhere"]);
    assert_eq!((laptop.tool.runs(), phone.tool.runs()), (0, 1));
}

/// The call does not run without a claim, but is answered later without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn call_that_cannot_be_claimed_is_answered_unavailable_when_the_relay_returns() {
    let scene = RelayAndAgentFixture::start().await;
    let cut = Arc::new(ClaimFailingFetch {
        real: PeerDependencies::direct().fetch,
        cut: AtomicBool::new(true),
        tried: AtomicUsize::new(0),
    });
    let laptop = scene
        .device_by(
            &PeerDependencies { fetch: Arc::clone(&cut) as _, ..PeerDependencies::direct() },
            "ada",
            SensitivityFloors::new(),
        )
        .await;
    scene.allow(&laptop, &["location:read"], GrantTerm::UntilRevoked).await;
    let answers = async {
        laptop.prompt.questions(1).await;
        laptop.prompt.will_say(&[PromptAnswer::Yes]);
        eventually("it is tried", async || (cut.tried.load(Ordering::SeqCst) > 1).then_some(())).await;
        cut.cut.store(false, Ordering::SeqCst);
    };
    let (answer, ()) = tokio::join!(scene.call("where", json!({})), answers);
    assert!(matches!(answer, Err(DeviceCallError::Failed { code: ToolErrorCode::Unavailable, .. })), "{answer:?}");
    assert_eq!(laptop.tool.runs(), 0);
    assert_eq!(ended(&laptop, 1).await, ["TOOL_UNAVAILABLE"]);
}

/// The policy of the unattended device says no at once, but the person can still agree on the laptop.
#[tokio::test(flavor = "multi_thread")]
async fn denial_by_unattended_device_waits_for_the_persons_other_devices() {
    let scene = RelayAndAgentFixture::start().await;
    let laptop = scene.ada(&["location:read"]).await;
    let cellar = scene.device("ada").await;
    befriend(&scene, &laptop, &cellar).await;
    cellar.prompt.deserted.store(true, Ordering::SeqCst);
    cellar.prompt.will_say(&[PromptAnswer::No]);
    let answers = async {
        laptop.prompt.questions(1).await;
        cellar.prompt.questions(1).await;
        for _ in 0..5 {
            cellar.device.consents().refresh(&scene.id).await.unwrap();
        }
        laptop.prompt.will_say(&[PromptAnswer::Yes]);
    };
    let (answer, ()) = tokio::join!(scene.call("where", json!({})), answers);
    assert_eq!(answer, Ok(json!({"run": 1})));
    assert_eq!((laptop.tool.runs(), cellar.tool.runs()), (1, 0));
}
