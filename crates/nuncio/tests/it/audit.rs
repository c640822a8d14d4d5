//! Audit records: every call has one, and `nuncio audit verify` detects changed or deleted ones.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::call;
use crate::home::{SCRIPTED, TestAgentFolder, shell_tool};
use crate::process::{ProcessOutput, nuncio, until};

#[tokio::test]
async fn every_allowed_or_refused_call_has_an_audit_record_with_caller_and_decision() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[("add", true), ("lookup", false)]).await;
    let script = json!([
        [
            call("c1", "add", json!({"a": 1, "b": 2})),
            call("c2", "add", json!({"a": "one"})),
            call("c3", "nothing", json!({}))
        ],
        [call("c4", "lookup", json!({"key": "k"}))],
    ]);
    client.play(&session, script).await;
    let deny = json!([{"role": "tool_permission", "toolCallId": "c4", "granted": false, "reason": "no"}]);
    client.turn(&session, deny).await;

    let records = home.audit();
    let of =
        |id: &str| records.iter().find(|record| record["call"] == id).unwrap_or_else(|| panic!("{id}: {records:#?}"));
    assert_eq!(of("c1")["decision"], json!({"verdict": "allowed", "by": ["policy"]}));
    assert_eq!(of("c1")["outcome"], json!({"result": "completed"}));
    assert_eq!(of("c2")["decision"], json!({"verdict": "refused", "by": "policy", "code": "invalid_arguments"}));
    assert_eq!(of("c3")["decision"]["code"], "tool_not_found");
    assert_eq!(of("c4")["decision"], json!({"verdict": "refused", "by": "client", "code": "denied"}));
    for record in &records {
        assert_eq!(
            (&record["caller"], &record["protocol"], &record["agent"]),
            (&json!("local"), &json!("aap"), &json!("script"))
        );
        assert_eq!(record["session"], json!(session));
        assert_eq!(record["arguments_digest"].as_str().unwrap().len(), 64, "{record}");
        assert!(
            record["asked_at"].is_string() && record["ended_at"].is_string() && record["request"].is_string(),
            "{record}"
        );
    }
    let shown = home.nuncio(&["audit", "list"]).run();
    assert!(shown.stdout.contains("refused:") && shown.stdout.contains("invalid_arguments"), "{shown:?}");
}

#[tokio::test]
async fn audit_list_is_newest_first_with_key_names_and_can_be_filtered() {
    let home = TestAgentFolder::script();
    let key = home.key(&["--name", "phone"]);
    let server = home.start();
    let client = server.aap_with_key(&key);
    let session = client.session("script", &[("add", true)]).await;
    let script = json!([
        [call("c1", "add", json!({"a": 1, "b": 2})), call("c2", "a_tool_that_does_not_exist_here", json!({}))],
        [{"text": "done"}],
    ]);
    client.play(&session, script).await;
    let list = |flags: &[&str]| -> Vec<Value> {
        home.json_command(&[&["audit", "list"], flags].concat()).json()["records"].as_array().unwrap().clone()
    };
    let numbers = |flags: &[&str]| list(flags).iter().map(|link| link["seq"].as_u64().unwrap()).collect::<Vec<_>>();
    // The key's creation is recorded twice, before the two calls.
    assert_eq!(numbers(&[]), [4, 3, 2, 1]);
    assert_eq!(numbers(&["--limit", "2"]), [4, 3]);
    assert_eq!(numbers(&["--after", "1", "--limit", "2"]), [2, 3]);
    assert_eq!(numbers(&["--caller", "phone"]), [4, 3]);
    assert_eq!(numbers(&["--agent", "script", "--tool", "add"]).len(), 1);
    assert_eq!(list(&["--tool", "add"])[0]["caller_name"], "phone");
    assert_eq!(numbers(&["--since", "1h"]), [4, 3, 2, 1]);
    assert_eq!(numbers(&["--since", "2999-01-01"]), [0; 0]);
    assert_eq!(numbers(&["--agent", "nobody"]), [0; 0]);
    assert_eq!(home.nuncio(&["audit", "list", "--since", "soon"]).run().status, Some(2));
    let shown = home.nuncio(&["audit", "list"]).run().stdout;
    assert!(
        shown.contains("  a_tool_that_does_not_exist_here  refused: tool_not_found  c2\n"),
        "one line per row, with the id of the call: {shown}"
    );
    if let Some(command) = home.nuncio(&["audit", "list"]).in_terminal() {
        let shown = command.run().stdout;
        assert!(shown.contains('\u{1b}') && !shown.contains("a_tool_that_does_not_exist_here  refused"), "{shown}");
        assert!(shown.contains("  call: c2"), "{shown}");
        for line in shown.lines() {
            let plain =
                ["\u{1b}[1m", "\u{1b}[2m", "\u{1b}[0m"].iter().fold(line.to_owned(), |line, it| line.replace(it, ""));
            assert!(plain.trim_end().chars().count() <= 80, "{line:?}");
        }
    }
    assert!(shown.contains("phone") && !shown.contains("key:key_"), "{shown}");
    let none = home.nuncio(&["audit", "list", "--tool", "nothing"]).run().stdout;
    assert_eq!(none, "No record matches.\n");
    for part in [["--limit", "0"], ["--after", "999"]] {
        let none = home.nuncio(&[&["audit", "list"], &part[..]].concat()).run().stdout;
        assert_eq!(none, "No record matches.\n", "tools were called");
    }
}

