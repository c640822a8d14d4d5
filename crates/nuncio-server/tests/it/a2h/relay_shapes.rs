//! Relay responses have the shapes of the OpenAPI document.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use nuncio_testkit::Method;
use nuncio_testkit::a2h::{artifact, text};
use serde_json::{Value, json};

use super::relay::{RelayConversationSetup, path};

struct ResponseShapes(Value);

impl ResponseShapes {
    fn check(&self, shape: &str, value: &Value) {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": format!("#/components/schemas/{shape}"),
            "components": self.0["components"],
        });
        let validator = jsonschema::validator_for(&schema).unwrap();
        let faults: Vec<_> = validator.iter_errors(value).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{shape}: {faults:#?}\n{value:#}");
        assert!(!validator.is_valid(&json!({})) || shape == "A2hKeys", "{shape} must ask for something");
    }
}

#[tokio::test]
async fn relay_responses_match_the_openapi_document() {
    let scene = RelayConversationSetup::start().await;
    let (ada, agent) = (&scene.ada, &scene.agent);
    let request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let shapes = ResponseShapes(scene.world.gateway.raw(request).await.unwrap().json());
    let sent = artifact("c1", "artifact_tool_call", json!({}));
    shapes.check("A2hPost", &sent);
    let receipt = agent.post(&scene.conversation, &sent).await.data().clone();
    shapes.check("A2hReceipt", &receipt);
    ada.post(&scene.conversation, &text("t1", json!("QUI="))).await.data();
    shapes.check("A2hConversation", ada.get(&path(&scene.conversation)).await.data());
    for message in scene.messages().await {
        shapes.check("A2hMessage", &message);
    }
    let claim = format!("/messages/{}/claim", receipt["message_id"].as_str().unwrap());
    shapes.check("A2hClaim", ada.send(Method::POST, &claim, &json!({})).await.data());
    let keys = json!({
        "bundle": ada.bundle("ada", 1),
        "one_time_keys": [ada.key().one_time_key(&ada.id, "a", false), ada.key().one_time_key(&ada.id, "f", true)],
    });
    shapes.check("A2hKeys", &keys);
    shapes.check("A2hKeysHeld", ada.bring(&keys).await.data());
    shapes.check("A2hKeyBundle", &agent.get("/keys/users/ada/devices").await.data()[0]);
    let take = format!("/keys/devices/{}/one-time-key", ada.id);
    for _ in 0..2 {
        shapes.check("A2hOneTimeKey", agent.send(Method::POST, &take, &json!({})).await.data());
    }
    let backup = json!({
        "backup_a": "QUI=", "backup_b": "QUI=", "argon2_salt": STANDARD.encode([3; 32]),
        "argon2_params": {"m": 65536, "t": 3, "p": 4}, "public_key": URL_SAFE_NO_PAD.encode([5; 32]),
        "signing_public_key": ada.key().public(), "device_id": ada.id,
    });
    shapes.check("A2hBackup", &backup);
    shapes.check("A2hBackup", ada.send(Method::POST, "/keys/backup", &backup).await.data());
    let polled = agent.poll("?wait=0").await;
    for event in polled.data().as_array().unwrap() {
        shapes.check("A2hEvent", event);
        if event["type"] == "message.new" {
            shapes.check("A2hMessage", event);
        }
    }
    shapes.check("A2hError", &ada.get("/conversations/cnv_none").await.body);
}
