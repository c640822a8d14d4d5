//! Skill Sharing on the program as shipped: every row of the conformance suite, the environment of tools, and data that
//! is never stored or logged.

use std::collections::BTreeSet;
use std::fs;

use nuncio_conformance::{ConformanceReport, RequirementOutcome, ServerUnderTest, skill};
use reqwest::Method;
use serde_json::json;

use crate::home::{SCRIPT, SCRIPTED, TestAgentFolder, shell_tool};
use crate::process::until;
use crate::skill_client::Consumer;

const PROBE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/skill");

fn home() -> TestAgentFolder {
    let home = TestAgentFolder::hotel();
    for (name, folder) in [("probe", PROBE), ("script", SCRIPT)] {
        fs::create_dir_all(home.path("agents").join(name)).unwrap();
        fs::copy(format!("{folder}/agent.toml"), home.path("agents").join(name).join("agent.toml")).unwrap();
    }
    home
}

#[tokio::test(flavor = "multi_thread")]
async fn skill_conformance_rows_pass_with_and_without_keys() {
    // The suite sends all requests as one client, so the rate limit is raised.
    let start =
        |home: &TestAgentFolder| home.serve().arg("agents").env("NUNCIO_LIMITS_REQUESTS_PER_MINUTE", "1000000").start();
    let open = home();
    let server = start(&open);
    let without = skill().run(&ServerUnderTest::new(server.url())).await;

    let closed = home();
    let key = closed.key(&["--scope", "probe:use"]);
    let other = closed.key(&["--scope", "probe:other"]);
    let secret = closed.key(&["--scope", "probe:use", "--signing"]);
    let server = start(&closed);
    let target = ServerUnderTest::new(server.url()).with_key(key).with_other_key(other).with_secret(secret);
    let with = skill().run(&target).await;

    print!("without keys: {without}with keys:    {with}");
    assert_eq!((without.failed(), with.failed()), (0, 0), "\n{without}\n{with}");
    let proved: BTreeSet<_> = [passed(&without), passed(&with)].concat().into_iter().collect();
    let suite = skill();
    let checked = suite.rows().iter().filter(|row| row.check.is_some()).map(|row| row.id.clone());
    let unproved: Vec<_> = checked.filter(|id| !proved.contains(id)).collect();
    assert!(unproved.is_empty(), "rows that neither server could prove: {unproved:?}");
    println!("{} rows proved, {} rows in all", proved.len(), suite.rows().len());
}

fn passed(report: &ConformanceReport) -> Vec<String> {
    let passed = report.rows.iter().filter(|row| row.outcome == RequirementOutcome::Passed);
    passed.map(|row| row.row.id.clone()).collect()
}

#[test]
fn duplicate_skill_ids_are_refused_by_serve_and_lint() {
    let home = TestAgentFolder::hotel();
    for name in ["one", "two"] {
        let skill = "skill = { type = \"task\", id = \"shared/name\" }\n";
        let agent = format!("{SCRIPTED}{}{skill}", shell_tool("tell", "echo done"))
            .replace("\"script\"\nversion", &format!("\"{name}\"\nversion"));
        fs::create_dir_all(home.path("agents").join(name)).unwrap();
        fs::write(home.path("agents").join(name).join("agent.toml"), agent).unwrap();
    }
    let (code, message) = home.serve().arg("agents").run().failure();
    assert!(message.contains("shared/name"), "{code}: {message}");
    assert_eq!(home.json_command(&["lint", "agents"]).failure(), (code, message));
    assert_eq!(home.json_command(&["lint", "agents/one"]).json()["agents"][0]["agent"], "one", "alone it is well");
}

