//! Encryption of a device's stored data, with a key from a file, a passphrase or the keyring.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nuncio_identity::seal::{KeyStore as _, WrappedStorageKey, WrappingKey, WrappingKeySource};
use nuncio_store::SqliteKeyStore;
use serde_json::{Value, json};

use super::device::LaptopSetup;
use super::{SCOPE, SECRET};
use crate::home::mode;
use crate::process::until;

const PHRASE: &str = "correct horse battery";

/// Whether any file in the device folder contains `text`.
fn holds(laptop: &LaptopSetup, text: &str) -> bool {
    let files = fs::read_dir(laptop.home_folder()).unwrap().map(|entry| entry.unwrap().path());
    let contains = |path: &Path| fs::read(path).unwrap().windows(text.len()).any(|window| window == text.as_bytes());
    files.filter(|path| path.is_file()).any(|path| contains(&path))
}

/// Converts the device folder to the format of an earlier version: unencrypted records, and no storage key.
fn unseal(laptop: &LaptopSetup) {
    let file = laptop.home_folder().join("storage-key.json");
    let wrapped: WrappedStorageKey = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let WrappingKeySource::File { path } = &wrapped.source else { panic!("{:?}", wrapped.source) };
    let by = WrappingKey::parse(&fs::read_to_string(path).unwrap()).unwrap();
    let database = laptop.home_folder().join("keys.db");
    let sealed = SqliteKeyStore::open(&database).unwrap().seal_with(wrapped.unwrap_with(&by).unwrap()).unwrap();
    let records = sealed.all("").unwrap();
    drop(sealed);
    for file in [&file, path, &database] {
        fs::remove_file(file).unwrap();
    }
    let plain = SqliteKeyStore::open(&database).unwrap();
    plain.save(records.into_iter().map(|(name, value)| (name, Some(value))).collect()).unwrap();
}

async fn used() -> LaptopSetup {
    let laptop = LaptopSetup::new();
    laptop.device(&["allow", "script", SCOPE]).json();
    let running = laptop.run();
    let session = laptop.client.session("script", &[]).await;
    let answer = laptop.read(&session, "c_1", "treasure.md").await;
    assert!(answer.contains(SECRET), "{answer}");
    running.stop();
    laptop
}

