//! Keys and grants from the command line: created, listed, revoked, and their effect.

use serde_json::{Value, json};

use crate::client::call;
use crate::home::{SCRIPTED, TestAgentFolder, shell_tool};

#[test]
fn new_key_is_printed_alone_on_stdout_and_only_once() {
    let home = TestAgentFolder::script();
    let made = home.nuncio(&["key", "create", "--name", "phone", "--person", "ada", "--scope", "rooms:read"]).run();
    assert_eq!(made.status, Some(0), "{made:?}");
    let key = made.stdout.strip_suffix('\n').unwrap();
    assert!(key.len() >= 32 && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{key:?}");
    assert!(!made.stderr.is_empty(), "what to do with it is said beside");

    let listed = home.json_command(&["key", "list"]);
    let shown = home.nuncio(&["key", "list"]).run();
    for output in [&listed.stdout, &shown.stdout, &shown.stderr] {
        assert!(!output.contains(key), "{output}");
    }
    let entry = &listed.json()["keys"][0];
    assert_eq!((&entry["name"], &entry["person"]), (&json!("phone"), &json!("ada")));
    assert_eq!(entry["scopes"], json!({"only": ["rooms:read"]}));
    assert!(
        shown.stdout.contains("phone") && shown.stdout.contains("valid") && shown.stdout.contains("rooms:read"),
        "{shown:?}"
    );
}

#[tokio::test]
async fn key_is_accepted_until_revoked() {
    let home = TestAgentFolder::script();
    let (phone, tablet) = (home.key(&["--name", "phone"]), home.key(&["--name", "tablet"]));
    let server = home.start();
    let session = server.aap_with_key(&phone).session("script", &[]).await;
    assert_eq!(server.aap_with_key(&tablet).get(&format!("/sessions/{session}")).await.0, 404, "another key's");
    assert_eq!(server.aap_with_key("nk_wrong").get("/sessions").await.0, 401);

    let revoked = home.json_command(&["key", "revoke", "phone"]).json();
    assert_eq!(revoked["revoked"]["name"], "phone");
    let (status, body) = server.aap_with_key(&phone).get(&format!("/sessions/{session}")).await;
    assert_eq!((status, &body["code"]), (401, &json!("unauthorized")));
    assert_eq!(server.aap_with_key(&tablet).get("/sessions").await.0, 200);
    assert_eq!(home.json_command(&["key", "revoke", "phone"]).failure().0, "key_not_found");
    let shown = home.nuncio(&["key", "list"]).run();
    assert!(shown.stdout.lines().any(|line| line.contains("phone") && line.contains("revoked")), "{shown:?}");
}

fn scoped() -> TestAgentFolder {
    let scope = "\n[[scope]]\nid = \"notes:write\"\nlabel = { en = \"Write\" }\ndescription = { en = \"Writes.\" }\nsensitivity = \"low\"\n";
    let tool = shell_tool("note", "echo noted").replace("timeout_ms", "scope = \"notes:write\"\ntimeout_ms");
    TestAgentFolder::with_agent(&format!("{SCRIPTED}{scope}{tool}"))
}

#[tokio::test]
async fn grant_adds_a_scope_to_a_key_and_revocation_removes_it() {
    let home = scoped();
    let made = home.json_command(&["key", "create", "--scope", "rooms:read"]).json();
    let caller = format!("key:{}", made["id"].as_str().unwrap());
    let server = home.start();
    let client = server.aap_with_key(made["key"].as_str().unwrap());
    let session = client.session("script", &[("note", true)]).await;
    let note = async || -> Value {
        let answer = client.play(&session, json!([[call("c1", "note", json!({}))], [{"text": "done"}]])).await;
        answer["messages"][1]["content"].clone()
    };
    assert!(note().await.as_str().unwrap().contains("notes:write"), "it is told what it lacks");

    let granted = home.json_command(&["grant", "create", &caller, "script", "notes:write"]).json();
    assert_eq!(note().await, "noted");
    let listed = home.json_command(&["grant", "list"]).json();
    assert_eq!(listed["grants"][0]["principal"], json!(caller));
    assert_eq!(listed["grants"][0]["scopes"], json!(["notes:write"]));
    let shown = home.nuncio(&["grant", "list"]).run();
    assert!(shown.stdout.contains(&caller) && shown.stdout.contains("until revoked"), "{shown:?}");

    let id = granted["grant"]["id"].as_str().unwrap();
    home.json_command(&["grant", "revoke", id]).json();
    assert_eq!(home.json_command(&["grant", "revoke", id]).failure().0, "grant_not_found");
    assert_ne!(note().await, "noted");

    let codes: Vec<_> = home.audit().iter().map(|record| record["decision"]["code"].clone()).collect();
    let refused = || json!("scope_not_granted");
    assert_eq!(codes, [refused(), Value::Null, refused()]);
}

#[test]
fn grant_of_an_unknown_agent_or_scope_is_refused_by_the_running_server() {
    let home = scoped();
    let unchecked = home.nuncio(&["grant", "create", "anonymous", "script", "notes:write"]).run();
    assert!(unchecked.status == Some(0) && unchecked.stderr.contains("not checked"), "{unchecked:?}");
    let _server = home.start();
    let create =
        |agent: &str, scopes: &[&str]| home.json_command(&[&["grant", "create", "anonymous", agent], scopes].concat());
    let (code, message) = create("skript", &["notes:write"]).failure();
    assert!(code == "unknown_agent" && message.contains("there are: script"), "{code}: {message}");
    let (code, message) = create("script", &["notes:write", "notes:read"]).failure();
    assert!(code == "scope_unknown" && message.contains("notes:read; it has: notes:write"), "{code}: {message}");
    assert_eq!(home.json_command(&["grant", "list"]).json()["grants"].as_array().unwrap().len(), 1);
    assert_eq!(create("script", &["notes:write"]).json()["checked"], true);
    assert_eq!(create("script", &["metrics:read"]).status, Some(0), "a scope of the server itself");
}

#[tokio::test]
async fn one_time_grants_each_allow_one_call() {
    let home = scoped();
    let made = home.json_command(&["key", "create", "--scope", "rooms:read"]).json();
    let caller = format!("key:{}", made["id"].as_str().unwrap());
    for _ in 0..2 {
        home.json_command(&["grant", "create", &caller, "script", "notes:write", "--once"]).json();
    }
    let server = home.start();
    let client = server.aap_with_key(made["key"].as_str().unwrap());
    let session = client.session("script", &[("note", true)]).await;
    let mut answers = Vec::new();
    for _ in 0..3 {
        let answer = client.play(&session, json!([[call("c1", "note", json!({}))], [{"text": "done"}]])).await;
        answers.push(answer["messages"][1]["content"] == "noted");
    }
    assert_eq!(answers, [true, true, false]);
    assert_eq!(home.audit()[2]["decision"]["code"], "scope_not_granted");
}

#[test]
fn signing_key_is_marked_in_the_list_and_its_secret_shown_once() {
    let home = TestAgentFolder::script();
    let made = home.nuncio(&["key", "create", "--signing", "--name", "till"]).run();
    assert_eq!(made.status, Some(0), "{made:?}");
    let secret = made.stdout.strip_suffix('\n').unwrap();
    assert!(secret.starts_with("nsk_") && secret.len() >= 32, "{secret:?}");
    let listed = home.json_command(&["key", "list"]);
    assert_eq!(listed.json()["keys"][0]["kind"], "signing");
    let shown = home.nuncio(&["key", "list"]).run();
    let lines: Vec<_> = shown.stdout.lines().collect();
    assert!(lines.windows(2).any(|key| key[0].contains("till") && key[1].starts_with("  signing,")), "{shown:?}");
    assert!(!listed.stdout.contains(secret) && !shown.stdout.contains(secret));
    assert_eq!(home.json_command(&["key", "revoke", "till"]).json()["revoked"]["kind"], "signing");
}

#[test]
fn lists_of_keys_and_grants_in_a_pipe_break_no_value() {
    let home = scoped();
    let long = "a-name-of-an-application-that-is-much-longer-than-usual";
    let scopes: Vec<String> = (0..6).map(|number| format!("warehouse-inventory-{number}:write")).collect();
    let flags: Vec<&str> = scopes.iter().flat_map(|scope| ["--scope", scope.as_str()]).collect();
    home.key(&[&["--name", long, "--person", "ada", "--expires", "30d"], &flags[..]].concat());
    let did = "did:wba:travel.example.com:agents:travel:e1_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOpQr";
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let create = [&["grant", "create", did, "script", "--until", "2999-01-31"], &scopes[..]].concat();
    home.json_command(&create).json();
    for (list, heading, long, details) in [
        ("key", "NAME", long, "app, created"),
        ("key", "NAME", long, "person: ada"),
        ("grant", "TO", did, "until 2999-01-31 00:00 UTC"),
    ] {
        let shown = home.nuncio(&[list, "list"]).run().stdout;
        let at = shown.lines().next().unwrap().find(heading).unwrap();
        assert!(shown.lines().skip(1).any(|line| line.get(at..).is_some_and(|cell| cell.starts_with(long))), "{shown}");
        for part in scopes.iter().chain([&details]) {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
}

#[test]
fn key_expiry_is_shown_in_the_list() {
    let home = TestAgentFolder::script();
    let made = home.nuncio(&["key", "create", "--name", "fixed", "--expires", "2999-01-01T00:00:00Z"]).run();
    assert_eq!(made.status, Some(0), "{made:?}");
    assert!(made.stdout.starts_with("nk_") && made.stdout.lines().count() == 1, "{made:?}");
    assert!(made.stderr.contains("2999-01-01T00:00:00.000Z"), "{made:?}");
    home.key(&["--name", "span", "--expires", "30d"]);
    home.key(&["--name", "lasting"]);

    let listed = home.json_command(&["key", "list"]).json();
    assert_eq!(listed["keys"][0]["expires_at"], "2999-01-01T00:00:00.000Z");
    assert!(listed["keys"][1]["expires_at"].is_string(), "{listed}");
    assert_eq!(listed["keys"][2]["expires_at"], Value::Null);
    let shown = home.nuncio(&["key", "list"]).run().stdout;
    for (name, end) in [("fixed", "2999-01-01 00:00"), ("lasting", "never")] {
        assert!(shown.lines().any(|line| line.contains(name) && line.contains(end)), "{shown}");
    }
}

#[test]
fn invalid_key_expiry_is_refused_and_creates_no_key() {
    let home = TestAgentFolder::script();
    for wrong in ["soon", "30", "-1d", "1w", "2027-02-30T00:00:00Z"] {
        let refused = home.nuncio(&["key", "create", &format!("--expires={wrong}")]).run();
        assert_eq!(refused.status, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(wrong) && refused.stderr.contains("30d"), "{refused:?}");
    }
    let refused = home.nuncio(&["key", "rotate", "app", "--overlap", "soon"]).run();
    assert_eq!(refused.status, Some(2), "{refused:?}");
    for over in ["2001-01-01T00:00:00Z", "0d"] {
        assert_eq!(home.json_command(&["key", "create", "--expires", over]).failure().0, "bad_request", "{over}");
    }
    assert_eq!(home.json_command(&["key", "list"]).json()["keys"], json!([]));
}

#[tokio::test]
async fn rotated_key_is_printed_alone_on_stdout_and_replaces_the_old_one() {
    let home = TestAgentFolder::script();
    let first = home.key(&["--name", "phone"]);
    let rotate = |which: &str| {
        let rotated = home.nuncio(&["key", "rotate", which]).run();
        assert_eq!(rotated.status, Some(0), "{rotated:?}");
        let key = rotated.stdout.strip_suffix('\n').unwrap().to_owned();
        assert!(key.starts_with("nk_") && !key.contains('\n') && !rotated.stderr.contains(&key), "{rotated:?}");
        key
    };
    // Without a server, the command changes the store itself.
    let second = rotate("phone");
    let server = home.start();
    assert_eq!(server.aap_with_key(&first).get("/sessions").await.0, 401);
    let session = server.aap_with_key(&second).session("script", &[]).await;
    // With a server, the change takes effect at once.
    let id = home.json_command(&["key", "list"]).json()["keys"][0]["id"].as_str().unwrap().to_owned();
    let third = rotate(&id);
    assert_eq!(server.aap_with_key(&second).get("/sessions").await.0, 401);
    assert_eq!(server.aap_with_key(&third).get(&format!("/sessions/{session}")).await.0, 200, "its session");

    let overlapping = home.json_command(&["key", "rotate", "phone", "--overlap", "1h", "--expires", "30d"]).json();
    assert!(overlapping["previous"]["until"].is_string() && overlapping["expires_at"].is_string(), "{overlapping}");
    for key in [third.as_str(), overlapping["key"].as_str().unwrap()] {
        assert_eq!(server.aap_with_key(key).get("/sessions").await.0, 200);
    }
    assert_eq!(home.json_command(&["key", "rotate", "tablet"]).failure().0, "key_not_found");
}

#[test]
fn key_with_an_unknown_scope_or_an_unusable_name_is_not_created() {
    let home = TestAgentFolder::with_agent(&format!(
        "{SCRIPTED}\n[[scope]]\nid = \"notes:write\"\nlabel = \"Write notes\"\ndescription = \"Writes notes.\"\nsensitivity = \"low\"\n"
    ));
    home.key(&["--name", "phone"]);
    let create = |arguments: &[&str]| home.json_command(&[&["key", "create"], arguments].concat()).failure();
    let long = "x".repeat(65);
    for name in ["", " phone", "two\nlines", "phone", &long] {
        assert_eq!(create(&["--name", name]).0, "bad_request", "{name:?}");
    }
    let _server = home.start();
    let (code, message) = create(&["--scope", "notes:wriet"]);
    assert_eq!(code, "scope_unknown");
    assert!(message.contains("notes:write"), "{message}");
    home.key(&["--scope", "notes:write", "--scope", "console:tasks"]);
    assert_eq!(home.json_command(&["key", "list"]).json()["keys"].as_array().unwrap().len(), 2);
    home.json_command(&["key", "revoke", "phone"]).json();
    home.key(&["--name", "phone"]);
}

#[test]
fn refused_scope_of_a_server_without_scopes_says_that_there_are_none() {
    let home = TestAgentFolder::script();
    let _server = home.start();
    let (code, message) = home.json_command(&["key", "create", "--yes", "--scope", "notes:write"]).failure();
    assert_eq!(code, "scope_unknown");
    assert!(message.ends_with("none has any scope"), "{message}");
}

#[test]
fn grant_to_a_missing_key_or_person_or_until_a_past_time_is_refused() {
    let home = TestAgentFolder::script();
    home.key(&[]);
    let create = |arguments: &[&str]| {
        let command = [&["grant", "create"], arguments].concat();
        home.json_command(&command).failure()
    };
    assert_eq!(create(&["key:key_nobody", "script", "notes:write"]).0, "key_not_found");
    let (code, message) = create(&["person:ada", "script", "notes:write"]);
    assert!(code == "person_not_found" && message.contains("nuncio user invite ada"), "{code}: {message}");
    let past = ["anonymous", "script", "notes:write", "--until", "2001-01-01"];
    assert_eq!(create(&past).0, "bad_request");
    assert_eq!(home.json_command(&["grant", "list"]).json()["grants"], json!([]));
}

#[test]
fn key_created_in_a_new_data_directory_comes_with_a_note() {
    let home = TestAgentFolder::script();
    let first = home.nuncio(&["key", "create"]).run();
    assert!(first.stderr.replace('\n', " ").contains("which is new"), "{first:?}");
    let second = home.nuncio(&["key", "create"]).run();
    assert!(!second.stderr.contains("which is new"), "{second:?}");
}

#[test]
fn audit_list_names_a_created_key_in_both_of_its_records() {
    let home = TestAgentFolder::script();
    home.json_command(&["key", "create", "--name", "phone"]).json();
    let listed = home.nuncio(&["audit", "list"]).run();
    for outcome in ["key create: ordered", "key create: done"] {
        let line = listed.stdout.lines().find(|line| line.contains(outcome)).unwrap_or_else(|| panic!("{listed:?}"));
        assert!(line.contains(" phone "), "{listed:?}");
    }
}

#[test]
fn key_for_a_person_without_an_account_is_created_with_a_note() {
    let home = TestAgentFolder::script();
    home.json_command(&["user", "invite", "ada"]).json();
    for (person, is_noted) in [("ada", false), ("adda", true)] {
        let made = home.nuncio(&["key", "create", "--yes", "--person", person]).run();
        assert!(made.status == Some(0) && made.stdout.lines().count() == 1, "{made:?}");
        let note = format!("no account named {person}; invite them with `nuncio user invite {person}`");
        assert_eq!(made.stderr.replace('\n', " ").contains(&note), is_noted, "{made:?}");
    }
}
