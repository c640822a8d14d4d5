//! Damage is detected before data is served; an incomplete end of the write-ahead file is no damage.

use std::fs;
use std::path::{Path, PathBuf};

use nuncio_engine::ports::store::{Change, SessionChange, SessionStore as _, Store as _, StoreError};
use nuncio_store::contract::sample;
use nuncio_store::{SqliteStore, full_check, quick_check};
use rusqlite::Connection;
use tempfile::TempDir;

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("nuncio.db")
}

fn wal(file: &Path) -> PathBuf {
    file.with_file_name("nuncio.db-wal")
}

/// A store as a killed process leaves it, with a write-ahead file.
async fn killed(sessions: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&file(&folder)).unwrap();
    for number in 0..sessions {
        store.commit(vec![sample::create(&format!("s{number}"))]).await.unwrap();
    }
    let copy = tempfile::tempdir().unwrap();
    for from in [file(&folder), wal(&file(&folder))] {
        fs::copy(&from, copy.path().join(from.file_name().unwrap())).unwrap();
    }
    copy
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0xff;
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn intact_write_ahead_file_is_accepted() {
    let folder = killed(20).await;
    assert!(quick_check(&file(&folder)).unwrap().problems.is_empty());
    assert!(full_check(&file(&folder)).unwrap().problems.is_empty());
    let store = SqliteStore::open(&file(&folder)).unwrap();
    assert!(store.session(&sample::session_id("s19")).await.unwrap().is_some());
}

#[tokio::test]
async fn store_with_a_damaged_write_ahead_frame_is_not_opened() {
    let folder = killed(20).await;
    let wal = wal(&file(&folder));
    let whole = fs::read(&wal).unwrap();
    // A byte in a page, in the salts of a frame header, and in the file header.
    for at in [whole.len() / 2, 32 + 4120 + 10, 20] {
        flip(&wal, at);
        let problems = quick_check(&file(&folder)).unwrap().problems;
        assert_eq!(problems.len(), 1, "byte {at}: {problems:?}");
        assert!(!full_check(&file(&folder)).unwrap().problems.is_empty(), "byte {at}");
        match SqliteStore::open(&file(&folder)) {
            Err(StoreError::Damaged(why)) => assert_eq!(why, problems[0]),
            other => panic!("byte {at}: {other:?}"),
        }
        fs::write(&wal, &whole).unwrap();
    }
    SqliteStore::open(&file(&folder)).unwrap();
}

#[tokio::test]
async fn write_ahead_file_with_an_incomplete_end_is_accepted() {
    let folder = killed(20).await;
    let wal = wal(&file(&folder));
    let whole = fs::read(&wal).unwrap();
    for left in [whole.len() - 1, whole.len() - 5000, 40, 10, 0] {
        let torn = tempfile::tempdir().unwrap();
        fs::copy(file(&folder), file(&torn)).unwrap();
        fs::write(self::wal(&file(&torn)), &whole[..left]).unwrap();
        assert!(quick_check(&file(&torn)).unwrap().problems.is_empty(), "{left} bytes left");
    }
    // The last frame is damaged, as after a power failure while it was written.
    flip(&wal, whole.len() - 100);
    assert!(quick_check(&file(&folder)).unwrap().problems.is_empty());
    let store = SqliteStore::open(&file(&folder)).unwrap();
    assert!(store.session(&sample::session_id("s18")).await.unwrap().is_some());
    assert_eq!(store.session(&sample::session_id("s19")).await.unwrap(), None);
}

#[tokio::test]
async fn damaged_database_page_is_found_by_quick_and_full_check() {
    let folder = killed(200).await;
    drop(SqliteStore::open(&file(&folder)).unwrap());
    let whole = fs::read(file(&folder)).unwrap();
    let page = (whole.len() / 4096 / 2) * 4096;
    let mut damaged = whole.clone();
    damaged[page..page + 4096].fill(0xa5);
    fs::write(file(&folder), damaged).unwrap();
    assert!(!full_check(&file(&folder)).unwrap().problems.is_empty());
    let quick = quick_check(&file(&folder)).unwrap();
    assert!(quick.complete && !quick.problems.is_empty(), "{quick:?}");
    fs::write(file(&folder), "Dear Ada").unwrap();
    assert!(!quick_check(&file(&folder)).unwrap().problems.is_empty());
}

#[tokio::test]
async fn invalid_json_value_is_found_only_by_the_full_check() {
    let folder = killed(1).await;
    let connection = Connection::open(file(&folder)).unwrap();
    connection.execute("UPDATE sessions SET settings = '{\"tools\":[' WHERE id = 's0'", []).unwrap();
    drop(connection);
    assert_eq!(full_check(&file(&folder)).unwrap().problems, ["1 values of sessions.settings are not JSON"]);
    assert!(quick_check(&file(&folder)).unwrap().problems.is_empty());
}

#[tokio::test]
async fn check_of_an_undamaged_open_store_reports_no_problem() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&file(&folder)).unwrap();
    store.commit(vec![Change::from(SessionChange::Delete(sample::session_id("nobody")))]).await.unwrap_err();
    store.commit(vec![sample::create("s")]).await.unwrap();
    let found = store.check().await.unwrap();
    assert!(found.complete && found.problems.is_empty(), "{found:?}");
}
