//! Whole copies of a PostgreSQL store, from and to SQLite.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use nuncio_engine::ports::store::{Store, StoreError};
use nuncio_store::contract::{self, TestDatabase, sample};
use nuncio_store::dump::{
    CopyError, Row, StoreSnapshot, StoreTarget, TableDigest, TableShape, Value, copy_store, finish_copy, table_digest,
};
use nuncio_store::{
    PostgresAddress, PostgresSnapshot, PostgresStore, PostgresTarget, SCHEMA_VERSION, SqliteStore, SqliteTarget,
};
use nuncio_test_postgres::PostgresDatabase;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tempfile::TempDir;

use crate::dump::{FailingTarget, digests_of, filled, snapshot};

fn address(database: &PostgresDatabase) -> PostgresAddress {
    PostgresAddress::parse(database.url(), |_| None).unwrap()
}

async fn postgres_snapshot(database: &PostgresDatabase) -> PostgresSnapshot {
    PostgresSnapshot::open(address(database)).await.unwrap()
}

async fn target(database: &PostgresDatabase) -> PostgresTarget {
    PostgresTarget::open(address(database)).await.unwrap()
}

async fn digests(database: &PostgresDatabase) -> Vec<(String, TableDigest)> {
    digests_of(&mut postgres_snapshot(database).await).await
}

async fn copy(from: &mut dyn StoreSnapshot, to: &mut dyn StoreTarget) -> Result<(), CopyError> {
    copy_store(from, to, "here").await?;
    Ok(finish_copy(from, to, "here").await?)
}

fn table(store: &dyn StoreSnapshot, name: &str) -> TableShape {
    store.tables().iter().find(|table| table.name == name).unwrap().clone()
}

struct SqliteFile(PathBuf);

#[async_trait]
impl TestDatabase for SqliteFile {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(&self.0).unwrap())
    }
}

struct StoreDatabase<'database>(&'database PostgresDatabase);

#[async_trait]
impl TestDatabase for StoreDatabase<'_> {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(PostgresStore::open(address(self.0)).await.unwrap())
    }
}

/// A SQLite store with rows in every table: those of an earlier version, and those that contract checks leave.
async fn sample_of_all_tables(folder: &TempDir) -> PathBuf {
    let all = filled(folder);
    let mut number = 0;
    macro_rules! add {
        ($($module:ident::$check:ident),* $(,)?) => {$(
            number += 1;
            let part = folder.path().join(format!("part-{number}.db"));
            contract::$module::$check(&SqliteFile(part.clone())).await;
            merge(&all, &part);
        )*};
    }
    add!(
        webhooks::deliveries_of_each_conversation_are_ordered_separately,
        webhooks::finished_delivery_is_logged_once,
        turns::turn_state_and_events_are_stored_at_begin_and_end,
        idempotency::idempotency_record_round_trips,
        calls::duplicate_key_of_a_started_call_is_refused,
        access::duplicate_grant_id_is_refused,
        approvals::approval_round_trips,
        executions::executions_survive_reopening,
        executions::reused_idempotency_key_is_refused,
        tasks::task_round_trips,
        drafts::drafts_survive_reopening,
        followed::offers_of_a_followed_domain_are_kept_until_replaced,
        directory::listings_survive_reopening,
        direct_messages::direct_messages_survive_reopening,
        direct_messages::pending_reply_can_be_replaced_and_removed,
        direct_messages::person_link_can_be_replaced_and_removed_once,
        relations::relations_survive_reopening,
        relayed::message_is_claimed_by_only_one_device,
        seal_keys::key_bundles_survive_reopening,
        seal_keys::key_backup_can_be_replaced_and_removed_once,
        erasure::redacted_ledger_entries_replace_the_ledger_of_an_erased_person,
        people::nonce_is_accepted_only_once_until_its_retention_ends,
        keyring::keyring_entry_round_trips,
        nodes::node_round_trips_and_registers_once,
    );
    all
}

