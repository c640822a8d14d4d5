//! Consent: request, grant, revocation and manifest changes.

use std::time::Duration;

use nuncio_a2h::peer::DeviceCallError;
use nuncio_a2h::wire::artifact::DenialReason;
use nuncio_core::agent::Sensitivity;
use nuncio_device::prompt::PromptAnswer;
use serde_json::json;

use super::scene::{RelayAndAgentFixture, manifest};

const NOT_GRANTED: DeviceCallError = DeviceCallError::Denied(DenialReason::ScopeNotGranted);

#[tokio::test(flavor = "multi_thread")]
async fn consent_request_lists_scopes_by_sensitivity_with_translated_labels() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.device("ada").await;
    let ask = ada.device.consents().access_request(&scene.id).await.unwrap();
    let shown: Vec<_> = ask.scopes.iter().map(|scope| (scope.id.as_str(), scope.sensitivity)).collect();
    let expected = [
        ("location:read", Sensitivity::High),
        ("filesystem:read", Sensitivity::Medium),
        ("notification:send", Sensitivity::Low),
    ];
    assert_eq!(shown, expected);
    assert_eq!(ask.name, "Notes");
    for scope in &ask.scopes {
        assert!(!scope.granted && !scope.suspended && !scope.texts.agents_words);
        let [english, chinese] = nuncio_device::LANGUAGES.map(|language| scope.texts.label.in_language(language));
        assert!(english.is_some() && chinese.is_some() && english != chinese, "{:?}", scope.texts);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_consent_during_a_prompt_cancels_the_call() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["location:read"]).await;
    let revoke = async {
        ada.prompt.questions(1).await;
        ada.device.consents().revoke(&scene.id).await.unwrap();
        // The prompt ends without an answer.
        let ended = async || ada.device.audit().entries().unwrap().pop();
        let ended = nuncio_testkit::eventually("it is written down", ended).await;
        // After the revocation the relay delivers no answer, so the agent's call must time out.
        scene.clock.jump(Duration::from_secs(60));
        ended
    };
    let (answer, ended) = tokio::join!(scene.call("where", json!({})), revoke);
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(ended.entry.reason.as_deref(), Some("scope_not_granted"));
    assert_eq!(ada.tool.runs(), 0);
    // After a new grant the person is prompted again.
    scene.allow(&ada, &["location:read"], nuncio_core::grant::GrantTerm::UntilRevoked).await;
    ada.prompt.will_say(&[PromptAnswer::Yes]);
    assert_eq!(scene.call("where", json!({})).await, Ok(json!({"run": 1})));
}

#[tokio::test(flavor = "multi_thread")]
async fn breaking_manifest_change_suspends_scope_until_new_consent() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["filesystem:read", "notification:send"]).await;
    ada.prompt.will_say(&[PromptAnswer::Yes]);
    scene.call("read_file", json!({"path": "a"})).await.unwrap();
    let mut changed = manifest();
    changed["agent_version"] = json!("2.0.0");
    changed["tools"][0]["input_schema"]["properties"]["why"] = json!({"type": "string"});
    changed["tools"][0]["input_schema"]["required"] = json!(["why"]);
    scene.owner.publish(scene.id.as_str(), &changed).await.data();
    let arguments = json!({"path": "a", "why": "curious"});
    assert_eq!(scene.call("read_file", arguments.clone()).await, Err(NOT_GRANTED));
    let ask = ada.device.consents().access_request(&scene.id).await.unwrap();
    let suspended: Vec<_> = ask.scopes.iter().filter(|scope| scope.suspended).map(|scope| scope.id.as_str()).collect();
    assert_eq!(suspended, ["filesystem:read"]);
    scene.allow(&ada, &["filesystem:read", "notification:send"], nuncio_core::grant::GrantTerm::UntilRevoked).await;
    ada.prompt.will_say(&[PromptAnswer::Yes]);
    scene.call("read_file", arguments).await.unwrap();
    assert_eq!(ada.prompt.count(), 2, "a renewed consent asks again");
}

#[tokio::test(flavor = "multi_thread")]
async fn grant_signed_by_another_device_counts_only_after_that_device_is_trusted() {
    let scene = RelayAndAgentFixture::start().await;
    let laptop = scene.device("ada").await;
    let stranger = scene.ada(&["notification:send"]).await;
    let known = laptop.device.consents().refresh(&scene.id).await.unwrap();
    assert_eq!(known.entries.len(), 1);
    assert!(known.standing(&laptop.device.identity().person).is_none());
    // The person confirms the device.
    laptop.device.own_devices().trust(&stranger.device.identity().device, None).await.unwrap();
    let known = laptop.device.consents().refresh(&scene.id).await.unwrap();
    assert!(known.standing(&laptop.device.identity().person).is_some());
}
