//! One test for each outcome: the agent's answer, the device's log, and whether the tool ran.

use std::time::Duration;

use nuncio_a2h::peer::{DeviceCallError, DeviceCallOptions};
use nuncio_a2h::wire::artifact::{DenialReason, ToolErrorCode};
use nuncio_core::ids::{ConversationId, ScopeId};
use nuncio_testkit::Method;
use nuncio_testkit::a2h::{AnonymousA2hClient, TestDevice};
use serde_json::json;

use super::{HIGH, HostileAgentSetup, LOW, MEDIUM, NOTHING, SealedCallSetup, line};

#[tokio::test(flavor = "multi_thread")]
async fn granted_calls_run_after_the_prompts_that_their_sensitivity_requires() {
    let scene = SealedCallSetup::new(&[LOW, MEDIUM, HIGH]).await;
    let mut device = scene.laptop.start_with_terminal();
    // A scope of low sensitivity does not ask.
    let answer = scene.call("c_1", "tell", "a").await.await.unwrap();
    assert!(answer.contains("done"), "{answer}");
    assert_eq!(device.questions(), 0);
    // A scope of medium sensitivity asks each time, until the person allows 24 hours in the app's conversation.
    let conversation = scene.world.session().await;
    for (number, id, typed) in [(1, "c_2", "y"), (2, "c_2b", "d")] {
        let call = scene.call_in(conversation.clone(), id, "read_file", "b");
        device.wait_for_prompts(number).await;
        device.answer(typed, &call).await;
        assert!(call.await.unwrap().contains("done"));
    }
    assert!(scene.call_in(conversation, "c_3", "read_file", "c").await.unwrap().contains("done"));
    assert_eq!(device.questions(), 2);
    let elsewhere = scene.call("c_4", "read_file", "d").await;
    device.wait_for_prompts(3).await;
    device.answer("y", &elsewhere).await;
    assert!(elsewhere.await.unwrap().contains("done"));
    // A scope of high sensitivity asks each time.
    for (number, id) in [(4, "c_5"), (5, "c_6")] {
        let next = scene.call(id, "where", "d").await;
        device.wait_for_prompts(number).await;
        device.answer("y", &next).await;
        assert!(next.await.unwrap().contains("done"));
    }
    assert_eq!(scene.tool_result("where"), "completed");
    device.stop();
    let ran = ["tell", "read_file", "read_file", "read_file", "read_file", "where", "where"];
    let ran_here: Vec<_> = scene.laptop.ran().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(ran_here, ran);
    let ok = |asked| line("ok", None, asked);
    assert_eq!(scene.laptop.log(), [ok(false), ok(true), ok(true), ok(false), ok(true), ok(true), ok(true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_tool_answers_tool_platform_error() {
    let scene = SealedCallSetup::new(&[LOW]).await;
    let device = scene.laptop.start_with_terminal();
    let answer = scene.call("c_1", "tell", "broken").await.await.unwrap();
    assert!(answer.contains("the program failed"), "{answer}");
    assert_eq!(scene.tool_result("tell"), "tool_failed");
    device.stop();
    assert_eq!(scene.laptop.ran().len(), 1, "it ran, and failed");
    assert_eq!(scene.laptop.log(), [line("error", Some("TOOL_PLATFORM_ERROR"), false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_arguments_answer_tool_invalid_arguments() {
    let rude = HostileAgentSetup::new(&[LOW]).await;
    let device = rude.laptop.start_with_terminal();
    for wrong in [json!({"path": 1}), json!({"path": "a", "mode": "w"}), json!([])] {
        let answer = rude.agent.call("ada", "tell", wrong.clone()).await;
        let Err(DeviceCallError::Failed { code: ToolErrorCode::InvalidArguments, message: Some(why) }) = &answer else {
            panic!("{wrong}: {answer:?}")
        };
        assert!(!why.is_empty());
    }
    device.stop();
    assert_eq!(rude.laptop.ran(), Vec::<String>::new());
    assert_eq!(rude.laptop.log(), vec![line("error", Some("TOOL_INVALID_ARGUMENTS"), false); 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unavailable_tool_answers_tool_unavailable() {
    let scene = SealedCallSetup::new(&[NOTHING]).await;
    let device = scene.laptop.start_with_terminal();
    let answer = scene.call("c_1", "agenda", "a").await.await.unwrap();
    assert!(answer.contains("no such tool"), "{answer}");
    assert_eq!(scene.tool_result("agenda"), "tool_unavailable");
    device.stop();
    assert_eq!(scene.laptop.ran(), Vec::<String>::new());
    assert_eq!(scene.laptop.log(), [line("error", Some("TOOL_UNAVAILABLE"), false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_prompt_answers_user_refused() {
    let scene = SealedCallSetup::new(&[MEDIUM, HIGH]).await;
    let mut device = scene.laptop.start_with_terminal();
    // Enter alone means no, and so does any input except yes.
    for (number, (id, tool, word)) in
        [("c_1", "where", "n"), ("c_2", "where", ""), ("c_3", "read_file", "sure")].into_iter().enumerate()
    {
        let call = scene.call(id, tool, "a").await;
        device.wait_for_prompts(number + 1).await;
        device.answer(word, &call).await;
        let answer = call.await.unwrap();
        assert!(answer.contains("the person refused the call on their device"), "{answer}");
        assert_eq!(scene.tool_result(tool), "denied");
    }
    device.stop();
    assert_eq!(scene.laptop.ran(), Vec::<String>::new());
    assert_eq!(scene.laptop.log(), vec![line("denied", Some("user_refused"), true); 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unanswered_prompt_denies_the_call_and_the_agent_gets_approval_expired() {
    let scene = SealedCallSetup::new(&[MEDIUM, HIGH]).await;
    let device = scene.laptop.start_with_terminal();
    let call = scene.call("c_1", "where", "a").await;
    device.wait_for_prompts(1).await;
    let answer = call.await.unwrap();
    assert!(answer.contains("the person did not answer in time"), "{answer}");
    assert_eq!(scene.tool_result("where"), "approval_expired");
    device.stop();
    assert_eq!(scene.laptop.ran(), Vec::<String>::new());
    assert_eq!(scene.laptop.log(), [line("denied", Some("user_timeout"), true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn device_answers_scope_not_granted_to_a_call_of_an_ungranted_scope() {
    let rude = HostileAgentSetup::new(&[LOW]).await;
    let device = rude.laptop.start_with_terminal();
    let ungranted = rude.agent.call("ada", "where", json!({"path": "a"})).await;
    assert_eq!(ungranted, Err(DeviceCallError::Denied(DenialReason::ScopeNotGranted)));
    // The agent names a granted scope for a tool of another scope.
    let conversation = rude.conversation().await;
    let laundered = DeviceCallOptions { scope: Some(ScopeId::parse(LOW).unwrap()), ..DeviceCallOptions::default() };
    let laundered =
        rude.agent.peer.calls().call_tool_with(&conversation, "where", json!({"path": "a"}), laundered).await;
    assert_eq!(laundered, Err(DeviceCallError::Denied(DenialReason::ScopeNotGranted)));
    assert_eq!(device.questions(), 0);
    device.stop();
    assert_eq!(rude.laptop.ran(), Vec::<String>::new());
    assert_eq!(rude.laptop.log(), vec![line("denied", Some("scope_not_granted"), false); 2]);
}

/// The server uses the same code as the device: `scope_not_granted`.
#[tokio::test(flavor = "multi_thread")]
async fn server_of_the_agent_denies_an_ungranted_scope_before_the_device_is_asked() {
    let scene = SealedCallSetup::new(&[LOW]).await;
    let device = scene.laptop.start_with_terminal();
    let answer = scene.call("c_1", "where", "a").await.await.unwrap();
    assert!(!answer.contains("done"), "{answer}");
    assert_eq!(scene.tool_result("where"), "scope_not_granted");
    assert_eq!(device.questions(), 0);
    device.stop();
    assert_eq!(scene.laptop.ran(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn undeclared_tool_answers_tool_not_declared() {
    let rude = HostileAgentSetup::new(&[LOW]).await;
    let device = rude.laptop.start_with_terminal();
    let (scope, timeout) = (ScopeId::parse(LOW).ok(), Some(Duration::from_secs(5)));
    let options = DeviceCallOptions { scope, timeout, ..DeviceCallOptions::default() };
    let conversation = rude.conversation().await;
    let answer = rude.agent.peer.calls().call_tool_with(&conversation, "wipe_disk", json!({}), options).await;
    assert_eq!(answer, Err(DeviceCallError::Denied(DenialReason::ToolNotDeclared)));
    device.stop();
    assert_eq!(rude.laptop.ran(), Vec::<String>::new());
    assert_eq!(rude.laptop.log(), [line("denied", Some("tool_not_declared"), false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_in_a_group_answers_tool_not_supported_in_group() {
    let rude = HostileAgentSetup::new(&[LOW]).await;
    let device = rude.laptop.start_with_terminal();
    let body = json!({"type": "group", "with": [TestDevice::member("ada")]});
    let relay = AnonymousA2hClient::at(rude.relay.url());
    let group = relay.send(Method::POST, "/conversations", Some(&rude.token), Some(&body)).await;
    let group = ConversationId::parse(group.data()["id"].as_str().unwrap()).unwrap();
    // The same call is allowed in a conversation of two.
    let answer = rude.agent.peer.calls().call_tool(&group, "tell", json!({"path": "a"})).await;
    assert_eq!(answer, Err(DeviceCallError::Denied(DenialReason::ToolNotSupportedInGroup)));
    device.stop();
    assert_eq!(rude.laptop.ran(), Vec::<String>::new());
    assert_eq!(rude.laptop.log(), [line("denied", Some("tool_not_supported_in_group"), false)]);
}
