//! Messages between agents from the command line: messages and their answers, signed calls, drafted protocols, and
//! linked DIDs.

use std::os::unix::fs::PermissionsExt as _;

use nuncio_test_postgres::PostgresDatabase;
use serde_json::{Value, json};

use crate::home::{SCRIPTED, TestAgentFolder};
use crate::process::{ProcessOutput, Server, until};

/// Starts a server on `port`; zero means any free port.
fn serve(home: &TestAgentFolder, port: &str) -> Server {
    let agent = home.path("agent.toml").display().to_string();
    home.nuncio(&["--json", "serve", "--listen", &format!("localhost:{port}"), "--dev"]).arg(agent).start()
}

fn port(server: &Server) -> String {
    server.url().rsplit(':').next().unwrap().to_owned()
}

fn did(home: &TestAgentFolder, agent: &str) -> String {
    home.json_command(&["did", "show", agent]).json()["dids"][0]["did"].as_str().unwrap().to_owned()
}

fn events(ran: &ProcessOutput) -> Vec<Value> {
    assert_eq!(ran.status, Some(0), "{ran:?}");
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn script(steps: &Value) -> String {
    json!({"script": [steps]}).to_string()
}

fn two_homes() -> (TestAgentFolder, TestAgentFolder) {
    (TestAgentFolder::with_agent(SCRIPTED), TestAgentFolder::with_agent(SCRIPTED))
}

#[test]
fn direct_message_is_sent_and_answered() {
    let (a, b) = two_homes();
    let (_a, _b) = (serve(&a, "0"), serve(&b, "0"));
    let theirs = did(&b, "script");
    let text = script(&json!([{"text": "good morning"}]));
    let ran = a.nuncio(&["invoke", &theirs, "--say", &text, "--as", "script"]).run();
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "good morning\n"), "{ran:?}");
    let printed = events(&a.json_command(&["invoke", &theirs, "--say", &text, "--as", "script"]));
    assert_eq!((&printed[0]["event"], &printed[0]["letter"]["to"]), (&json!("sent"), &json!(theirs)));
    assert_eq!(printed[1], json!({"event": "result", "output": "good morning"}));
    // `--say` requires `--as`.
    let ran = a.nuncio(&["invoke", &theirs, "--say", "x"]).run();
    assert_eq!(ran.status, Some(2), "{ran:?}");
    let (code, _) = a.json_command(&["invoke", &theirs, "--say", "x", "--as", "nobody"]).failure();
    assert_eq!(code, "did_unavailable");
}

#[test]
fn direct_message_without_a_running_own_server_is_refused() {
    let (a, _) = two_homes();
    serve(&a, "0").stop();
    let (code, message) =
        a.json_command(&["invoke", "did:wba:example.com:x", "--say", "x", "--as", "script"]).failure();
    assert_eq!(code, "no_message_service", "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_message_reply_survives_kills_of_both_servers() {
    let (a, b) = two_homes();
    let (at_a, at_b) = (serve(&a, "0"), serve(&b, "0"));
    let (port_a, port_b) = (port(&at_a), port(&at_b));
    let theirs = did(&b, "script");
    // The sender is killed while the receiver works; the receiver is killed when its answer cannot be delivered.
    let text = script(&json!([{"sleep": 300}, {"text": "at last"}]));
    let sent = events(&a.json_command(&["invoke", &theirs, "--say", &text, "--as", "script", "--no-wait"]));
    let id = sent[0]["letter"]["id"].as_str().unwrap().to_owned();
    at_a.kill9();
    until("the answer could not be sent", async || at_b.stderr().contains("an answer could not be sent").then_some(()))
        .await;
    at_b.kill9();
    let _a = serve(&a, &port_a);
    let _b = serve(&b, &port_b);
    let ran = a.nuncio(&["invoke", &theirs, "--answer-to", &id, "--as", "script"]).run();
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "at last\n"), "{ran:?}");
}

#[test]
fn message_interrupted_by_a_kill_of_the_receiver_is_answered_with_a_notice() {
    let (a, b) = two_homes();
    let (_a, at_b) = (serve(&a, "0"), serve(&b, "0"));
    let (port_b, theirs) = (port(&at_b), did(&b, "script"));
    let text = script(&json!([{"sleep": 600_000}, {"text": "never"}]));
    let sent = events(&a.json_command(&["invoke", &theirs, "--say", &text, "--as", "script", "--no-wait"]));
    let id = sent[0]["letter"]["id"].as_str().unwrap().to_owned();
    at_b.kill9();
    let _b = serve(&b, &port_b);
    let ran = a.nuncio(&["invoke", &theirs, "--answer-to", &id, "--as", "script"]).run();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("server stopped"), "{ran:?}");
}

