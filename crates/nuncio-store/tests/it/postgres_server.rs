//! PostgreSQL servers that are refused, stopped, crashed or cut off, and several stores on one database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nuncio_engine::ports::store::{
    AuditChange, AuditStore, Change, Conflict, NodeChange, NodeRecord, NodeState, Store, StoreError,
};
use nuncio_store::contract::audit::verified;
use nuncio_store::contract::sample::{self, NOW, node, session_id};
use nuncio_store::{PostgresAddress, PostgresStore};
use nuncio_test_postgres::{PostgresDatabase, PostgresServer};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

async fn open(url: &str) -> Result<PostgresStore, StoreError> {
    PostgresStore::open(PostgresAddress::parse(url, |_| None).unwrap()).await
}

fn unavailable(error: StoreError) -> String {
    match error {
        StoreError::Unavailable(why) => why,
        other => panic!("expected an unavailable store, got {other:?}"),
    }
}

#[tokio::test]
async fn server_that_may_lose_confirmed_commits_is_refused() {
    for (setting, advice) in [("fsync=off", "fsync"), ("synchronous_commit=off", "synchronous_commit")] {
        let server = PostgresServer::start_with(&format!("-c {setting}"));
        let why = unavailable(open(&server.url("postgres")).await.unwrap_err());
        assert!(why.contains(advice) && why.contains(" on"), "{setting}: {why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_connection_needs_a_known_authority_and_for_verify_full_the_right_host() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let server = PostgresServer::start_with_certificate(&cert.pem(), &signing_key.serialize_pem());
    let folder = tempfile::tempdir().unwrap();
    let (known, other) = (folder.path().join("known.pem"), folder.path().join("other.pem"));
    std::fs::write(&known, cert.pem()).unwrap();
    std::fs::write(&other, generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem()).unwrap();
    let url = |host: &str, mode: &str, authority: &std::path::Path| {
        format!("{}?sslmode={mode}&sslrootcert={}", server.url_at(host, "postgres"), authority.display())
    };
    open(&url("localhost", "verify-full", &known)).await.unwrap();
    open(&url("127.0.0.1", "verify-ca", &known)).await.unwrap();
    for refused in [
        url("127.0.0.1", "verify-full", &known),
        url("127.0.0.1", "require", &known),
        url("localhost", "verify-full", &other),
        url("localhost", "verify-ca", &other),
    ] {
        let why = unavailable(open(&refused).await.unwrap_err());
        assert!(why.contains("certificate"), "{refused}: {why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn database_with_a_newer_schema_is_refused_and_unchanged() {
    let database = PostgresDatabase::create();
    drop(open(database.url()).await.unwrap());
    let _ = database.query("UPDATE schema SET version = version + 1000");
    let version = database.query("SELECT version FROM schema");
    let error = open(database.url()).await.unwrap_err();
    let StoreError::Damaged(why) = error else { panic!("{error:?}") };
    assert!(why.contains("use the newer Nuncio"), "{why}");
    assert_eq!(database.query("SELECT version FROM schema"), version);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_database_is_reported() {
    let database = PostgresDatabase::create();
    let missing = format!("{}_missing", database.url());
    let why = unavailable(open(&missing).await.unwrap_err());
    assert!(why.contains("does not exist"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_processes_create_the_tables_of_an_empty_database_once() {
    let database = PostgresDatabase::create();
    let url = database.url().to_owned();
    let opening: Vec<_> = (0..4)
        .map(|_| {
            tokio::spawn({
                let url = url.clone();
                async move { open(&url).await }
            })
        })
        .collect();
    for opened in opening {
        opened.await.unwrap().unwrap();
    }
    assert_eq!(database.query("SELECT count(*) FROM schema"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_two_stores_begins_each_turn_and_the_audit_chain_stays_whole() {
    let database = PostgresDatabase::create();
    let stores = [Arc::new(open(database.url()).await.unwrap()), Arc::new(open(database.url()).await.unwrap())];
    for session in 0..20 {
        stores[0].commit(vec![sample::create(&format!("s{session}"))]).await.unwrap();
    }
    let begin = |store: &Arc<PostgresStore>, session: usize| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let name = format!("s{session}");
            let unit = vec![sample::begin(&name, 1), Change::from(AuditChange::AppendCall(sample::record(&name)))];
            store.commit(unit).await
        })
    };
    let racing: Vec<_> = (0..20).map(|session| [begin(&stores[0], session), begin(&stores[1], session)]).collect();
    for pair in racing {
        let mut outcomes = Vec::new();
        for task in pair {
            outcomes.push(task.await.unwrap());
        }
        outcomes.sort_by_key(Result::is_err);
        assert_eq!(outcomes, [Ok(()), Err(StoreError::Conflict(Conflict::TurnRunning))]);
    }
    assert_eq!(verified(&*stores[1]).await.len(), 20);
    assert_eq!(AuditStore::audit_heads(&*stores[1]).await.unwrap().len(), 3, "each lane for sessions has a chain");
}

#[tokio::test(flavor = "multi_thread")]
async fn node_declared_dead_by_another_store_commits_nothing_more() {
    let database = PostgresDatabase::create();
    let (first, second) = (open(database.url()).await.unwrap(), open(database.url()).await.unwrap());
    first.commit(vec![NodeChange::Join(joining("a")).into()]).await.unwrap();
    first.fence(&node("a"));
    first.commit(vec![sample::create("before")]).await.unwrap();
    second.commit(vec![NodeChange::DeclareDead(node("a")).into()]).await.unwrap();
    assert_eq!(first.commit(vec![sample::create("after")]).await, Err(StoreError::Fenced));
    second.commit(vec![sample::create("after")]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn node_whose_lease_has_ended_is_declared_dead_when_another_joins() {
    let database = PostgresDatabase::create();
    let (first, second) = (open(database.url()).await.unwrap(), open(database.url()).await.unwrap());
    first.commit(vec![NodeChange::JoinAlone(joining("a")).into()]).await.unwrap();
    first.fence(&node("a"));
    let refused = second.commit(vec![NodeChange::JoinAlone(joining("b")).into()]).await;
    assert_eq!(refused, Err(StoreError::Conflict(Conflict::OtherNodeAlive)));
    let _ = database.query("UPDATE leases SET until = 0");
    second.commit(vec![NodeChange::JoinAlone(joining("b")).into()]).await.unwrap();
    assert_eq!(first.commit(vec![sample::create("late")]).await, Err(StoreError::Fenced));
    let renewed = first.commit(vec![NodeChange::RenewLease(node("a")).into()]).await;
    assert_eq!(renewed, Err(StoreError::Fenced), "a dead node cannot live again");
}

fn joining(name: &str) -> NodeRecord {
    NodeRecord {
        incarnation: node(name),
        host: "host".to_owned(),
        version: "1".to_owned(),
        started_at: NOW,
        state: NodeState::Alive,
    }
}

/// Commits that write to the same rows in opposite orders, which would wait for each other in a circle.
#[tokio::test(flavor = "multi_thread")]
async fn commits_that_lock_rows_in_opposite_orders_all_succeed() {
    let database = PostgresDatabase::create();
    let stores = [Arc::new(open(database.url()).await.unwrap()), Arc::new(open(database.url()).await.unwrap())];
    let sessions = ["a", "b"];
    for session in sessions {
        stores[0].commit(vec![sample::create(session)]).await.unwrap();
    }
    let mut running = Vec::new();
    for round in 0..40 {
        for (position, store) in stores.iter().enumerate() {
            let mut order = sessions;
            if position == 1 {
                order.reverse();
            }
            let unit: Vec<_> = order
                .iter()
                .map(|session| {
                    let pending = vec![sample::pending(&format!("c{round}"))];
                    nuncio_engine::ports::store::SessionChange::SetPending { session: session_id(session), pending }
                        .into()
                })
                .collect();
            let store = Arc::clone(store);
            running.push(tokio::spawn(async move { store.commit(unit).await }));
        }
    }
    for commit in running {
        commit.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_during_a_restart_of_the_server_are_stored_and_none_is_lost_or_doubled() {
    let server = PostgresServer::start();
    let store = Arc::new(open(&server.url("postgres")).await.unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut stored = 0;
                while !stop.load(Ordering::Relaxed) {
                    store.commit(vec![sample::create(&format!("w{writer}n{stored}"))]).await.unwrap();
                    stored += 1;
                }
                stored
            })
        })
        .collect();
    let mut restarts = 0;
    for mode in ["immediate", "fast", "immediate"] {
        let before = count(&server).await;
        wait_for_more(&server, before).await;
        tokio::task::block_in_place(|| {
            server.stop(mode);
            server.start_again();
        });
        restarts += 1;
    }
    stop.store(true, Ordering::Relaxed);
    let mut confirmed = 0;
    for writer in writers {
        confirmed += writer.await.unwrap();
    }
    println!("{restarts} restarts, {confirmed} commits confirmed");
    assert_eq!(count(&server).await, confirmed, "every confirmed commit is stored once, and no other");
    assert!(confirmed > 0);
}

/// Number of stored sessions.
async fn count(server: &PostgresServer) -> usize {
    let store = open(&server.url("postgres")).await.unwrap();
    let all = nuncio_engine::ports::store::SessionStore::sessions(&store, &sample::owner(), None, usize::MAX).await;
    all.unwrap().len()
}

/// Waits until more sessions are stored than before.
async fn wait_for_more(server: &PostgresServer, before: usize) {
    while count(server).await <= before + 10 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A proxy that forwards bytes, and ends a connection instead of forwarding the confirmation of its next `COMMIT`.
async fn proxy_that_drops_confirmations(target: u16, armed: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let armed = Arc::clone(&armed);
            tokio::spawn(async move {
                let server = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let upload = async move { tokio::io::copy(&mut from_client, &mut to_server).await };
                let download = async move {
                    let mut bytes = vec![0; 64 * 1024];
                    loop {
                        let Ok(length @ 1..) = from_server.read(&mut bytes).await else { return };
                        let answer = &bytes[..length];
                        let confirms = answer.windows(7).any(|part| part == b"COMMIT\0");
                        if confirms && armed.swap(false, Ordering::SeqCst) {
                            return;
                        }
                        if to_client.write_all(answer).await.is_err() {
                            return;
                        }
                    }
                };
                tokio::select! { _ = upload => {}, () = download => {} }
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_whose_confirmation_is_lost_is_reported_as_stored_and_applied_once() {
    let database = PostgresDatabase::create();
    let (address, name) = database.url().rsplit_once('/').unwrap();
    let target: u16 = address.rsplit_once(':').unwrap().1.parse().unwrap();
    let armed = Arc::new(AtomicBool::new(false));
    let port = proxy_that_drops_confirmations(target, Arc::clone(&armed)).await;
    let store = open(&format!("postgres://postgres@127.0.0.1:{port}/{name}")).await.unwrap();
    for round in 0..10 {
        armed.store(true, Ordering::SeqCst);
        let session = format!("s{round}");
        let record = Change::from(AuditChange::AppendCall(sample::record(&session)));
        store.commit(vec![sample::create(&session), record]).await.unwrap();
        assert!(!armed.load(Ordering::SeqCst), "a confirmation was dropped");
    }
    assert_eq!(database.query("SELECT count(*) FROM sessions"), "10");
    assert_eq!(database.query("SELECT count(*), count(DISTINCT (chain, seq)) FROM audit_links"), "10|10");
}

#[tokio::test(flavor = "multi_thread")]
async fn database_that_went_back_in_time_stops_all_commits() {
    let database = PostgresDatabase::create();
    let store = open(database.url()).await.unwrap();
    store.commit(vec![sample::create("s")]).await.unwrap();
    // What a restore of an older backup does: the number of the lane is lower than the confirmed one.
    let _ = database.query("UPDATE commits SET number = number - 1 WHERE number > 0");
    let error = store.commit(vec![sample::create("s")]).await.unwrap_err();
    let again = store.commit(vec![sample::create("other")]).await.unwrap_err();
    for error in [error, again] {
        let StoreError::Damaged(why) = error else { panic!("{error:?}") };
        assert!(why.contains("lost commits that it had confirmed"), "{why}");
    }
    let noted = database.query("SELECT name FROM store_info WHERE value::BIGINT > 0 ORDER BY name");
    assert_eq!(noted, "rewound_at\nsignatures_since");
}
