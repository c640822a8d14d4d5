//! Statements of the hot path, recorded while turns, executions and relay posts run: each finds its rows by an index.

use std::collections::BTreeMap;

use nuncio_server::StoreLocation;
use nuncio_store::{RecordedStatement, executed_statements, record_statements};
use nuncio_test_postgres::{PostgresDatabase, PostgresServer, RoundTripCounter};
use nuncio_testkit::a2h::{ExternalAgent, TestDevice, text};
use nuncio_testkit::{AapClient, Gateway, ManualClock, Method};
use serde_json::{Value, json};

use crate::a2h::{A2hTestServer, agent_body, seed};
use crate::agents::{DESK, call, desk, tool};
use crate::executions::{invocation, output, over, submit};

/// A server with everything that a turn, an execution and a relay post need.
struct HotPathServer {
    world: A2hTestServer,
    aap: AapClient,
    session: String,
    ada: TestDevice,
    agent: ExternalAgent,
    conversation: String,
}

impl HotPathServer {
    async fn start(store: StoreLocation) -> Self {
        let tools = [tool("echo", "echo done", "skill = { type = \"task\" }")];
        let world = A2hTestServer::with(|builder| {
            let builder = builder.agent(DESK, &desk(&tools)).store(store);
            // Without the cache, turns read what a turn after a restart reads.
            builder.settings(|settings| settings.limits.conversation_cache_bytes = 0)
        })
        .await;
        let aap = world.gateway.key(&[]).await.aap;
        let session = aap.session(DESK, &[("echo", true)]).await;
        let (owner, ada) = (world.person("owner").await, world.person("ada").await);
        let agent = ExternalAgent::new(&world.server, owner.make_agent(&agent_body(&seed())).await);
        ada.allow(&agent.id, json!(["filesystem:read"])).await;
        let conversation = ada.converse("h2a", json!([agent.member()])).await;
        Self { world, aap, session, ada, agent, conversation }
    }

    /// Does everything once that callers do often; `name` makes the idempotency keys new.
    async fn run_once(&self, name: &str) {
        let session = self.aap.session(DESK, &[("echo", true)]).await;
        for session in [&self.session, &session] {
            let script = json!([[call("c", "echo", json!({}))], [{"text": "done"}]]);
            let message = json!({"role": "user", "content": json!({"script": script}).to_string()});
            let path = format!("/sessions/{session}/turns");
            let request = self.aap.request(Method::POST, &path).header("Idempotency-Key", format!("{name}-{session}"));
            let answer = request.json(&json!({"messages": [message]})).send().await.unwrap();
            assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
        }

        let gateway = &self.world.gateway;
        let execution = submit(gateway, invocation("echo", json!({})).with_key(name, name)).await;
        assert_eq!(output(&over(gateway, &execution).await), &json!("done"));

        self.ada.post(&self.conversation, &text(name, json!({"ct": "x"}))).await.data();
        self.agent.post(&self.conversation, &text(name, json!({"ct": "y"}))).await.data();
        assert!(!self.agent.poll("").await.data().is_null());
    }
}

/// Parts of statements of which each must have been recorded.
const EXPECTED: [&str; 8] = [
    "INTO sessions",
    "INTO turns",
    "INTO messages",
    "INTO remembered",
    "INTO executions",
    "INTO execution_keys",
    "INTO audit_links",
    "INTO relay_messages",
];

fn assert_recorded<'sql>(statements: &(impl Iterator<Item = &'sql String> + Clone)) {
    for part in EXPECTED {
        assert!(statements.clone().any(|sql| sql.contains(part)), "no statement with {part:?} was recorded");
    }
}

#[tokio::test]
async fn statements_of_turns_executions_and_posts_use_an_index_of_sqlite() {
    let server = HotPathServer::start(StoreLocation::DataDirectory).await;
    // Scans count only the rows after the first.
    for round in 0..3 {
        server.run_once(&format!("before-{round}")).await;
    }
    let file = server.world.gateway.data().join("nuncio.db");
    record_statements(&file);
    server.run_once("recorded").await;
    let statements = executed_statements(&file);
    assert_recorded(&statements.keys());
    let is_slow = |sql: &str, statement: &RecordedStatement| {
        let reads_first_row = sql.ends_with("LIMIT 1") && statement.plan.len() == 1;
        let scans = |step: &String| step.starts_with("SCAN ") && step != "SCAN CONSTANT ROW" && !reads_first_row;
        statement.scanned_rows > 0 || statement.plan.iter().any(scans)
    };
    let slow: BTreeMap<_, _> = statements.iter().filter(|(sql, statement)| is_slow(sql, statement)).collect();
    assert!(slow.is_empty(), "statements that scan: {slow:#?}");
    server.world.gateway.stop().await;
}