const ECHO: &str = "\n[[tool]]\nname = \"echo\"\ndescription = \"Says it.\"\ninput = { type = \"object\" }\nrun = { command = [\"cat\"] }\n";

#[test]
fn invoke_with_the_as_option_signs_with_a_key_from_a_postgresql_store() {
    let ((a, b), database) = (two_homes(), PostgresDatabase::create());
    b.write_agent(&format!("{SCRIPTED}{ECHO}"));
    b.key(&[]);
    let agent = a.path("agent.toml").display().to_string();
    let serve_a = a.nuncio(&["--json", "serve", "--listen", "localhost:0", "--dev", "--store", database.url()]);
    let (_a, at_b) = (serve_a.arg(agent).start(), serve(&b, "0"));
    let ad = format!("{}/agents/script/ad.json", at_b.url());
    let data = a.data().display().to_string();
    let store = ["--data", &data, "--store", database.url()];
    let called = |signer| b.json_command(&[&["invoke", &ad, "echo", "-i", "n=1", "--as", signer][..], &store].concat());
    assert_eq!(events(&called("script")).last().unwrap()["event"], "result");
    let shown = b.json_command(&[&["did", "show", "script"][..], &store].concat()).json();
    assert_eq!(b.audit().pop().unwrap()["caller"], shown["dids"][0]["did"]);
    assert_eq!(called("nobody").failure().0, "did_unavailable");
}

#[test]
fn invoke_with_the_as_option_signs_with_the_did_of_that_agent() {
    let (a, b) = two_homes();
    b.write_agent(&format!("{SCRIPTED}{ECHO}"));
    b.key(&[]);
    let (at_a, at_b) = (serve(&a, "0"), serve(&b, "0"));
    let ad = format!("{}/agents/script/ad.json", at_b.url());
    let call = ["invoke", &ad, "echo", "-i", "n=1"];
    let (code, _) = {
        let ran = a.json_command(&call);
        let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
        (last["code"].as_str().unwrap().to_owned(), ran)
    };
    assert_eq!(code, "auth_required", "nobody is not let in");
    // `--as` reads the key from the store, so signing needs no running server.
    let data = a.data().display().to_string();
    let signed = [&call[..], &["--as", "script", "--data", &data]].concat();
    let printed = events(&b.json_command(&signed));
    assert_eq!(printed.last().unwrap()["event"], "result", "{printed:?}");
    let caller = b.audit().pop().unwrap()["caller"].clone();
    assert_eq!(caller, did(&a, "script"));
    for command in [&["show", &ad][..], &["discover", &ad], &["negotiate", &ad, "--intent", "say"]] {
        let ran = b.json_command(&[command, &["--as", "script", "--data", &data]].concat());
        assert_eq!(ran.status, Some(0), "{command:?}: {ran:?}");
    }
    // A secret key that others can read is refused, and an agent that was never served has no DID.
    let key = a.data().join("secret.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, message) = b.json_command(&["show", &ad, "--as", "script", "--data", &data]).failure();
    assert_eq!(code, "data_dir_unusable", "{message}");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (code, _) = b.json_command(&["show", &ad, "--as", "nobody", "--data", &data]).failure();
    assert_eq!(code, "did_unavailable");
    let (code, _) = b.json_command(&["show", &ad, "--as", "script", "--data", "nowhere"]).failure();
    assert_eq!(code, "data_dir_unusable");
    at_a.stop();
}

const BRAIN: &str = r#"IFS= read -r step
case $step in
*"calls you under the protocol"*) cat answered ;;
*"Draft a small protocol"*) cat drafted ;;
*) echo "{\"text\":\"hm\"}" ;;
esac"#;

