//! Every outcome of a tool call between agent, relay and device, with its audit entry.

use std::time::Duration;

use nuncio_a2h::peer::{DeviceCallError, DeviceCallOptions};
use nuncio_a2h::wire::artifact::{DenialReason, ToolErrorCode};
use nuncio_core::agent::Sensitivity;
use nuncio_core::call_source::CallSource;
use nuncio_core::ids::ConversationId;
use nuncio_device::guard::SensitivityFloors;
use nuncio_device::prompt::PromptAnswer;
use nuncio_testkit::Method;
use nuncio_testkit::a2h::TestDevice;
use serde_json::{Value, json};

use super::scene::{RelayAndAgentFixture, RunningDevice, manifest, scope};

const ALL: [&str; 3] = ["filesystem:read", "notification:send", "location:read"];

fn denied(reason: DenialReason) -> Result<Value, DeviceCallError> {
    Err(DeviceCallError::Denied(reason))
}

fn code(answer: Result<Value, DeviceCallError>) -> (ToolErrorCode, String) {
    match answer {
        Err(DeviceCallError::Failed { code, message }) => (code, message.unwrap()),
        other => panic!("{other:?}"),
    }
}

/// Status and reason of each audit entry, and whether the person was asked.
fn log(running: &RunningDevice) -> Vec<(String, Option<String>, bool)> {
    let count = running.device.audit().verify().unwrap();
    let entries = running.device.audit().entries().unwrap();
    assert_eq!(u64::try_from(entries.len()).unwrap(), count);
    entries.into_iter().map(|chained| (chained.entry.status, chained.entry.reason, chained.entry.asked)).collect()
}

