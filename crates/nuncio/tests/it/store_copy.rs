//! `nuncio store copy` moves a store, and `nuncio store status` describes it.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::home::TestAgentFolder;
use crate::process::{NuncioCommand, ProcessOutput};

/// A stopped server's data directory with a conversation.
struct MovedStore {
    home: TestAgentFolder,
    key: String,
    session: String,
}

impl MovedStore {
    async fn new() -> Self {
        let home = TestAgentFolder::script();
        let key = home.key(&["--name", "phone", "--yes"]);
        let server = home.start();
        let session = server.aap_with_key(&key).session("script", &[]).await;
        server.aap_with_key(&key).say(&session, "kept words").await;
        server.stop();
        Self { home, key, session }
    }

    fn target(&self, name: &str) -> PathBuf {
        self.home.data().with_file_name(name)
    }

    fn copy_to(&self, target: &Path) -> NuncioCommand {
        self.home.nuncio(&["--json", "store", "copy"]).arg(self.home.data()).arg(target)
    }

    fn at(&self, data: &Path, arguments: &[&str]) -> ProcessOutput {
        self.home.nuncio(&[&["--json"], arguments].concat()).env("NUNCIO_DATA", data.to_str().unwrap()).run()
    }

    async fn assert_works_at(&self, data: &Path) {
        let server = self.home.serve().env("NUNCIO_DATA", data.to_str().unwrap()).start();
        let history = server.aap_with_key(&self.key).history(&self.session).await;
        assert!(Value::from(history).to_string().contains("kept words"));
        server.stop();
        assert_eq!(self.at(data, &["store", "check"]).json()["intact"], true);
        assert_eq!(self.at(data, &["audit", "verify"]).json()["intact"], true);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn copied_store_is_used_instead_of_the_first_and_can_be_copied_back() {
    let it = MovedStore::new().await;
    let shown = it.at(&it.home.data(), &["did", "show"]).json();
    let target = it.target("second");
    let report = it.copy_to(&target).run().json();
    assert!(report["rows"].as_u64().unwrap() > 5 && report["tables"].as_u64().unwrap() > 40, "{report}");
    for command in [&["key", "list"][..], &["did", "show"]] {
        let (code, message) = it.at(&it.home.data(), command).failure();
        assert_eq!(code, "store_moved");
        assert!(message.contains(target.canonicalize().unwrap().to_str().unwrap()), "{message}");
    }
    assert_eq!(it.home.serve().run().failure().0, "store_moved");
    assert_eq!(it.at(&target, &["did", "show"]).json(), shown);
    it.assert_works_at(&target).await;

    let shown = it.at(&target, &["did", "show"]).json();
    // The first folder still contains the moved store, so the way back leads to a new one.
    let third = it.target("third");
    let back = ["store", "copy", target.to_str().unwrap(), third.to_str().unwrap()];
    it.at(&target, &back).json();
    assert_eq!(it.at(&third, &["did", "show"]).json(), shown);
    it.assert_works_at(&third).await;
    assert_eq!(it.at(&target, &["key", "list"]).failure().0, "store_moved");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_copy_changes_neither_source_nor_target() {
    let it = MovedStore::new().await;
    let other = it.target("other");
    it.at(&other, &["key", "create", "--yes"]).json();
    assert_eq!(it.copy_to(&other).run().failure().0, "secret_key_wrong");
    let same_key = it.target("same-key");
    fs::create_dir(&same_key).unwrap();
    fs::write(same_key.join("audit.key"), "").unwrap();
    assert_eq!(it.copy_to(&same_key).run().failure().0, "store_not_empty");
    assert_eq!(it.copy_to(&it.home.data()).run().failure().0, "bad_request");
    let nowhere = ["store", "copy", "nowhere", same_key.to_str().unwrap()];
    assert_eq!(it.at(&it.home.data(), &nowhere).failure().0, "data_dir_unusable");
    let refused = it.copy_to(Path::new("postgres://user:secret@localhost/db")).run();
    assert!(!refused.failure().1.contains("secret"), "{refused:?}");
    let server = it.home.start();
    assert_eq!(it.copy_to(&it.target("busy")).run().failure().0, "data_dir_in_use");
    server.stop();
    assert_eq!(it.at(&other, &["key", "list"]).json()["keys"].as_array().unwrap().len(), 1);
    it.assert_works_at(&it.home.data()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_copy_leaves_exactly_one_usable_store_and_can_be_finished() {
    for round in 0..8 {
        let it = MovedStore::new().await;
        let target = it.target(&format!("target-{round}"));
        it.copy_to(&target).start_interactive().kill9();
        let is_source_usable = it.at(&it.home.data(), &["key", "list"]).status == Some(0);
        assert!(!is_source_usable || !is_complete(&target), "round {round}: both stores can be used");
        let again = it.copy_to(&target).run();
        let is_finished = again.status == Some(0) || again.failure().0 == "store_not_empty";
        assert!(is_finished, "round {round}: {again:?}");
        it.assert_works_at(&target).await;
        assert_eq!(it.at(&it.home.data(), &["key", "list"]).failure().0, "store_moved");
    }
}

/// Whether a data directory has a store with data that is not marked as an unfinished copy.
fn is_complete(data: &Path) -> bool {
    let sql = "SELECT EXISTS (SELECT 1 FROM keyring)
               AND NOT EXISTS (SELECT 1 FROM store_info WHERE name = 'copying_from')";
    let database = Connection::open_with_flags(data.join("nuncio.db"), OpenFlags::SQLITE_OPEN_READ_ONLY);
    database.and_then(|database| database.query_row(sql, [], |row| row.get(0))).unwrap_or(false)
}

#[tokio::test(flavor = "multi_thread")]
async fn store_status_names_the_store_its_tables_and_unfinished_work() {
    let it = MovedStore::new().await;
    let stopped = it.at(&it.home.data(), &["store", "status"]).json();
    assert_eq!((&stopped["kind"], &stopped["unfinished"]), (&json!("sqlite"), &json!([])));
    assert!(stopped["place"].as_str().unwrap().ends_with("nuncio.db"), "{stopped}");
    assert!(stopped["schema"].as_u64().unwrap() > 20);
    let table = |status: &Value, name: &str| {
        let tables = status["tables"].as_array().unwrap().clone();
        tables.into_iter().find(|table| table["name"] == name).unwrap()
    };
    let messages = table(&stopped, "messages");
    assert!(messages["rows"].as_u64() > Some(1) && messages["bytes"].as_u64() >= Some(4096), "{messages}");
    let server = it.home.start();
    let running = it.at(&it.home.data(), &["store", "status"]).json();
    assert_eq!(table(&running, "messages"), messages);
    server.stop();
    assert_eq!(it.at(&it.target("nowhere"), &["store", "status"]).failure().0, "data_dir_unusable");
    let printed = it.home.nuncio(&["store", "status"]).run();
    assert!(printed.stdout.contains("No work is unfinished."), "{printed:?}");
}
