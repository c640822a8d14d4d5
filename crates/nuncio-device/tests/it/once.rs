//! A call runs once, whatever happens.

use nuncio_a2h::peer::ToolError;
use nuncio_a2h::wire::artifact::{ErrorCode, Reason};
use nuncio_core::grant::Term;
use nuncio_device::prompt::Said;
use nuncio_testkit::eventually;
use serde_json::json;

use super::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_comes_again_is_answered_as_before() {
    let scene = Scene::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let first = scene.call_named("call_1", "tell", json!({"path": "a"})).await;
    assert_eq!(first, Ok(json!({"run": 1})));
    assert_eq!(scene.call_named("call_1", "tell", json!({"path": "a"})).await, first);
    let other = scene.call_named("call_1", "tell", json!({"path": "b"})).await;
    assert!(matches!(other, Err(ToolError::Failed { code: ErrorCode::InvalidArguments, .. })), "{other:?}");
    // Nor is it run again by the next process.
    let ada = ada.restart();
    assert_eq!(scene.call_named("call_1", "tell", json!({"path": "a"})).await, first);
    assert_eq!(scene.call_named("call_2", "tell", json!({"path": "a"})).await, Ok(json!({"run": 2})));
    assert_eq!(ada.tool.runs(), 2);
    ada.device.verify_audit().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn once_is_once_even_for_two_calls_at_the_same_time() {
    let scene = Scene::start().await;
    let ada = scene.device("ada").await;
    scene.allow(&ada, &["notification:send"], Term::Once).await;
    let calls = tokio::join!(scene.call("tell", json!({"path": "a"})), scene.call("tell", json!({"path": "b"})));
    let ran = [&calls.0, &calls.1].into_iter().filter(|answer| answer.is_ok()).count();
    assert_eq!((ran, ada.tool.runs()), (1, 1), "{calls:?}");
    assert_eq!(scene.call("tell", json!({})).await, Err(ToolError::Denied(Reason::ScopeNotGranted)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_while_the_person_is_asked_runs_nothing() {
    let scene = Scene::start().await;
    let ada = scene.ada(&["location:read"]).await;
    let restart = async {
        ada.prompt.questions(1).await;
        ada.restart()
    };
    let (answer, ada) = tokio::join!(scene.call_named("call_1", "where", json!({})), restart);
    assert!(matches!(answer, Err(ToolError::Failed { code: ErrorCode::Unavailable, .. })), "{answer:?}");
    assert_eq!((ada.tool.runs(), ada.prompt.count()), (0, 0));
    // It stays answered.
    assert_eq!(scene.call_named("call_1", "where", json!({})).await, answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_while_it_runs_says_so_and_does_not_run_it_again() {
    let scene = Scene::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let restart = async {
        eventually("it runs", async || (ada.tool.runs() == 1).then_some(())).await;
        ada.restart()
    };
    let (answer, ada) = tokio::join!(scene.call_named("call_1", "tell", json!({"path": "endless"})), restart);
    let Err(ToolError::Failed { code: ErrorCode::PlatformError, message: Some(why) }) = &answer else {
        panic!("{answer:?}")
    };
    assert!(why.contains("may or may not"), "{why}");
    assert_eq!(scene.call_named("call_1", "tell", json!({"path": "endless"})).await, answer);
    assert_eq!(ada.tool.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_devices_one_runs_it() {
    let scene = Scene::start().await;
    let laptop = scene.ada(&["location:read"]).await;
    let phone = scene.device("ada").await;
    laptop.device.trust(&phone.device.identity().device).await.unwrap();
    phone.device.trust(&laptop.device.identity().device).await.unwrap();
    phone.device.refresh(&scene.id).await.unwrap();
    let answers = async {
        laptop.prompt.questions(1).await;
        phone.prompt.questions(1).await;
        // The laptop is answered by nobody: it hears that the phone has it, and drops the question.
        phone.prompt.will_say(&[Said::Yes]);
    };
    let (answer, ()) = tokio::join!(scene.call("where", json!({})), answers);
    assert_eq!(answer, Ok(json!({"run": 1})));
    // Both have heard the end of it.
    eventually("both wrote it down", async || {
        let words: Vec<_> = [&laptop, &phone]
            .iter()
            .flat_map(|running| running.device.audit().unwrap())
            .map(|chained| chained.entry.status)
            .collect();
        (words.len() == 2).then(|| assert!(words.contains(&"elsewhere".to_owned()), "{words:?}"))
    })
    .await;
    assert_eq!((laptop.tool.runs(), phone.tool.runs()), (0, 1));
}