fn line(status: &str, reason: Option<&str>, asked: bool) -> (String, Option<String>, bool) {
    (status.to_owned(), reason.map(str::to_owned), asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn low_sensitivity_call_runs_unasked_medium_prompts_once_high_prompts_every_time() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&ALL).await;
    assert_eq!(scene.call("tell", json!({})).await, Ok(json!({"run": 1})));
    assert_eq!(ada.prompt.count(), 0);
    ada.prompt.will_say(&[PromptAnswer::Yes]);
    assert_eq!(scene.call("read_file", json!({"path": "a"})).await, Ok(json!({"run": 2})));
    assert_eq!(scene.call("read_file", json!({"path": "b"})).await, Ok(json!({"run": 3})), "not asked again");
    assert_eq!(ada.prompt.count(), 1);
    ada.prompt.will_say(&[PromptAnswer::Yes, PromptAnswer::Yes]);
    assert_eq!(scene.call("where", json!({})).await, Ok(json!({"run": 4})));
    assert_eq!(scene.call("where", json!({})).await, Ok(json!({"run": 5})));
    assert_eq!(ada.prompt.count(), 3);
    let question = ada.prompt.asked.lock().unwrap()[0].clone();
    assert_eq!((question.tool.as_str(), question.scope.as_str()), ("read_file", "filesystem:read"));
    assert_eq!((question.sensitivity, question.agent_name.as_str()), (Sensitivity::Medium, "Notes"));
    assert!(question.arguments.contains("\"path\": \"a\""), "{}", question.arguments);
    let ok = |asked| line("ok", None, asked);
    assert_eq!(log(&ada), [ok(false), ok(true), ok(false), ok(true), ok(true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_prompt_and_unanswered_prompt_give_their_denial_reasons() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&ALL).await;
    ada.prompt.will_say(&[PromptAnswer::No]);
    assert_eq!(scene.call("where", json!({})).await, denied(DenialReason::UserRefused));
    ada.prompt.will_say(&[PromptAnswer::No]);
    assert_eq!(scene.call("read_file", json!({})).await, denied(DenialReason::UserRefused));
    let silence = async {
        ada.prompt.questions(3).await;
        scene.clock.jump(Duration::from_secs(31));
    };
    let (answer, ()) = tokio::join!(scene.call("where", json!({})), silence);
    assert_eq!(answer, denied(DenialReason::UserTimeout));
    assert_eq!(ada.tool.runs(), 0);
    let refused = line("denied", Some("user_refused"), true);
    assert_eq!(log(&ada), [refused.clone(), refused, line("denied", Some("user_timeout"), true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unattended_device_logs_its_decisions_as_made_without_asking_the_person() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["location:read"]).await;
    ada.prompt.deserted.store(true, std::sync::atomic::Ordering::SeqCst);
    ada.prompt.will_say(&[PromptAnswer::Yes, PromptAnswer::No]);
    assert_eq!(scene.call("where", json!({})).await, Ok(json!({"run": 1})));
    assert_eq!(scene.call("where", json!({})).await, denied(DenialReason::UserRefused));
    assert_eq!(log(&ada), [line("ok", None, false), line("denied", Some("user_refused"), false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn undeclared_tool_ungranted_or_wrong_scope_and_group_call_are_denied() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let undeclared = scene.call_under("write_file", "notification:send", json!({})).await;
    assert_eq!(undeclared, denied(DenialReason::ToolNotDeclared));
    assert_eq!(scene.call("read_file", json!({})).await, denied(DenialReason::ScopeNotGranted));
    // A sensitive tool is called under a granted scope of lower sensitivity.
    let confused = scene.call_under("where", "notification:send", json!({})).await;
    assert_eq!(confused, denied(DenialReason::ScopeNotGranted));
    let body = json!({"type": "group", "with": [TestDevice::member("ada")]});
    let group = scene.server.send(Method::POST, "/conversations", Some(&scene.token), Some(&body)).await;
    let group = ConversationId::parse(group.data()["id"].as_str().unwrap()).unwrap();
    let grouped =
        scene.agent.peer.calls().call_tool_with(&group, "tell", json!({}), DeviceCallOptions::default()).await;
    assert_eq!(grouped, denied(DenialReason::ToolNotSupportedInGroup));
    assert_eq!((ada.tool.runs(), ada.prompt.count()), (0, 0));
    let reasons = ["tool_not_declared", "scope_not_granted", "scope_not_granted", "tool_not_supported_in_group"];
    assert_eq!(log(&ada), reasons.map(|reason| line("denied", Some(reason), false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_arguments_tool_failure_and_missing_tool_give_their_error_codes() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let (wrong, why) = code(scene.call("tell", json!({"path": 1})).await);
    assert_eq!(wrong, ToolErrorCode::InvalidArguments);
    assert!(why.contains("path"), "{why}");
    assert_eq!(ada.tool.runs(), 0);
    let broken = code(scene.call("tell", json!({"path": "broken"})).await);
    assert_eq!(broken, (ToolErrorCode::PlatformError, "the disk is broken".to_owned()));
    let (large, why) = code(scene.call("tell", json!({"path": "large"})).await);
    assert_eq!(large, ToolErrorCode::PlatformError);
    assert!(why.contains("70014"), "{why}");
    let endless = async {
        nuncio_testkit::eventually("it runs", async || (ada.tool.runs() == 3).then_some(())).await;
        scene.clock.jump(Duration::from_secs(6));
    };
    let (answer, ()) = tokio::join!(scene.call("tell", json!({"path": "endless"})), endless);
    let (slow, why) = code(answer);
    assert_eq!(slow, ToolErrorCode::PlatformError);
    assert!(why.contains("time limit"), "{why}");
    // The device has no tool for the scope `clipboard:read`.
    let mut more = manifest();
    more["tools"].as_array_mut().unwrap().push(json!({
        "name": "paste", "description_i18n_key": "x", "permission_scope": "clipboard:read",
        "input_schema": {"type": "object", "additionalProperties": false},
    }));
    more["permission_scopes"].as_array_mut().unwrap().push(json!({
        "id": "clipboard:read", "sensitivity": "medium",
        "label_i18n_key": "agent.scope.clipboard_read.label",
        "description_i18n_key": "agent.scope.clipboard_read.description",
    }));
    scene.owner.publish(scene.id.as_str(), &more).await.data();
    scene.allow(&ada, &["notification:send", "clipboard:read"], nuncio_core::grant::GrantTerm::UntilRevoked).await;
    assert_eq!(code(scene.call("paste", json!({})).await).0, ToolErrorCode::Unavailable);
    let error = |reason| line("error", Some(reason), false);
    let platform = "TOOL_PLATFORM_ERROR";
    let expected = ["TOOL_INVALID_ARGUMENTS", platform, platform, platform, "TOOL_UNAVAILABLE"];
    assert_eq!(log(&ada), expected.map(error));
}

#[tokio::test(flavor = "multi_thread")]
async fn person_is_prompted_again_after_a_day_without_use_or_with_stricter_setting() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&ALL).await;
    let read = async || scene.call("read_file", json!({})).await;
    ada.prompt.will_say(&[PromptAnswer::Yes]);
    read().await.unwrap();
    scene.clock.jump(Duration::from_secs(20 * 3600));
    read().await.unwrap();
    scene.clock.jump(Duration::from_secs(20 * 3600));
    read().await.unwrap();
    assert_eq!(ada.prompt.count(), 1, "each use within 24 hours extends the permission");
    scene.clock.jump(Duration::from_secs(25 * 3600));
    ada.prompt.will_say(&[PromptAnswer::No]);
    assert_eq!(read().await, denied(DenialReason::UserRefused));
    // The person wants to be asked about every notification.
    ada.device.consents().set_stricter(&scene.id, &scope("notification:send"), Some(Sensitivity::High)).unwrap();
    ada.prompt.will_say(&[PromptAnswer::No]);
    assert_eq!(scene.call("tell", json!({})).await, denied(DenialReason::UserRefused));
    ada.device.consents().set_stricter(&scene.id, &scope("notification:send"), None).unwrap();
    scene.call("tell", json!({})).await.unwrap();
    // After a month older audit entries are deleted, and the chain still verifies.
    scene.clock.jump(Duration::from_secs(31 * 24 * 3600));
    let ada = ada.restart();
    scene.call("tell", json!({})).await.unwrap();
    assert_eq!(log(&ada), [line("ok", None, false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn administrator_minimum_sensitivity_overrides_manifest_and_persons_setting() {
    let scene = RelayAndAgentFixture::start().await;
    let floors = SensitivityFloors::from([(scope("notification:send"), Sensitivity::High)]);
    let ada = scene.device_with("ada", floors).await;
    scene.allow(&ada, &["notification:send"], nuncio_core::grant::GrantTerm::UntilRevoked).await;
    ada.device.consents().set_stricter(&scene.id, &scope("notification:send"), Some(Sensitivity::Low)).unwrap();
    ada.prompt.will_say(&[PromptAnswer::No]);
    assert_eq!(scene.call("tell", json!({})).await, denied(DenialReason::UserRefused));
}

/// Calls `read_file` for an app in one of its conversations.
async fn read_for(scene: &RelayAndAgentFixture, app: &str, conversation: &str) -> Result<Value, DeviceCallError> {
    let source = CallSource {
        caller: format!("key:{app}"),
        app: Some(app.to_owned()),
        key_created_at: None,
        conversation: Some(conversation.to_owned()),
    };
    let options = DeviceCallOptions { source: Some(source), ..DeviceCallOptions::default() };
    let conversation = scene.conversation().await;
    scene.agent.peer.calls().call_tool_with(&conversation, "read_file", json!({"path": "a"}), options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_for_a_day_holds_only_for_the_app_and_conversation_of_the_question() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&ALL).await;
    ada.prompt.will_say(&[PromptAnswer::Yes]);
    assert_eq!(read_for(&scene, "notes", "ses_1").await, Ok(json!({"run": 1})));
    let source = ada.prompt.asked.lock().unwrap()[0].source.clone().unwrap();
    assert_eq!((source.app.as_deref(), source.conversation.as_deref()), (Some("notes"), Some("ses_1")));
    assert_eq!(read_for(&scene, "notes", "ses_1").await, Ok(json!({"run": 2})), "the same app and conversation");
    assert_eq!(ada.prompt.count(), 1);
    ada.prompt.will_say(&[PromptAnswer::No, PromptAnswer::No, PromptAnswer::No]);
    assert_eq!(read_for(&scene, "notes", "ses_2").await, denied(DenialReason::UserRefused));
    assert_eq!(read_for(&scene, "other", "ses_1").await, denied(DenialReason::UserRefused));
    assert_eq!(scene.call("read_file", json!({"path": "a"})).await, denied(DenialReason::UserRefused), "no source");
    assert_eq!(ada.prompt.count(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn medium_call_that_is_allowed_once_is_asked_about_again() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&ALL).await;
    ada.prompt.will_say(&[PromptAnswer::Once, PromptAnswer::No]);
    assert_eq!(scene.call("read_file", json!({"path": "a"})).await, Ok(json!({"run": 1})));
    assert_eq!(scene.call("read_file", json!({"path": "a"})).await, denied(DenialReason::UserRefused));
    assert_eq!(ada.prompt.count(), 2);
}
