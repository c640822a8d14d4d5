//! Repeated `kill -9` during executions, on the same data directory: every accepted execution is found,
//! ends, and never runs twice at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::home::{SCRIPTED, TestAgentFolder, shell_tool};
use crate::process::until;
use crate::random::random;
use crate::skill_client::{Consumer, is_over};

const KILLS: usize = 20;
const CLIENTS: usize = 8;

/// Shell program that records its start and end, and stops when its server is gone. A confined program may not signal
/// the server, so the error text of `kill -0` is searched.
const COUNT: &str = "say() { echo \"$NUNCIO_EXECUTION_ID $NUNCIO_ATTEMPT $1\" >> runs; }\n\
    say begun\n\
    for turn in 1 2 3 4 5; do sleep 0.01; kill -0 $PPID 2>&1 | grep -q 'No such' && { say gone; exit 1; }; done\n\
    say done; echo counted\n";

fn counting() -> TestAgentFolder {
    let tool = shell_tool("count", COUNT);
    TestAgentFolder::with_agent(&format!("{SCRIPTED}{tool}skill = {{ type = \"task\" }}\n"))
}

const SKILL: &str = "script/count";

#[tokio::test(flavor = "multi_thread")]
async fn accepted_executions_survive_twenty_server_kills_and_never_run_twice_at_once() {
    let home = counting();
    let mut accepted: BTreeMap<String, String> = BTreeMap::new();
    let (mut acknowledged, mut unsure) = (0, 0);
    let mut server = home.start();
    for round in 0..KILLS {
        let storm = Arc::new(LoadUntilKill {
            kill_after: usize::try_from(random(60)).unwrap() + 1,
            acknowledged: AtomicUsize::new(0),
            enough: Notify::new(),
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (storm, consumer) = (Arc::clone(&storm), Consumer::of(&server));
                tokio::spawn(async move { storm.submit(&consumer, &format!("{round}-{number}")).await })
            })
            .collect();
        storm.enough.notified().await;
        server.kill9();
        let mut requests = Vec::new();
        for client in clients {
            requests.extend(client.await.unwrap());
        }
        // Programs of the killed server may still write their end, so the test waits for them first. The test therefore
        // proves that no two servers run one execution, but not that a program ends with its server.
        until("the orphans to notice", async || all_ended(&runs(&home)).then_some(())).await;

        server = home.start();
        let consumer = Consumer::of(&server);
        for (key, execution) in requests {
            // A request repeated with the same key gets the same execution, whether or not it was acknowledged before.
            let (status, again) = consumer.try_send(keyed(&consumer, &key)).await.unwrap();
            assert_eq!(status, 202, "{again}");
            let id = again["execution_id"].as_str().unwrap().to_owned();
            match execution {
                Some(execution) => {
                    assert_eq!(execution, id, "{key}");
                    acknowledged += 1;
                }
                None => unsure += 1,
            }
            accepted.insert(key, id);
        }
        for id in accepted.values() {
            consumer.status(id).await;
        }
    }

    let consumer = Consumer::of(&server);
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    let runs = {
        for id in accepted.values() {
            consumer.wait_for_result(id).await;
        }
        runs(&home)
    };
    let mut begun = 0;
    for id in accepted.values() {
        let end = consumer.status(id).await;
        assert!(is_over(&end));
        *ends.entry(end["status"].as_str().unwrap().to_owned()).or_default() += 1;
        let mine: Vec<&ProgramRun> = runs.iter().filter(|run| run.id == *id).collect();
        let attempts = mine.iter().filter(|run| run.word == "begun").count();
        begun += attempts;
        let attempt = end["attempt"].as_u64().unwrap();
        assert!(attempts as u64 <= attempt, "{attempts} runs, {attempt} attempts: {end}");
        match end["status"].as_str().unwrap() {
            "completed" => {
                assert_eq!(end["output"], json!("counted"));
                let last = mine.iter().any(|run| run.attempt == attempt && run.word == "done");
                assert!(last, "{id} is completed by attempt {attempt}, which was not done: {mine:?}");
            }
            "failed" => {
                assert_eq!(end["error"]["details"]["reason"], "interrupted", "{end}");
                assert!(attempts >= 3, "{id} failed after {attempts} starts of its program: {end}");
            }
            other => panic!("{other}: {end}"),
        }
    }
    let ids: BTreeSet<&String> = accepted.values().collect();
    assert_eq!(ids.len(), accepted.len(), "each key is an execution of its own");
    for run in &runs {
        assert!(ids.contains(&run.id), "{run:?} belongs to no execution that anyone asked for");
    }
    assert!(all_ended(&runs), "something still runs");
    println!(
        "{KILLS} kills: {} executions, {acknowledged} acknowledged before a kill and all there, {unsure} asked for again; \
         {begun} runs, ends {ends:?}",
        accepted.len()
    );
    assert!(
        acknowledged > KILLS && begun > accepted.len() && ends["completed"] > 0,
        "the kills came at the wrong time"
    );
    home.json_command(&["audit", "verify"]).json();
}

