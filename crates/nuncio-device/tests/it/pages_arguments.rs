//! The switch on the page of the audit log that keeps the arguments of calls.

use nuncio_testkit::eventually;
use serde_json::json;

use crate::pages_activity::SignedInPagesClient;
use crate::scene::RelayAndAgentFixture;

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_shown_only_for_calls_while_the_switch_was_on_and_are_deleted_with_it() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    let ended = async |count: usize| {
        let entries = async || (ada.device.audit().entries().unwrap().len() == count).then_some(());
        eventually("the call is in the log", entries).await;
    };
    scene.call("tell", json!({"path": "before.md"})).await.unwrap();
    ended(1).await;
    assert!(!reader.get("/happened").await.body.contains("before.md"), "off by default");

    assert_eq!(reader.post("/happened/arguments", &[("keep", "on")]).await.status, 303);
    scene.call("tell", json!({"path": "meanwhile.md"})).await.unwrap();
    ended(2).await;
    let page = reader.get("/happened").await.body;
    assert!(page.contains("meanwhile.md") && !page.contains("before.md"), "{page}");
    // The record itself has only the digest.
    assert!(!ada.device.audit().lines().await.unwrap().contains("meanwhile.md"));

    assert_eq!(reader.post("/happened/arguments", &[("keep", "off")]).await.status, 303);
    assert!(!reader.get("/happened").await.body.contains("meanwhile.md"), "switching off deletes them");
}
