//! Limits that an agent must not be able to bypass with tool calls.

use std::time::Duration;

use nuncio_a2h::peer::{DeviceCallError, DeviceCallOptions};
use nuncio_a2h::wire::artifact::{DenialReason, ToolErrorCode};
use nuncio_core::conversation::MsgSubtype;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{CallId, ConversationId};
use nuncio_device::prompt::PromptAnswer;
use nuncio_testkit::Method;
use nuncio_testkit::a2h::TestDevice;
use serde_json::{Value, json};

use super::scene::{RelayAndAgentFixture, RunningDevice, manifest};

/// Call id and reason or status of each audit entry.
fn log(running: &RunningDevice) -> Vec<(String, String)> {
    running.device.audit().verify().unwrap();
    let entries = running.device.audit().entries().unwrap().into_iter().map(|chained| chained.entry);
    entries.map(|entry| (entry.call_id.to_string(), entry.reason.unwrap_or(entry.status))).collect()
}

fn line(call: &str, word: &str) -> (String, String) {
    (call.to_owned(), word.to_owned())
}

async fn group(scene: &RelayAndAgentFixture) -> ConversationId {
    let body = json!({"type": "group", "with": [TestDevice::member("ada")]});
    let group = scene.server.send(Method::POST, "/conversations", Some(&scene.token), Some(&body)).await;
    ConversationId::parse(group.data()["id"].as_str().unwrap()).unwrap()
}

/// The stored answer must not be sent to the group, which has more members.
#[tokio::test(flavor = "multi_thread")]
async fn call_repeated_in_a_group_conversation_is_refused() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send", "location:read"]).await;
    let group = group(&scene).await;
    let in_group = async |name: &str, tool: &str| {
        let options = DeviceCallOptions { call_id: Some(CallId::parse(name).unwrap()), ..DeviceCallOptions::default() };
        scene.agent.peer.calls().call_tool_with(&group, tool, json!({"path": "a"}), options).await
    };
    assert_eq!(scene.call_named("call_1", "tell", json!({"path": "a"})).await, Ok(json!({"run": 1})));
    let refused = Err(DeviceCallError::Denied(DenialReason::ToolNotSupportedInGroup));
    assert_eq!(in_group("call_1", "tell").await, refused, "one that was answered");
    assert_eq!(in_group("call_1", "where").await, refused, "another of the same name");
    // The same holds for a second call in the group while a prompt is open; its refusal does not wait for the prompt.
    let meanwhile = async {
        ada.prompt.questions(1).await;
        let answer = in_group("call_2", "where").await;
        ada.prompt.will_say(&[PromptAnswer::Yes]);
        answer
    };
    let (alone, grouped) = tokio::join!(scene.call("where", json!({"path": "a"})), meanwhile);
    assert_eq!((alone, grouped), (Ok(json!({"run": 2})), refused));
    assert_eq!(ada.tool.runs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_with_reused_id_and_other_arguments_is_refused_and_logged() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    scene.call_named("call_1", "tell", json!({"path": "a"})).await.unwrap();
    let other = scene.call_named("call_1", "tell", json!({"path": "b"})).await;
    assert!(matches!(other, Err(DeviceCallError::Failed { code: ToolErrorCode::InvalidArguments, .. })), "{other:?}");
    assert_eq!(log(&ada), [line("call_1", "ok"), line("call_1", "TOOL_INVALID_ARGUMENTS")]);
    // The outcome of the first call is still stored.
    assert_eq!(scene.call_named("call_1", "tell", json!({"path": "a"})).await, Ok(json!({"run": 1})));
}

/// The answer reaches the agent as that of the call with the same id, which waits for the person.
#[tokio::test(flavor = "multi_thread")]
async fn malformed_call_is_answered_with_the_reason_and_not_run() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["location:read"]).await;
    let conversation = scene.conversation().await;
    for (number, (why, artifact)) in [
        ("timeout_ms", json!({"tool_name": "where", "arguments": {}, "permission_scope": "location:read"})),
        ("tool_name", json!({"arguments": {}, "permission_scope": "location:read", "timeout_ms": 5000})),
        ("permission_scope", json!({"tool_name": "where", "arguments": {}, "permission_scope": 7, "timeout_ms": 5000})),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("call_{number}");
        let mut artifact = artifact;
        (artifact["subtype"], artifact["call_id"]) = (json!("tool_call"), json!(id));
        let malformed = async {
            ada.prompt.questions(number + 1).await;
            let payload = json!({"type": "artifact", "artifact": artifact});
            let outbox = scene.agent.peer.outbox();
            outbox.send_artifact(&conversation, MsgSubtype::ArtifactToolCall, payload).await.unwrap();
        };
        let (answer, ()) = tokio::join!(scene.call_named(&id, "where", json!({})), malformed);
        let Err(DeviceCallError::Failed { code: ToolErrorCode::InvalidArguments, message: Some(message) }) = &answer
        else {
            panic!("{answer:?}")
        };
        assert!(message.contains(why), "{message}");
        ada.prompt.will_say(&[PromptAnswer::No]);
    }
    assert_eq!(ada.tool.runs(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_name_that_no_manifest_can_declare_is_denied() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["location:read"]).await;
    let conversation = scene.conversation().await;
    for (number, (tool, scope, reason)) in
        [("no spaces", "location:read", DenialReason::ToolNotDeclared), ("where", "", DenialReason::ScopeNotGranted)]
            .into_iter()
            .enumerate()
    {
        let id = format!("call_{number}");
        let artifact = json!({
            "subtype": "tool_call", "call_id": id, "tool_name": tool, "arguments": {}, "permission_scope": scope,
            "timeout_ms": 5000,
        });
        let malformed = async {
            ada.prompt.questions(number + 1).await;
            let payload = json!({"type": "artifact", "artifact": artifact});
            let outbox = scene.agent.peer.outbox();
            outbox.send_artifact(&conversation, MsgSubtype::ArtifactToolCall, payload).await.unwrap();
        };
        let (answer, ()) = tokio::join!(scene.call_named(&id, "where", json!({})), malformed);
        assert!(matches!(&answer, Err(DeviceCallError::Denied(found)) if *found == reason), "{answer:?}");
        ada.prompt.will_say(&[PromptAnswer::No]);
    }
    assert_eq!(ada.tool.runs(), 0);
}

