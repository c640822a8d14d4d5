//! Tool calls that people's consent allows or denies.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::agent::Agent;
use nuncio_core::execution::TraceIds;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, CallId, ToolName};
use nuncio_core::policy::Protocol;
use nuncio_core::text::TextByLanguage;
use nuncio_engine::call::{ClientDecision, ToolCallOutcome, ToolCallRequest};
use nuncio_engine::ports::Clock as _;
use nuncio_engine::{Caller, Engine};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::world::{CLIPBOARD, FILES, TestEngine, broken_version, first_version, manifest, object};

const AGENT: &str = r#"
[agent]
name = "helper"
title = "The helper"
version = "1.0.0"
[brain]
kind = "script"

[[scope]]
id = "filesystem:read"
label = "Read files"
sensitivity = "medium"

[[tool]]
name = "read_file"
description = "Reads."
input = { type = "object" }
scope = "filesystem:read"
run = { command = ["true"] }
"#;

fn agent() -> Agent {
    nuncio_agent_file::parse("agent.toml", AGENT).unwrap().agent
}

pub(crate) async fn serve(world: &TestEngine) {
    serve_on(&world.engine).await;
}

pub(crate) async fn serve_on(engine: &Engine) {
    engine.agents().publish(agent()).await.unwrap();
}

async fn announce(world: &TestEngine, manifest: Option<Value>) -> AgentId {
    world.engine.agents().publish(agent()).await.unwrap();
    world.engine.manifests().announce(&agent(), manifest).await.unwrap().unwrap().account.id
}

/// Calls the tool; returns the code of a refusal.
pub(crate) async fn call(world: &TestEngine, caller: &Caller) -> Result<(), ErrorCode> {
    call_on(&world.engine, caller).await
}

/// Calls the tool on one of several engines; returns the code of a refusal.
pub(crate) async fn call_on(engine: &Engine, caller: &Caller) -> Result<(), ErrorCode> {
    let served = engine.agents().agent("helper").unwrap();
    let (trace, cancel) = (TraceIds::default(), CancellationToken::new());
    let call = ToolCallRequest {
        caller,
        protocol: Protocol::A2h,
        published: &served,
        id: CallId::parse("c1").unwrap(),
        tool: ToolName::parse("read_file").unwrap(),
        arguments: Map::new(),
        offered: true,
        client: ClientDecision::NotAsked,
        turn: None,
        target: None,
        pending_insert: None,
        trace: &trace,
        on_start: None,
        deadline: engine.now().after(Duration::from_secs(60)),
        cancel: &cancel,
    };
    let ToolCallOutcome::Ended(ended) = engine.calls().call(call).await.unwrap() else {
        panic!("the call must not ask an approver")
    };
    ended.result.map(|_| ()).map_err(|failure| failure.code)
}

#[tokio::test]
async fn announcing_an_agent_file_publishes_its_manifest_only_when_changed() {
    let world = TestEngine::new().await;
    assert_eq!(world.engine.manifests().announce(&agent(), None).await.unwrap(), None, "the agent has no device tools");
    let id = announce(&world, Some(first_version())).await;
    let account = world.engine.accounts().account(&id).await.unwrap();
    assert_eq!(
        (id.as_str(), account.display_name.as_str(), account.owner.to_string().as_str()),
        ("helper", "The helper", "operator")
    );
    let again = world.engine.manifests().announce(&agent(), Some(first_version())).await.unwrap().unwrap();
    assert_eq!((again.version, again.changed), (1, false), "the same file again");
    let renamed = Agent { title: Some(TextByLanguage::english("Helper the second")), ..agent() };
    let changed =
        world.engine.manifests().announce(&renamed, Some(broken_version(&["path", "limit"]))).await.unwrap().unwrap();
    assert_eq!((changed.version, changed.account.display_name.as_str()), (2, "Helper the second"));
    let gone = world.engine.manifests().announce(&renamed, None).await.unwrap().unwrap();
    assert_eq!((gone.version, gone.hash), (3, None));
    let eve = world.person("eve").await;
    let stolen = world.engine.manifests().publish_manifest(&eve.caller(), &id, None, None, None).await.unwrap_err();
    assert_eq!(stolen.code, ErrorCode::NotOwner);
    let mut wrong = first_version();
    wrong["tools"][0]["permission_scope"] = "nowhere:read".into();
    assert!(world.engine.manifests().announce(&renamed, Some(wrong)).await.is_err());
    assert_eq!(world.engine.accounts().account(&id).await.unwrap().manifest_version, 3);
}

