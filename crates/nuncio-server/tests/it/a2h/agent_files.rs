//! Agents that are declared in a file: the manifest is generated from the file.

use nuncio_testkit::{Method, eventually};
use serde_json::json;

use super::A2hTestServer;

const HELPER: &str = r#"
[agent]
name = "helper"
title = "The helper"
version = "1.0.0"
[brain]
kind = "script"

[[scope]]
id = "filesystem:read"
label = { en = "Read local files", zh-CN = "读取本地文件" }
description = "Open files and read them."
sensitivity = "medium"

[[tool]]
name = "read_file"
description = "Reads a file."
scope = "filesystem:read"
input = { type = "object", properties = { path = { type = "string" } }, required = [REQUIRED], additionalProperties = false }
run = { device = true }

[[tool]]
name = "echo"
description = "Says it again."
input = { type = "object" }
run = { command = ["cat"] }
"#;

fn helper(required: &str) -> String {
    HELPER.replace("REQUIRED", required)
}

#[tokio::test]
async fn changed_agent_file_publishes_a_new_manifest_and_requires_new_consent() {
    let world = A2hTestServer::with(|builder| builder.agent("helper", &helper(""))).await;
    let shown = world.server.send(Method::GET, "/agents/helper", None, None).await;
    let data = shown.data();
    assert_eq!((&data["owner"], &data["display_name"]), (&json!({"type": "operator"}), &json!("The helper")));
    assert_eq!(data["capability_manifest_version"], 1);
    assert_eq!(data["capability_manifest"]["tools"].as_array().unwrap().len(), 1, "server tools are never in it");

    let ada = world.person("ada").await;
    let owner = ada.publish("helper", &super::seed()).await;
    assert_eq!(owner.refusal(), (403, "NOT_OWNER"));
    let relation = ada.allow("helper", json!(["filesystem:read"])).await;
    world.gateway.rewrite_agent("helper", &helper("\"path\""));
    let path = format!("/h2a/relations/{}", relation["id"].as_str().unwrap());
    let pending = eventually("the changed file requires a new consent", async || {
        // The server polls agent files twice a second.
        world.clock.advance(std::time::Duration::from_millis(500));
        let relation = ada.get(&path).await;
        (relation.status == 200 && relation.data()["status"] == "pending_reauth").then(|| relation.data().clone())
    });
    assert_eq!(pending.await["suspended_scopes"], json!(["filesystem:read"]));

    // After a restart the unchanged file makes no new version.
    let version =
        world.server.send(Method::GET, "/agents/helper", None, None).await.data()["capability_manifest_version"]
            .clone();
    let data = world.gateway.stop().await;
    let world = A2hTestServer::with(|builder| builder.agent("helper", &helper("\"path\"")).data(data)).await;
    let shown = world.server.send(Method::GET, "/agents/helper", None, None).await;
    assert_eq!((&shown.data()["capability_manifest_version"], version), (&json!(2), json!(2)));
}

#[tokio::test]
async fn device_tool_is_not_offered_over_aap() {
    let world = A2hTestServer::with(|builder| builder.agent("helper", &helper(""))).await;
    let (_, meta) = world.gateway.aap().get("/meta").await;
    assert!(!meta.to_string().contains("read_file"), "{meta}");
    let body = json!({"agent": {"name": "helper", "tools": [{"name": "read_file"}]}});
    let (status, refused) = world.gateway.aap().post("/sessions", body).await;
    assert_eq!((status, &refused["code"]), (400, &json!("unknown_tool")));
}

#[tokio::test]
async fn agent_file_that_generates_an_invalid_manifest_prevents_the_server_start() {
    let text = helper("").replace("\"filesystem:read\"", "\"shell:exec\"");
    let builder = nuncio_testkit::Gateway::builder().agent("helper", &text);
    let error = builder.try_start().await.unwrap_err();
    assert!(error.message.contains("must be at least \"high\""), "{error}");
}

/// The TOML blocks of docs/a2h.md, in order.
fn documented() -> Vec<&'static str> {
    let parts = include_str!("../../../../../docs/a2h.md").split("```toml\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap()).collect()
}

#[tokio::test]
async fn agent_file_examples_of_the_a2h_documentation_are_served() {
    let blocks = documented();
    let [agent, settings, scopes] = blocks[..] else { panic!("{blocks:#?}") };
    let head = "[agent]\nname = \"helper\"\nversion = \"1.0.0\"\n[brain]\nkind = \"script\"\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scopes.toml");
    std::fs::write(&file, scopes).unwrap();
    let settings = settings.replace("scopes.toml", file.to_str().unwrap());
    std::fs::write(folder.path().join("nuncio.toml"), settings).unwrap();
    let settings = nuncio_server::settings::Settings::load(&folder.path().join("nuncio.toml"), true, |_| None).unwrap();
    let agent = format!("{head}{agent}");
    let world = A2hTestServer::with(|builder| builder.agent("helper", &agent).settings(|kept| *kept = settings)).await;
    let shown = world.server.send(Method::GET, "/agents/helper", None, None).await;
    assert_eq!(shown.data()["capability_manifest"]["tools"][0]["timeout_ms"], 5000);
    let bundle = world.server.send(Method::GET, "/scopes", None, None).await;
    assert!(bundle.body["data"].as_array().unwrap().iter().any(|scope| scope["id"] == "calendar:read"));
}
