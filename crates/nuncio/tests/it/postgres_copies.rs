//! `nuncio store copy`, `nuncio backup` and `nuncio restore` with stores in PostgreSQL.

use std::fs;
use std::path::{Path, PathBuf};

use nuncio_test_postgres::PostgresDatabase;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::client::Client;
use crate::earlier_data::EarlierVersionData;
use crate::home::TestAgentFolder;
use crate::process::{NuncioCommand, ProcessOutput, Server, until};

/// A data directory with the store that its commands use.
struct StorePlace<'home> {
    home: &'home TestAgentFolder,
    data: PathBuf,
    /// URL of a database; empty for the store in the data directory.
    store: String,
}

impl<'home> StorePlace<'home> {
    fn directory(home: &'home TestAgentFolder, data: &Path) -> Self {
        Self { home, data: data.to_owned(), store: String::new() }
    }

    fn postgres(home: &'home TestAgentFolder, data: &Path, database: &PostgresDatabase) -> Self {
        Self { home, data: data.to_owned(), store: database.url().to_owned() }
    }

    fn with(&self, command: NuncioCommand) -> NuncioCommand {
        command.env("NUNCIO_DATA", self.data.to_str().unwrap()).env("NUNCIO_STORE", &self.store)
    }

    fn command(&self, arguments: &[&str]) -> NuncioCommand {
        self.with(self.home.nuncio(&[&["--json"], arguments].concat()))
    }

    fn run(&self, arguments: &[&str]) -> ProcessOutput {
        self.command(arguments).run()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.run(arguments).json()
    }

    fn start(&self) -> Server {
        self.with(self.home.serve()).start()
    }

    fn dids(&self) -> Vec<String> {
        let shown = self.json(&["did", "show"]);
        shown["dids"].as_array().unwrap().iter().map(|one| one["did"].as_str().unwrap().to_owned()).collect()
    }

    /// Fails unless the audit record is proved, also by checkpoints from before the move.
    fn assert_audit_record_verifies(&self) {
        let proof = self.json(&["audit", "verify"]);
        assert_eq!((&proof["intact"], proof["checkpoints"].as_u64() > Some(0)), (&json!(true), true), "{proof}");
    }

    fn assert_moved(&self) {
        for command in [&["key", "list"][..], &["did", "show"]] {
            assert_eq!(self.run(command).failure().0, "store_moved");
        }
        assert_eq!(self.with(self.home.serve()).run().failure().0, "store_moved");
    }

    /// Number of records of a restore.
    fn rewinds(&self) -> usize {
        let records = self.json(&["audit", "list", "--after", "0", "--limit", "1000"]);
        let records = records["records"].as_array().unwrap().iter();
        records.filter(|link| link["record"]["happened"] == "store_rewound").count()
    }
}

/// The published DID documents.
async fn documents(server: &Server, dids: &[String]) -> Vec<Value> {
    let client = Client::new(server.url(), None);
    let mut documents = Vec::new();
    for did in dids {
        let path = did.splitn(4, ':').nth(3).map_or_else(String::new, |path| format!("/{}", path.replace(':', "/")));
        let path = if path.is_empty() { "/.well-known".to_owned() } else { path };
        let (status, document) = client.get(&format!("{path}/did.json")).await;
        assert_eq!(status, 200, "{did}: {document}");
        documents.push(document);
    }
    documents
}

#[tokio::test(flavor = "multi_thread")]
async fn store_moved_to_postgresql_and_back_keeps_documents_ids_dids_and_a_provable_audit_record() {
    let (earlier, databases) = (EarlierVersionData::copied(), [PostgresDatabase::create(), PostgresDatabase::create()]);
    let home = &earlier.home;
    let first = StorePlace::directory(home, &home.data());
    let server = first.with(home.serve()).arg("agents").start();
    // DIDs and documents contain the port.
    let listen = server.url().trim_start_matches("http://").to_owned();
    let serve = |place: &StorePlace<'_>| {
        place.with(home.nuncio(&["--json", "serve", "--listen", &listen])).arg("agents").start()
    };
    let dids = first.dids();
    let published = documents(&server, &dids).await;
    assert_eq!((dids.len(), published.len()), (5, 5));
    server.stop();
    let devices = first.json(&["user", "devices", "ada"]);
    let third_data = home.data().with_file_name("third");
    let places = [
        first,
        StorePlace::postgres(home, &home.data(), &databases[0]),
        StorePlace::postgres(home, &home.data(), &databases[1]),
        StorePlace::directory(home, &third_data),
    ];
    let name = |place: &StorePlace<'_>| match place.store.is_empty() {
        true => place.data.display().to_string(),
        false => place.store.clone(),
    };
    for pair in places.windows(2) {
        let (from, to) = (&pair[0], &pair[1]);
        let report = from.json(&["store", "copy", &name(from), &name(to)]);
        assert!(report["rows"].as_u64() > Some(100) && report["tables"].as_u64() > Some(40), "{report}");
        from.assert_moved();
        assert_eq!(to.dids(), dids);
        let server = serve(to);
        earlier.assert_readable(&server).await;
        assert_eq!(documents(&server, &dids).await, published);
        server.stop();
        assert_eq!(to.json(&["user", "devices", "ada"]), devices);
        to.assert_audit_record_verifies();
        assert_eq!(to.json(&["store", "check"])["intact"], true);
    }
}