#[tokio::test]
async fn audit_explain_takes_the_number_of_a_record_and_refuses_one_that_is_no_call() {
    let home = TestAgentFolder::script();
    home.key(&["--name", "phone"]);
    let key = home.key(&["--name", "tablet"]);
    let server = home.start();
    let client = server.aap_with_key(&key);
    let session = client.session("script", &[("add", true)]).await;
    client.play(&session, json!([[call("c1", "add", json!({"a": 1, "b": 2}))], [{"text": "done"}]])).await;
    let listed = home.json_command(&["audit", "list", "--tool", "add"]).json();
    let number = listed["records"][0]["seq"].to_string();
    let explain = |call: &str| home.json_command(&["audit", "explain", call]);
    assert_eq!(explain(&number).json(), explain("c1").json());
    let (code, message) = explain("1").failure();
    assert!(code == "not_found" && message.contains("audit record 1 is not about a call"), "{message}");
    for absent in ["0", "999", "c9"] {
        let (code, message) = explain(absent).failure();
        assert!(code == "not_found" && message.contains("there is no audit record of the call"), "{message}");
    }
}

/// Data directory of a stopped server, with three audit records and a checkpoint after the last.
async fn three_records() -> TestAgentFolder {
    let home = TestAgentFolder::script();
    let server = home.start();
    let session = server.aap().session("script", &[("add", true)]).await;
    let sums = [1, 2, 3].map(|n| call(&format!("c{n}"), "add", json!({"a": n, "b": n})));
    server.aap().play(&session, json!([[sums[0]], [sums[1]], [sums[2]], [{"text": "done"}]])).await;
    server.stop();
    home
}

fn verify_after(home: &TestAgentFolder, change: impl FnOnce(&Path)) -> ProcessOutput {
    let copy = TempDir::new().unwrap();
    for entry in fs::read_dir(home.data()).unwrap() {
        let entry = entry.unwrap();
        // The folder with the keys of the DIDs is not copied.
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
    }
    change(copy.path());
    nuncio(&["--json", "audit", "verify", "--data"]).arg(copy.path()).run()
}

fn sql(statement: &'static str) -> impl FnOnce(&Path) {
    move |data| {
        let changed = Connection::open(data.join("nuncio.db")).unwrap().execute(statement, []).unwrap();
        assert!(changed > 0, "{statement} changes something");
    }
}

#[tokio::test]
async fn audit_verify_names_the_first_altered_or_missing_record() {
    let home = three_records().await;
    let intact = verify_after(&home, |_| {}).json();
    assert_eq!((&intact["records"], &intact["intact"]), (&json!(3), &json!(true)));
    assert!(intact["checkpoints"].as_u64().unwrap() >= 1, "{intact}");

    let changes = [
        (
            "UPDATE audit_links SET record = replace(record, 'completed', 'not_run') WHERE seq >= 2",
            "record 2 was changed after it was written",
        ),
        ("DELETE FROM audit_links WHERE seq = 2", "record 2 is missing: the next one found is 3"),
        ("DELETE FROM audit_links WHERE seq = 1", "record 1 is missing"),
        (
            "UPDATE audit_links SET previous = (SELECT hash FROM audit_links WHERE seq = 1) WHERE seq = 3",
            "record 3 does not follow from record 2",
        ),
        ("DELETE FROM audit_links WHERE seq = 3", "ends at record 2, but a signed checkpoint covers record 3"),
        ("DELETE FROM audit_links", "ends at record 0, but a signed checkpoint covers record 3"),
    ];
    for (statement, broken) in changes {
        let ran = verify_after(&home, sql(statement));
        let (code, message) = ran.failure();
        assert_eq!(code, "audit_broken", "{statement}");
        assert!(message.contains(broken), "{statement}: {message}");
    }
}

#[tokio::test]
async fn audit_verify_reports_a_forged_or_damaged_checkpoint() {
    let home = three_records().await;
    let rewrite = |change: fn(Value) -> String| {
        move |data: &Path| {
            let file = data.join("audit-checkpoints.jsonl");
            let text = fs::read_to_string(&file).unwrap();
            let line = serde_json::from_str(text.lines().last().unwrap()).unwrap();
            fs::write(&file, change(line)).unwrap();
        }
    };
    let forged = rewrite(|mut line| {
        line["seq"] = json!(2);
        format!("{line}\n")
    });
    let (code, message) = verify_after(&home, forged).failure();
    assert_eq!(code, "audit_broken");
    assert!(message.contains("not signed by this server's key"), "{message}");
    let (code, message) = verify_after(&home, rewrite(|_| "nonsense\n".to_owned())).failure();
    assert_eq!(code, "audit_broken");
    assert!(message.contains("line 1"), "{message}");
}

#[tokio::test]
async fn call_ending_during_shutdown_is_covered_by_the_last_checkpoint() {
    let home = TestAgentFolder::with_agent(&format!(
        "{SCRIPTED}{}",
        shell_tool("gate", "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo went")
    ));
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[("gate", true)]).await;
    let live = client.stream(&session, json!([[call("c1", "gate", json!({}))], [{"text": "done"}]])).await;
    until("the tool runs", async || home.path("begun").exists().then_some(())).await;
    server.terminate();
    until("it is stopping", async || client.reconnected().try_post("/sessions", &json!({})).await.err()).await;
    fs::write(home.path("go"), "").unwrap();
    live.rest().await;
    assert_eq!(server.wait_for_end().0, Some(0));

    assert_eq!(verify_after(&home, |_| {}).json()["records"], 1);
    let (code, message) = verify_after(&home, sql("DELETE FROM audit_links WHERE seq = 1")).failure();
    assert_eq!(code, "audit_broken");
    assert!(message.contains("a signed checkpoint covers record 1"), "{message}");
}