#[tokio::test]
async fn consent_allows_tool_call_until_suspended_removed_or_revoked() {
    let world = TestEngine::new().await;
    let (bob, eve) = (world.person("bob").await, world.person("eve").await);
    let id = announce(&world, Some(first_version())).await;
    assert_eq!(call(&world, &bob.caller()).await, Err(ErrorCode::ScopeNotGranted));
    let relation = bob.allow(&world, &id, &["filesystem:read"]).await;
    assert_eq!(call(&world, &bob.caller()).await, Ok(()));
    assert_eq!(
        call(&world, &eve.caller()).await,
        Err(ErrorCode::ScopeNotGranted),
        "a grant applies only to its person"
    );

    // A breaking manifest change suspends the consent at once.
    world.engine.manifests().announce(&agent(), Some(broken_version(&["path", "limit"]))).await.unwrap();
    assert_eq!(call(&world, &bob.caller()).await, Err(ErrorCode::ScopeNotGranted));
    // The consent stays suspended after a restart.
    let world = world.restarted().await;
    world.engine.agents().publish(agent()).await.unwrap();
    assert_eq!(call(&world, &bob.caller()).await, Err(ErrorCode::ScopeNotGranted));
    // Publishing the accepted manifest again restores the consent.
    world.engine.manifests().announce(&agent(), Some(first_version())).await.unwrap();
    assert_eq!(call(&world, &bob.caller()).await, Ok(()));
    // Removing the scope removes its grant.
    let clipboard = manifest(&[("read_clipboard", "clipboard:read", object(&[]))], &[CLIPBOARD]);
    world.engine.manifests().announce(&agent(), Some(clipboard)).await.unwrap();
    assert_eq!(call(&world, &bob.caller()).await, Err(ErrorCode::ScopeNotGranted));
    let files = manifest(&[("read_file", "filesystem:read", object(&["path"]))], &[FILES]);
    world.engine.manifests().announce(&agent(), Some(files)).await.unwrap();
    bob.try_change(&world, &relation, &[("filesystem:read", GrantTerm::UntilRevoked)]).await.unwrap();
    assert_eq!(call(&world, &bob.caller()).await, Ok(()));
    let unsigned = world.engine.consent().revoke_relation(&bob.caller(), &relation.id, None).await.unwrap_err();
    world.engine.consent().revoke_relation(&bob.caller(), &relation.id, Some(&bob.sign_what(&unsigned))).await.unwrap();
    assert_eq!(call(&world, &bob.caller()).await, Err(ErrorCode::ScopeNotGranted));
}

#[tokio::test]
async fn one_time_consent_allows_one_call_and_timed_consent_expires() {
    let world = TestEngine::new().await;
    let bob = world.person("bob").await;
    let id = announce(&world, Some(first_version())).await;
    let relation = bob.allow_for(&world, &id, &[("filesystem:read", GrantTerm::Once)]).await;
    assert_eq!(call(&world, &bob.caller()).await, Ok(()));
    assert_eq!(call(&world, &bob.caller()).await, Err(ErrorCode::ScopeNotGranted));
    assert_eq!(world.effective(&bob, &relation).await, [""; 0]);
    let minute = GrantTerm::Until(world.clock.now().after(Duration::from_secs(60)));
    bob.try_change(&world, &relation, &[("filesystem:read", minute)]).await.unwrap();
    assert_eq!(call(&world, &bob.caller()).await, Ok(()));
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(call(&world, &bob.caller()).await, Err(ErrorCode::ScopeNotGranted));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_time_consent_allows_only_one_of_many_concurrent_calls() {
    let world = std::sync::Arc::new(TestEngine::new().await);
    let bob = world.person("bob").await;
    let id = announce(&world, Some(first_version())).await;
    bob.allow_for(&world, &id, &[("filesystem:read", GrantTerm::Once)]).await;
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (world, caller) = (std::sync::Arc::clone(&world), bob.caller());
            tokio::spawn(async move { call(&world, &caller).await })
        })
        .collect();
    let mut ran = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(()) => ran += 1,
            Err(code) => assert_eq!(code, ErrorCode::ScopeNotGranted),
        }
    }
    assert_eq!(ran, 1);
}