/// A call beyond the relay's limit waits until a call of the last minute is a minute old. Meanwhile messages change the
/// session keys.
#[tokio::test(flavor = "multi_thread")]
async fn call_delayed_by_the_rate_limit_is_still_opened_and_run() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    for number in 1..=60 {
        assert_eq!(scene.call("tell", json!({})).await, Ok(json!({"run": number})));
    }
    scene.clock.jump(Duration::from_secs(40));
    let meanwhile = async {
        for number in 0..50 {
            scene.agent.say("ada", json!({"type": "text", "text": number.to_string()})).await.unwrap();
        }
        scene.clock.jump(Duration::from_secs(20));
    };
    let (delayed, ()) = tokio::join!(scene.call("tell", json!({})), meanwhile);
    assert_eq!(delayed, Ok(json!({"run": 61})));
    assert_eq!(ada.tool.runs(), 61);
}

/// The machine sleeps during the prompt, so the deadline passes although timers do not run.
#[tokio::test(flavor = "multi_thread")]
async fn yes_after_the_machine_slept_past_the_prompt_time_limit_counts_as_timeout() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["location:read"]).await;
    *ada.prompt.asleep.lock().unwrap() = Some((scene.clock.clone(), Duration::from_secs(31)));
    ada.prompt.will_say(&[PromptAnswer::Yes]);
    assert_eq!(scene.call("where", json!({})).await, Err(DeviceCallError::Denied(DenialReason::UserTimeout)));
    assert_eq!(ada.tool.runs(), 0);
}

/// The device fetches a compatible manifest change when a call needs it.
#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_validated_against_the_currently_published_manifest() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    scene.call("tell", json!({"path": "a"})).await.unwrap();
    let mut wider = manifest();
    wider["agent_version"] = json!("1.1.0");
    wider["tools"][1]["input_schema"]["properties"]["title"] = json!({"type": "string"});
    scene.owner.publish(scene.id.as_str(), &wider).await.data();
    assert_eq!(scene.call("tell", json!({"path": "a", "title": "b"})).await, Ok(json!({"run": 2})));
    let wrong = scene.call("tell", json!({"path": "a", "body": "b"})).await;
    assert!(matches!(wrong, Err(DeviceCallError::Failed { code: ToolErrorCode::InvalidArguments, .. })), "{wrong:?}");
    assert_eq!(ada.tool.runs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn error_message_about_large_invalid_arguments_stays_short() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let large: Value = json!({"path": ["\"".repeat(120_000)]});
    let answer = scene.call("tell", large).await;
    let Err(DeviceCallError::Failed { code: ToolErrorCode::InvalidArguments, message: Some(why) }) = &answer else {
        panic!("{answer:?}")
    };
    assert!(why.contains("path") && why.len() < 4000, "{} bytes", why.len());
    assert_eq!(ada.tool.runs(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_entries_older_than_thirty_days_are_deleted_without_restart() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    scene.call_named("call_1", "tell", json!({})).await.unwrap();
    scene.clock.jump(Duration::from_secs(29 * 24 * 3600));
    scene.call_named("call_2", "tell", json!({})).await.unwrap();
    assert_eq!(log(&ada), [line("call_1", "ok"), line("call_2", "ok")]);
    scene.clock.jump(Duration::from_secs(2 * 24 * 3600));
    scene.call_named("call_3", "tell", json!({})).await.unwrap();
    assert_eq!(log(&ada), [line("call_2", "ok"), line("call_3", "ok")]);
}

/// The use of a one-time grant is recorded for the ledger entry that granted it.
#[tokio::test(flavor = "multi_thread")]
async fn one_time_grant_works_again_after_revocation_and_new_grant() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.device("ada").await;
    for run in 1..=3 {
        scene.allow(&ada, &["notification:send"], GrantTerm::Once).await;
        assert_eq!(scene.call("tell", json!({})).await, Ok(json!({"run": run})));
        let spent = scene.call("tell", json!({})).await;
        assert_eq!(spent, Err(DeviceCallError::Denied(DenialReason::ScopeNotGranted)));
        ada.device.consents().revoke(&scene.id).await.unwrap();
    }
    assert_eq!(ada.tool.runs(), 3);
}
