//! `nuncio discover`, `show`, `invoke` and `validate`, against a stub provider.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::home::{TestAgentFolder, mode};
use crate::process::{NuncioCommand, ProcessOutput, until};
use crate::stub_provider::{StubModelProvider, descriptor};

fn good() -> StubModelProvider {
    StubModelProvider::start(|_| {}, "completed")
}

fn nuncio(home: &TestAgentFolder, arguments: &[&str]) -> NuncioCommand {
    home.nuncio(arguments).env("XDG_DATA_HOME", home.path("share").to_str().unwrap())
}

fn invoke(home: &TestAgentFolder, stub: &StubModelProvider, arguments: &[&str]) -> ProcessOutput {
    nuncio(home, &[&["invoke", &format!("a/b@{}", stub.host)], arguments].concat()).run()
}

fn sent(stub: &StubModelProvider) -> Value {
    serde_json::from_str(&stub.requests_to("POST /call").last().unwrap().body).unwrap()
}

#[test]
fn discover_lists_skills_as_text_and_json() {
    let (home, stub) = (TestAgentFolder::hotel(), good());
    let ran = nuncio(&home, &["discover", &stub.host]).run();
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    for text in
        ["Provider: 1 skill\n", "a/b  api, public, version 1.2.0", "  Echo: Says it again,", "next: nuncio show a/b@"]
    {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    assert!(
        !ran.stdout.contains('\u{1b}') && ran.stdout.lines().all(|line| line.chars().count() <= 80),
        "{}",
        ran.stdout
    );
    let json = nuncio(&home, &["--json", "discover", &stub.host, "--type", "api"]).run().json();
    assert_eq!(json["index"]["skills"][0]["id"], "a/b");
    assert_eq!(stub.requests_to("GET /.well-known/skill-sharing?type=api").len(), 1);
    assert_eq!(nuncio(&home, &["discover", &stub.host, "--type", "magic"]).run().status, Some(2));
    assert_eq!(nuncio(&home, &["discover", "ftp://x"]).run().status, Some(2));
}

#[test]
fn show_prints_inputs_auth_and_endpoint_of_a_skill() {
    let (home, stub) = (TestAgentFolder::hotel(), good());
    let ran = nuncio(&home, &["show", &format!("a/b@{}", stub.host)]).run();
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    for text in [
        "Echo\nSays it again.\n",
        "version     1.2.0 (protocol 1.0.0)",
        "access      public",
        "auth        none",
        "provider    Good Provider, help@good.example",
        "time limit  30s",
        "INPUT  TYPE     REQUIRED  DEFAULT",
        "times  number   no        1",
        "  text: What to say.",
        "Output (application/json): The text.",
        &format!("endpoint    POST http://{}/call", stub.host),
    ] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    let url = format!("http://{}/b.json", stub.host);
    let json = nuncio(&home, &["--json", "show", &url]).run().json();
    assert_eq!(json["descriptor"], descriptor(&format!("http://{}", stub.host)));
}

#[test]
fn invoke_sends_typed_inputs_and_prints_only_the_result_on_stdout() {
    let (home, stub) = (TestAgentFolder::hotel(), good());
    fs::write(home.path("letter.txt"), "dear\nall").unwrap();
    let inputs = ["-i", "text=@letter.txt", "-i", "times=3", "-i", "loud=true", "-i", r#"to={"name":"Bo"}"#];
    let ran = invoke(&home, &stub, &inputs);
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(ran.stdout, "{\n  \"text\": \"hi\"\n}\n");
    let expected = json!({"text": "dear\nall", "times": 3, "loud": true, "to": {"name": "Bo"}});
    assert_eq!(sent(&stub)["inputs"], expected);

    let context = ["--priority", "high", "--timeout-ms", "9000", "--trace-id", "t-1", "--idempotency-key", "k-1"];
    let ran = invoke(&home, &stub, &[&["-i", r#"{"text": "7", "times": 2}"#, "-i", "text=@@7"][..], &context].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(sent(&stub)["inputs"], json!({"text": "@7", "times": 2}));
    assert_eq!(sent(&stub)["context"], json!({"priority": "high", "timeout_ms": 9000, "trace_id": "t-1"}));
    assert_eq!(sent(&stub)["caller"]["type"], "user");
    assert_eq!(stub.requests_to("POST /call").last().unwrap().header("idempotency-key"), Some("k-1"));
}

#[test]
fn json_invoke_prints_one_event_per_line() {
    let (home, stub) = (TestAgentFolder::hotel(), good());
    let ran = invoke(&home, &stub, &["--json", "-i", "text=x"]);
    let events: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["discovered", "described", "accepted", "completed", "result"]);
    assert_eq!(events.last(), Some(&json!({"event": "result", "execution_id": "e-1", "output": {"text": "hi"}})));
    let ran = invoke(&home, &stub, &["--no-wait", "-i", "text=x"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "e-1\n"));
    let prefer = |place: usize| stub.requests_to("POST /call")[place].header("prefer").map(str::to_owned);
    assert_eq!((prefer(0).as_deref(), prefer(1).as_deref()), (Some("wait=1"), Some("respond-async")));
    assert!(ran.stderr.contains(&format!("status: http://{}/status/e-1", stub.host)), "{ran:?}");
}

#[test]
fn invoke_succeeds_if_the_reader_of_its_output_closes_the_pipe() {
    let (home, stub) = (TestAgentFolder::hotel(), good());
    let ran = nuncio(&home, &["invoke", &format!("a/b@{}", stub.host), "-i", "text=x"]).run_with_closed_stdout();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
}

#[test]
fn failed_invoke_prints_the_error_with_its_explain_page_and_exits_nonzero() {
    let (home, stub) = (TestAgentFolder::hotel(), good());
    for wrong in [&["-i", "text"][..], &["-i", "{"], &["GET"], &["--login"]] {
        let ran = invoke(&home, &stub, wrong);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""), "{wrong:?}: {ran:?}");
    }
    let missing = invoke(&home, &stub, &[]);
    assert_eq!(missing.status, Some(1));
    assert!(
        missing.stderr.contains("/inputs/text is required")
            && missing.stderr.contains("nuncio explain validation_error"),
        "{missing:?}"
    );
    assert!(stub.requests_to("POST /call").is_empty(), "nothing was invoked");
    let which = nuncio(&home, &["invoke", &stub.host, "-i", "text=x"]).run();
    assert!(which.status == Some(1) && which.stderr.contains(&format!("a/b@{}", stub.host)), "{which:?}");

    let bad = StubModelProvider::start(|_| {}, "failed");
    let ran = invoke(&home, &bad, &["-i", "text=x"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("error: no luck") && ran.stderr.contains("nuncio explain execution_failed"), "{ran:?}");
    let ran = invoke(&home, &bad, &["--json", "-i", "text=x"]);
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["code"], &last["details"], &last["execution_id"]),
        (&json!("EXECUTION_FAILED"), &json!({"n": 1}), &json!("e-1"))
    );
    let newer = StubModelProvider::start(|skill| skill["protocol"]["version"] = json!("2.0.0"), "completed");
    let ran = invoke(&home, &newer, &["-i", "text=x"]);
    assert!(ran.stderr.contains("2.0.0 is not compatible with consumer version 1.0.0"), "{ran:?}");
    assert!(newer.requests_to("POST /call").is_empty());
}

#[test]
fn invoke_reports_all_input_errors_at_once() {
    let (home, stub) = (TestAgentFolder::hotel(), good());
    let typed = ["--json", "-i", "times=many", "-i", "loud=perhaps", "-i", "more=1"];
    let whole = ["--json", "-i", r#"{"times": "many", "loud": "perhaps", "more": 1}"#];
    let errors_for = |inputs: &[&str]| {
        let ran = invoke(&home, &stub, inputs);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        serde_json::from_str::<Value>(ran.stdout.lines().last().unwrap()).unwrap()
    };
    let errors = errors_for(&typed);
    assert_eq!((&errors["code"], &errors["reason"]), (&json!("VALIDATION_ERROR"), &json!("bad_inputs")), "{errors}");
    let paths: Vec<_> = errors["details"].as_array().unwrap().iter().map(|fault| &fault["path"]).collect();
    assert_eq!(paths, ["/inputs/text", "/inputs/times", "/inputs/loud", "/inputs/more"], "{errors}");
    assert_eq!(errors_for(&whole)["details"], errors["details"]);
    let ran = invoke(&home, &stub, &["-i", "times=many", "--login", "--client-id", "app"]);
    assert!(ran.status == Some(1) && ran.stderr.contains("/inputs/times must be number"), "{ran:?}");
    assert!(stub.requests_to("POST /call").is_empty(), "nothing was invoked");
}

#[test]
fn invoke_sends_only_the_credential_type_that_the_skill_requires() {
    let home = TestAgentFolder::hotel();
    let stub =
        StubModelProvider::start(|skill| skill["auth"] = json!({"type": "api_key", "header": "X-Key"}), "completed");
    let target = format!("a/b@{}", stub.host);
    let run = || nuncio(&home, &["invoke", &target, "-i", "text=x"]);
    let ran = run().env("NUNCIO_API_KEY", "key-1").env("NUNCIO_TOKEN", "token-1").run();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(stub.requests_to("POST /call")[0].header("x-key"), Some("key-1"));
    let ran = run().env("NUNCIO_TOKEN", "token-1").run();
    assert!(ran.status == Some(1) && ran.stderr.contains("--key"), "{ran:?}");
    assert!(!ran.stderr.contains("token-1"));
    assert_eq!(run().run().status, Some(0), "a server on this machine may be open to it, so it is asked");
    let help = nuncio(&home, &["invoke", "--help"]).env("NUNCIO_KEY", "key-1").run();
    assert!(!help.stdout.contains("key-1"));
}

#[test]
fn one_key_option_serves_api_keys_tokens_and_signatures() {
    let home = TestAgentFolder::hotel();
    let credential = |auth: fn(&mut Value), key: &str, header: &str| {
        let stub = StubModelProvider::start(auth, "completed");
        let target = format!("a/b@{}", stub.host);
        for (name, flags) in [("NUNCIO_KEY", &[][..]), ("OTHER", &["--key", key])] {
            let command = nuncio(&home, &[&["invoke", &target, "-i", "text=x"], flags].concat());
            let ran = command.env(name, key).env("NUNCIO_API_KEY", "old").env("NUNCIO_TOKEN", "old").run();
            assert_eq!(ran.status, Some(0), "{ran:?}");
        }
        let sent = stub.requests_to("POST /call");
        assert_eq!(sent[0].header(header).is_some(), sent[1].header(header).is_some());
        sent[1].header(header).unwrap().to_owned()
    };
    let wants_key = |skill: &mut Value| skill["auth"] = json!({"type": "api_key", "header": "X-Key"});
    assert_eq!(credential(wants_key, "key-1", "x-key"), "key-1");
    assert_eq!(credential(wants_tokens, "token-1", "authorization"), "Bearer token-1");
    let wants_signature =
        |skill: &mut Value| skill["auth"] = json!({"type": "custom", "custom": {"instructions": "Sign it."}});
    assert!(credential(wants_signature, "nsk_1", "x-signature").starts_with("v1="));
}

#[test]
fn signing_secret_given_as_key_is_not_sent_to_a_skill_that_wants_an_api_key() {
    let home = TestAgentFolder::hotel();
    let stub =
        StubModelProvider::start(|skill| skill["auth"] = json!({"type": "api_key", "header": "X-Key"}), "completed");
    let target = format!("a/b@{}", stub.host);
    let ran = nuncio(&home, &["invoke", &target, "-i", "text=x", "--key", "nsk_1"]).run();
    assert!(ran.status == Some(1) && ran.stderr.contains("an API key"), "{ran:?}");
    assert!(stub.requests_to("POST /call").is_empty());
}

#[test]
fn earlier_credential_options_still_work_and_are_not_in_the_help() {
    let home = TestAgentFolder::hotel();
    let stub =
        StubModelProvider::start(|skill| skill["auth"] = json!({"type": "api_key", "header": "X-Key"}), "completed");
    let target = format!("a/b@{}", stub.host);
    for flag in ["--api-key", "--token"] {
        let ran = nuncio(&home, &["invoke", &target, "-i", "text=x", flag, "key-1"]).run();
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
    assert!(stub.requests_to("POST /call").iter().all(|call| call.header("x-key") == Some("key-1")));
    for command in ["invoke", "discover", "show", "negotiate", "chat"] {
        let help = nuncio(&home, &[command, "--help"]).run().stdout;
        assert!(help.contains("--key <KEY>") && help.contains("NUNCIO_KEY"), "{command}: {help}");
        assert!(!help.contains("--api-key") && !help.contains("--token"), "{command}: {help}");
    }
}

fn wants_tokens(skill: &mut Value) {
    let origin = skill["endpoint"]["url"].as_str().unwrap().trim_end_matches("/call").to_owned();
    skill["auth"] = json!({"type": "oauth2", "oauth2": {"scopes": {"say": "Say things"},
        "authorization_url": format!("{origin}/authorize"), "token_url": format!("{origin}/token")}});
}

#[test]
fn oauth_client_token_is_reused_and_stored_readable_by_its_owner_only() {
    let (home, stub) = (TestAgentFolder::hotel(), StubModelProvider::start(wants_tokens, "completed"));
    for _ in 0..2 {
        let ran = invoke(&home, &stub, &["-i", "text=x", "--client-id", "app", "--client-secret", "s"]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
    assert_eq!(stub.requests_to("POST /token").len(), 1, "the second call has it already");
    assert_eq!(stub.requests_to("POST /call")[1].header("authorization"), Some("Bearer from-client"));
    assert_eq!(mode(&home.path("share/nuncio/credentials.json")), 0o600);
}

#[test]
fn oauth_login_in_a_browser_yields_a_token_that_later_invokes_reuse() {
    let (home, stub) = (TestAgentFolder::hotel(), StubModelProvider::start(wants_tokens, "completed"));
    // The browser is replaced by a script that follows the redirect back to the command.
    let browser = home.path("browser");
    let script = format!(
        "#!/bin/sh\nu=${{1#*redirect_uri=http%3A%2F%2F127.0.0.1%3A}}\np=${{u%%\\%2F*}}\ns=${{1#*state=}}\ns=${{s%%&*}}\nexec {:?} validate \"http://127.0.0.1:$p/callback?code=c&state=$s\"\n",
        env!("CARGO_BIN_EXE_nuncio")
    );
    fs::write(&browser, script).unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let target = format!("a/b@{}", stub.host);
    let login = ["invoke", &target, "-i", "text=x", "--login", "--client-id", "app"];
    let ran = nuncio(&home, &login).env("BROWSER", browser.to_str().unwrap()).run();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("Grant access in your browser:") && ran.stderr.contains("code_challenge_method=S256"),
        "{ran:?}"
    );
    assert_eq!(stub.requests_to("POST /call")[0].header("authorization"), Some("Bearer from-login"));
    let again = invoke(&home, &stub, &["-i", "text=x"]);
    assert_eq!(again.status, Some(0), "{again:?}");
    assert_eq!(
        (stub.requests_to("POST /token").len(), stub.requests_to("POST /call").len()),
        (1, 2),
        "the login is kept"
    );
}

#[tokio::test]
async fn ctrl_c_without_a_terminal_leaves_the_execution_running_and_prints_how_to_cancel() {
    let (home, stub) = (TestAgentFolder::hotel(), StubModelProvider::start(|_| {}, "running"));
    let target = format!("a/b@{}", stub.host);
    let typed = nuncio(&home, &["invoke", &target, "-i", "text=x"]).start_interactive();
    until("it is looked at", async || (!stub.requests_to("GET /status/e-1").is_empty()).then_some(())).await;
    typed.interrupt();
    let ran = typed.wait_for_end();
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains(&format!("curl -X DELETE http://{}/status/e-1", stub.host)), "{ran:?}");
    assert!(stub.requests_to("DELETE /status/e-1").is_empty(), "nothing is cancelled unasked");
}

#[tokio::test]
async fn ctrl_c_on_a_terminal_offers_to_cancel_the_remote_execution() {
    let (home, stub) = (TestAgentFolder::hotel(), StubModelProvider::start(|_| {}, "running"));
    let target = format!("a/b@{}", stub.host);
    let Some(command) = nuncio(&home, &["invoke", &target, "-i", "text=x"]).in_terminal() else { return };
    let mut typed = command.start_interactive();
    until("it is looked at", async || (!stub.requests_to("GET /status/e-1").is_empty()).then_some(())).await;
    typed.keys("\u{3}");
    until("it asks", async || typed.stdout().contains("Cancel it there too?").then_some(())).await;
    typed.line("y");
    until("it is cancelled", async || (!stub.requests_to("DELETE /status/e-1").is_empty()).then_some(())).await;
    let ran = typed.wait_for_end();
    assert!(ran.status == Some(1) && ran.stdout.contains("cancelled at the provider too: e-1"), "{ran:?}");
}

#[test]
fn validate_reports_every_fault_at_once() {
    let (home, stub) = (TestAgentFolder::hotel(), good());
    let mut skill = descriptor("https://good.example");
    fs::write(home.path("good.json"), skill.to_string()).unwrap();
    let ran = nuncio(&home, &["validate", "good.json", "--strict"]).run();
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "valid SkillDescriptor good.json\n"), "{ran:?}");

    skill["capability_type"] = json!("magic");
    skill["endpoint"]["method"] = json!("PATCH");
    fs::write(home.path("bad.json"), skill.to_string()).unwrap();
    let ran = nuncio(&home, &["validate", "bad.json"]).run();
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(1), ""), "{ran:?}");
    for text in [
        "invalid SkillDescriptor bad.json",
        "error: /capability_type: must be equal to one of the allowed values",
        "expected GET, POST, PUT, DELETE, found PATCH",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    let ran = nuncio(&home, &["--json", "validate", "bad.json"]).run();
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.status, &report["valid"]), (Some(1), &json!(false)));
    assert_eq!(report["errors"][0]["path"], "/capability_type");

    let index = json!({"protocol": {"version": "1.0.0"}, "provider": {"name": "p"}, "skills": [], "extra": 1});
    fs::write(home.path("odd.json"), index.to_string()).unwrap();
    let ran = nuncio(&home, &["validate", "odd.json"]).run();
    assert!(
        ran.status == Some(0) && ran.stdout.contains("valid SkillIndex") && ran.stdout.contains("warning: /extra:"),
        "{ran:?}"
    );
    assert_eq!(nuncio(&home, &["validate", "odd.json", "--strict"]).run().status, Some(1));
    assert_eq!(nuncio(&home, &["validate", "odd.json", "--kind", "descriptor"]).run().status, Some(1));

    let url = format!("http://{}/.well-known/skill-sharing", stub.host);
    let ran = nuncio(&home, &["validate", &url]).run();
    assert!(ran.status == Some(0) && ran.stdout.starts_with("valid SkillIndex"), "{ran:?}");
    let ran = nuncio(&home, &["validate", &format!("http://{}/none", stub.host)]).run();
    assert!(ran.status == Some(1) && ran.stderr.contains("404"), "{ran:?}");
    assert_eq!(nuncio(&home, &["validate", "nowhere.json"]).run().status, Some(1));
}

