//! The key that encrypts stored secrets, from a file or the environment instead of the data directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::home::TestAgentFolder;

/// Writes a key that only its owner may read, outside the folders of agent and data directory.
fn key_file(home: &TestAgentFolder, key: &[u8]) -> PathBuf {
    let file = home.data().with_file_name("elsewhere.key");
    fs::write(&file, key).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    file
}

/// Moves the key out of the data directory, and returns its new file.
fn move_key(home: &TestAgentFolder) -> PathBuf {
    let file = key_file(home, &fs::read(home.data().join("secret.key")).unwrap());
    fs::remove_file(home.data().join("secret.key")).unwrap();
    file
}

fn with_file<'a>(arguments: &[&'a str], file: &'a Path) -> Vec<&'a str> {
    [arguments, &["--secret-key", file.to_str().unwrap()]].concat()
}

#[test]
fn key_outside_the_data_directory_opens_the_secrets_of_server_and_commands() {
    let home = TestAgentFolder::script();
    home.key(&["--signing", "--yes"]);
    let file = move_key(&home);
    let text = STANDARD.encode(fs::read(&file).unwrap());

    let server = home.serve().arg("--secret-key").arg(&file).start();
    assert_eq!(home.json_command(&["key", "list"]).json()["keys"].as_array().unwrap().len(), 1);
    assert!(!server.kill9().contains("cannot be decrypted"));
    let server = home.serve().env("NUNCIO_SECRET_KEY", &text).start();
    assert!(!server.kill9().contains("cannot be decrypted"));
    home.json_command(&with_file(&["key", "create", "--signing"], &file)).json();
    let listed = home.nuncio(&["--json", "key", "list"]).env("NUNCIO_SECRET_KEY", &text).run().json();
    assert_eq!(listed["keys"].as_array().unwrap().len(), 2);
    assert!(!home.data().join("secret.key").exists());

    let (code, message) = home.json_command(&["key", "list"]).failure();
    assert_eq!(code, "data_dir_incomplete", "without the key the store does not open: {message}");
}

#[test]
fn new_data_directory_with_a_key_elsewhere_stores_no_key() {
    let home = TestAgentFolder::script();
    let file = key_file(&home, &[7; 32]);
    let serve = || home.serve().arg("--secret-key").arg(&file);
    serve().start().stop();
    assert!(!home.data().join("secret.key").exists() && !home.data().join("secret.key.first").exists());
    serve().start().stop();
    // The database is lost: an empty one would have no API keys and be open to this machine.
    fs::remove_file(home.data().join("nuncio.db")).unwrap();
    let (code, message) = serve().run().failure();
    assert_eq!(code, "data_dir_incomplete");
    assert!(message.contains("audit.key"), "{message}");
    assert!(!home.data().join("nuncio.db").exists());
}

#[test]
fn unusable_key_is_refused_without_being_printed() {
    let home = TestAgentFolder::script();
    let file = key_file(&home, b"private words");
    let (code, message) = home.serve().arg("--secret-key").arg(&file).run().failure();
    assert_eq!(code, "secret_key_invalid");
    assert!(message.contains("13 bytes") && !message.contains("private"), "{message}");
    fs::write(&file, [7; 32]).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let (code, message) = home.json_command(&with_file(&["key", "create", "--yes"], &file)).failure();
    assert_eq!(code, "secret_key_invalid");
    assert!(message.contains("644") && message.contains("chmod 600"), "{message}");
    let refused = home.serve().env("NUNCIO_SECRET_KEY", "private words").run();
    assert_eq!(refused.failure().0, "secret_key_invalid");
    let help = home.nuncio(&["serve", "--help"]).env("NUNCIO_SECRET_KEY", "private words").run();
    assert!(!format!("{refused:?}{help:?}").contains("private words"));
    assert!(!home.data().join("nuncio.db").exists(), "nothing was created");
}
