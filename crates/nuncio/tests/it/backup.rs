//! `nuncio backup` and `nuncio restore`, and files that must not be restored.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::home::{TestAgentFolder, mode};
use crate::process::{NuncioCommand, ProcessOutput};

/// A home with a conversation, keys and grants, and its backup, which was written while the server ran.
struct BackedUp {
    home: TestAgentFolder,
    file: PathBuf,
    key: String,
    session: String,
}

impl BackedUp {
    async fn new() -> Self {
        let home = TestAgentFolder::script();
        let key = home.key(&["--name", "phone", "--yes"]);
        for arguments in [
            &["grant", "create", "did:wba:a.example", "script", "notes:write", "--once"][..],
            &["grant", "create", "did:wba:b.example", "script", "notes:write"],
            &["user", "invite", "ada"],
        ] {
            home.json_command(arguments).json();
        }
        let server = home.start();
        let session = server.aap_with_key(&key).session("script", &[]).await;
        server.aap_with_key(&key).say(&session, "kept words").await;
        let file = home.data().with_file_name("backup");
        let report = home.json_command(&["backup", file.to_str().unwrap()]).json();
        assert!(report["rows"].as_u64().unwrap() > 10, "{report}");
        assert_eq!(report["bytes"], fs::metadata(&file).unwrap().len());
        server.aap_with_key(&key).say(&session, "lost words").await;
        server.stop();
        Self { home, file, key, session }
    }

    /// A data directory that contains only the secret key.
    fn fresh(&self, name: &str) -> PathBuf {
        let data = self.home.data().with_file_name(name);
        fs::create_dir(&data).unwrap();
        fs::copy(self.home.data().join("secret.key"), data.join("secret.key")).unwrap();
        data
    }

    fn restore(&self, data: &Path, file: &Path) -> ProcessOutput {
        self.at(data, &["restore", file.to_str().unwrap()]).run()
    }

    fn at(&self, data: &Path, arguments: &[&str]) -> NuncioCommand {
        self.home.nuncio(&[&["--json"], arguments].concat()).env("NUNCIO_DATA", data.to_str().unwrap())
    }

    fn serve(&self, data: &Path) -> NuncioCommand {
        self.home.serve().env("NUNCIO_DATA", data.to_str().unwrap())
    }
}

/// Names of the files in a data directory that tell whether something was restored.
fn contents(data: &Path) -> Vec<String> {
    let names = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name != "lock").collect();
    names.sort();
    names
}