#[test]
fn drafted_protocol_is_usable_only_after_both_sides_accept_it() {
    let (a, _) = two_homes();
    let b = TestAgentFolder::with_agent(&format!(
        "[agent]\nname = \"host\"\nversion = \"1.0.0\"\n[brain]\nkind = \"process\"\ncommand = [\"sh\", \"-c\", '''{BRAIN}''']\n"
    ));
    let definition = json!({
        "description": "Hold a table.",
        "methods": [{
            "name": "table.hold", "description": "Holds a table.",
            "request_schema": {"type": "object", "properties": {"guests": {"type": "integer"}}, "required": ["guests"]},
            "response_schema": {"type": "object", "required": ["held"]},
        }],
        "examples": [{"method": "table.hold", "request": {"guests": 2}, "response": {"held": true}}],
        "test_cases": [{"name": "nobody", "method": "table.hold", "request": {}, "expected": "invalid"}],
    });
    std::fs::write(b.path("drafted"), format!("{}\n", json!({"text": definition.to_string()}))).unwrap();
    std::fs::write(b.path("answered"), format!("{}\n", json!({"text": "{\"held\": true}"}))).unwrap();
    let (_a, at_b) = (serve(&a, "0"), serve(&b, "0"));
    let ad = format!("{}/agents/host/ad.json", at_b.url());
    let who = ["--as", "script"];
    let negotiate = [&["negotiate", &ad, "--intent", "hold a table", "--draft"][..], &who].concat();
    let people = a.nuncio(&negotiate).run();
    for expected in ["A protocol was drafted: draft", "table.hold", "to accept it: --accept drf_"] {
        assert!(people.stdout.contains(expected), "{expected}: {people:?}");
    }
    let drafted = a.json_command(&negotiate).json()["result"]["protocolDraft"].clone();
    let (id, digest) = (drafted["protocolId"].as_str().unwrap(), drafted["digest"].as_str().unwrap());
    let accept = [&["negotiate", &ad, "--accept", id, "--digest", digest][..], &who].concat();
    assert_eq!(a.json_command(&accept).json()["result"]["protocolDraft"]["state"], "accepted_by_them");
    let call = json!({"protocol_id": id, "digest": digest, "method": "table.hold", "params": {"guests": 2}});
    let call = format!("call={call}");
    let use_it = [&["invoke", &ad, "chat", "-i", &call][..], &who].concat();
    assert_eq!(a.json_command(&use_it).status, Some(1), "the operator there has not said yes");
    let waiting = b.json_command(&["approve", "list"]).json();
    let mine = waiting["approvals"].as_array().unwrap().iter().find(|it| it["question"]["arguments"]["protocol"] == id);
    b.json_command(&["approve", "allow", mine.unwrap()["id"].as_str().unwrap()]).json();
    assert_eq!(a.json_command(&accept).json()["result"]["protocolDraft"]["state"], "accepted");
    let made = events(&a.json_command(&use_it)).pop().unwrap();
    assert_eq!(made["output"], json!({"response": {"held": true}}));
    let reject = [&["negotiate", &ad, "--reject", id, "--digest", digest][..], &who].concat();
    assert_eq!(a.json_command(&reject).json()["result"]["status"], "rejected");
    assert_eq!(a.json_command(&use_it).status, Some(1), "it is over");
}

#[test]
fn did_is_linked_to_a_person_until_unlinked() {
    let (a, b) = two_homes();
    let (_a, at_b) = (serve(&a, "0"), serve(&b, "0"));
    let mine = did(&a, "script");
    let linked = b.json_command(&["did", "link", &mine, "--person", "ada"]).json();
    assert_eq!((&linked["link"]["principal"], &linked["link"]["person"]), (&json!(mine), &json!("ada")));
    assert_eq!(b.json_command(&["did", "links"]).json()["links"].as_array().unwrap().len(), 1);
    let (code, _) = b.json_command(&["did", "link", "did:key:z6Mk", "--person", "ada"]).failure();
    assert_eq!(code, "bad_request");
    b.json_command(&["did", "unlink", &mine]).json();
    let (code, _) = b.json_command(&["did", "unlink", &mine]).failure();
    assert_eq!(code, "not_found");
    drop(at_b);
}

/// ANP-06 §12.3: the log shows that a negotiation took place, not its contents.
#[test]
fn logs_contain_no_negotiation_or_message_contents() {
    let (a, b) = two_homes();
    let (at_a, at_b) = (serve(&a, "0"), serve(&b, "0"));
    let ad = format!("{}/agents/script/ad.json", at_b.url());
    let secret = "a divorce lawyer in Rome";
    let ran = a.json_command(&["negotiate", &ad, "--intent", secret, "--as", "script"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let text = script(&json!([{"text": "the lawyer answers"}]));
    let theirs = did(&b, "script");
    assert_eq!(a.nuncio(&["invoke", &theirs, "--say", &text, "--as", "script"]).run().status, Some(0));
    for (server, whose) in [(at_a, "the caller's"), (at_b, "the agent's")] {
        let log = server.kill9();
        assert!(!log.contains("divorce") && !log.contains("lawyer"), "{whose}: {log}");
    }
}
