//! Each call runs at most once, also across restarts and devices.

use nuncio_a2h::peer::DeviceCallError;
use nuncio_a2h::wire::artifact::{DenialReason, ToolErrorCode};
use nuncio_core::grant::GrantTerm;
use nuncio_device::prompt::PromptAnswer;
use nuncio_testkit::eventually;
use serde_json::json;

use super::scene::RelayAndAgentFixture;

#[tokio::test(flavor = "multi_thread")]
async fn repeated_call_gets_stored_answer_and_does_not_run_again() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let first = scene.call_named("call_1", "tell", json!({"path": "a"})).await;
    assert_eq!(first, Ok(json!({"run": 1})));
    assert_eq!(scene.call_named("call_1", "tell", json!({"path": "a"})).await, first);
    let other = scene.call_named("call_1", "tell", json!({"path": "b"})).await;
    assert!(matches!(other, Err(DeviceCallError::Failed { code: ToolErrorCode::InvalidArguments, .. })), "{other:?}");
    // The next process does not run the call again either.
    let ada = ada.restart();
    assert_eq!(scene.call_named("call_1", "tell", json!({"path": "a"})).await, first);
    assert_eq!(scene.call_named("call_2", "tell", json!({"path": "a"})).await, Ok(json!({"run": 2})));
    assert_eq!(ada.tool.runs(), 2);
    ada.device.audit().verify().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_time_grant_allows_only_one_of_two_concurrent_calls() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.device("ada").await;
    scene.allow(&ada, &["notification:send"], GrantTerm::Once).await;
    let calls = tokio::join!(scene.call("tell", json!({"path": "a"})), scene.call("tell", json!({"path": "b"})));
    let ran = [&calls.0, &calls.1].into_iter().filter(|answer| answer.is_ok()).count();
    assert_eq!((ran, ada.tool.runs()), (1, 1), "{calls:?}");
    assert_eq!(scene.call("tell", json!({})).await, Err(DeviceCallError::Denied(DenialReason::ScopeNotGranted)));
}

#[tokio::test(flavor = "multi_thread")]
async fn call_waiting_for_the_person_at_restart_is_answered_unavailable() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["location:read"]).await;
    let restart = async {
        ada.prompt.questions(1).await;
        ada.restart()
    };
    let (answer, ada) = tokio::join!(scene.call_named("call_1", "where", json!({})), restart);
    assert!(matches!(answer, Err(DeviceCallError::Failed { code: ToolErrorCode::Unavailable, .. })), "{answer:?}");
    assert_eq!((ada.tool.runs(), ada.prompt.count()), (0, 0));
    // A repeated call gets the same answer.
    assert_eq!(scene.call_named("call_1", "where", json!({})).await, answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_running_at_restart_reports_unknown_effect_and_is_not_rerun() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let restart = async {
        eventually("it runs", async || (ada.tool.runs() == 1).then_some(())).await;
        ada.restart()
    };
    let (answer, ada) = tokio::join!(scene.call_named("call_1", "tell", json!({"path": "endless"})), restart);
    let Err(DeviceCallError::Failed { code: ToolErrorCode::PlatformError, message: Some(why) }) = &answer else {
        panic!("{answer:?}")
    };
    assert!(why.contains("may or may not"), "{why}");
    assert_eq!(scene.call_named("call_1", "tell", json!({"path": "endless"})).await, answer);
    assert_eq!(ada.tool.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_call_runs_only_on_the_device_that_claims_it() {
    let scene = RelayAndAgentFixture::start().await;
    let laptop = scene.ada(&["location:read"]).await;
    let phone = scene.device("ada").await;
    laptop.device.own_devices().trust(&phone.device.identity().device, None).await.unwrap();
    phone.device.own_devices().trust(&laptop.device.identity().device, None).await.unwrap();
    phone.device.consents().refresh(&scene.id).await.unwrap();
    let answers = async {
        laptop.prompt.questions(1).await;
        phone.prompt.questions(1).await;
        // The laptop's prompt ends without an answer when the phone claims the call.
        phone.prompt.will_say(&[PromptAnswer::Yes]);
    };
    let (answer, ()) = tokio::join!(scene.call("where", json!({})), answers);
    assert_eq!(answer, Ok(json!({"run": 1})));
    // Both devices log the end of the call.
    eventually("both wrote it down", async || {
        let words: Vec<_> = [&laptop, &phone]
            .iter()
            .flat_map(|running| running.device.audit().entries().unwrap())
            .map(|chained| chained.entry.status)
            .collect();
        (words.len() == 2).then(|| assert!(words.contains(&"elsewhere".to_owned()), "{words:?}"))
    })
    .await;
    assert_eq!((laptop.tool.runs(), phone.tool.runs()), (0, 1));
}
