//! Agents of other hosts are added, listed and removed from the command line, with a server and without one.

use serde_json::{Value, json};

use crate::home::TestAgentFolder;
use crate::process::{Server, until};

fn ad(server: &Server, agent: &str) -> String {
    format!("{}/agents/{agent}/ad.json", server.url())
}

fn agents(home: &TestAgentFolder) -> Vec<Value> {
    home.json_command(&["registry", "agents"]).json()["agents"].as_array().unwrap().clone()
}

#[test]
fn agent_of_another_host_is_verified_and_listed_until_removed() {
    let (remote, local) = (TestAgentFolder::script(), TestAgentFolder::hotel());
    let (provider, _directory) = (remote.serve().arg("--dev").start(), local.start());
    let url = ad(&provider, "script");

    let added = local.nuncio(&["registry", "add", &url]).run();
    assert_eq!(added.status, Some(0), "{added:?}");
    for expected in ["Listed ", "verified: did, service, proof, domain, address", "did:wba:localhost"] {
        assert!(added.stdout.contains(expected), "{expected}: {added:?}");
    }
    let again = local.json_command(&["registry", "add", &url]).json();
    assert_eq!((&again["new"], &again["agent"]["by"]), (&json!(false), &json!("operator")), "{again}");
    let shown = local.nuncio(&["registry", "agents"]).run();
    assert!(shown.stdout.contains("STANDING") && shown.stdout.contains("listed"), "{shown:?}");
    let id = again["agent"]["id"].as_str().unwrap();
    assert_eq!(local.json_command(&["registry", "remove", id]).json()["url"], json!(url));
    assert_eq!(local.json_command(&["registry", "remove", id]).failure().0, "not_registered");
    assert!(agents(&local).is_empty());
    let none = local.nuncio(&["registry", "agents"]).run();
    assert!(none.stdout.starts_with("No agent of another host is listed"), "{none:?}");

    for (target, code) in [
        (format!("{}/agents/nobody/ad.json", provider.url()), "endpoint_unreachable"),
        (format!("{}/aap/meta", provider.url()), "validation_error"),
        ("did:web:example.com".to_owned(), "bad_request"),
    ] {
        assert_eq!(local.json_command(&["registry", "add", &target]).failure().0, code, "{target}");
    }
    assert!(agents(&local).is_empty());
}

#[test]
fn agent_added_without_a_running_server_is_listed_after_the_start() {
    let (remote, local) = (TestAgentFolder::script(), TestAgentFolder::hotel());
    let provider = remote.serve().arg("--dev").start();
    let url = ad(&provider, "script");
    assert_eq!(local.json_command(&["registry", "add", &url]).json()["new"], true);
    let _directory = local.start();
    assert_eq!(agents(&local)[0]["url"], json!(url));
}

#[tokio::test]
async fn served_agent_registers_at_the_configured_directory() {
    let (remote, local) = (TestAgentFolder::script(), TestAgentFolder::hotel());
    let directory = local.serve().arg("--dev").start();
    let name = directory.url().trim_start_matches("http://");
    let _provider = remote.serve().arg("--dev").env("NUNCIO_REGISTRY_REGISTER", name).start();
    let entry = until("it is listed", async || agents(&local).pop()).await;
    assert_eq!((&entry["by"], &entry["standing"]), (&entry["did"], &json!("listed")), "{entry}");
    let listing = remote.json_command(&["registry", "agents"]).json();
    assert_eq!(listing["elsewhere"][0]["directory"], json!(directory.url()), "{listing}");
    let shown = remote.nuncio(&["registry", "agents"]).run();
    assert!(shown.stdout.contains("Our agents in other directories:"), "{shown:?}");
}
