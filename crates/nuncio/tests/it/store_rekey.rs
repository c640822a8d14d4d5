//! `nuncio store rekey` replaces the secret key, also while the server runs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::home::{TestAgentFolder, mode};

fn key(home: &TestAgentFolder) -> Vec<u8> {
    fs::read(home.data().join("secret.key")).unwrap()
}

/// A home whose store has sealed values: the server's keys and a signing key.
fn home_with_secrets() -> TestAgentFolder {
    let home = TestAgentFolder::script();
    home.key(&["--signing", "--yes"]);
    home.start().stop();
    home
}

/// Starts a server and asserts that it reads every sealed value.
fn assert_readable(home: &TestAgentFolder) {
    let server = home.start();
    let shown = home.json_command(&["did", "show"]).json();
    assert_eq!(shown["dids"].as_array().unwrap().len(), 2, "{shown}");
    assert!(!server.kill9().contains("cannot be decrypted"));
}

#[test]
fn rekey_of_a_running_server_replaces_the_key_and_keeps_the_identity() {
    let home = home_with_secrets();
    let old = key(&home);
    let server = home.start();
    let before = home.json_command(&["did", "show"]).json();
    let report = home.json_command(&["store", "rekey"]).json();
    assert!(report["values"].as_u64() >= Some(7), "{report}");
    let new = key(&home);
    assert_ne!(old, new);
    assert_eq!((new.len(), mode(&home.data().join("secret.key"))), (32, 0o600));
    assert!(!home.data().join("secret.key.next").exists());
    assert_eq!(home.json_command(&["did", "show"]).json(), before);
    home.json_command(&["key", "create", "--signing"]).json();
    home.json_command(&["did", "rotate", "script", "--yes"]).json();
    home.json_command(&["store", "rekey"]).json();
    assert!(![&old, &new].contains(&&key(&home)), "a second replacement makes another key");
    assert!(!server.kill9().contains("cannot be decrypted"));
    assert_readable(&home);

    // Neither of the replaced keys opens the store.
    let current = key(&home);
    for replaced in [old, new] {
        fs::remove_file(home.data().join("secret.key")).unwrap();
        let refused = home.serve().env("NUNCIO_SECRET_KEY", &STANDARD.encode(replaced)).run();
        assert_eq!(refused.failure().0, "secret_key_wrong");
        fs::write(home.data().join("secret.key"), &current).unwrap();
        fs::set_permissions(home.data().join("secret.key"), Permissions::from_mode(0o600)).unwrap();
    }
    assert_readable(&home);
}

#[test]
fn rekey_while_no_server_runs_replaces_a_key_file_elsewhere() {
    let home = home_with_secrets();
    let file = home.data().with_file_name("elsewhere.key");
    fs::rename(home.data().join("secret.key"), &file).unwrap();
    let old = fs::read(&file).unwrap();
    let path = file.to_str().unwrap();
    home.json_command(&["store", "rekey", "--secret-key", path]).json();
    assert_ne!(fs::read(&file).unwrap(), old);
    assert_eq!(mode(&file), 0o600);
    home.json_command(&["did", "show", "--secret-key", path]).json();
    let text = STANDARD.encode(fs::read(&file).unwrap());
    let refused = home.nuncio(&["--json", "store", "rekey"]).env("NUNCIO_SECRET_KEY", &text).run();
    let (code, message) = refused.failure();
    assert_eq!(code, "secret_key_invalid");
    assert!(message.contains("--secret-key FILE"), "{message}");
}

#[test]
fn replacement_that_was_begun_is_finished_at_the_next_start() {
    let home = home_with_secrets();
    let next = home.data().join("secret.key.next");
    fs::write(&next, [7; 32]).unwrap();
    fs::set_permissions(&next, Permissions::from_mode(0o600)).unwrap();
    assert_readable(&home);
    assert_eq!(key(&home), [7; 32]);
    assert!(!next.exists());
    assert_readable(&home);
}

#[test]
fn killed_rekey_loses_no_secret() {
    let home = home_with_secrets();
    for _ in 0..8 {
        home.nuncio(&["--json", "store", "rekey"]).start_interactive().kill9();
        assert_readable(&home);
        assert!(!home.data().join("secret.key.next").exists());
    }
}
