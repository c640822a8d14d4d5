//! Whole copies of a store: equal digests, interruption, and what an older state must not bring back.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nuncio_core::approval::Approval;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::StoreError;
use nuncio_store::dump::{
    CopyError, RewoundRows, Row, StoreSnapshot, StoreTarget, TableDigest, TableShape, Value, copy_store, finish_copy,
    read_info, table_digest,
};
use nuncio_store::{SqliteSnapshot, SqliteStore, SqliteTarget, full_check};
use serde_json::json;
use tempfile::TempDir;

const EARLIER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../nuncio/tests/fixtures/data-c83e809/server/nuncio.db");

/// A store with rows in most tables.
pub(crate) fn filled(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("filled.db");
    std::fs::copy(EARLIER, &path).unwrap();
    drop(SqliteStore::open(&path).unwrap());
    path
}

pub(crate) fn snapshot(path: &Path) -> SqliteSnapshot {
    SqliteSnapshot::open(path).unwrap()
}

async fn digests(path: &Path) -> Vec<(String, TableDigest)> {
    digests_of(&mut snapshot(path)).await
}

pub(crate) async fn digests_of(store: &mut dyn StoreSnapshot) -> Vec<(String, TableDigest)> {
    let mut digests = Vec::new();
    for table in store.tables().to_vec() {
        if table.name != "store_info" {
            let digest = table_digest(store, &table).await.unwrap();
            digests.push((table.name, digest));
        }
    }
    digests
}

async fn copy(from: &Path, to: &Path) -> Result<(), CopyError> {
    let (mut from, mut target) = (snapshot(from), SqliteTarget::open(to)?);
    copy_store(&mut from, &mut target, "here").await?;
    Ok(finish_copy(&mut from, &mut target, "here").await?)
}

#[tokio::test]
async fn copy_and_copy_of_the_copy_have_the_same_digests() {
    let folder = tempfile::tempdir().unwrap();
    let source = filled(&folder);
    let before = digests(&source).await;
    assert!(before.iter().filter(|(_, digest)| digest.rows > 0).count() > 15, "{before:?}");
    let (first, second) = (folder.path().join("first.db"), folder.path().join("second.db"));
    copy(&source, &first).await.unwrap();
    copy(&first, &second).await.unwrap();
    assert_eq!(digests(&first).await, before);
    assert_eq!(digests(&second).await, before);
    assert!(full_check(&second).unwrap().problems.is_empty());
    assert_eq!(digests(&source).await, before, "the source is unchanged");
    let mut copied = snapshot(&second);
    let tables = copied.tables().to_vec();
    let info = read_info(&mut copied, &tables).await.unwrap();
    assert_eq!(info.into_iter().collect::<Vec<_>>(), [("origin".to_owned(), "here".to_owned())]);
}

#[tokio::test]
async fn snapshot_does_not_see_later_commits() {
    let folder = tempfile::tempdir().unwrap();
    let source = filled(&folder);
    let before = digests(&source).await;
    let mut early = snapshot(&source);
    let mut changed = SqliteTarget::open(&source).unwrap();
    let people = early.tables().iter().find(|table| table.name == "people").unwrap().clone();
    changed.insert(&people, vec![vec![Value::Integer(1), Value::Text("zoe".to_owned())]]).await.unwrap();
    changed.commit().await.unwrap();
    let seen = table_digest(&mut early, &people).await.unwrap();
    assert_eq!(before.iter().find(|(name, _)| name == "people").unwrap().1, seen);
    assert_ne!(digests(&source).await, before);
}

#[tokio::test]
async fn store_with_data_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let source = filled(&folder);
    let other = folder.path().join("other.db");
    std::fs::copy(&source, &other).unwrap();
    let before = digests(&other).await;
    assert!(matches!(copy(&source, &other).await, Err(CopyError::NotEmpty)));
    assert_eq!(digests(&other).await, before);
    // A copy that was begun from another source is not continued either.
    let begun = folder.path().join("begun.db");
    let mut failing = FailingTarget { inner: SqliteTarget::open(&begun).unwrap(), commits_left: 4 };
    assert!(copy_store(&mut snapshot(&source), &mut failing, "elsewhere").await.is_err());
    drop(failing);
    assert!(matches!(copy(&source, &begun).await, Err(CopyError::NotEmpty)));
}

/// A target whose process ends at a commit.
pub(crate) struct FailingTarget<T> {
    pub(crate) inner: T,
    pub(crate) commits_left: usize,
}

#[async_trait]
impl<T: StoreTarget> StoreTarget for FailingTarget<T> {
    fn schema_version(&self) -> u32 {
        self.inner.schema_version()
    }

    fn tables(&self) -> &[TableShape] {
        self.inner.tables()
    }

    async fn clear(&mut self, table: &TableShape) -> Result<(), StoreError> {
        self.inner.clear(table).await
    }

    async fn insert(&mut self, table: &TableShape, rows: Vec<Row>) -> Result<(), StoreError> {
        self.inner.insert(table, rows).await
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        if self.commits_left == 0 {
            return Err(StoreError::Unavailable("the process ended".to_owned()));
        }
        self.commits_left -= 1;
        self.inner.commit().await
    }

    async fn snapshot(&mut self) -> Result<Box<dyn StoreSnapshot>, StoreError> {
        self.inner.snapshot().await
    }
}