/// A stopped server's data directory with a conversation in a store.
struct Conversation {
    home: TestAgentFolder,
    store: String,
    key: String,
    session: String,
}

impl Conversation {
    /// `store` is the URL of a database, or empty for the data directory.
    async fn at(store: &str) -> Self {
        let (home, store) = (TestAgentFolder::script(), store.to_owned());
        let mut it = Self { home, store, key: String::new(), session: String::new() };
        let made = it.place().json(&["key", "create", "--name", "phone", "--yes"]);
        made["key"].as_str().unwrap().clone_into(&mut it.key);
        let server = it.place().start();
        let client = server.aap_with_key(&it.key);
        it.session = client.session("script", &[]).await;
        client.say(&it.session, "kept words").await;
        server.stop();
        it
    }

    fn place(&self) -> StorePlace<'_> {
        StorePlace { home: &self.home, data: self.home.data(), store: self.store.clone() }
    }

    /// A data directory that contains only the secret key.
    fn fresh(&self, name: &str) -> PathBuf {
        let data = self.home.data().with_file_name(name);
        fs::create_dir(&data).unwrap();
        fs::copy(self.home.data().join("secret.key"), data.join("secret.key")).unwrap();
        data
    }

    async fn history(&self, server: &Server) -> String {
        Value::from(server.aap_with_key(&self.key).history(&self.session).await).to_string()
    }

    async fn assert_works_at(&self, place: &StorePlace<'_>) {
        let server = place.start();
        assert!(self.history(&server).await.contains("kept words"));
        server.stop();
        place.assert_audit_record_verifies();
    }
}

/// Kills a copy when that many tables are marked as copied, or when it has ended.
async fn kill_after_tables(copy: NuncioCommand, tables: u32, copied: impl Fn() -> Option<u32>) {
    let mut running = copy.start_interactive();
    until("tables were copied", async || (running.has_ended() || copied() >= Some(tables)).then_some(())).await;
    running.kill9();
}

/// Number of tables in a database that are marked as copied; `None` before the copy began.
fn copied_tables(database: &PostgresDatabase) -> Option<u32> {
    if database.query("SELECT to_regclass('store_info') IS NULL") == "t" {
        return None;
    }
    let marks = "SELECT count(*) FILTER (WHERE name LIKE 'copied/%') FROM store_info HAVING count(*) > 0";
    database.query(marks).parse().ok()
}