/// Adds the rows of another store, unless they refer to rows that this store has otherwise.
fn merge(all: &Path, part: &Path) {
    let database = Connection::open(all).unwrap();
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    database.pragma_update(None, "foreign_keys", false).unwrap();
    database.execute("ATTACH ?1 AS part", [part.to_str().unwrap()]).unwrap();
    for table in snapshot(all).tables() {
        let add = format!("INSERT OR IGNORE INTO main.{0} SELECT * FROM part.{0}", table.name);
        database.execute_batch(&format!("SAVEPOINT part; {add}")).unwrap();
        let dangling: i64 =
            database.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0)).unwrap();
        database.execute_batch(if dangling > 0 { "ROLLBACK TO part; RELEASE part" } else { "RELEASE part" }).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_every_table_copied_to_postgresql_and_back_have_the_same_digests() {
    let (folder, database) = (tempfile::tempdir().unwrap(), PostgresDatabase::create());
    let source = sample_of_all_tables(&folder).await;
    let before = digests_of(&mut snapshot(&source)).await;
    let empty: Vec<_> = before.iter().filter(|(_, digest)| digest.rows == 0).map(|(name, _)| name).collect();
    assert!(empty.is_empty(), "the sample has no row in {empty:?}");
    copy(&mut snapshot(&source), &mut target(&database).await).await.unwrap();
    assert_eq!(digests(&database).await, before);
    let back = folder.path().join("back.db");
    copy(&mut postgres_snapshot(&database).await, &mut SqliteTarget::open(&back).unwrap()).await.unwrap();
    assert_eq!(digests_of(&mut snapshot(&back)).await, before);
    let disabled = "SELECT count(*) FROM pg_trigger WHERE tgenabled = 'D'";
    assert_eq!(database.query(disabled), "0", "triggers run again after the copy");
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_from_postgresql_to_sqlite_keeps_the_digests_of_all_tables() {
    for check in 0..3 {
        let (folder, database) = (tempfile::tempdir().unwrap(), PostgresDatabase::create());
        let place = StoreDatabase(&database);
        match check {
            // Several writer lanes may count the bytes of one owner.
            0 => contract::stored_bytes::bytes_of_messages_and_manifests_count_for_their_authors(&place).await,
            1 => contract::webhooks::deliveries_of_each_conversation_are_ordered_separately(&place).await,
            _ => contract::relayed::concurrent_messages_are_numbered_without_gaps(&place).await,
        }
        let before = digests(&database).await;
        let copied = folder.path().join("copied.db");
        copy(&mut postgres_snapshot(&database).await, &mut SqliteTarget::open(&copied).unwrap()).await.unwrap();
        assert_eq!(digests_of(&mut snapshot(&copied)).await, before, "{check}");
        drop(SqliteStore::open(&copied).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgresql_has_the_tables_of_sqlite_and_only_its_own_bookkeeping_beside_them() {
    let (folder, database) = (tempfile::tempdir().unwrap(), PostgresDatabase::create());
    let target = target(&database).await;
    let file = SqliteTarget::open(&folder.path().join("empty.db")).unwrap();
    assert_eq!((target.tables(), target.schema_version()), (file.tables(), file.schema_version()));
    assert_eq!(target.schema_version(), SCHEMA_VERSION);
    let sql = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'";
    let tables: BTreeSet<String> = database.query(sql).lines().map(str::to_owned).collect();
    let copied: BTreeSet<String> = target.tables().iter().map(|table| table.name.clone()).collect();
    let others: Vec<_> = tables.difference(&copied).map(String::as_str).collect();
    assert_eq!(others, ["commits", "leases", "schema"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_numbers_follow_the_copied_ones() {
    let (folder, database) = (tempfile::tempdir().unwrap(), PostgresDatabase::create());
    let source = folder.path().join("source.db");
    contract::relayed::message_is_claimed_by_only_one_device(&SqliteFile(source.clone())).await;
    contract::seal_keys::key_bundles_survive_reopening(&SqliteFile(source.clone())).await;
    copy(&mut snapshot(&source), &mut target(&database).await).await.unwrap();
    for (table, column, insert) in [
        ("relay_conversations", "number", "(id, revision, last_seq, content) VALUES ('new', 1, 0, '{}')"),
        (
            "relay_messages",
            "place",
            "(conversation, seq, sender, client_id, content_type, at, envelope) VALUES (1, 99, 's', 'c', 't', 1, '')",
        ),
        (
            "one_time_keys",
            "place",
            "(owner, device, key_id, fallback, content) SELECT owner, device, 'new', 0, '{}' FROM key_bundles LIMIT 1",
        ),
    ] {
        let highest: i64 = database.query(&format!("SELECT max({column}) FROM {table}")).parse().unwrap();
        let added: i64 = database.query(&format!("INSERT INTO {table} {insert} RETURNING {column}")).parse().unwrap();
        assert_eq!(added, highest + 1, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_copy_to_postgresql_finishes_an_interrupted_one() {
    let folder = tempfile::tempdir().unwrap();
    let source = filled(&folder);
    let before = digests_of(&mut snapshot(&source)).await;
    for commits_left in [0, 1, 2, 33, 60] {
        let database = PostgresDatabase::create();
        let mut failing = FailingTarget { inner: target(&database).await, commits_left };
        assert!(copy_store(&mut snapshot(&source), &mut failing, "here").await.is_err(), "{commits_left}");
        drop(failing);
        copy(&mut snapshot(&source), &mut target(&database).await).await.unwrap();
        assert_eq!(digests(&database).await, before, "{commits_left}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn source_that_changed_since_an_interrupted_copy_is_copied_as_it_is_now() {
    let (folder, database) = (tempfile::tempdir().unwrap(), PostgresDatabase::create());
    let source = filled(&folder);
    copy_store(&mut snapshot(&source), &mut target(&database).await, "here").await.unwrap();
    let mut changed = SqliteTarget::open(&source).unwrap();
    let people = table(&snapshot(&source), "people");
    changed.insert(&people, vec![vec![Value::Integer(1), Value::Text("zoe".to_owned())]]).await.unwrap();
    changed.commit().await.unwrap();
    let devices = table(&snapshot(&source), "devices");
    assert!(table_digest(&mut snapshot(&source), &devices).await.unwrap().rows > 0, "rows refer to the changed table");
    copy(&mut snapshot(&source), &mut target(&database).await).await.unwrap();
    assert_eq!(digests(&database).await, digests_of(&mut snapshot(&source)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn database_with_a_store_is_neither_overwritten_nor_restored_into() {
    let (folder, database) = (tempfile::tempdir().unwrap(), PostgresDatabase::create());
    let source = filled(&folder);
    let store = PostgresStore::open(address(&database)).await.unwrap();
    store.commit(vec![sample::create("s")]).await.unwrap();
    let before = digests(&database).await;
    let refused = copy(&mut snapshot(&source), &mut target(&database).await).await;
    assert!(matches!(refused, Err(CopyError::NotEmpty)), "{refused:?}");
    let refused = PostgresTarget::create(address(&database), SCHEMA_VERSION).await.map(|_| ());
    assert!(matches!(refused, Err(CopyError::NotEmpty)), "{refused:?}");
    assert_eq!(digests(&database).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn second_process_that_fills_a_database_is_refused() {
    let database = PostgresDatabase::create();
    let _first = target(&database).await;
    // The wait for the lock is part of the database connection, and ends after its limit.
    let Err(StoreError::Unavailable(why)) = PostgresTarget::open(address(&database)).await.map(|_| ()) else {
        panic!("the second process was not refused")
    };
    assert!(why.contains("another process is filling"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_of_postgresql_does_not_see_later_commits() {
    let database = PostgresDatabase::create();
    let store = PostgresStore::open(address(&database)).await.unwrap();
    store.commit(vec![sample::create("first")]).await.unwrap();
    let mut early = postgres_snapshot(&database).await;
    store.commit(vec![sample::create("second")]).await.unwrap();
    let sessions = table(&early, "sessions");
    assert_eq!(table_digest(&mut early, &sessions).await.unwrap().rows, 1);
    assert_eq!(table_digest(&mut postgres_snapshot(&database).await, &sessions).await.unwrap().rows, 2);
}

fn relayed(place: i64, at: i64, subtype: &str, envelope: Vec<u8>) -> Row {
    let text = |text: &str| Value::Text(text.to_owned());
    // at, client_id, content_type, conversation, device, envelope, place, sender, seq, subtype
    vec![
        Value::Integer(at),
        text(&format!("client-{place}")),
        text(""),
        Value::Integer(i64::MIN),
        Value::Null,
        Value::Blob(envelope),
        Value::Integer(place),
        text("person:ada"),
        Value::Integer(place),
        text(subtype),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn extreme_values_and_rows_of_several_batches_are_copied_exactly() {
    let database = PostgresDatabase::create();
    let mut target = target(&database).await;
    let messages = target.tables().iter().find(|table| table.name == "relay_messages").unwrap().clone();
    let mut rows = vec![
        relayed(-5, i64::MAX, "\u{1}é\u{10ffff}\\N\t\"", (0..=255).collect()),
        relayed(0, i64::MIN, "", Vec::new()),
    ];
    rows.extend((1..=7).map(|place| relayed(place, 0, "large", vec![7; 3 << 20])));
    target.insert(&messages, rows.clone()).await.unwrap();
    target.commit().await.unwrap();
    let mut stored = target.snapshot().await.unwrap();
    let (mut read, mut batches, mut after) = (Vec::new(), 0, None::<Vec<Value>>);
    loop {
        let batch = stored.rows(&messages, after.as_deref()).await.unwrap();
        let Some(last) = batch.last() else { break };
        (after, batches) = (Some(messages.key_of(last)), batches + 1);
        read.extend(batch);
    }
    assert_eq!(read, rows);
    assert!(batches > 2, "a batch ends at its size: {batches}");
    let rest = stored.rows(&messages, Some(&[Value::Integer(6)])).await.unwrap();
    assert_eq!(rest, rows[8..], "a read may begin after any row");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_with_a_nul_character_is_refused_with_its_table_and_column() {
    let database = PostgresDatabase::create();
    let mut target = target(&database).await;
    let people = target.tables().iter().find(|table| table.name == "people").unwrap().clone();
    let row = vec![Value::Integer(1), Value::Text("private\0words".to_owned())];
    let Err(StoreError::Unavailable(why)) = target.insert(&people, vec![row]).await else { panic!("it was stored") };
    assert!(why.contains("column name of people") && why.contains("NUL") && !why.contains("private"), "{why}");
    drop(target);
    assert_eq!(database.query("SELECT count(*) FROM people"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn store_created_at_a_version_exists_only_after_its_first_commit() {
    let database = PostgresDatabase::create();
    let tables = || database.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'");
    for version in 20..=SCHEMA_VERSION {
        let mut target = PostgresTarget::create(address(&database), version).await.unwrap();
        assert_eq!(target.schema_version(), version);
        let people = target.tables().iter().find(|table| table.name == "people").unwrap().clone();
        target.insert(&people, vec![vec![Value::Integer(1), Value::Text("ada".to_owned())]]).await.unwrap();
        assert_eq!(tables(), "0");
    }
    let mut target = PostgresTarget::create(address(&database), 21).await.unwrap();
    target.commit().await.unwrap();
    drop(target);
    drop(PostgresStore::open(address(&database)).await.unwrap());
    assert_eq!(postgres_snapshot(&database).await.schema_version(), SCHEMA_VERSION);
}

#[tokio::test(flavor = "multi_thread")]
async fn database_without_a_store_cannot_be_read() {
    let database = PostgresDatabase::create();
    let Err(StoreError::Unavailable(why)) = PostgresSnapshot::open(address(&database)).await.map(|_| ()) else {
        panic!("an empty database was read")
    };
    assert!(why.contains("contains no store"), "{why}");
    let Err(CopyError::Store(StoreError::Unavailable(why))) =
        PostgresTarget::create(address(&database), 19).await.map(|_| ())
    else {
        panic!("a version without PostgreSQL was created")
    };
    assert!(why.contains("version 19") && why.contains("nuncio store copy"), "{why}");
}