#[tokio::test]
async fn copy_interrupted_at_any_commit_is_finished_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let source = filled(&folder);
    let before = digests(&source).await;
    let mut interrupted = 0;
    for commits_left in (0..).step_by(7) {
        let path = folder.path().join(format!("target-{commits_left}.db"));
        let mut failing = FailingTarget { inner: SqliteTarget::open(&path).unwrap(), commits_left };
        let ended = copy_store(&mut snapshot(&source), &mut failing, "here").await;
        drop(failing);
        copy(&source, &path).await.unwrap();
        assert_eq!(digests(&path).await, before, "{commits_left}");
        if ended.is_ok() {
            break;
        }
        interrupted += 1;
    }
    assert!(interrupted > 5);
}

#[tokio::test]
async fn table_that_changed_since_it_was_copied_is_copied_again() {
    let folder = tempfile::tempdir().unwrap();
    let (source, path) = (filled(&folder), folder.path().join("target.db"));
    let mut target = SqliteTarget::open(&path).unwrap();
    copy_store(&mut snapshot(&source), &mut target, "here").await.unwrap();
    let people = target.tables().iter().find(|table| table.name == "people").unwrap().clone();
    let mut changed = SqliteTarget::open(&source).unwrap();
    changed.insert(&people, vec![vec![Value::Integer(1), Value::Text("zoe".to_owned())]]).await.unwrap();
    changed.commit().await.unwrap();
    drop(target);
    copy(&source, &path).await.unwrap();
    assert_eq!(digests(&path).await, digests(&source).await);
}

fn shape(name: &str, columns: &[&str]) -> TableShape {
    let columns: Vec<_> = columns.iter().map(ToString::to_string).collect();
    TableShape { name: name.to_owned(), key: vec![columns[0].clone()], columns }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn rows_that_could_be_used_a_second_time_are_left_out() {
    let rules = RewoundRows { at: Timestamp::from_millis(9) };
    let grant = |term: serde_json::Value| {
        json!({
            "id": "grt_1", "principal": "anonymous", "agent": "desk", "scopes": [], "term": term,
            "given_by": "operator", "given_at": "2026-01-01T00:00:00Z",
        })
        .to_string()
    };
    let (grants, consents) = (shape("grants", &["content", "given_at", "id"]), shape("consents", &["id", "once"]));
    let bundles = shape("key_bundles", &["content", "device", "owner", "seq"]);
    let keys = shape("one_time_keys", &["fallback", "owner"]);
    let bundle = |owner: &str| vec![text("{}"), text("dev"), text(owner), Value::Integer(1)];
    let key = |fallback, owner: &str| vec![Value::Integer(fallback), text(owner)];
    let invites = shape("invites", &["code", "used_by"]);
    for (table, row, is_kept) in [
        (&grants, vec![text(&grant(json!("once"))), Value::Integer(1), text("grt_1")], false),
        (&grants, vec![text(&grant(json!("until_revoked"))), Value::Integer(1), text("grt_1")], true),
        (&consents, vec![text("c"), Value::Integer(1)], false),
        (&consents, vec![text("c"), Value::Integer(0)], true),
        (&bundles, bundle("agent:desk"), false),
        (&bundles, bundle("person:ada"), true),
        (&keys, key(0, "person:ada"), false),
        (&keys, key(1, "person:ada"), true),
        (&keys, key(1, "agent:desk"), false),
        (&invites, vec![text("code"), Value::Null], false),
        (&invites, vec![text("code"), text("dev_1")], true),
        (&shape("nodes", &["incarnation"]), vec![text("node_1")], false),
        (&shape("store_info", &["name", "value"]), vec![text("moved_to"), text("x")], false),
        (&shape("people", &["created_at", "name"]), vec![Value::Integer(1), text("ada")], true),
    ] {
        let expected = is_kept.then(|| row.clone());
        assert_eq!(rules.adapt(table, row), expected, "{}", table.name);
    }
}

#[test]
fn approvals_that_a_call_could_still_use_expire() {
    let rules = RewoundRows { at: Timestamp::from_millis(9) };
    let table = shape("approvals", &["asked_at", "content", "id", "node", "state"]);
    let states = [
        (json!({"state": "pending"}), "expired"),
        (json!({"state": "allowed", "by": "operator", "at": "2026-01-01T00:00:00Z"}), "expired"),
        (json!({"state": "used", "by": "operator", "at": "2026-01-01T00:00:00Z"}), "used"),
        (json!({"state": "denied", "by": "operator", "at": "2026-01-01T00:00:00Z", "reason": null}), "denied"),
    ];
    for (state, expected) in states {
        let content = json!({
            "id": "apr_1", "asked_of": "operators", "asked_at": "2026-01-01T00:00:00Z",
            "expires_at": "2026-01-02T00:00:00Z", "state": state,
            "question": {
                "call": "c1", "agent": "desk", "tool": "pay", "scope": null, "caller": "anonymous",
                "arguments_digest": "0".repeat(64), "arguments": {},
            },
        });
        serde_json::from_value::<Approval>(content.clone()).unwrap();
        let name = state["state"].as_str().unwrap();
        let row = vec![Value::Integer(1), text(&content.to_string()), text("apr_1"), Value::Null, text(name)];
        let adapted = rules.adapt(&table, row).unwrap();
        let approval: Approval = serde_json::from_str(adapted[1].as_text().unwrap()).unwrap();
        assert_eq!((approval.state.as_str(), adapted[4].as_text()), (expected, Some(expected)));
    }
}