#[derive(Debug)]
struct ProgramRun {
    id: String,
    attempt: u64,
    word: String,
}

fn runs(home: &TestAgentFolder) -> Vec<ProgramRun> {
    let text = fs::read_to_string(home.path("runs")).unwrap_or_default();
    let run = |line: &str| {
        let [id, attempt, word] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("half a line: {line}") };
        ProgramRun { id: id.to_owned(), attempt: attempt.parse().unwrap(), word: word.to_owned() }
    };
    text.lines().map(run).collect()
}

/// Whether all runs have ended; panics if two runs of one execution overlap.
fn all_ended(runs: &[ProgramRun]) -> bool {
    let mut open: BTreeMap<&str, u64> = BTreeMap::new();
    for run in runs {
        match run.word.as_str() {
            "begun" => {
                let before = open.insert(&run.id, run.attempt);
                assert_eq!(before, None, "{} was begun while its attempt {before:?} ran", run.id);
            }
            _ => assert_eq!(open.remove(run.id.as_str()), Some(run.attempt), "{run:?}"),
        }
    }
    open.is_empty()
}

struct LoadUntilKill {
    kill_after: usize,
    acknowledged: AtomicUsize,
    enough: Notify,
}

impl LoadUntilKill {
    async fn submit(&self, consumer: &Consumer, name: &str) -> Vec<(String, Option<String>)> {
        let mut requests = Vec::new();
        loop {
            let key = format!("{name}-{}", requests.len());
            let Some((status, body)) = consumer.try_send(keyed(consumer, &key)).await else {
                requests.push((key, None));
                return requests;
            };
            assert_eq!(status, 202, "{body}");
            requests.push((key, Some(body["execution_id"].as_str().unwrap().to_owned())));
            if self.acknowledged.fetch_add(1, Ordering::Relaxed) + 1 == self.kill_after {
                self.enough.notify_one();
            }
        }
    }
}

fn keyed(consumer: &Consumer, key: &str) -> reqwest::RequestBuilder {
    consumer.invocation(SKILL, &json!({"key": key})).header("Idempotency-Key", key)
}

/// Shell program that runs until the file `gate` exists or its server is gone.
const HOLD: &str = "echo $NUNCIO_EXECUTION_ID >> held\n\
    while [ ! -e gate ]; do sleep 0.01; kill -0 $PPID 2>&1 | grep -q 'No such' && exit 1; done\necho let go\n";

