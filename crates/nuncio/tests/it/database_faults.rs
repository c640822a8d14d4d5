//! Faults of the server and of its PostgreSQL database under load: `kill -9`, crashes, an outage and a full disk. What was
//! acknowledged is stored and finishes once; everything else is stored completely or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nuncio_test_postgres::{PostgresServer, SmallDisk};
use reqwest::{Method, RequestBuilder, header};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::block_in_place;

use crate::client::{Client, last_text, turns, user};
use crate::home::{SCRIPTED, TestAgentFolder, shell_tool};
use crate::process::{NuncioCommand, Server, until};
use crate::random::random;
use crate::skill_client::Consumer;

/// Default number of kills and crashes; the variable `NUNCIO_TEST_FAULTS` replaces it.
const FAULTS: u64 = 6;
/// Clients that execute skills, and clients that take turns in a conversation of their own.
const CLIENTS: usize = 4;
/// Number of requests that must be acknowledged after a crash of the database.
const AFTER_CRASH: u64 = 12;
/// Time for which the database is away.
const OUTAGE: Duration = Duration::from_secs(8);
/// Pause of a client whose request was refused.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
const SKILL: &str = "script/count";
const DATABASE: &str = "nuncio";

/// A server whose store is a PostgreSQL server of its own. Its skill `count` records each of its runs.
struct FaultyStore {
    home: TestAgentFolder,
    database: PostgresServer,
}

impl FaultyStore {
    fn new() -> Self {
        let database = PostgresServer::start();
        let _ = database.query("postgres", &format!("CREATE DATABASE {DATABASE} TEMPLATE template0"));
        let tool = shell_tool("count", "echo \"$NUNCIO_EXECUTION_ID $NUNCIO_ATTEMPT\" >> runs; echo counted");
        let home = TestAgentFolder::with_agent(&format!("{SCRIPTED}{tool}skill = {{ type = \"task\" }}\n"));
        Self { home, database }
    }

    fn on_store(&self, command: NuncioCommand) -> NuncioCommand {
        command.env("NUNCIO_STORE", &self.database.url(DATABASE))
    }

    fn start(&self) -> Server {
        self.on_store(self.home.serve()).start()
    }

    /// Checks everything that was sent, and counts what is wrong. Stops the server.
    async fn examine(&self, server: Server, sent: &[SentRequest]) -> FaultCounts {
        let mut counts = FaultCounts::default();
        let (consumer, client) = (Consumer::of(&server), server.aap());
        let mut histories: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        let mut executions = BTreeMap::new();
        for request in sent {
            let answer = request.answer.as_deref().expect("every request was acknowledged in the end");
            let Some(session) = &request.session else {
                counts.executions += 1;
                let (status, _) = consumer.get(&format!("/executions/{answer}")).await;
                if status != 200 {
                    counts.lost += 1;
                    continue;
                }
                let end = consumer.wait_for_result(answer).await;
                if executions.insert(answer, end).is_some() {
                    counts.finished_twice += 1;
                }
                continue;
            };
            counts.turns += 1;
            if !histories.contains_key(session.as_str()) {
                histories.insert(session, client.history(session).await);
            }
            let history = &histories[session.as_str()];
            let begun = history.iter().filter(|message| message["content"] == request.key.as_str()).count();
            let echo = format!("You said: {}", request.key);
            let ended = history.iter().filter(|message| is_text(message, &echo)).count();
            let is_finished = answer == echo;
            counts.cut_short += usize::from(!is_finished);
            counts.lost += usize::from(begun == 0 || is_finished && ended == 0);
            counts.finished_twice += usize::from(begun > 1 || ended > 1);
        }
        server.stop();

        let runs = fs::read_to_string(self.home.path("runs")).unwrap_or_default();
        let mut attempts = BTreeSet::new();
        counts.finished_twice += runs.lines().filter(|run| !attempts.insert(*run)).count();
        for (id, end) in &executions {
            match end["status"].as_str().unwrap() {
                "completed" => assert!(attempts.contains(format!("{id} {}", end["attempt"]).as_str()), "{end}"),
                // An execution is given up after three attempts.
                _ => assert_eq!(end["error"]["details"]["reason"], "interrupted", "{end}"),
            }
        }
        counts.runs = attempts.len();
        let count = |sql: &str| self.database.query(DATABASE, sql).parse::<usize>().unwrap();
        counts.finished_twice += count(FINISHED_TWICE);
        counts.half_written = count(HALF_WRITTEN);
        let verified = self.on_store(self.home.nuncio(&["--json", "audit", "verify"])).run().json();
        assert_eq!(verified["intact"], true, "{verified}");
        counts
    }
}

