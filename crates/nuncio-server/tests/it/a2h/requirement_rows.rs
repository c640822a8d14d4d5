//! The rows of the acceptance list of the A2H specification, each with the names of other tests that check it.

use nuncio_testkit::Method;
use serde_json::{Value, json};

use super::{A2hTestServer, agent_body, seed, with_required};

/// Row 1: `capability_manifest` is stored with the agent, at most 128 KB; `manifests.rs` checks the size.
#[tokio::test]
async fn row_1_manifest_is_stored_with_its_agent() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let (id, _) = ada.make_agent(&json!({"display_name": "Notes"})).await;
    let none = ada.get(&format!("/agents/{id}")).await;
    assert_eq!(none.data()["capability_manifest"], Value::Null);
    assert_eq!(
        (&none.data()["capability_manifest_version"], &none.data()["capability_manifest_hash"]),
        (&json!(0), &Value::Null)
    );
    ada.publish(&id, &seed()).await.data();
    assert_eq!(ada.get(&format!("/agents/{id}")).await.data()["capability_manifest"], seed());
}

/// Row 2: a version that increases by one, and a SHA-256 in hex; `manifests.rs` does this fifty times concurrently.
#[tokio::test]
async fn row_2_version_and_hash_follow_the_manifest() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let (id, _) = ada.make_agent(&agent_body(&seed())).await;
    for (version, names) in [(2, &["a"][..]), (3, &["a", "b"])] {
        let data = ada.publish(&id, &with_required(names)).await.data().clone();
        assert_eq!(data["capability_manifest_version"], version);
        let hash = data["capability_manifest_hash"].as_str().unwrap();
        assert!(hash.len() == 64 && hash.bytes().all(|byte| b"0123456789abcdef".contains(&byte)), "{hash}");
    }
}

/// Row 3: `granted_scopes` are stored with the relation, none at first.
#[tokio::test]
async fn row_3_granted_scopes_are_stored_with_the_relation() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let (id, _) = ada.make_agent(&agent_body(&seed())).await;
    let relation = ada.allow(&id, json!([])).await;
    assert_eq!(relation["granted_scopes"], json!([]));
    let path = format!("/h2a/relations/{}", relation["id"].as_str().unwrap());
    ada.consent(Method::PATCH, &path, json!({"granted_scopes": ["filesystem:read"]})).await.data();
    assert_eq!(ada.get(&path).await.data()["granted_scopes"], json!(["filesystem:read"]));
}

/// Row 4: a manifest change requires new consent exactly where the table in A2H §2.5 says so.
#[tokio::test]
async fn row_4_manifest_changes_need_new_consent_as_in_the_specification_table() {
    type ManifestEdit = fn(&mut Value);
    let table: [(&str, bool, ManifestEdit, ManifestEdit); 9] = [
        (
            "a required field is added",
            true,
            |_| {},
            |it| {
                let schema = &mut it["tools"][0]["input_schema"];
                schema["properties"]["mode"] = json!({"type": "string"});
                schema["required"] = json!(["path", "mode"]);
            },
        ),
        (
            "a field's type is changed",
            true,
            |_| {},
            |it| {
                it["tools"][0]["input_schema"]["properties"]["path"] = json!({"type": "integer"});
            },
        ),
        (
            "additionalProperties true to false",
            true,
            |it| it["tools"][0]["input_schema"]["additionalProperties"] = json!(true),
            |_| {},
        ),
        (
            "a value is removed from an enum",
            true,
            |it| it["tools"][0]["input_schema"]["properties"]["path"] = json!({"type": "string", "enum": ["a", "b"]}),
            |it| it["tools"][0]["input_schema"]["properties"]["path"] = json!({"type": "string", "enum": ["a"]}),
        ),
        (
            "the scope's sensitivity is raised",
            true,
            |_| {},
            |it| {
                it["permission_scopes"][0]["sensitivity"] = json!("high");
            },
        ),
        (
            "a scope is added",
            true,
            |_| {},
            |it| {
                let added = super::with_scope("clipboard:read", "medium");
                it["permission_scopes"] = added["permission_scopes"].clone();
            },
        ),
        ("a tool is deleted", false, |_| {}, |it| it["tools"] = json!([])),
        (
            "additionalProperties false to true",
            false,
            |_| {},
            |it| it["tools"][0]["input_schema"]["additionalProperties"] = json!(true),
        ),
        (
            "a value is added to an enum",
            false,
            |it| it["tools"][0]["input_schema"]["properties"]["path"] = json!({"type": "string", "enum": ["a"]}),
            |it| it["tools"][0]["input_schema"]["properties"]["path"] = json!({"type": "string", "enum": ["a", "b"]}),
        ),
    ];
    let world = A2hTestServer::start().await;
    let (owner, ada) = (world.person("owner").await, world.person("ada").await);
    for (what, breaking, before, after) in table {
        let (mut old, mut new) = (seed(), seed());
        before(&mut old);
        after(&mut new);
        let (id, _) = owner.make_agent(&agent_body(&old)).await;
        let relation = ada.allow(&id, json!(["filesystem:read"])).await;
        let change = owner.publish(&id, &new).await.data()["manifest_change"].clone();
        assert_eq!(change["breaking"], breaking, "{what}: {change:#}");
        let path = format!("/h2a/relations/{}", relation["id"].as_str().unwrap());
        let status = if breaking { "pending_reauth" } else { "active" };
        assert_eq!(ada.get(&path).await.data()["status"], status, "{what}");
    }
}

/// Row 8: tool calls in groups are not offered, and their refusal has its own reason (`wire/artifact.rs`).
#[tokio::test]
async fn row_8_preset_scopes_are_translated_and_documentation_excludes_tool_calls_in_groups() {
    let world = A2hTestServer::start().await;
    let scopes = world.server.send(Method::GET, "/scopes", None, None).await;
    assert_eq!(scopes.body["data"].as_array().unwrap().len(), 4);
    assert_eq!(scopes.body["data"][3]["label"]["zh-CN"], "发送系统通知");
    let docs = include_str!("../../../../../docs/a2h.md");
    assert!(docs.contains("`tool_not_supported_in_group`"));
}
