//! Whether requests without a key are served: the setting, the first key, and the texts that say so.

use serde_json::Value;

use crate::home::TestAgentFolder;
use crate::process::until;

/// The state as `key list` shows it to programs and to people.
fn shown_state(home: &TestAgentFolder) -> (Value, String) {
    let shown = home.nuncio(&["key", "list"]).run();
    let (_, state) = shown.stdout.split_once("\n\n").unwrap();
    assert!(state.lines().all(|line| line.chars().count() <= 80), "{state}");
    (home.json_command(&["key", "list"]).json()["access"].clone(), state.replace('\n', " "))
}

#[tokio::test]
async fn open_loopback_setting_allows_local_requests_without_a_key_although_keys_exist() {
    let home = TestAgentFolder::script();
    let key = home.key(&["--name", "phone"]);
    let settings = home.data().join("nuncio.toml");
    std::fs::write(&settings, "[access]\nloopback = \"closed\"\n").unwrap();
    let (code, message) = home.serve().run().failure();
    assert_eq!(code, "config_invalid");
    assert!(message.contains("access.loopback") && message.contains("\"open\" or \"keys\""), "{message}");

    std::fs::write(&settings, "[access]\nloopback = \"open\"\n").unwrap();
    let server = home.start();
    assert_eq!(server.aap().get("/sessions").await.0, 200);
    assert_eq!(server.aap_with_key(&key).get("/sessions").await.0, 200);
    assert_eq!(server.aap_with_key("nk_wrong").get("/sessions").await.0, 401);
    let (state, text) = shown_state(&home);
    assert_eq!(state, "open_by_setting");
    assert!(text.contains("Open to this machine") && text.contains("\"keys\""), "{text}");
}

#[tokio::test]
async fn keys_setting_closes_a_loopback_server_before_the_first_key() {
    let home = TestAgentFolder::script();
    std::fs::create_dir(home.data()).unwrap();
    std::fs::write(home.data().join("nuncio.toml"), "[access]\nloopback = \"keys\"\n").unwrap();
    let server = home.start();
    assert_eq!(server.aap().get("/sessions").await.0, 401);
    let (state, text) = shown_state(&home);
    assert_eq!(state, "closed_by_setting");
    assert!(text.contains("Closed") && text.contains("nuncio key create"), "{text}");
    let made = home.nuncio(&["key", "create"]).run();
    assert!(!made.stderr.contains("closes the server"), "it is closed already: {made:?}");
    assert_eq!(server.aap_with_key(made.stdout.trim()).get("/sessions").await.0, 200);
}

#[tokio::test]
async fn creating_the_first_key_announces_that_it_closes_the_open_server() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let (state, text) = shown_state(&home);
    assert_eq!(state, "open_until_first_key");
    assert_eq!(server.greeting["access"], state);
    assert!(text.contains("loopback = \"open\""), "{text}");
    // In a terminal, the command asks; without a yes nothing changes.
    if let Some(command) = home.nuncio(&["key", "create"]).in_terminal() {
        let mut typed = command.start_interactive();
        until("it asks", async || typed.stdout().contains("Create the key? [y/N]").then_some(())).await;
        assert!(typed.stdout().contains("closes the server"), "{}", typed.stdout());
        typed.line("n");
        assert_eq!(typed.wait_for_end().status, Some(1));
        assert_eq!(server.aap().get("/sessions").await.0, 200, "the server is still open");
    }
    let made = home.nuncio(&["key", "create"]).run();
    assert_eq!((made.status, made.stdout.lines().count()), (Some(0), 1), "{made:?}");
    assert!(made.stderr.contains("closes the server"), "{made:?}");
    assert_eq!(server.aap().get("/sessions").await.0, 401);
    let (state, text) = shown_state(&home);
    assert_eq!(state, "closed_by_key");
    assert!(text.contains("loopback = \"open\""), "{text}");
    let second = home.nuncio(&["key", "create"]).run();
    assert!(!second.stderr.contains("closes the server"), "{second:?}");
    server.stop();
    assert_eq!(shown_state(&home).0, "stopped_with_keys");
}

#[tokio::test]
async fn first_key_is_announced_while_no_server_runs() {
    let home = TestAgentFolder::script();
    if let Some(command) = home.nuncio(&["key", "create"]).in_terminal() {
        let mut typed = command.start_interactive();
        until("it asks", async || typed.stdout().contains("Create the key? [y/N]").then_some(())).await;
        assert!(typed.stdout().contains("This is the first key of this data directory"), "{}", typed.stdout());
        typed.line("n");
        assert_eq!(typed.wait_for_end().status, Some(1));
        assert_eq!(shown_state(&home).0, "stopped_without_keys");
    }
    let made = home.nuncio(&["key", "create"]).run();
    assert_eq!((made.status, made.stdout.lines().count()), (Some(0), 1), "{made:?}");
    assert!(made.stderr.contains("This is the first key") && made.stderr.contains("\"open\""), "{made:?}");
    let second = home.nuncio(&["key", "create"]).run();
    assert!(!second.stderr.contains("This is the first key"), "{second:?}");
}

#[test]
fn key_list_of_a_stopped_server_reads_the_loopback_setting() {
    let home = TestAgentFolder::script();
    home.key(&[]);
    for (setting, state, text) in [
        ("loopback = \"open\"", "stopped_open_by_setting", "open to this machine, even if keys exist"),
        ("loopback = \"keys\"", "stopped_closed_by_setting", "need a key for every request (loopback = \"keys\""),
        ("", "stopped_with_keys", "unless [access] loopback"),
        ("faulty", "stopped_with_keys", "unless [access] loopback"),
    ] {
        std::fs::write(home.data().join("nuncio.toml"), format!("[access]\n{setting}\n")).unwrap();
        let shown = shown_state(&home);
        assert!(shown.0 == state && shown.1.contains(text), "{setting}: {shown:?}");
    }
}

#[test]
fn first_key_with_yes_is_created_without_an_announcement() {
    let home = TestAgentFolder::script();
    let _server = home.start();
    let made = home.nuncio(&["key", "create", "--yes"]).run();
    assert!(made.status == Some(0) && !made.stderr.contains("closes the server"), "{made:?}");
}

#[tokio::test]
async fn serve_prints_the_access_state_and_how_to_change_it() {
    let home = TestAgentFolder::script();
    let greeted = async |flags: &[&str]| {
        let arguments = [&["serve", crate::home::SCRIPT, "--listen", "localhost:0"], flags].concat();
        let served = home.nuncio(&arguments).start_interactive();
        until("its greeting", async || served.stdout().contains("nuncio chat ").then_some(())).await;
        served.interrupt();
        served.wait_for_end().stdout.replace('\n', " ")
    };
    let open = greeted(&[]).await;
    assert!(open.contains("The first key closes the server (`nuncio key create`)"), "{open}");
    home.key(&[]);
    let closed = greeted(&[]).await;
    assert!(closed.contains("Closed: every request needs a key, because keys were created"), "{closed}");
    assert!(closed.contains("loopback = \"open\""), "{closed}");
}