/// Rows that a commit would have left if it were stored in part, after all work has ended: turns without messages or
/// without an end, gaps between messages, executions and calls that no one ends, and completed executions without a record.
const HALF_WRITTEN: &str = r#"SELECT
    (SELECT count(*) FROM turns WHERE ended_at IS NULL OR NOT EXISTS
        (SELECT 1 FROM messages WHERE messages.session = turns.session AND messages.turn = turns.number))
    + (SELECT count(*) FROM (SELECT 1 FROM messages GROUP BY session HAVING count(*) <> max(number) + 1) AS gaps)
    + (SELECT count(*) FROM executions WHERE owner IS NOT NULL)
    + (SELECT count(*) FROM started_calls)
    + (SELECT count(*) FROM executions WHERE state = 'completed' AND NOT EXISTS
        (SELECT 1 FROM audit_links WHERE position(format('"call":"%s.%s"', id, attempt) in record) > 0))"#;

/// Executions with several records of a completed attempt.
const FINISHED_TWICE: &str = r#"SELECT count(*) FROM (SELECT 1 FROM executions JOIN audit_links
    ON position(format('"call":"%s.', id) in record) > 0 AND position('"result":"completed"' in record) > 0
    GROUP BY id HAVING count(*) > 1) AS twice"#;

#[derive(Debug, Default)]
struct FaultCounts {
    executions: usize,
    turns: usize,
    /// Attempts of executions.
    runs: usize,
    /// Turns that a fault ended.
    cut_short: usize,
    lost: usize,
    finished_twice: usize,
    half_written: usize,
}

impl FaultCounts {
    #[track_caller]
    fn assert_none_wrong(&self) {
        assert_eq!((self.lost, self.finished_twice, self.half_written), (0, 0, 0), "{self:?}");
        assert!(self.executions > 0 && self.turns > self.cut_short, "{self:?}");
    }
}

fn is_text(message: &Value, text: &str) -> bool {
    message["role"] == "assistant" && last_text(std::slice::from_ref(message)) == text
}

/// A request with its idempotency key: an execution, or a turn of a session.
#[derive(Clone)]
struct SentRequest {
    key: String,
    session: Option<String>,
    /// Id of the execution or text of the agent, once the server has acknowledged the request.
    answer: Option<String>,
}

enum SendOutcome {
    Acknowledged(String),
    /// Status 503, or the session is still busy with an interrupted turn.
    Refused,
    /// The connection ended.
    Cut,
}

#[derive(Clone)]
struct Clients {
    consumer: Consumer,
    client: Client,
}

impl Clients {
    fn of(server: &Server) -> Self {
        Self { consumer: Consumer::of(server), client: server.aap() }
    }

    fn request(&self, sent: &SentRequest) -> RequestBuilder {
        let request = match &sent.session {
            None => self.consumer.invocation(SKILL, &json!({"key": sent.key})),
            Some(session) => {
                let body = json!({"messages": [user(&sent.key)]});
                self.client.request(Method::POST, &turns(session)).json(&body)
            }
        };
        request.header("Idempotency-Key", &sent.key)
    }

