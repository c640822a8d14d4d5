//! A process that is killed in the middle of its commits: whatever it was told is done, is there.
//!
//! The kill is real, the power cut is not: that a commit waits for the disk is checked where the
//! connection is opened.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use nuncio_engine::ports::store::{Change, Conversations, Records, Store};
use nuncio_store::SqliteStore;
use nuncio_store::contract::{audit, sample};

/// Where the helper keeps its store, and the number of the round.
const FILE: &str = "NUNCIO_STORE_CRASH_FILE";
const ROUND: &str = "NUNCIO_STORE_CRASH_ROUND";

const COMMITTERS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nuncio.db");
    let mut acknowledged = BTreeSet::new();
    for (round, kill_after) in [1, 40, 150, 400].into_iter().enumerate() {
        acknowledged.extend(killed_after(kill_after, &file, round));
    }

    let store = SqliteStore::open(&file).unwrap();
    let mut there = BTreeSet::new();
    for session in store.sessions(&sample::owner(), None, usize::MAX).await.unwrap() {
        assert_eq!(store.messages(&session.id, 0).await.unwrap().len(), 1, "{} came whole", session.id);
        there.insert(session.id.to_string());
    }
    let lost: Vec<_> = acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "lost {lost:?}");
    assert_eq!(audit::verified(&store).await.len(), there.len(), "one record for each");
    assert_eq!(store.audit_head().await.unwrap().seq, there.len() as u64);
    println!("{} acknowledged and there, {} there in all, 4 kills", acknowledged.len(), there.len());
}

/// Runs the helper, kills it after that many acknowledgements, and returns all it gave.
fn killed_after(count: usize, file: &Path, round: usize) -> Vec<String> {
    let mut helper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::the_process_that_is_killed", "--nocapture"])
        .env(FILE, file)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut acknowledged = Vec::new();
    for line in BufReader::new(helper.stdout.take().unwrap()).lines() {
        if let Some(id) = line.unwrap().strip_prefix("done ") {
            acknowledged.push(id.to_owned());
            if acknowledged.len() == count {
                helper.kill().unwrap();
            }
        }
    }
    let status = helper.wait().unwrap();
    assert!(!status.success() && acknowledged.len() >= count, "{status} after {}", acknowledged.len());
    acknowledged
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_that_is_killed() {
    let (Ok(file), Ok(round)) = (std::env::var(FILE), std::env::var(ROUND)) else { return };
    let store = Arc::new(SqliteStore::open(Path::new(&file)).unwrap());
    let committers: Vec<_> = (0..COMMITTERS)
        .map(|committer| {
            let (store, round) = (Arc::clone(&store), round.clone());
            tokio::spawn(async move {
                for n in 0.. {
                    let id = format!("r{round}-c{committer}-{n}");
                    let record = Change::Audit(sample::record(&id));
                    store.commit(vec![sample::create(&id), sample::append(&id, 0, 0, "hello"), record]).await.unwrap();
                    // One write for the whole line, past the test harness: a pipe takes it whole.
                    std::io::stdout().lock().write_all(format!("done {id}\n").as_bytes()).unwrap();
                }
            })
        })
        .collect();
    for committer in committers {
        committer.await.unwrap();
    }
}