#[tokio::test]
async fn tool_program_gets_execution_id_attempt_and_trace_id_in_its_environment() {
    let tool = shell_tool("tell", "env | grep -E '^(NUNCIO_|TRACEPARENT)' | sort > told; echo done");
    let home = TestAgentFolder::with_agent(&format!("{SCRIPTED}{tool}skill = {{ type = \"task\" }}\n"));
    let server = home.serve().env("NUNCIO_LOG_LEVEL", "debug").start();
    let consumer = Consumer::of(&server);
    let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let body = json!({
        "caller": {"id": "test", "type": "service"}, "skill_id": "script/tell", "inputs": {},
        "context": {"trace_id": "trace-7f3a9b2c"},
    });
    let request = consumer.request(Method::POST, "/skills/script/tell/invoke").header("traceparent", context);
    let (status, accepted) = consumer.try_send(request.json(&body)).await.unwrap();
    assert_eq!(status, 202, "{accepted}");
    let id = accepted["execution_id"].as_str().unwrap();
    assert_eq!(consumer.wait_for_result(id).await["status"], "completed");
    let environment = fs::read_to_string(home.path("told")).unwrap();
    for line in [
        format!("NUNCIO_EXECUTION_ID={id}"),
        "NUNCIO_ATTEMPT=1".to_owned(),
        "NUNCIO_TRACE_ID=trace-7f3a9b2c".to_owned(),
        format!("TRACEPARENT={context}"),
    ] {
        assert!(environment.lines().any(|environment| environment == line), "{line} is not in {environment}");
    }
    until("the log names both", async || {
        let log = server.stderr();
        (log.contains("trace-7f3a9b2c") && log.contains(id)).then_some(())
    })
    .await;
}

const SECRET: &str = "sk-in-the-body-f3a9c2d7e1b8";
const INPUT: &str = "an-input-nobody-logs-5582";

#[tokio::test]
async fn credentials_in_bodies_and_headers_are_neither_logged_nor_stored() {
    let home = home();
    let key = home.key(&["--scope", "probe:use"]);
    let server = home.serve().arg("agents").env("NUNCIO_LOG_LEVEL", "debug").start();
    let consumer = Consumer::of(&server);
    let ask = |skill: &str, key: &str, inputs: serde_json::Value| {
        let credentials = json!({"api_key": key, "password": SECRET, "more": {"deep": [SECRET]}});
        let caller = json!({"id": "test", "type": "service", "credentials": credentials});
        let body = json!({"caller": caller, "skill_id": skill, "inputs": inputs});
        consumer.request(Method::POST, &format!("/skills/{skill}/invoke")).header("Idempotency-Key", "k").json(&body)
    };
    for (skill, used, inputs, expected) in [
        ("probe/all", SECRET, json!({"text": INPUT}), 202),
        ("probe/keyed", SECRET, json!({"text": INPUT}), 401),
        ("probe/keyed", &key, json!({"text": INPUT}), 202),
        ("probe/restricted", &key, json!({"text": 7}), 400),
        ("probe/private", SECRET, json!({"text": INPUT}), 404),
        ("probe/private", &key, json!({"text": INPUT}), 202),
    ] {
        let (status, body) = consumer.try_send(ask(skill, used, inputs)).await.unwrap();
        assert_eq!(status, expected, "{skill}: {body}");
        assert!(!body.to_string().contains(SECRET) && !body.to_string().contains(&key), "{body}");
    }
    // The body is cut off in the middle: an error message that quoted it would contain the credential.
    let broken = format!("{{\"caller\":{{\"credentials\":{{\"api_key\":\"{SECRET}\"");
    let request =
        consumer.request(Method::POST, "/skills/probe/keyed/invoke").header("content-type", "application/json");
    assert_eq!(consumer.try_send(request.body(broken)).await.unwrap().0, 401);
    for header in ["X-API-Key", "Authorization", "X-Probe-Key", "X-Signature"] {
        let request = consumer.invocation("probe/restricted", &json!({"text": "x"})).header(header, SECRET);
        assert_eq!(consumer.try_send(request).await.unwrap().0, 401, "{header}");
    }
    server.terminate();
    let (status, log) = server.wait_for_end();
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("probe/keyed"), "the search finds what is there");
    let mut files = fs::read_dir(home.data()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let holds = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let mut stored = false;
    files.by_ref().for_each(|file| {
        let bytes = fs::read(&file).unwrap();
        stored |= holds(&bytes, INPUT);
        assert!(!holds(&bytes, SECRET) && !holds(&bytes, &key), "a credential is in {}", file.display());
    });
    assert!(stored, "the search finds what is there");
    for text in [SECRET, &key, INPUT] {
        assert!(!log.contains(text), "{text} is in the log");
    }
}