const OFFERED: &str = r#"
[[tool]]
name = "open"
description = "Says it again."
input = { type = "object", properties = { text = { type = "string" }, n = { type = "integer" } }, required = ["text"] }
run = { command = ["cat"] }
skill = { type = "api", method = "GET" }

[[tool]]
name = "keyed"
description = "Says it again to those with a key."
scope = "say"
input = { type = "object", properties = { text = { type = "string" } }, required = ["text"] }
run = { command = ["cat"] }
skill = { type = "api", access = "private", auth = { api_key = "X-Say-Key" } }

[[tool]]
name = "signed"
description = "Says it again to those who sign."
scope = "say"
input = { type = "object", properties = { text = { type = "string" } }, required = ["text"] }
run = { command = ["cat"] }
skill = { type = "task", access = "restricted", auth = "custom" }

[[scope]]
id = "say"
label = "Say things"
description = "Say things."
sensitivity = "low"
"#;

#[test]
fn invoke_works_without_auth_with_an_api_key_and_with_a_signing_key() {
    let home = TestAgentFolder::with_agent(&format!("{}{OFFERED}", crate::home::SCRIPTED));
    let key = home.key(&["--name", "reader"]);
    let signing = home.key(&["--signing"]);
    let server = home.start();
    let host = server.url().trim_start_matches("http://");
    let ids = |arguments: &[&str]| -> Vec<String> {
        let found = nuncio(&home, &[&["--json", "discover", host], arguments].concat()).run().json();
        let skills = found["index"]["skills"].as_array().unwrap();
        skills.iter().map(|skill| skill["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&[]), ["script/open", "script/signed"], "what is private is not shown");
    assert_eq!(ids(&["--key", &key]), ["script/keyed", "script/open", "script/signed"]);
    assert_eq!(ids(&["--type", "task"]), ["script/signed"]);

    assert_eq!(ids(&["--key", "bad"]), ["script/open", "script/signed"], "the index is public, whatever key is sent");

    let ask = |skill: &str, arguments: &[&str]| {
        let target = format!("script/{skill}@{host}");
        let ran = nuncio(&home, &[&["invoke", &target, "-i", "text=a&b"], arguments].concat()).run();
        let output = serde_json::from_str::<Value>(&ran.stdout).ok();
        (ran.status, output, ran.stderr)
    };
    assert_eq!(
        ask("open", &["-i", "n=3"]).1,
        Some(json!({"text": "a&b", "n": 3})),
        "inputs in the query keep their types"
    );
    assert_eq!(ask("keyed", &["--key", &key]).1, Some(json!({"text": "a&b"})));
    let (status, _, stderr) = ask("keyed", &[]);
    assert!(status == Some(1) && stderr.contains("lists no skill") && stderr.contains("--key"), "{stderr}");
    let (status, _, stderr) = ask("signed", &[]);
    assert!(status == Some(1) && stderr.contains("(--key or NUNCIO_KEY): it is missing"), "{stderr}");
    assert_eq!(ask("signed", &["--signing-key", &signing]).1, Some(json!({"text": "a&b"})));
    let file = home.path("signing").display().to_string();
    fs::write(&file, format!("{signing}\n")).unwrap();
    assert_eq!(ask("signed", &["--signing-key-file", &file]).1, Some(json!({"text": "a&b"})));
    fs::write(&file, "\n").unwrap();
    let (status, _, stderr) = ask("signed", &["--signing-key-file", &file]);
    assert!(status == Some(2) && stderr.contains("its first line is empty"), "{stderr}");
    let (status, _, stderr) = ask("signed", &["--signing-key", "wrong"]);
    assert!(status == Some(1) && stderr.contains("401") && stderr.contains("explain auth_required"), "{stderr}");
}

#[tokio::test]
async fn skill_of_one_server_runs_as_a_tool_of_another() {
    let theirs = TestAgentFolder::with_agent(&format!("{}{OFFERED}", crate::home::SCRIPTED));
    let key = theirs.key(&[]);
    let provider = theirs.start();
    let host = provider.url().trim_start_matches("http://");
    let tool = format!(
        "\n[[tool]]\nname = \"borrowed\"\ndescription = \"Asks elsewhere.\"\ninput = {{ type = \"object\", properties = {{ text = {{ type = \"string\" }} }} }}\nrun = {{ skill = {{ target = \"script/keyed@{host}\", api_key = \"{{{{ secrets.key }}}}\" }} }}\n[secrets]\nkey = {{ file = \"key\" }}\n"
    );
    let ours = TestAgentFolder::with_agent(&format!("{}{tool}", crate::home::SCRIPTED));
    fs::write(ours.path("key"), &key).unwrap();
    let server = ours.start();
    let client = server.aap();
    let session = client.session("script", &[("borrowed", true)]).await;
    let script = json!([
        [{"tool": {"id": "c1", "name": "borrowed", "input": {"text": "hello"}}}],
        [{"echo": "results"}],
    ]);
    let turn = client.play(&session, script).await;
    assert!(turn.to_string().contains("hello"), "{turn}");
    let records = theirs.audit();
    assert_eq!(
        (&records[0]["tool"], &records[0]["outcome"]["result"]),
        (&json!("keyed"), &json!("completed")),
        "{records:?}"
    );
    drop(provider);
}