/// Plans of the statements that PostgreSQL executed, by their SQL, from the log of `auto_explain`.
fn logged_plans(log: &str) -> BTreeMap<String, Value> {
    let mut plans = BTreeMap::new();
    let mut lines = log.lines();
    while let Some(line) = lines.next() {
        if !line.ends_with("plan:") {
            continue;
        }
        let text: String = lines.by_ref().take_while(|line| *line != "\t}").collect();
        let mut plan: Value = serde_json::from_str(&(text + "}")).unwrap();
        plans.insert(plan["Query Text"].as_str().unwrap().to_owned(), plan["Plan"].take());
    }
    plans
}

/// Tables that a plan reads without a condition on an index, unless it reads only the first rows in the order of an index.
fn scanned_tables(plan: &Value, is_limited: bool, found: &mut Vec<String>) {
    let kind = plan["Node Type"].as_str().unwrap();
    let has_condition = !plan["Index Cond"].is_null();
    let is_scan = match kind {
        "Seq Scan" => true,
        "Index Scan" | "Index Only Scan" => !has_condition && !is_limited,
        "Bitmap Index Scan" => !has_condition,
        _ => false,
    };
    if is_scan {
        found.push(plan["Relation Name"].as_str().or(plan["Index Name"].as_str()).unwrap_or(kind).to_owned());
    }
    for part in plan["Plans"].as_array().into_iter().flatten() {
        scanned_tables(part, kind == "Limit", found);
    }
}

#[tokio::test]
async fn statements_of_turns_executions_and_posts_use_an_index_of_postgresql() {
    // The planner prefers scans of small tables; it still uses them if nothing else is possible.
    let database = PostgresServer::start_with(
        "-c enable_seqscan=off -c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 \
         -c auto_explain.log_nested_statements=on -c auto_explain.log_format=json",
    );
    let store = StoreLocation::parse(Some(&database.url("postgres"))).unwrap();
    let server = HotPathServer::start(store).await;
    server.run_once("before").await;
    let before = database.log().len();
    server.run_once("recorded").await;
    server.world.gateway.stop().await;
    let plans = logged_plans(&database.log()[before..]);
    assert_recorded(&plans.keys());
    let slow: BTreeMap<_, _> = plans
        .iter()
        .map(|(sql, plan)| {
            let mut scanned = Vec::new();
            scanned_tables(plan, false, &mut scanned);
            (sql, scanned)
        })
        .filter(|(_, scanned)| !scanned.is_empty())
        .collect();
    assert!(slow.is_empty(), "statements that scan: {slow:#?}");
}

/// Most round trips to PostgreSQL that a turn without calls may take, and an execution, each with an idempotency key and
/// of a caller with a quota.
const TURN_ROUND_TRIPS: usize = 5;
const EXECUTION_ROUND_TRIPS: usize = 3;

#[tokio::test]
async fn turn_and_execution_take_few_round_trips_to_postgresql() {
    let database = PostgresDatabase::create();
    let counter = RoundTripCounter::start(database.url());
    let tools = ["[[tool]]\nname = \"instant\"\ndescription = \"Answers.\"\ninput = { type = \"object\" }\nrun = { answer = \"done\" }\nskill = { type = \"task\" }\n".to_owned()];
    let store = StoreLocation::parse(Some(&counter.url(database.url()))).unwrap();
    // The clock stands still, so that no timer uses the store while round trips are counted.
    let gateway = Gateway::builder().agent(DESK, &desk(&tools)).store(store).clock(&ManualClock::new()).start().await;
    let aap = gateway.key(&[]).await.aap;
    let session = aap.session(DESK, &[]).await;
    let turn = async |name: &str| {
        let request = aap.request(Method::POST, &format!("/sessions/{session}/turns")).header("Idempotency-Key", name);
        let body = json!({"messages": [{"role": "user", "content": "hello"}]});
        let answer = request.json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    };
    let execute = async |name: &str| {
        let execution = submit(&gateway, invocation("instant", json!({})).with_key(name, name)).await;
        assert_eq!(output(&over(&gateway, &execution).await), &json!("done"));
    };
    // The first ones on each connection prepare their statements.
    for number in 0..8 {
        turn(&format!("warm-{number}")).await;
        execute(&format!("warm-{number}")).await;
    }
    let mut counted = Vec::new();
    for number in 0..5 {
        let _ = counter.take();
        turn(&format!("turn-{number}")).await;
        let of_turn = counter.take();
        execute(&format!("execution-{number}")).await;
        counted.push((of_turn, counter.take()));
    }
    // Requests that are sent at once count twice if the machine is too busy to send the second while the first waits.
    let turns = counted.iter().map(|((count, _), _)| *count).min().unwrap();
    let executions = counted.iter().map(|(_, (count, _))| *count).min().unwrap();
    println!("round trips: {turns} per turn, {executions} per execution");
    assert!((1..=TURN_ROUND_TRIPS).contains(&turns), "{counted:#?}");
    assert!((1..=EXECUTION_ROUND_TRIPS).contains(&executions), "{counted:#?}");
    gateway.stop().await;
}
