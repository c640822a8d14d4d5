//! Queued calls of tools on people's devices.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::grant::KeyScopes;
use nuncio_core::ids::PersonName;
use nuncio_engine::access::NewApiKeyRequest;
use nuncio_testkit::eventually;
use serde_json::json;

use super::A2hTestServer;
use crate::agents::{DESK, desk, scope};
use crate::executions::{code, invocation, over, submit_as};

const READ_FILE: &str = r#"
[[tool]]
name = "read_file"
description = "Reads a file."
scope = "filesystem:read"
input = { type = "object", additionalProperties = false }
run = { device = true }
skill = { type = "task", auth = "api_key", retry = { max_attempts = 5, backoff_ms = 1000 } }
"#;

#[tokio::test]
async fn retried_device_call_is_refused_after_the_api_key_of_its_caller_is_revoked() {
    let agent = desk(&[scope("filesystem:read", "medium"), READ_FILE.to_owned()]);
    let world = A2hTestServer::with(|builder| builder.agent(DESK, &agent)).await;
    let ada = world.person("ada").await;
    ada.allow(DESK, json!(["filesystem:read"])).await;
    let engine = world.gateway.engine();
    let person = Some(PersonName::parse("ada").unwrap());
    let (key, secret) = engine
        .access()
        .create_key(NewApiKeyRequest {
            name: None,
            person,
            scopes: KeyScopes::All,
            role: nuncio_engine::ports::store::KeyRole::App,
            term: None,
        })
        .await
        .unwrap();
    let caller = engine.access().caller_by_key(&secret).unwrap();

    // The device has no keys at the relay, so the first attempt fails at once and the next follows a second later.
    let execution = submit_as(engine, &caller, invocation("read_file", json!({}))).await.unwrap().execution;
    eventually("the first attempt is over", async || (world.gateway.audit().await.len() == 1).then_some(())).await;
    engine.access().revoke_key(key.id.as_str()).await.unwrap();
    world.clock.pass(Duration::from_secs(1)).await;
    eventually("the next attempt is over", async || (world.gateway.audit().await.len() == 2).then_some(())).await;
    assert_eq!(code(&over(&world.gateway, &execution).await), ("failed", ErrorCode::ScopeNotGranted));
}