#[tokio::test(flavor = "multi_thread")]
async fn unencrypted_device_folder_of_an_older_version_is_encrypted_when_opened() {
    let laptop = used().await;
    let before = laptop.device(&["status"]).json();
    unseal(&laptop);
    assert!(holds(&laptop, SECRET) && holds(&laptop, "\"person\":\"ada\""), "as the version before stored it");
    let after = laptop.device(&["status"]).json();
    assert_eq!(after, before);
    assert!(!holds(&laptop, SECRET) && !holds(&laptop, "\"person\":\"ada\""));
    let key = laptop.home.path("laptop.key");
    assert_eq!(after["sealed_by"], json!({"source": "file", "path": key}));
    assert_eq!((mode(&key), mode(&laptop.home_folder().join("storage-key.json"))), (0o600, 0o600));
    // The device keeps its identity and its audit records.
    let running = laptop.run();
    assert_eq!(running.greeting["sealed_by"]["source"], "file");
    let session = laptop.client.session("script", &[]).await;
    assert!(laptop.read(&session, "c_2", "treasure.md").await.contains(SECRET));
    running.stop();
    assert_eq!(laptop.device(&["audit"]).json()["verified"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_change_of_storage_key_source_only_the_new_key_opens_the_device_folder() {
    let laptop = used().await;
    let (right, wrong) = (laptop.home.path("right"), laptop.home.path("wrong"));
    fs::write(&right, format!("{PHRASE}\n")).unwrap();
    fs::write(&wrong, "another horse battery\n").unwrap();
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    assert_eq!(laptop.device(&["storage"]).json()["sealed_by"]["source"], "file");
    let short = laptop.home.path("short");
    fs::write(&short, "short\n").unwrap();
    let refused = laptop.device(&["storage", "passphrase", "--passphrase-file", short.to_str().unwrap()]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert_eq!(laptop.device(&["storage"]).json()["sealed_by"]["source"], "file", "nothing was changed");

    let changed = laptop.device(&["storage", "passphrase", "--passphrase-file", right]).json();
    assert_eq!(changed, json!({"sealed_by": {"source": "passphrase"}}));
    assert!(!laptop.home.path("laptop.key").exists(), "the key from before is removed");
    for arguments in [&["status"][..], &["status", "--storage-passphrase-file", wrong]] {
        assert_eq!(laptop.device(arguments).failure().0, "storage_locked", "{arguments:?}");
    }
    let opened = laptop.device(&["status", "--storage-passphrase-file", right]).json();
    assert_eq!((&opened["audit"], &opened["sealed_by"]), (&json!(1), &json!({"source": "passphrase"})));

    let elsewhere = laptop.home.path("usb.key");
    let arguments = ["storage", "file", "--key-file", elsewhere.to_str().unwrap(), "--storage-passphrase-file", right];
    assert_eq!(laptop.device(&arguments).json()["sealed_by"]["path"], json!(elsewhere));
    let refused = laptop.device(&["storage", "file", "--key-file", elsewhere.to_str().unwrap()]);
    assert_ne!(refused.status, Some(0), "a key that is there is not replaced");
    assert_eq!(laptop.device(&["status"]).json()["audit"], 1);
    let moved = laptop.home.path("moved.key");
    fs::rename(&elsewhere, &moved).unwrap();
    let (code, message) = laptop.device(&["status"]).failure();
    assert!(code == "storage_locked" && message.contains("usb.key") && message.contains("--storage-key"), "{message}");
    assert_eq!(laptop.device(&["status", "--storage-key", moved.to_str().unwrap()]).json()["audit"], 1);
    fs::write(&elsewhere, "no key").unwrap();
    assert_eq!(laptop.device(&["status"]).failure().0, "storage_locked");
    fs::rename(&moved, &elsewhere).unwrap();

    // A device folder whose wrapped key is missing is not encrypted again with a new key.
    let wrapped = laptop.home_folder().join("storage-key.json");
    let content = fs::read(&wrapped).unwrap();
    fs::remove_file(&wrapped).unwrap();
    assert_eq!(laptop.device(&["status"]).failure().0, "storage_locked");
    assert!(!wrapped.exists());
    fs::write(&wrapped, content).unwrap();
    assert_eq!(laptop.device(&["status"]).json()["audit"], 1);

    // A folder that contains the storage key cannot be opened to agents.
    let near = laptop.command_at("laptop", &["run", "--folder"]).arg(laptop.home.path("")).run();
    assert_eq!(near.status, Some(2), "{near:?}");
}

struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a D-Bus session bus with an unlocked GNOME Keyring; returns the processes and the bus address.
fn keyring(folder: &Path) -> (Vec<KilledOnDrop>, String) {
    let config = format!(
        "<busconfig><type>session</type><listen>unix:dir={}</listen><policy context=\"default\">\
         <allow send_destination=\"*\"/><allow receive_sender=\"*\"/><allow own=\"*\"/></policy></busconfig>",
        folder.display()
    );
    fs::write(folder.join("bus.conf"), config).unwrap();
    let mut bus = Command::new("dbus-daemon");
    bus.args(["--nofork", "--print-address=1", "--config-file"]).arg(folder.join("bus.conf"));
    let mut bus = bus.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("dbus-daemon starts");
    let mut address = String::new();
    BufReader::new(bus.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let address = address.trim().to_owned();
    let mut daemon = Command::new("gnome-keyring-daemon");
    daemon.args(["--foreground", "--components=secrets", "--unlock"]).env("DBUS_SESSION_BUS_ADDRESS", &address);
    daemon.env("HOME", folder).env("XDG_RUNTIME_DIR", folder).env_remove("XDG_DATA_HOME");
    let daemon = daemon.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut daemon = daemon.spawn().expect("gnome-keyring-daemon starts: run `cargo xtask test`, which installs it");
    daemon.stdin.take().unwrap().write_all(b"a password").unwrap();
    (vec![KilledOnDrop(daemon), KilledOnDrop(bus)], address)
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(target_os = "linux", not(nuncio_portable))), ignore = "this build has no D-Bus")]
async fn storage_key_can_be_moved_to_the_system_keyring_and_back_to_a_file() {
    let laptop = LaptopSetup::new();
    let folder = tempfile::tempdir().unwrap();
    let (_processes, address) = keyring(folder.path());
    let device =
        |arguments: &[&str]| laptop.command_at("laptop", arguments).env("DBUS_SESSION_BUS_ADDRESS", &address).run();
    let changed = async || (device(&["storage", "keyring"]).status == Some(0)).then_some(());
    until("the keyring has the key", changed).await;
    assert!(!laptop.home.path("laptop.key").exists());
    assert_eq!(device(&["status"]).json()["sealed_by"], json!({"source": "keyring"}));
    assert_eq!(laptop.device(&["status"]).failure().0, "storage_locked", "without the session of its person");
    // A new device folder can use the keyring too.
    let fresh = laptop.command_at("other", &["storage", "keyring"]).env("DBUS_SESSION_BUS_ADDRESS", &address).run();
    assert_eq!(fresh.json(), json!({"sealed_by": {"source": "keyring"}}));
    let back: Value = device(&["storage", "file"]).json();
    assert_eq!(back["sealed_by"]["source"], "file");
    assert_eq!(laptop.device(&["status"]).json()["sealed_by"], back["sealed_by"]);
}