fn holding() -> TestAgentFolder {
    let tool = shell_tool("hold", HOLD);
    TestAgentFolder::with_agent(&format!("{SCRIPTED}{tool}skill = {{ type = \"task\", concurrency = 2 }}\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn full_queue_refuses_new_executions_and_all_accepted_ones_survive_a_kill() {
    let home = holding();
    let start = || home.serve().env("NUNCIO_LIMITS_EXECUTIONS", "5").start();
    let server = start();
    let consumer = Consumer::of(&server);
    let mut accepted = Vec::new();
    for _ in 0..5 {
        accepted.push(consumer.submit("script/hold", &json!({})).await);
    }
    refused(&consumer).await;
    server.kill9();

    let server = start();
    let consumer = Consumer::of(&server);
    // Executions accepted before the kill still count towards the limit.
    refused(&consumer).await;
    for id in &accepted {
        assert!(!is_over(&consumer.status(id).await));
    }
    fs::write(home.path("gate"), "").unwrap();
    for id in &accepted {
        assert_eq!(consumer.wait_for_result(id).await["output"], json!("let go"));
    }
    let lines = fs::read_to_string(home.path("held")).unwrap();
    for id in lines.lines() {
        assert!(accepted.iter().any(|accepted| accepted == id), "{id} was refused and run");
    }
    consumer.submit("script/hold", &json!({})).await;
}

async fn refused(consumer: &Consumer) {
    for _ in 0..4 {
        let response = consumer.invocation("script/hold", &json!({})).send().await.unwrap();
        assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (429, &"1".parse().unwrap()));
        let error = response.json::<Value>().await.unwrap()["error"].clone();
        assert_eq!(
            (&error["code"], &error["details"]["reason"]),
            (&json!("ENDPOINT_UNREACHABLE"), &json!("queue_full"))
        );
        assert_eq!(error["retry"], json!({"suggested_delay_ms": 1000, "max_attempts": 3}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn execution_times_out_at_its_deadline_despite_a_server_kill() {
    let home = holding();
    let server = home.start();
    let consumer = Consumer::of(&server);
    let body = |timeout: u64| json!({"caller": {"id": "test", "type": "service"}, "skill_id": "script/hold", "inputs": {}, "context": {"timeout_ms": timeout}});
    let mut ids = Vec::new();
    for timeout in [300, 300, 300, 600_000] {
        let request = consumer.request(reqwest::Method::POST, "/skills/script/hold/invoke").json(&body(timeout));
        let (status, accepted) = consumer.try_send(request).await.unwrap();
        assert_eq!(status, 202, "{accepted}");
        ids.push(accepted["execution_id"].as_str().unwrap().to_owned());
    }
    server.kill9();
    let server = home.start();
    let consumer = Consumer::of(&server);
    for id in &ids[..3] {
        let end = consumer.wait_for_result(id).await;
        assert_eq!((&end["status"], &end["error"]["details"]["timeout_ms"]), (&json!("timeout"), &json!(300)), "{end}");
    }
    assert!(!is_over(&consumer.status(&ids[3]).await));
    fs::write(home.path("gate"), "").unwrap();
    assert_eq!(consumer.wait_for_result(&ids[3]).await["status"], "completed");
}

/// Shell program that lists the running processes of an earlier attempt. The first attempt starts three more: a child,
/// one in its own session, and one with an empty environment.
const LEAVES: &str = "for pid in $(cat pids 2>/dev/null); do grep -q . /proc/$pid/cmdline 2>/dev/null && echo $pid >> alive; done\n\
    [ $NUNCIO_ATTEMPT = 1 ] || { echo done; exit; }\n\
    sleep 600 & echo $! >> pids\n\
    setsid sleep 600 & echo $! >> pids\n\
    env -i sleep 600 & echo $! >> pids\n\
    echo $$ >> pids; touch begun; wait\n";

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(
    not(all(target_os = "linux", not(nuncio_portable))),
    ignore = "this build finds no programs of an earlier process"
)]
async fn processes_left_by_a_killed_server_are_ended_before_the_next_attempt() {
    let tool = shell_tool("leave", LEAVES);
    // The program must see other processes, so it may read `/proc`.
    let head = SCRIPTED.replace("[allow]", "[allow]\nread = [\"/proc\"]");
    let home = TestAgentFolder::with_agent(&format!("{head}{tool}skill = {{ type = \"task\" }}\n"));
    let server = home.start();
    let id = Consumer::of(&server).submit("script/leave", &json!({})).await;
    until("the first attempt", async || home.path("begun").exists().then_some(())).await;
    let pids: Vec<u32> =
        fs::read_to_string(home.path("pids")).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(pids.len(), 4);
    server.kill9();
    assert!(pids.iter().all(|pid| nuncio_testkit::is_alive(*pid)), "they do not end by themselves");

    let server = home.start();
    let over = Consumer::of(&server).wait_for_result(&id).await;
    assert_eq!((&over["output"], &over["attempt"]), (&json!("done"), &json!(2)), "{over}");
    assert_eq!(fs::read_to_string(home.path("alive")).unwrap_or_default(), "");
    assert!(!pids.iter().any(|pid| nuncio_testkit::is_alive(*pid)));
    until("it says so", async || server.stderr().contains("left running").then_some(())).await;
}
