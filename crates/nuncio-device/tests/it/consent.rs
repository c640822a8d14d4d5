//! What a person allows, takes back, and is shown.

use std::time::Duration;

use nuncio_a2h::peer::ToolError;
use nuncio_a2h::wire::artifact::Reason;
use nuncio_core::agent::Sensitivity;
use nuncio_device::prompt::Said;
use serde_json::json;

use super::scene::{Scene, manifest};

const NOT_GRANTED: ToolError = ToolError::Denied(Reason::ScopeNotGranted);

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_shown_with_what_it_asks_the_most_sensitive_first() {
    let scene = Scene::start().await;
    let ada = scene.device("ada").await;
    let ask = ada.device.look(&scene.id).await.unwrap();
    let shown: Vec<_> = ask.scopes.iter().map(|scope| (scope.id.as_str(), scope.sensitivity)).collect();
    let expected = [
        ("location:read", Sensitivity::High),
        ("filesystem:read", Sensitivity::Medium),
        ("notification:send", Sensitivity::Low),
    ];
    assert_eq!(shown, expected);
    assert_eq!(ask.name, "Notes");
    for scope in &ask.scopes {
        assert!(!scope.granted && !scope.suspended && !scope.words.agents_words);
        let [english, chinese] = nuncio_device::LANGUAGES.map(|language| scope.words.label.say(language));
        assert!(english.is_some() && chinese.is_some() && english != chinese, "{:?}", scope.words);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_back_while_the_person_is_asked_does_not_run() {
    let scene = Scene::start().await;
    let ada = scene.ada(&["location:read"]).await;
    let revoke = async {
        ada.prompt.questions(1).await;
        ada.device.revoke(&scene.id).await.unwrap();
        // Nobody has to answer what is answered already.
        let ended = async || ada.device.audit().unwrap().pop();
        let ended = nuncio_testkit::eventually("it is written down", ended).await;
        // The relay carries no answer between those who deal no more: nobody needs to wait for one.
        scene.clock.jump(Duration::from_secs(60));
        ended
    };
    let (answer, ended) = tokio::join!(scene.call("where", json!({})), revoke);
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(ended.entry.reason.as_deref(), Some("scope_not_granted"));
    assert_eq!(ada.tool.runs(), 0);
    // Allowed anew, it is asked about anew.
    scene.allow(&ada, &["location:read"], nuncio_core::grant::Term::UntilRevoked).await;
    ada.prompt.will_say(&[Said::Yes]);
    assert_eq!(scene.call("where", json!({})).await, Ok(json!({"run": 1})));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaking_change_suspends_until_the_person_says_yes_again() {
    let scene = Scene::start().await;
    let ada = scene.ada(&["filesystem:read", "notification:send"]).await;
    ada.prompt.will_say(&[Said::Yes]);
    scene.call("read_file", json!({"path": "a"})).await.unwrap();
    let mut changed = manifest();
    changed["agent_version"] = json!("2.0.0");
    changed["tools"][0]["input_schema"]["properties"]["why"] = json!({"type": "string"});
    changed["tools"][0]["input_schema"]["required"] = json!(["why"]);
    scene.owner.publish(scene.id.as_str(), &changed).await.data();
    let arguments = json!({"path": "a", "why": "curious"});
    assert_eq!(scene.call("read_file", arguments.clone()).await, Err(NOT_GRANTED));
    let ask = ada.device.look(&scene.id).await.unwrap();
    let suspended: Vec<_> = ask.scopes.iter().filter(|scope| scope.suspended).map(|scope| scope.id.as_str()).collect();
    assert_eq!(suspended, ["filesystem:read"]);
    scene.allow(&ada, &["filesystem:read", "notification:send"], nuncio_core::grant::Term::UntilRevoked).await;
    ada.prompt.will_say(&[Said::Yes]);
    scene.call("read_file", arguments).await.unwrap();
    assert_eq!(ada.prompt.count(), 2, "a new yes is asked about anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_by_a_device_nobody_vouched_for_allows_nothing_here() {
    let scene = Scene::start().await;
    let laptop = scene.device("ada").await;
    let stranger = scene.ada(&["notification:send"]).await;
    let known = laptop.device.refresh(&scene.id).await.unwrap();
    assert_eq!(known.entries.len(), 1);
    assert!(known.standing(&laptop.device.identity().person).is_none());
    // The person says that it is theirs.
    laptop.device.trust(&stranger.device.identity().device).await.unwrap();
    let known = laptop.device.refresh(&scene.id).await.unwrap();
    assert!(known.standing(&laptop.device.identity().person).is_some());
}