fn copied_tables_of(data: &Path) -> Option<u32> {
    let database = Connection::open_with_flags(data.join("nuncio.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    let marks = "SELECT count(*) FILTER (WHERE name LIKE 'copied/%') FROM store_info HAVING count(*) > 0";
    database.query_row(marks, [], |row| row.get(0)).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_copy_to_or_from_postgresql_leaves_at_most_one_usable_store_and_is_finished_by_the_same_command() {
    for (is_from_postgres, tables) in [(false, 0), (false, 25), (false, 46), (true, 0), (true, 25), (true, 46)] {
        let database = PostgresDatabase::create();
        let it = Conversation::at(if is_from_postgres { database.url() } else { "" }).await;
        let (data, other) = (it.home.data(), it.home.data().with_file_name("other"));
        let (to, name) = match is_from_postgres {
            true => (StorePlace::directory(&it.home, &other), [database.url(), other.to_str().unwrap()]),
            false => (StorePlace::postgres(&it.home, &data, &database), [data.to_str().unwrap(), database.url()]),
        };
        let copy = ["store", "copy", name[0], name[1]];
        let copied = || if is_from_postgres { copied_tables_of(&other) } else { copied_tables(&database) };
        kill_after_tables(it.place().command(&copy), tables, copied).await;
        // A new store that the copy had not begun to fill has no key, and does not count.
        let is_usable = |place: &StorePlace<'_>| {
            let listed = place.run(&["key", "list"]);
            listed.status == Some(0) && listed.json()["keys"] != json!([])
        };
        let was_begun = copied().is_some();
        assert!(!(is_usable(&it.place()) && was_begun && is_usable(&to)), "{name:?} {tables}: both can be used");
        let again = it.place().run(&copy);
        assert!(again.status == Some(0) || again.failure().0 == "store_not_empty", "{name:?} {tables}: {again:?}");
        it.assert_works_at(&to).await;
        it.place().assert_moved();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_is_refused_while_a_server_uses_the_store_or_the_target_contains_one() {
    let (database, empty) = (PostgresDatabase::create(), PostgresDatabase::create());
    let it = Conversation::at(database.url()).await;
    let server = it.place().start();
    let elsewhere = it.fresh("elsewhere");
    let other = StorePlace::postgres(&it.home, &elsewhere, &database);
    let copy = ["store", "copy", database.url(), empty.url()];
    assert_eq!(other.run(&copy).failure().0, "store_in_use");
    assert_eq!(it.place().run(&copy).failure().0, "data_dir_in_use");
    let file = Conversation::at("").await;
    let data = file.home.data();
    let onto = ["store", "copy", data.to_str().unwrap(), database.url()];
    assert_eq!(file.place().run(&onto).failure().0, "store_not_empty");
    let nowhere = ["store", "copy", empty.url(), database.url()];
    assert_eq!(file.place().run(&nowhere).failure().0, "store_unavailable");
    assert_eq!(empty.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0");
    assert!(it.history(&server).await.contains("kept words"));
    server.stop();
    let same = ["store", "copy", database.url(), database.url()];
    assert_eq!(it.place().run(&same).failure().0, "bad_request");
    it.assert_works_at(&it.place()).await;
    file.assert_works_at(&file.place()).await;
}

/// A PostgreSQL store and its backup, which was written while the server ran.
async fn backed_up(database: &PostgresDatabase) -> (Conversation, PathBuf) {
    let it = Conversation::at(database.url()).await;
    for arguments in [
        &["grant", "create", "did:wba:a.example", "script", "notes:write", "--once"][..],
        &["grant", "create", "did:wba:b.example", "script", "notes:write"],
        &["user", "invite", "ada"],
    ] {
        it.place().json(arguments);
    }
    let server = it.place().start();
    let file = it.home.data().with_file_name("backup");
    let report = it.place().json(&["backup", file.to_str().unwrap()]);
    assert!(report["rows"].as_u64() > Some(10), "{report}");
    server.aap_with_key(&it.key).say(&it.session, "lost words").await;
    server.stop();
    (it, file)
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_of_a_running_postgresql_store_is_restored_into_a_data_directory_and_into_a_database() {
    let databases = [PostgresDatabase::create(), PostgresDatabase::create()];
    let (it, file) = backed_up(&databases[0]).await;
    let bytes = fs::read(&file).unwrap();
    let secret = fs::read(it.home.data().join("secret.key")).unwrap();
    assert!(!bytes.windows(secret.len()).any(|window| window == secret), "the secret key is not in the backup");
    let (in_directory, in_database) = (it.fresh("directory"), it.fresh("database"));
    for place in
        [StorePlace::directory(&it.home, &in_directory), StorePlace::postgres(&it.home, &in_database, &databases[1])]
    {
        let report = place.json(&["restore", file.to_str().unwrap()]);
        // Two nodes, because the backup was written while the second server ran.
        assert_eq!(report["left_out"], 4, "nodes, a one-time grant and an invite: {report}");
        assert_eq!(place.dids(), it.place().dids());
        let grants = place.json(&["grant", "list"]);
        assert_eq!(grants["grants"].as_array().unwrap().len(), 1, "{grants}");
        let server = place.start();
        let history = it.history(&server).await;
        assert!(history.contains("kept words") && !history.contains("lost words"), "{history}");
        assert_eq!(server.aap().get("/sessions").await.0, 401, "the keys still count");
        server.stop();
        place.assert_audit_record_verifies();
        assert_eq!(place.rewinds(), 1);
        assert_eq!(place.run(&["restore", file.to_str().unwrap()]).failure().0, "store_not_empty");
    }
    let server = it.place().start();
    assert!(it.history(&server).await.contains("lost words"), "the original is unchanged");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_or_killed_restore_leaves_no_store_in_the_database() {
    let databases = [PostgresDatabase::create(), PostgresDatabase::create()];
    let (it, file) = backed_up(&databases[0]).await;
    let tables = || databases[1].query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'");
    let data = it.fresh("target");
    let place = StorePlace::postgres(&it.home, &data, &databases[1]);
    let whole = fs::read(&file).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    for bytes in [&whole[..whole.len() - 1], &changed] {
        let wrong = it.home.data().with_file_name("wrong");
        fs::write(&wrong, bytes).unwrap();
        assert_eq!(place.run(&["restore", wrong.to_str().unwrap()]).failure().0, "store_backup_invalid");
        assert_eq!(tables(), "0");
    }
    let restore = ["restore", file.to_str().unwrap()];
    fs::write(data.join("secret.key"), [1; 32]).unwrap();
    assert_eq!(place.run(&restore).failure().0, "secret_key_wrong");
    assert_eq!(tables(), "0");
    fs::copy(it.home.data().join("secret.key"), data.join("secret.key")).unwrap();
    fs::create_dir(data.join("seals")).unwrap();
    fs::write(data.join("seals/script.db"), "").unwrap();
    assert_eq!(place.run(&restore).failure().0, "store_not_empty");
    fs::remove_dir_all(data.join("seals")).unwrap();
    assert_eq!(tables(), "0");
    for _ in 0..4 {
        place.command(&restore).start_interactive().kill9();
    }
    let restored = place.run(&restore);
    assert!(restored.status == Some(0) || restored.failure().0 == "store_not_empty", "{restored:?}");
    it.assert_works_at(&place).await;
    assert_eq!(place.rewinds(), 1);
}