    async fn send(&self, sent: &SentRequest) -> SendOutcome {
        let Ok(response) = self.request(sent).send().await else { return SendOutcome::Cut };
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let Ok(text) = response.text().await else { return SendOutcome::Cut };
        let body: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{status} {error}: {text}"));
        match status {
            202 => SendOutcome::Acknowledged(body["execution_id"].as_str().unwrap().to_owned()),
            200 if body["stopReason"] == "end_turn" => {
                SendOutcome::Acknowledged(last_text(body["messages"].as_array().unwrap()))
            }
            // The turn began and was ended by the fault.
            200 => SendOutcome::Acknowledged(String::new()),
            409 => SendOutcome::Refused,
            503 => {
                assert!(headers.contains_key(header::RETRY_AFTER), "{text}");
                SendOutcome::Refused
            }
            _ => panic!("{status}: {text}"),
        }
    }

    /// Repeats a request until it is acknowledged, and compares the answer with the earlier one.
    async fn confirm(&self, sent: &mut SentRequest) {
        let answer = until("an acknowledgement", async || match self.send(sent).await {
            SendOutcome::Acknowledged(answer) => Some(answer),
            SendOutcome::Refused => None,
            SendOutcome::Cut => panic!("the server is gone"),
        })
        .await;
        let before = sent.answer.get_or_insert_with(|| answer.clone());
        assert_eq!(*before, answer, "the same key {} has the same answer", sent.key);
    }
}

struct Load {
    acknowledged: watch::Sender<u64>,
    is_over: AtomicBool,
}

impl Load {
    fn new() -> Arc<Self> {
        Arc::new(Self { acknowledged: watch::Sender::new(0), is_over: AtomicBool::new(false) })
    }

    async fn wait_for(&self, count: u64) {
        self.acknowledged.subscribe().wait_for(|done| *done >= count).await.unwrap();
    }