fn number_of(list: &Value, field: &str) -> usize {
    list[field].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_store_has_the_data_of_the_backup_and_the_same_identity() {
    let it = BackedUp::new().await;
    assert_eq!(mode(&it.file), 0o600);
    let bytes = fs::read(&it.file).unwrap();
    let secret = fs::read(it.home.data().join("secret.key")).unwrap();
    assert!(!bytes.windows(secret.len()).any(|window| window == secret), "the secret key is not in the backup");
    let data = it.fresh("restored");
    let report = it.restore(&data, &it.file).json();
    assert_eq!(report["left_out"], 3, "a node, a one-time grant and an invite: {report}");
    let shown = |data: &Path, what: &[&str]| it.at(data, what).run().json();
    assert_eq!(shown(&data, &["did", "show"]), shown(&it.home.data(), &["did", "show"]));

    let server = it.serve(&data).start();
    let client = server.aap_with_key(&it.key);
    let history = client.history(&it.session).await;
    assert!(Value::from(history.clone()).to_string().contains("kept words"));
    assert!(!Value::from(history).to_string().contains("lost words"));
    assert_eq!(server.aap().get("/sessions").await.0, 401, "the keys still count");
    server.stop();
    assert_eq!(shown(&data, &["store", "check"])["intact"], true);
    let proof = shown(&data, &["audit", "verify"]);
    assert_eq!((&proof["intact"], proof["checkpoints"].as_u64() > Some(0)), (&Value::Bool(true), true), "{proof}");
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_voids_what_could_be_used_twice_and_is_recorded_once() {
    let it = BackedUp::new().await;
    let data = it.fresh("restored");
    it.restore(&data, &it.file).json();
    let shown = |what: &[&str]| it.at(&data, what).run().json();
    let grants = shown(&["grant", "list"]);
    assert_eq!((number_of(&grants, "grants"), &grants["grants"][0]["term"]), (1, &Value::from("until_revoked")));
    let before = it.home.json_command(&["grant", "list"]).json();
    assert_eq!(number_of(&before, "grants"), 2, "the original is unchanged");
    let records = shown(&["audit", "list", "--after", "0", "--limit", "1000"]);
    let records = records["records"].as_array().unwrap().iter().map(|link| &link["record"]["happened"]);
    assert_eq!(records.filter(|event| **event == "store_rewound").count(), 1);
    assert_eq!(it.restore(&data, &it.file).failure().0, "store_not_empty");
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_foreign_and_newer_files_are_refused_and_change_nothing() {
    let it = BackedUp::new().await;
    let data = it.fresh("restored");
    let whole = fs::read(&it.file).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    let newer = [b"nuncio backup 2\n", &whole[16..]].concat();
    let schema = String::from_utf8_lossy(&whole[..300]).find("\"schema\":").unwrap() + 9;
    let mut newer_schema = whole.clone();
    newer_schema[schema..schema + 2].copy_from_slice(b"99");
    let database = fs::read(it.home.data().join("nuncio.db")).unwrap();
    for (bytes, why) in [
        (&whole[..whole.len() - 1], "damaged or incomplete"),
        (&whole[..whole.len() / 3], "damaged or incomplete"),
        (&whole[..20], "damaged or incomplete"),
        (&changed, "damaged or incomplete"),
        (&newer, "newer version"),
        (&newer_schema, "newer version"),
        (&database, "not a backup"),
        (b"", "not a backup"),
    ] {
        let file = it.home.data().with_file_name("wrong");
        fs::write(&file, bytes).unwrap();
        let (code, message) = it.restore(&data, &file).failure();
        assert_eq!(code, "store_backup_invalid", "{message}");
        assert!(message.contains(why) && message.contains("nothing was changed"), "{why}: {message}");
        assert_eq!(contents(&data), ["secret.key"], "{why}");
    }
    it.restore(&data, &it.file).json();
}

#[test]
fn missing_backup_file_and_missing_folder_are_named_before_anything_is_opened() {
    let home = TestAgentFolder::script();
    let (code, message) = home.json_command(&["restore", "nosuch.backup"]).failure();
    assert_eq!(code, "store_backup_invalid");
    assert!(message.contains("nosuch.backup") && message.contains("the file does not exist"), "{message}");
    assert!(!home.data().exists());
    let (code, message) = home.json_command(&["backup", "/nosuch/dir/x"]).failure();
    assert_eq!(code, "store_backup_invalid");
    assert!(message.contains("the folder /nosuch/dir does not exist"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_under_another_secret_key_is_refused_and_changes_nothing() {
    let it = BackedUp::new().await;
    let data = it.fresh("restored");
    fs::write(data.join("secret.key"), [1; 32]).unwrap();
    assert_eq!(it.restore(&data, &it.file).failure().0, "secret_key_wrong");
    assert_eq!(contents(&data), ["secret.key"]);
    fs::remove_file(data.join("secret.key")).unwrap();
    assert_eq!(it.restore(&data, &it.file).failure().0, "data_dir_incomplete");
    assert_eq!(contents(&data), [""; 0]);
    let wrong = it.home.data().with_file_name("wrong.key");
    fs::write(&wrong, [1; 32]).unwrap();
    fs::set_permissions(&wrong, Permissions::from_mode(0o600)).unwrap();
    let target = it.home.data().with_file_name("never");
    let command = ["backup", target.to_str().unwrap(), "--secret-key", wrong.to_str().unwrap()];
    assert_eq!(it.home.json_command(&command).failure().0, "secret_key_wrong");
    assert!(!target.exists() && !target.with_extension("partial").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_replaces_no_file_and_restore_no_store() {
    let it = BackedUp::new().await;
    let before = fs::read(&it.file).unwrap();
    let again = it.home.json_command(&["backup", it.file.to_str().unwrap()]);
    assert_eq!(again.failure().0, "store_backup_invalid");
    assert_eq!(fs::read(&it.file).unwrap(), before);
    assert_eq!(it.restore(&it.home.data(), &it.file).failure().0, "store_not_empty");
    let server = it.serve(&it.home.data()).start();
    let history = server.aap_with_key(&it.key).history(&it.session).await;
    assert!(Value::from(history).to_string().contains("lost words"));
    assert_eq!(it.restore(&it.home.data(), &it.file).failure().0, "data_dir_in_use");

    let sessions_with_devices = it.fresh("seals");
    fs::create_dir(sessions_with_devices.join("seals")).unwrap();
    fs::write(sessions_with_devices.join("seals/script.db"), "").unwrap();
    assert_eq!(it.restore(&sessions_with_devices, &it.file).failure().0, "store_not_empty");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_restore_leaves_no_store_or_a_complete_one() {
    let it = BackedUp::new().await;
    for round in 0..8 {
        let data = it.fresh(&format!("killed-{round}"));
        it.at(&data, &["restore", it.file.to_str().unwrap()]).start_interactive().kill9();
        if !data.join("nuncio.db").exists() {
            it.restore(&data, &it.file).json();
        }
        assert!(contents(&data).iter().all(|name| !name.contains("restoring")), "{:?}", contents(&data));
        assert_eq!(it.at(&data, &["store", "check"]).run().json()["intact"], true);
        let records = it.at(&data, &["audit", "list", "--after", "0", "--limit", "1000"]).run().json();
        let events = records["records"].as_array().unwrap().iter().map(|link| &link["record"]["happened"]);
        assert_eq!(events.filter(|event| **event == "store_rewound").count(), 1, "round {round}");
        assert_eq!(it.at(&data, &["audit", "verify"]).run().json()["intact"], true);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_backup_leaves_no_file_of_its_name_or_a_complete_one() {
    let it = BackedUp::new().await;
    for round in 0..8 {
        let file = it.home.data().with_file_name(format!("killed-{round}"));
        let back_up = ["backup", file.to_str().unwrap()];
        it.at(&it.home.data(), &back_up).start_interactive().kill9();
        if !file.exists() {
            it.home.json_command(&back_up).json();
        }
        let data = it.fresh(&format!("restored-{round}"));
        it.restore(&data, &file).json();
    }
}
