//! A process killed during commits: acknowledged commits are stored.
//!
//! The process is really killed; a power failure is not simulated, and the sync mode has its own test.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use nuncio_engine::ports::store::{
    AuditChange, AuditStore, Change, MessageStore, NotificationStore, RelayStore, SessionStore, Store,
};
use nuncio_store::SqliteStore;
use nuncio_store::contract::{audit, consent_sample, relay_sample, sample};

/// Environment variables of the helper process: its store and the round.
const FILE: &str = "NUNCIO_STORE_CRASH_FILE";
const ROUND: &str = "NUNCIO_STORE_CRASH_ROUND";

const COMMITTERS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_commits_survive_a_killed_process() {
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
    assert_eq!(store.audit_heads().await.unwrap()[0].head.seq, there.len() as u64);
    assert_eq!(relayed(&store).await, there, "one message for each, and nothing else");
    println!("{} acknowledged and there, {} there in all, 4 kills", acknowledged.len(), there.len());
}

/// Ids of a committer's conversation and of the agent in it.
fn conversation(round: &str, committer: usize) -> (String, String) {
    (format!("cnv_r{round}-c{committer}"), format!("agt-r{round}-c{committer}"))
}

/// Client ids of all messages; checks that numbers have no gaps and the agent was notified.
async fn relayed(store: &SqliteStore) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let ada = consent_sample::recipient("ada");
    for held in store.conversations_of(&ada, None, usize::MAX).await.unwrap() {
        let id = &held.conversation.id;
        let messages = store.relayed_after(id, 0, usize::MAX).await.unwrap();
        let numbers: Vec<u64> = messages.iter().map(|posted| posted.seq).collect();
        assert_eq!(numbers, (1..=held.last_seq).collect::<Vec<_>>(), "{id}");
        assert_eq!(held.read_seq, held.last_seq, "{id}: Ada has sent them all");
        let agent = held.conversation.other(&ada).unwrap();
        assert_eq!(store.mail_head(agent).await.unwrap(), held.last_seq, "{id}");
        names.extend(messages.into_iter().map(|posted| posted.post.client_id.to_string()));
    }
    names
}

/// Kills the helper after `count` acknowledgements and returns them.
fn killed_after(count: usize, file: &Path, round: usize) -> Vec<String> {
    let mut helper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::helper_process_commits_until_killed", "--nocapture"])
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
async fn helper_process_commits_until_killed() {
    let (Ok(file), Ok(round)) = (std::env::var(FILE), std::env::var(ROUND)) else { return };
    let store = Arc::new(SqliteStore::open(Path::new(&file)).unwrap());
    let committers: Vec<_> = (0..COMMITTERS)
        .map(|committer| {
            let (store, round) = (Arc::clone(&store), round.clone());
            tokio::spawn(async move {
                let (conversation, agent) = conversation(&round, committer);
                let begin = relay_sample::begin(&relay_sample::of_two(&conversation, &agent));
                store.commit(vec![begin]).await.unwrap();
                let (ada, to) = (consent_sample::recipient("ada"), [relay_sample::agent(&agent)]);
                for n in 0.. {
                    let id = format!("r{round}-c{committer}-{n}");
                    let record = Change::from(AuditChange::AppendCall(sample::record(&id)));
                    let message = relay_sample::send(&conversation, &relay_sample::post(&ada, &id), &to, n);
                    let unit = vec![sample::create(&id), sample::append(&id, 0, 0, "hello"), record, message];
                    store.commit(unit).await.unwrap();
                    // One uncaptured write for the whole line, because a pipe takes it whole.
                    std::io::stdout().lock().write_all(format!("done {id}\n").as_bytes()).unwrap();
                }
            })
        })
        .collect();
    for committer in committers {
        committer.await.unwrap();
    }
}