    /// Sends requests one after the other until the load is over or the server was killed.
    async fn send(&self, clients: &Clients, name: &str, session: Option<&String>) -> Vec<SentRequest> {
        let mut all = Vec::new();
        while !self.is_over.load(Ordering::Relaxed) {
            let key = format!("{name}-{}", all.len());
            all.push(SentRequest { key, session: session.cloned(), answer: None });
            let request = all.last_mut().unwrap();
            let outcome = loop {
                match clients.send(request).await {
                    SendOutcome::Refused => tokio::time::sleep(RETRY_PAUSE).await,
                    other => break other,
                }
            };
            let SendOutcome::Acknowledged(answer) = outcome else { return all };
            request.answer = Some(answer);
            self.acknowledged.send_modify(|count| *count += 1);
        }
        all
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_done_twice_when_server_and_database_are_killed_in_turns_under_load() {
    let faults = std::env::var("NUNCIO_TEST_FAULTS").map_or(FAULTS, |count| count.parse().unwrap());
    let store = FaultyStore::new();
    let mut server = store.start();
    let mut sessions = Vec::new();
    for _ in 0..CLIENTS {
        sessions.push(server.aap().session("script", &[]).await);
    }
    let (mut sent, mut repeated): (Vec<SentRequest>, usize) = Default::default();
    let (mut kills, mut crashes) = (0, 0);
    for round in 0..faults {
        let (load, clients) = (Load::new(), Clients::of(&server));
        let work = sessions.iter().map(Some).chain(std::iter::repeat_n(None, CLIENTS)).enumerate();
        let running: Vec<_> = work
            .map(|(number, session)| {
                let (load, clients, session) = (Arc::clone(&load), clients.clone(), session.cloned());
                let name = format!("r{round}-c{number}");
                tokio::spawn(async move { load.send(&clients, &name, session.as_ref()).await })
            })
            .collect();
        let before = random(30) + 1;
        load.wait_for(before).await;
        let is_kill = round % 2 == 0;
        if is_kill {
            kills += 1;
            server.kill9();
            load.is_over.store(true, Ordering::Relaxed);
            server = store.start();
        } else {
            crashes += 1;
            block_in_place(|| {
                store.database.stop("immediate");
                store.database.start_again();
            });
            let now = *load.acknowledged.borrow();
            load.wait_for(now + AFTER_CRASH).await;
            load.is_over.store(true, Ordering::Relaxed);
        }
        let clients = Clients::of(&server);
        for requests in running {
            for mut request in requests.await.unwrap() {
                repeated += usize::from(request.answer.is_none());
                clients.confirm(&mut request).await;
                sent.push(request);
            }
        }
    }
    let counts = store.examine(server, &sent).await;
    println!("{kills} kills of the server, {crashes} crashes of PostgreSQL, {repeated} requests repeated: {counts:?}");
    counts.assert_none_wrong();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_during_an_outage_of_the_database_are_answered_or_refused_with_retry_after() {
    let store = FaultyStore::new();
    let server = store.start();
    let clients = Clients::of(&server);
    let mut requests = Vec::new();
    for number in 0..2 * CLIENTS {
        let session = match number % 2 {
            0 => Some(server.aap().session("script", &[]).await),
            _ => None,
        };
        // Some of what the database confirmed before the outage.
        let mut before = SentRequest { key: format!("before-{number}"), session: session.clone(), answer: None };
        clients.confirm(&mut before).await;
        requests.push(before);
        requests.push(SentRequest { key: format!("during-{number}"), session, answer: None });
    }
    block_in_place(|| store.database.stop("fast"));
    let running: Vec<_> = requests
        .iter()
        .filter(|request| request.answer.is_none())
        .cloned()
        .map(|request| {
            let clients = clients.clone();
            tokio::spawn(async move { clients.send(&request).await })
        })
        .collect();
    // The outage itself, not a wait for a condition.
    tokio::time::sleep(OUTAGE).await;
    block_in_place(|| store.database.start_again());
    let (mut answered, mut refused) = (0, 0);
    for request in running {
        match request.await.unwrap() {
            SendOutcome::Acknowledged(_) => answered += 1,
            SendOutcome::Refused => refused += 1,
            SendOutcome::Cut => panic!("a connection ended without an answer"),
        }
    }
    for request in &mut requests {
        clients.confirm(request).await;
    }
    let counts = store.examine(server, &requests).await;
    println!("{answered} answered, {refused} refused during {OUTAGE:?} without PostgreSQL: {counts:?}");
    counts.assert_none_wrong();
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_of_the_database_refuses_requests_until_space_is_free() {
    let Some(disk) = SmallDisk::mount(48) else {
        println!("skipped: this process may not mount a file system, which only root may");
        return;
    };
    // Only tables are on the small disk: PostgreSQL stops if its log has no space.
    let store = FaultyStore::new();
    let tablespace = format!("CREATE TABLESPACE small LOCATION '{}'", disk.tablespace().display());
    let _ = store.database.query("postgres", &tablespace);
    let _ = store.database.query("postgres", &format!("ALTER DATABASE {DATABASE} SET TABLESPACE small"));
    let server = store.start();
    let clients = Clients::of(&server);
    let session = server.aap().session("script", &[]).await;
    let request = |number: usize| SentRequest {
        // A long key fills pages sooner.
        key: format!("{number}-{}", "x".repeat(200)),
        session: number.is_multiple_of(2).then(|| session.clone()),
        answer: None,
    };
    let mut requests: Vec<SentRequest> = (0..4).map(request).collect();
    for request in &mut requests {
        clients.confirm(request).await;
    }
    disk.fill();
    // Pages that have space take some rows first.
    let mut refused = [false; 2];
    while refused != [true; 2] {
        let mut request = request(requests.len());
        match clients.send(&request).await {
            SendOutcome::Acknowledged(answer) => request.answer = Some(answer),
            SendOutcome::Refused => refused[requests.len() % 2] = true,
            SendOutcome::Cut => panic!("a connection ended without an answer"),
        }
        requests.push(request);
        assert!(requests.len() < 5_000, "the disk is not full");
    }
    disk.free();
    for request in &mut requests {
        clients.confirm(request).await;
    }
    let counts = store.examine(server, &requests).await;
    println!("full disk: {counts:?}");
    counts.assert_none_wrong();
}
