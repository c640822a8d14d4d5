//! Tests of the page of an agent: changed keys, stricter settings and hostile texts.

use std::sync::Arc;

use nuncio_core::agent::Sensitivity;
use nuncio_device::tools::SharedFolders;
use nuncio_identity::seal::{KeyStore, MemoryKeyStore};
use nuncio_testkit::a2h::{AgentTransport, PeerDependencies, SealedAgent};
use serde_json::json;

use crate::pages_activity::SignedInPagesClient;
use crate::scene::{RelayAndAgentFixture, manifest, scope};

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    text.split_once(from).unwrap_or_else(|| panic!("{from}: {text}")).1.split(to).next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_agent_keys_are_accepted_only_with_the_fingerprint_shown_on_the_page() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    scene.call("tell", json!({})).await.unwrap();
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    let path = format!("/agents/{}", scene.id);
    let page = reader.get(&path).await.body;
    assert!(!page.contains("The keys of this agent changed"), "{page}");
    let before = between(&page, "<p class=\"number\">", "</p>").to_owned();

    let key_store: Arc<dyn KeyStore> = Arc::new(MemoryKeyStore::new());
    let way = PeerDependencies::direct().with_clock(&scene.clock);
    let named = (scene.id.as_str(), scene.token.as_str());
    let anew = SealedAgent::start(&way, &scene.gateway.url(), named, key_store, AgentTransport::Socket).await;
    let page = reader.get(&path).await.body;
    assert!(page.contains("The keys of this agent changed"), "{page}");
    let (device, seen) =
        (between(&page, "name=\"device\" value=\"", "\""), between(&page, "name=\"fingerprint\" value=\"", "\""));
    let now = between(&page, "<p class=\"number\">", "</p>");
    assert_ne!(now, before, "the number that would be is shown");
    // A fingerprint other than the shown one is refused.
    let keys = format!("{path}/keys");
    let other = reader.post(&keys, &[("device", device), ("fingerprint", &"0".repeat(64))]).await;
    assert_ne!(other.status, 303, "{}", other.body);
    for wrong in [&[("device", device)][..], &[("fingerprint", seen)], &[("device", "<b>"), ("fingerprint", "x")]] {
        assert_eq!(reader.post(&keys, wrong).await.status, 404);
    }
    assert!(reader.get(&path).await.body.contains("The keys of this agent changed"));

    let accepted = reader.post(&keys, &[("device", device), ("fingerprint", seen)]).await;
    assert_eq!(accepted.status, 303, "{}", accepted.body);
    let page = reader.get(&path).await.body;
    assert!(!page.contains("The keys of this agent changed"), "{page}");
    assert_eq!(between(&page, "<p class=\"number\">", "</p>"), now);
    assert_eq!(anew.call("ada", "tell", json!({})).await, Ok(json!({"run": 2})));
}

