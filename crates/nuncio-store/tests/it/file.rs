//! Permissions, versions and damage of the store file.

use std::path::{Path, PathBuf};

use nuncio_core::audit::{AuditChainBreak, AuditChainVerifier, ChainHead};
use nuncio_engine::ports::store::{AuditChange, AuditStore, Change, MessageStore, SessionStore, Store, StoreError};
use nuncio_store::SqliteStore;
use nuncio_store::contract::sample;
use rusqlite::Connection;
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nuncio.db");
    (folder, file)
}

fn tamper(file: &Path, sql: &str) {
    let changed = Connection::open(file).unwrap().execute(sql, []).unwrap();
    assert_eq!(changed, 1);
}

fn damage(error: StoreError) -> String {
    match error {
        StoreError::Damaged(what) => what,
        other => panic!("expected damage, got {other:?}"),
    }
}

fn refused(file: &Path) -> StoreError {
    SqliteStore::open(file).unwrap_err()
}

#[test]
fn store_with_a_newer_schema_is_refused_and_unchanged() {
    let (_folder, file) = place();
    drop(SqliteStore::open(&file).unwrap());
    let version = || {
        let connection = Connection::open(&file).unwrap();
        connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).unwrap()
    };
    let known = version();
    Connection::open(&file).unwrap().pragma_update(None, "user_version", known + 1).unwrap();

    let said = damage(refused(&file));
    assert_eq!(
        said,
        format!(
            "its schema is version {}, and this version of Nuncio supports versions up to {known}; use the newer Nuncio that wrote it",
            known + 1
        )
    );
    assert_eq!(version(), known + 1);
}

#[test]
fn file_that_is_not_a_store_is_refused_and_unchanged() {
    let (_folder, file) = place();
    let letter = "Dear Ada, ".repeat(1000);
    std::fs::write(&file, &letter).unwrap();
    assert!(damage(refused(&file)).contains("not a database"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), letter);
}

#[test]
fn opening_in_a_missing_folder_fails_with_the_path_in_the_error() {
    let (folder, _) = place();
    let file = folder.path().join("no/such/folder/nuncio.db");
    match refused(&file) {
        StoreError::Unavailable(why) => assert!(why.contains("no/such/folder/nuncio.db"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[cfg(unix)]
#[test]
fn new_store_file_is_accessible_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, file) = place();
    let _store = SqliteStore::open(&file).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn closing_the_store_leaves_only_the_database_file() {
    let (folder, file) = place();
    drop(SqliteStore::open(&file).unwrap());
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["nuncio.db"]);
}

#[tokio::test]
async fn error_of_an_unreadable_value_names_its_column_but_not_its_content() {
    let (_folder, file) = place();
    let store = SqliteStore::open(&file).unwrap();
    store.commit(vec![sample::create("s"), sample::append("s", 0, 0, "hello")]).await.unwrap();
    let id = sample::session_id("s");

    for (tampering, said) in [
        ("settings = '{\"tools\": '", "column settings: not JSON, at line 1 column 10"),
        ("settings = '{\"tools\": \"a secret\"}'", "column settings: JSON of an unexpected form, at line 1 column 20"),
        ("settings = '{}', owner = 'a secret'", "column owner: the text does not have the expected form"),
    ] {
        tamper(&file, &format!("UPDATE sessions SET {tampering}"));
        assert_eq!(damage(store.session(&id).await.unwrap_err()), said);
    }
    tamper(&file, "UPDATE sessions SET owner = 'local'");
    tamper(&file, "UPDATE messages SET number = -2");
    assert_eq!(damage(store.session(&id).await.unwrap_err()), "column next_message: the number is negative");
    tamper(&file, "UPDATE messages SET number = 0");
    assert!(store.session(&id).await.unwrap().is_some());

    tamper(&file, "UPDATE messages SET message = '{\"role\": \"nobody\"}'");
    let stored = store.messages(&id, 0).await.unwrap();
    assert_eq!(damage(stored[0].decode().unwrap_err()), "message 0 of a session: unreadable at line 1 column 17");
}

#[tokio::test]
async fn altered_audit_record_is_detected_by_verification() {
    let (_folder, file) = place();
    let store = SqliteStore::open(&file).unwrap();
    for call in ["c1", "c2", "c3"] {
        store.commit(vec![Change::from(AuditChange::AppendCall(sample::record(call)))]).await.unwrap();
    }
    tamper(&file, "UPDATE audit_links SET record = replace(record, 'completed', 'not_run') WHERE number = 2");
    let links = store.audit_links(0, 10).await.unwrap();
    let mut verifier = AuditChainVerifier::after(ChainHead::START);
    let broken = links.iter().try_for_each(|stored| verifier.take(&stored.link));
    assert_eq!(broken, Err(AuditChainBreak::Altered { seq: 2 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_on_one_file_share_one_audit_chain() {
    let (_folder, file) = place();
    let (one, other) = (SqliteStore::open(&file).unwrap(), SqliteStore::open(&file).unwrap());
    for n in 0..20 {
        let store = if n % 2 == 0 { &one } else { &other };
        store.commit(vec![Change::from(AuditChange::AppendCall(sample::record(&format!("c{n}"))))]).await.unwrap();
    }
    assert_eq!(nuncio_store::contract::audit::verified(&one).await.len(), 20);
    assert_eq!(one.audit_heads().await.unwrap(), other.audit_heads().await.unwrap());
}
