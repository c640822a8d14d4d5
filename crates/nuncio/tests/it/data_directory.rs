//! A data directory is used by one server process, and readable by its owner only.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};

use crate::home::{TestAgentFolder, mode};
use crate::process::until;

#[tokio::test]
async fn second_server_on_a_data_directory_in_use_is_refused() {
    let home = TestAgentFolder::script();
    let first = home.start();
    let (code, message) = home.serve().run().failure();
    assert_eq!(code, "data_dir_in_use");
    assert!(message.contains(home.data().canonicalize().unwrap().to_str().unwrap()), "{message}");

    let session = first.aap().session("script", &[]).await;
    first.aap().say(&session, "still here").await;
    first.kill9();
    let second = home.start();
    assert_eq!(second.aap().history(&session).await.len(), 2);
}

/// Locks the data directory as another process would that uses it.
fn lock(home: &TestAgentFolder) -> File {
    fs::create_dir_all(home.data()).unwrap();
    let file = File::create(home.data().join("lock")).unwrap();
    file.lock().unwrap();
    file
}

#[tokio::test]
async fn server_waits_for_a_command_that_uses_the_data_directory() {
    let home = TestAgentFolder::script();
    let command = lock(&home);
    let server = home.serve().start_interactive();
    until("it says that it waits", async || server.stderr().contains("waiting for another process").then_some(()))
        .await;
    drop(command);
    until("it serves", async || server.stdout().contains("\"url\"").then_some(())).await;
    server.interrupt();
    assert_eq!(server.wait_for_end().status, Some(0));
}

#[tokio::test]
async fn command_waits_for_a_server_that_has_not_opened_its_socket_yet() {
    let home = TestAgentFolder::script();
    home.key(&["--name", "phone"]);
    let starting = lock(&home);
    let command = home.nuncio(&["--json", "key", "list"]).start_interactive();
    until("it says that it waits", async || command.stderr().contains("Waiting for another process").then_some(()))
        .await;
    drop(starting);
    assert_eq!(command.wait_for_end().json()["keys"][0]["name"], "phone");
}

#[tokio::test]
async fn server_and_commands_started_together_all_succeed() {
    let home = TestAgentFolder::script();
    for round in 0..3 {
        let server = home.serve().start_interactive();
        let commands: Vec<_> =
            (0..3).map(|_| home.nuncio(&["--json", "key", "create", "--yes"]).start_interactive()).collect();
        for command in commands {
            command.wait_for_end().json();
        }
        until("it serves", async || server.stdout().contains("\"url\"").then_some(())).await;
        server.interrupt();
        let ended = server.wait_for_end();
        assert_eq!(ended.status, Some(0), "round {round}: {ended:?}");
    }
    assert_eq!(home.json_command(&["key", "list"]).json()["keys"].as_array().unwrap().len(), 9);
}

#[tokio::test]
async fn commands_use_the_private_admin_socket_of_a_running_server() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let socket = fs::metadata(home.data().join("admin.sock")).unwrap();
    assert!(socket.file_type().is_socket());
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);

    let key = home.key(&["--name", "phone"]);
    assert_eq!(server.aap().get("/sessions").await.0, 401, "the key counts at once");
    assert_eq!(server.aap_with_key(&key).get("/sessions").await.0, 200);
    home.json_command(&["key", "revoke", "phone"]).json();
    assert_eq!(server.aap().get("/sessions").await.0, 401, "taking back the last key opens nothing");
    assert_eq!(server.aap_with_key(&key).get("/sessions").await.0, 401);
    server.stop();
    assert!(!home.data().join("admin.sock").exists());
}

#[tokio::test]
async fn commands_open_the_data_directory_themselves_if_no_server_runs() {
    let home = TestAgentFolder::script();
    let key = home.key(&["--name", "phone"]);
    home.start().kill9();
    assert!(home.data().join("admin.sock").exists(), "nobody tidied up");
    let listed = home.json_command(&["key", "list"]).json();
    assert_eq!(listed["keys"][0]["name"], "phone");
    home.key(&["--name", "tablet"]);

    let server = home.start();
    assert_eq!(server.aap().get("/sessions").await.0, 401);
    assert_eq!(server.aap_with_key(&key).get("/sessions").await.0, 200);
    assert_eq!(home.json_command(&["key", "list"]).json()["keys"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn data_directory_is_accessible_to_its_owner_only() {
    let home = TestAgentFolder::script();
    fs::create_dir(home.data()).unwrap();
    fs::set_permissions(home.data(), Permissions::from_mode(0o755)).unwrap();
    let server = home.start();
    let session = server.aap().session("script", &[("add", true)]).await;
    server.aap().say(&session, "hello").await;
    assert_eq!(mode(&home.data()), 0o700);
    for name in ["secret.key", "audit.key", "nuncio.db", "nuncio.db-wal", "lock", "admin.sock"] {
        assert_eq!(mode(&home.data().join(name)), 0o600, "{name}");
    }
}

#[test]
fn key_file_readable_by_others_is_refused() {
    for name in ["secret.key", "audit.key"] {
        let home = TestAgentFolder::script();
        home.start().stop();
        let file = home.data().join(name);
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let (code, message) = home.serve().run().failure();
        assert_eq!(code, "data_dir_unusable");
        assert!(message.contains(name) && message.contains("640") && message.contains("chmod 600"), "{message}");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        home.start().stop();
    }
}

#[test]
fn malformed_key_file_is_refused_and_not_overwritten() {
    let home = TestAgentFolder::script();
    home.start().stop();
    fs::write(home.data().join("secret.key"), "short").unwrap();
    let (code, message) = home.serve().run().failure();
    assert_eq!(code, "data_dir_unusable");
    assert!(message.contains("secret.key"), "{message}");
    assert_eq!(fs::read_to_string(home.data().join("secret.key")).unwrap(), "short");
}
