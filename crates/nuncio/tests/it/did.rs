//! `nuncio did`: shows and rotates DIDs beside a running server, and moves them while none runs.

use serde_json::json;

use crate::client::Client;
use crate::home::TestAgentFolder;
use crate::process::until;

#[tokio::test]
async fn rotated_did_names_its_successor_at_once_and_the_rotation_survives_a_kill() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let shown = home.json_command(&["did", "show"]).json();
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    assert_eq!(shown["public_url"], format!("http://localhost:{port}"));
    assert_eq!(shown["dids"][0]["did"], format!("did:wba:localhost%3A{port}"));
    let first = shown["dids"][1]["did"].as_str().unwrap().to_owned();
    assert!(first.starts_with(&format!("did:wba:localhost%3A{port}:agents:script:e1_")), "{first}");
    let client = Client::new(server.url(), None);
    let document = async |url: &str| client.get(url.strip_prefix(server.url()).unwrap()).await.1;
    assert_eq!(document(shown["dids"][1]["document"].as_str().unwrap()).await["id"], first);

    let rotated = home.json_command(&["did", "rotate", "script", "--yes"]).json();
    let second = rotated["rotated"][0]["did"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    let old = document(shown["dids"][1]["document"].as_str().unwrap()).await;
    assert_eq!((&old["deactivated"], &old["successorDid"]), (&json!(true), &json!(second)));
    server.kill9();
    let shown = home.json_command(&["did", "show", "script"]).json();
    assert_eq!((&shown["dids"][0]["did"], &shown["dids"][0]["retired"]), (&json!(second), &json!([first])));
}

#[test]
fn did_show_prints_the_owner_of_each_did_and_did_rotate_the_result() {
    let home = TestAgentFolder::script();
    let none = home.nuncio(&["did", "show"]).run();
    assert_eq!(none.status, Some(1), "there is no data directory yet: {none:?}");
    let _server = home.start();
    let shown = home.nuncio(&["did", "show"]).run();
    assert!(shown.stdout.contains("this server\n") && shown.stdout.contains("script\n"), "{shown:?}");
    assert!(shown.stdout.contains("/agents/script/e1_"), "{shown:?}");
    let service = home.nuncio(&["did", "rotate", "--service", "--yes"]).run();
    assert!(service.stdout.contains("The DID is the same"), "{service:?}");
    let agent = home.nuncio(&["did", "rotate", "script", "--yes"]).run();
    assert!(agent.stdout.contains("instead of"), "{agent:?}");
    assert_eq!(home.json_command(&["did", "rotate", "nobody", "--yes"]).failure().0, "did_unavailable");
    for wrong in [&["did", "rotate"][..], &["did", "rotate", "script", "--service"], &["did", "rotate", "No Name"]] {
        assert_eq!(home.nuncio(wrong).run().status, Some(2), "{wrong:?}");
    }
}

#[tokio::test]
async fn did_rotation_without_confirmation_changes_nothing() {
    let home = TestAgentFolder::script();
    let _server = home.start();
    let before = home.json_command(&["did", "show"]).json();
    for flags in [&["script"][..], &["--service"], &["--to", "https://new.example.com"]] {
        let refused = home.nuncio(&[&["did", "rotate"], flags].concat()).run();
        assert_eq!(refused.status, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("cannot be undone") && refused.stderr.contains("--yes"), "{refused:?}");
    }
    if let Some(command) = home.nuncio(&["did", "rotate", "script"]).in_terminal() {
        let mut typed = command.start_interactive();
        until("it asks", async || typed.stdout().contains("Continue? [y/N]").then_some(())).await;
        typed.line("n");
        assert_eq!(typed.wait_for_end().status, Some(1));
    }
    assert_eq!(home.json_command(&["did", "show"]).json(), before);
}

#[test]
fn serve_with_an_unusable_agent_file_changes_no_dids_and_creates_no_data_directory() {
    let home = TestAgentFolder::script();
    let serve = |file: &str| home.nuncio(&["--json", "serve", "--listen", "localhost:0", file]).run().failure();
    std::fs::write(home.path("wrong.toml"), "[agent]\nname = \"script\"\n").unwrap();
    assert_eq!(serve("missing.toml").0, "agent_file_invalid");
    assert!(!home.data().exists());
    // The next server would listen on another port, which moves the DIDs.
    home.start().stop();
    let before = home.json_command(&["did", "show"]).json();
    for file in ["missing.toml", "wrong.toml"] {
        assert_eq!(serve(file).0, "agent_file_invalid");
    }
    assert_eq!(home.json_command(&["did", "show"]).json(), before);
}

#[test]
fn changed_public_url_is_refused_until_dids_are_moved() {
    let home = TestAgentFolder::script();
    let at = |url: &str| home.serve().arg("--public-url").arg(url);
    at("https://old.example.com").start().kill9();
    let (code, message) = at("https://new.example.com").run().failure();
    assert_eq!(code, "public_url_changed");
    assert!(message.contains("nuncio did rotate --to https://new.example.com"), "{message}");
    assert_eq!(home.serve().run().failure().0, "public_url_changed", "it was forgotten");

    let moved = home.json_command(&["did", "rotate", "--to", "https://new.example.com", "--yes"]).json();
    assert_eq!(moved["public_url"], "https://new.example.com");
    let server = at("https://new.example.com").start();
    let back = home.json_command(&["did", "rotate", "--to", "https://old.example.com", "--yes"]);
    assert_eq!(back.failure().0, "data_dir_in_use");
    server.kill9();
}

#[tokio::test]
async fn did_show_explains_that_a_server_at_an_ip_address_has_no_dids() {
    let home = TestAgentFolder::script();
    let server = home.serve().arg("--public-url").arg("http://192.0.2.7:7400").start();
    until("it says so", async || server.stderr().contains("have no DIDs").then_some(())).await;
    let shown = home.nuncio(&["did", "show"]).run();
    assert!(shown.stdout.contains("IP address") && shown.stdout.contains("--public-url"), "{shown:?}");
}
