//! Logs identify requests and contain no secrets.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::call;
use crate::home::{SCRIPTED, TestAgentFolder};
use crate::process::until;

const SECRET: &str = "sk-live-f3a9c2d7e1b84650";
const SAID: &str = "the-whale-is-white-7361";
const ARGUMENT: &str = "a-key-nobody-logs-5582";
const REQUEST: &str = "req-from-the-client-42";

#[tokio::test]
async fn logs_contain_request_ids_but_no_secrets_keys_messages_or_arguments() {
    let home = TestAgentFolder::script();
    let key = home.key(&[]);
    let server = home.serve().env("NUNCIO_LOG_LEVEL", "debug").env("NUNCIO_LOG_FORMAT", "json").start();
    let client = server.aap_with_key(&key);
    let body = json!({"agent": {
        "name": "script",
        "options": {"apiKey": SECRET},
        "tools": [{"name": "lookup", "trust": true}, {"name": "add", "trust": true}],
    }});
    let made = client
        .request(reqwest::Method::POST, "/sessions")
        .header("X-Request-Id", REQUEST)
        .json(&body)
        .send()
        .await
        .unwrap();
    assert_eq!(made.headers()["x-request-id"], REQUEST);
    let session = made.json::<Value>().await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    client.say(&session, SAID).await;
    let script = json!([
        [{"thinking": SAID}, call("c1", "lookup", json!({"key": ARGUMENT})), call("c2", "add", json!({"a": ARGUMENT}))],
        [{"echo": "results"}],
    ]);
    client.play(&session, script).await;
    client.play(&session, json!([[{"text": SAID}, {"throw": "the brain is out of order"}]])).await;
    // Values of these refused requests may be quoted in the response, but not in the log.
    client.post("/sessions", &json!({"agent": {"name": "script", "options": {"apiKey": [SECRET]}}})).await;
    client.get(&format!("/sessions?after={SECRET}")).await;
    server.aap_with_key(SECRET).get("/sessions").await;
    server.terminate();
    let (status, log) = server.wait_for_end();
    assert_eq!(status, Some(0));

    for line in log.lines() {
        let parsed: Result<Value, _> = serde_json::from_str(line);
        assert!(parsed.is_ok_and(|entry| entry["level"].is_string()), "not an entry: {line}");
    }
    assert!(log.contains(REQUEST), "the client's request id is in the log");
    assert!(log.contains(&session) && log.contains("brain_failed"), "what went wrong, and where, is in the log");
    for (what, text) in [("secret option", SECRET), ("key", &key), ("message", SAID), ("argument", ARGUMENT)] {
        let found: Vec<_> = log.lines().filter(|line| line.contains(text)).collect();
        assert!(found.is_empty(), "the {what} is in the log: {found:#?}");
    }
}

#[test]
fn serve_warns_about_an_issuer_without_the_people_setting() {
    let issuer = |host: &str, people: &str| {
        format!("[[issuer]]\nurl = \"https://{host}\"\naudience = \"https://agents.example\"\n{people}\n")
    };
    let home = TestAgentFolder::script();
    fs::create_dir_all(home.data()).unwrap();
    let settings = [
        issuer("silent.example", ""),
        issuer("people.example", "people = true"),
        issuer("programs.example", "people = false"),
    ];
    fs::write(home.data().join("nuncio.toml"), settings.concat()).unwrap();
    let log = home.start().kill9();
    let warned: Vec<_> = log.lines().filter(|line| line.contains("WARN") && line.contains("[[issuer]]")).collect();
    assert_eq!(warned.len(), 1, "{log}");
    assert!(warned[0].contains("silent.example") && warned[0].contains("people = true"), "{log}");
}

#[tokio::test]
async fn serve_warns_once_about_a_proxy_that_is_not_in_trusted_proxies() {
    for (name, value) in [
        ("X-Forwarded-For", "203.0.113.9"),
        ("X-Forwarded-Proto", "https"),
        ("Forwarded", "for=203.0.113.9"),
        ("Via", "1.1 proxy"),
    ] {
        for listed in [false, true] {
            let home = TestAgentFolder::script();
            let proxies = if listed { "127.0.0.1, ::1" } else { "192.0.2.1" };
            let server = home.serve().env("NUNCIO_HTTP_TRUSTED_PROXIES", proxies).start();
            let client = server.aap();
            for _ in 0..3 {
                let get = client.request(reqwest::Method::GET, "/meta").header(name, value);
                assert_eq!(get.send().await.unwrap().status(), 200);
            }
            let is_warning = |line: &&str| line.contains("WARN") && line.contains("trusted_proxies");
            if !listed {
                until("a warning", async || server.stderr().lines().find(is_warning).map(drop)).await;
            }
            server.terminate();
            let (_, log) = server.wait_for_end();
            assert_eq!(log.lines().filter(is_warning).count(), usize::from(!listed), "{name}: {log}");
        }
    }
}

#[test]
fn first_start_of_an_agent_with_device_tools_logs_no_checkpoint_warning() {
    let tool = "\n[[scope]]\nid = \"filesystem:read\"\nlabel = \"Read files\"\nsensitivity = \"medium\"\n\n[[tool]]\nname = \"read_file\"\n\
                description = \"Reads a file.\"\nscope = \"filesystem:read\"\ninput = { type = \"object\" }\n\
                run = { device = true }\n";
    let home = TestAgentFolder::with_agent(&format!("{SCRIPTED}{tool}"));
    let log = home.start().kill9();
    assert!(!log.contains("checkpoint"), "{log}");
    assert!(holds(&home.data(), "filesystem:read"), "the start stored the agent's manifest");
}

#[tokio::test]
async fn secret_options_and_keys_are_not_stored_in_plaintext() {
    let home = TestAgentFolder::script();
    let key = home.key(&[]);
    let server = home.start();
    let client = server.aap_with_key(&key);
    let body = json!({"agent": {"name": "script", "options": {"apiKey": SECRET}}});
    let (_, made) = client.post("/sessions", &body).await;
    let session = made["sessionId"].as_str().unwrap();
    client.say(session, SAID).await;
    let change = json!({"messages": [{"role": "user", "content": "again"}], "agent": {"options": {"apiKey": SECRET.to_uppercase()}}});
    client.post(&format!("/sessions/{session}/turns"), &change).await;
    assert_eq!(client.get(&format!("/sessions/{session}")).await.1["agent"]["options"]["apiKey"], "***");

    let secrets = [SECRET, &SECRET.to_uppercase(), &key];
    search(&home.data(), &secrets);
    assert!(holds(&home.data(), SAID), "the search finds what is there");
    server.kill9();
    search(&home.data(), &secrets);
    home.start().stop();
    search(&home.data(), &secrets);
}

fn search(folder: &Path, secrets: &[&str]) {
    for secret in secrets {
        assert!(!holds(folder, secret), "{secret} is on disk in clear");
    }
}

/// Whether any file of the folder contains `text`.
fn holds(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().map(Result::unwrap).filter(|entry| entry.file_type().unwrap().is_file()).any(
        |entry| {
            let bytes = fs::read(entry.path()).unwrap();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        },
    )
}