#[tokio::test(flavor = "multi_thread")]
async fn persons_setting_raises_but_never_lowers_the_sensitivity_of_a_scope() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send", "location:read"]).await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    let path = format!("/agents/{}", scene.id);
    let stake = async |id: &str| {
        let ask = ada.device.consents().access_request(&scene.id).await.unwrap();
        ask.scopes.into_iter().find(|asked| asked.id == scope(id)).unwrap().sensitivity
    };
    let set = async |id: &str, level: &str| {
        reader.post(&format!("{path}/stricter"), &[("scope", id), ("level", level)]).await.status
    };
    assert_eq!(set("notification:send", "high").await, 303);
    assert_eq!(stake("notification:send").await, Sensitivity::High);
    assert_eq!(set("notification:send", "usual").await, 303);
    assert_eq!(stake("notification:send").await, Sensitivity::Low);
    assert_eq!(set("location:read", "medium").await, 303);
    assert_eq!(stake("location:read").await, Sensitivity::High, "never less than is at stake");
    assert_eq!(set("no such scope", "high").await, 404);
    assert!(!reader.get(&path).await.body.contains("id=\"stricter-location-read\""), "what is high cannot be more");
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_page_preselects_only_the_read_scope_of_low_sensitivity() {
    let scene = RelayAndAgentFixture::start().await;
    let ids = ["garden:read", "garden:water", "notes:write", "notes:delete", "job:exec", "job:execute", "door:open"];
    let mut asking = manifest();
    asking["permission_scopes"] = ids
        .iter()
        .map(|id| {
            json!({
                "id": id, "sensitivity": "low", "label_i18n_key": "x.label", "description_i18n_key": "x.description",
                "label_fallback": id, "description_fallback": id,
            })
        })
        .collect();
    let tool = asking["tools"][0].clone();
    asking["tools"] = ids
        .iter()
        .enumerate()
        .map(|(number, id)| {
            let mut tool = tool.clone();
            (tool["name"], tool["permission_scope"]) = (json!(format!("tool_{number}")), json!(id));
            tool
        })
        .collect();
    scene.owner.publish(scene.id.as_str(), &asking).await.data();
    let ada = scene.device("ada").await;
    let page = SignedInPagesClient::at(&scene, &ada).await.get(&format!("/agents/{}", scene.id)).await.body;
    for id in ids {
        let input = between(&page, &format!("name=\"scope\" value=\"{id}\""), ">");
        assert_eq!(input.contains("checked"), id == "garden:read", "{id}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn html_in_agent_names_and_scope_texts_is_escaped_on_agent_pages() {
    let scene = RelayAndAgentFixture::start().await;
    let mut hostile = manifest();
    hostile["permission_scopes"][0] = json!({
        "id": "garden:water", "sensitivity": "low", "label_i18n_key": "x.label", "description_i18n_key": "x.description",
        "label_fallback": "<img src=x onerror=alert(1)>", "description_fallback": "\"><script>alert(1)</script>",
    });
    hostile["tools"][0]["permission_scope"] = json!("garden:water");
    scene.owner.publish(scene.id.as_str(), &hostile).await.data();
    let name = json!({"display_name": "<script>alert(1)</script> & \"co\""});
    scene.owner.send(nuncio_testkit::Method::PATCH, &format!("/agents/{}", scene.id), &name).await;
    let ada = scene.device("ada").await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    for path in ["/agents".to_owned(), format!("/agents/{}", scene.id), "/agents/find?agent=%3Cscript%3E".to_owned()] {
        let page = reader.get(&path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        assert!(!page.body.contains("<script>alert") && !page.body.contains("<img src=x"), "{path}: {}", page.body);
    }
    assert!(reader.get(&format!("/agents/{}", scene.id)).await.body.contains("&#60;img src=x"), "it is there as text");
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_page_shows_the_agents_description_and_the_folders_and_limits_that_apply() {
    let scene = RelayAndAgentFixture::start().await;
    let description = json!({"description": "Reads notes & <b>sorts</b> them."});
    scene.owner.send(nuncio_testkit::Method::PATCH, &format!("/agents/{}", scene.id), &description).await;
    let notes = tempfile::tempdir().unwrap();
    let folders = SharedFolders::new([notes.path().to_owned()]).unwrap();
    let ada = scene.device_with_tools("ada", |tools| tools.under(scope("filesystem:read"), Arc::new(folders))).await;
    let page = SignedInPagesClient::at(&scene, &ada).await.get(&format!("/agents/{}", scene.id)).await.body;
    let folder = notes.path().canonicalize().unwrap();
    for words in [
        "How the agent describes itself:",
        "Reads notes &#38; &#60;b&#62;sorts&#60;/b&#62; them.",
        &format!("Only in these folders: {}", folder.display()),
        "At most 44 KB of a file per call.",
        "seconds per call.",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_saved_without_a_scope_states_that_the_agent_may_do_nothing() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.device("ada").await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    let path = format!("/agents/{}", scene.id);
    let page = reader.get(&path).await.body;
    assert!(page.contains("id=\"none-selected\""), "{page}");
    let hash = between(&page, "name=\"hash\" value=\"", "\"").to_owned();
    let saved = reader.post(&format!("{path}/allow"), &[("hash", &hash)]).await;
    assert_eq!(saved.header("location"), Some(format!("{path}?after=nothing").as_str()), "{saved:?}");
    let page = reader.get(&format!("{path}?after=nothing")).await.body;
    assert!(page.contains("this agent may do nothing on this device"), "{page}");
    let selected = [("hash", hash.as_str()), ("scope", "notification:send")];
    let saved = reader.post(&format!("{path}/allow"), &selected).await;
    assert_eq!(saved.header("location"), Some(format!("{path}?after=allowed").as_str()), "{saved:?}");
}
