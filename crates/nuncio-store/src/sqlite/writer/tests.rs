//! Failing group commits: no caller gets a wrong acknowledgement.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::path::PathBuf;
use std::time::Duration;

use nuncio_core::digest::Digest;
use nuncio_core::grant::KeyScopes;
use nuncio_core::ids::KeyId;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{AccessChange, ApiKey, Conflict, KeyKind};
use tempfile::TempDir;

use super::super::{access, connection, migrations};
use super::*;

fn store() -> (TempDir, PathBuf, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nuncio.db");
    let connection = connection::writing(&file).unwrap();
    migrations::run(&connection).unwrap();
    (folder, file, connection)
}

fn create(id: &str, name_bytes: usize) -> Vec<Change> {
    vec![Change::from(AccessChange::CreateKey(ApiKey {
        role: nuncio_engine::ports::store::KeyRole::App,
        id: KeyId::parse(id).unwrap(),
        kind: KeyKind::Bearer,
        name: Some("n".repeat(name_bytes)),
        digest: Digest::ZERO,
        scopes: KeyScopes::All,
        person: None,
        created_at: Timestamp::from_millis(0),
        rotated_at: None,
        expires_at: None,
        lifetime_seconds: None,
        previous: None,
        revoked_at: None,
    }))]
}

fn ids(connection: &Connection) -> Vec<String> {
    access::keys(connection).unwrap().into_iter().map(|key| key.id.to_string()).collect()
}

#[test]
fn conflicting_commit_of_a_group_does_not_fail_the_others() {
    let (_folder, _, connection) = store();
    let outcomes = commit_group(&connection, None, &[create("a", 1), create("a", 1), create("b", 1)]);
    assert_eq!(outcomes, [Ok(()), Err(StoreError::Conflict(Conflict::Exists)), Ok(())]);
    assert_eq!(ids(&connection), ["a", "b"]);
    assert_eq!(commit_group(&connection, None, &[create("b", 1)]), [Err(StoreError::Conflict(Conflict::Exists))]);
    assert!(connection.is_autocommit());
}

#[test]
fn only_stored_commits_are_acknowledged_on_a_full_disk() {
    let (_folder, _, connection) = store();
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    let most = connection.pragma_update_and_check(None, "max_page_count", pages + 8, |row| row.get::<_, i64>(0));
    assert_eq!(most.unwrap(), pages + 8);

    let group = [create("a", 1), create("large", 1 << 20), create("b", 1)];
    let outcomes = commit_group(&connection, None, &group);
    match &outcomes[1] {
        Err(StoreError::Unavailable(why)) => assert!(why.starts_with("the disk is full"), "{why}"),
        other => panic!("{other:?}"),
    }
    let told: Vec<_> =
        ["a", "large", "b"].into_iter().zip(&outcomes).filter(|(_, told)| told.is_ok()).map(|(id, _)| id).collect();
    assert_eq!(ids(&connection), told);
    assert!(connection.is_autocommit());

    assert!(matches!(
        commit_group(&connection, None, &[create("large", 1 << 20)])[..],
        [Err(StoreError::Unavailable(_))]
    ));
    assert_eq!(commit_group(&connection, None, &[create("c", 1)]), [Ok(())], "it goes on with what fits");
}

#[test]
fn commit_fails_while_another_process_holds_the_lock() {
    let (_folder, file, connection) = store();
    connection.busy_timeout(Duration::ZERO).unwrap();
    let other = connection::writing(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for outcome in commit_group(&connection, None, &[create("a", 1), create("b", 1)]) {
        let Err(StoreError::Unavailable(why)) = outcome else { panic!("{outcome:?}") };
        assert!(why.starts_with("another process holds its lock"), "{why}");
    }
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(commit_group(&connection, None, &[create("a", 1)]), [Ok(())]);
    assert_eq!(ids(&connection), ["a"]);
}

#[test]
fn failed_group_commit_fails_every_commit_of_the_group() {
    let (_folder, _, connection) = store();
    // A foreign key checked only at the commit makes the commit itself fail.
    connection
        .execute_batch(
            "CREATE TABLE trap (session TEXT REFERENCES sessions (id) DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER set_trap AFTER INSERT ON api_keys BEGIN INSERT INTO trap VALUES ('nobody'); END;",
        )
        .unwrap();
    for group in [vec![create("a", 1)], vec![create("a", 1), create("b", 1)]] {
        for outcome in commit_group(&connection, None, &group) {
            assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
        }
        assert!(connection.is_autocommit());
        assert!(ids(&connection).is_empty());
    }
    connection.execute_batch("DROP TRIGGER set_trap").unwrap();
    assert_eq!(commit_group(&connection, None, &[create("a", 1)]), [Ok(())]);
}

#[tokio::test]
async fn writable_check_fails_after_a_failed_commit_until_writing_works_again() {
    let (_folder, file, connection) = store();
    connection.busy_timeout(Duration::ZERO).unwrap();
    let writer = Writer::start(connection, Arc::new(nuncio_engine::ports::meter::NoopMeter)).unwrap();
    writer.check().await.unwrap();
    let other = connection::writing(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(writer.check().await, Ok(()), "nothing has failed yet");
    writer.commit(create("a", 1)).await.unwrap_err();
    writer.check().await.unwrap_err();
    other.execute_batch("ROLLBACK").unwrap();
    writer.check().await.unwrap();
    let taken = writer.commit(create("a", 1)).await.and(writer.commit(create("a", 1)).await);
    assert_eq!(taken, Err(StoreError::Conflict(Conflict::Exists)));
    assert_eq!(writer.check().await, Ok(()), "a conflict is no failure");
}
