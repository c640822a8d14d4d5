//! The two examples of the Skill Sharing specification between two real servers: a program books a table, a person
//! picks up a parcel.

use std::fs;
use std::process::Stdio;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::client::call;
use crate::home::{SCRIPTED, TestAgentFolder};
use crate::process::{Server, until};
use crate::skill_client::Consumer;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// Copy of a folder of `examples/`, with its agent file changed by `change`.
pub(crate) fn example(name: &str, change: impl Fn(String) -> String) -> TestAgentFolder {
    let folder = format!("{EXAMPLES}/{name}");
    let home = TestAgentFolder::with_agent(&change(fs::read_to_string(format!("{folder}/agent.toml")).unwrap()));
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_file() && !entry.ends_with("agent.toml") {
            fs::copy(&entry, home.path(entry.file_name().unwrap().to_str().unwrap())).unwrap();
        }
    }
    home
}

pub(crate) fn consumer_of(provider: &Server, skill: &str, credential: &str, key: &str) -> TestAgentFolder {
    let host = provider.url().trim_end_matches('/').strip_prefix("http://").unwrap();
    let tool = format!(
        "\n[secrets]\nkey = {{ file = \"key\" }}\n\n[[tool]]\nname = \"remote\"\ndescription = \"Somebody else does it.\"\n\
         input = {{ type = \"object\" }}\ntimeout_ms = 600000\n\
         run = {{ skill = {{ target = \"{skill}@{host}\", {credential} }} }}\n"
    );
    let home = TestAgentFolder::with_agent(&format!("{SCRIPTED}{tool}"));
    fs::write(home.path("key"), key).unwrap();
    home
}

/// Inputs and result of the example in Skill Sharing §5.1, steps 4 and 7.
fn dinner() -> (Value, Value) {
    let inputs =
        json!({"cuisine": "Italian", "date": "2025-08-15", "time": "19:00", "party_size": 4, "city": "San Francisco"});
    let booked = json!({
        "restaurant": "Trattoria Roma", "confirmation_code": "TR-20250815-042", "time": "19:00",
        "address": "123 Columbus Ave, SF",
    });
    (inputs, booked)
}

const BOOKING: &str = "restaurant/restaurant-booking";

/// Steps 1 to 7 of Skill Sharing §5.1, with all URLs taken from the index and the descriptor.
async fn book(anonymous: &Consumer, authenticated: &Consumer, auth: &str) {
    let (status, index) = anonymous.get("/.well-known/skill-sharing").await;
    assert_eq!(status, 200);
    let entry = index["skills"].as_array().unwrap().iter().find(|entry| entry["id"] == BOOKING).unwrap();
    assert_eq!((&entry["capability_type"], &entry["access"]), (&json!("task"), &json!("restricted")));
    let (status, descriptor) = anonymous.get(entry["descriptor_url"].as_str().unwrap()).await;
    assert_eq!((status, &descriptor["auth"]["type"]), (200, &json!(auth)), "{descriptor}");
    let endpoint = &descriptor["endpoint"];
    let (inputs, booked) = dinner();
    let body = json!({"caller": {"id": "ifay-1", "type": "ifay"}, "skill_id": BOOKING, "inputs": inputs});
    let post = |consumer: &Consumer| consumer.request(Method::POST, endpoint["url"].as_str().unwrap()).json(&body);

    let (status, refused) = anonymous.try_send(post(anonymous)).await.unwrap();
    assert_eq!((status, &refused["error"]["details"]["required_auth_type"]), (401, &json!(auth)), "{refused}");

    let (status, accepted) = authenticated.try_send(post(authenticated)).await.unwrap();
    assert_eq!((status, &accepted["status"]), (202, &json!("accepted")), "{accepted}");
    let id = accepted["execution_id"].as_str().unwrap();
    let at = |name: &str| endpoint[name].as_str().unwrap().replace("{execution_id}", id);
    let over = until("the booking", async || {
        let (status, seen) = authenticated.get(&at("status_url")).await;
        assert_eq!(status, 200, "{seen}");
        Some(seen).filter(|seen| seen["status"] == "completed")
    })
    .await;
    assert_eq!(over["output"], booked);
    assert_eq!(authenticated.get(&at("result_url")).await, (200, over));
    assert_eq!(anonymous.get(&at("status_url")).await.0, 404, "it is nobody else's");
}

/// Makes the same booking through an agent of another Nuncio server.
async fn book_for_someone(home: &TestAgentFolder) {
    let server = home.start();
    let (inputs, booked) = dinner();
    let session = server.aap().session("script", &[("remote", true)]).await;
    let script = json!([[call("c1", "remote", inputs)], [{"echo": "results"}]]);
    let answer = server.aap().play(&session, script).await;
    let content = answer["messages"][1]["content"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(serde_json::from_str::<Value>(content).unwrap(), booked);
}

#[tokio::test(flavor = "multi_thread")]
async fn restaurant_skill_is_invoked_with_an_api_key_directly_and_by_another_server() {
    let home = example("restaurant", |text| text);
    let key = home.key(&["--scope", "book:reservation"]);
    let server = home.start();
    let consumer = Consumer::of(&server);
    book(&consumer, &consumer.clone().with("X-API-Key", &*key), "api_key").await;
    book_for_someone(&consumer_of(&server, BOOKING, "api_key = \"{{ secrets.key }}\"", &key)).await;

    // No table is large enough, so the execution fails and names the reason.
    let (mut inputs, _) = dinner();
    inputs["party_size"] = json!(20);
    let authenticated = consumer.with("X-API-Key", key);
    let id = authenticated.submit(BOOKING, &inputs).await;
    let over = authenticated.wait_for_result(&id).await;
    assert_eq!(over["status"], "failed");
    assert!(over["error"]["message"].as_str().unwrap().contains("has a table for 20"), "{over}");
}

/// OAuth issuer of the access token tests, in its own process, which is killed when dropped.
struct OAuthIssuerProcess {
    url: String,
    _process: Child,
}

impl OAuthIssuerProcess {
    async fn start() -> Self {
        let provider = std::env::var_os("NUNCIO_TEST_OIDC_PROVIDER").expect(
            "NUNCIO_TEST_OIDC_PROVIDER must name lib/index.js of the npm package oidc-provider: run `cargo xtask test`",
        );
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../nuncio-server/tests/it/issuer.mjs");
        let mut command = Command::new("node");
        command.arg(script).env("NUNCIO_TEST_OIDC_PROVIDER", provider).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::null()).kill_on_drop(true).spawn().expect("node starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        assert!(line.starts_with("http://127.0.0.1:"), "the provider did not start: {line:?}");
        Self { url: line.trim().to_owned(), _process: process }
    }

    /// Requests an access token with this scope from the token URL of the descriptor.
    async fn token(&self, url: &str, scope: &str) -> String {
        assert!(url.starts_with(&self.url), "{url}");
        let form = format!("grant_type=client_credentials&scope={scope}&resource=https://api.example/RS256");
        let http = crate::client::builder().build().unwrap();
        let request = http.post(url).basic_auth("booker", Some("booker-secret"));
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(form);
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        answer["access_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restaurant_skill_accepts_an_oauth_token_and_refuses_one_without_its_scope() {
    let issuer = OAuthIssuerProcess::start().await;
    let home = example("restaurant", |text| text.replace("auth = \"api_key\"", "auth = \"oauth2\""));
    // Once a key exists, the server requires authentication.
    home.key(&[]);
    let setting = format!("[[issuer]]\nurl = \"{}\"\naudience = \"https://api.example/RS256\"\n", issuer.url);
    fs::write(home.data().join("nuncio.toml"), setting).unwrap();
    let server = home.start();
    let consumer = Consumer::of(&server);
    let (_, descriptor) = consumer.get(&format!("/skills/{BOOKING}.json")).await;
    let oauth = &descriptor["auth"]["oauth2"];
    assert_eq!(oauth["scopes"], json!({"book:reservation": "Book tables in your name"}), "{descriptor}");

    let token_url = oauth["token_url"].as_str().unwrap();
    let token = issuer.token(token_url, "book:reservation").await;
    book(&consumer, &consumer.clone().with("Authorization", format!("Bearer {token}")), "oauth2").await;
    book_for_someone(&consumer_of(&server, BOOKING, "token = \"{{ secrets.key }}\"", &token)).await;

    let other = issuer.token(token_url, "notes:read").await;
    let request = consumer.invocation(BOOKING, &dinner().0).bearer_auth(other);
    let (status, refused) = consumer.try_send(request).await.unwrap();
    assert_eq!((status, &refused["error"]["code"]), (403, &json!("PERMISSION_DENIED")), "{refused}");
    assert_eq!(refused["error"]["details"]["required_scopes"], json!(["book:reservation"]));
    let (status, refused) =
        consumer.try_send(consumer.invocation(BOOKING, &dinner().0).bearer_auth("nonsense")).await.unwrap();
    assert_eq!((status, &refused["error"]["details"]["required_auth_type"]), (401, &json!("oauth2")), "{refused}");
    assert!(refused["error"]["details"]["authorization_url"].as_str().unwrap().starts_with(&issuer.url), "{refused}");
}

pub(crate) const PICKUP: &str = "warehouse/warehouse-pickup";

async fn task(home: &TestAgentFolder) -> Value {
    until("a new task waits for a person", async || {
        let listed = home.json_command(&["task", "list"]).json();
        listed["tasks"].as_array().unwrap().first().cloned()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn human_task_taken_before_a_crash_is_finished_by_another_person_afterwards() {
    let home = example("warehouse", |text| text);
    let key = home.key(&["--scope", "pickup:request"]);
    let server = home.start();
    let consumer = Consumer::of(&server).with("X-API-Key", &*key);
    let id = consumer.submit(PICKUP, &json!({"order": "A-1001", "shelf": "B7"})).await;
    let waiting = task(&home).await;
    let name = waiting["id"].as_str().unwrap();
    let shown = home.nuncio(&["task", "show", name]).run().stdout;
    assert!(shown.contains("order A-1001 from shelf B7"), "{shown}");
    assert_eq!(consumer.status(&id).await["status"], "running");
    home.json_command(&["task", "take", name, "--as", "Mei"]).json();
    server.kill9();

    let server = home.start();
    let consumer = Consumer::of(&server).with("X-API-Key", &*key);
    assert_eq!(consumer.status(&id).await["status"], "running", "nobody has done it yet");
    let waiting = task(&home).await;
    let name = waiting["id"].as_str().unwrap();
    // Ada takes over the task that Mei has taken.
    home.json_command(&["task", "take", name, "--over", "--as", "Ada"]).json();
    let wrong = home.json_command(&["task", "finish", name, "picked_up=true", "handed_to=the cat", "--as", "Ada"]);
    assert!(wrong.status != Some(0) && wrong.stdout.contains("courier, customer, nobody"), "{wrong:?}");
    assert_eq!(consumer.status(&id).await["status"], "running", "a result that does not fit changes nothing");
    let done = ["task", "finish", name, "picked_up=true", "weight_kg=2.4", "handed_to=courier", "--as", "Ada"];
    home.json_command(&done).json();
    let over = consumer.wait_for_result(&id).await;
    assert_eq!(over["output"], json!({"picked_up": true, "weight_kg": 2.4, "handed_to": "courier"}), "{over}");
    assert_eq!(consumer.get(&format!("/executions/{id}/result")).await, (200, over));
}

#[tokio::test(flavor = "multi_thread")]
async fn result_or_refusal_of_a_human_task_reaches_an_agent_of_another_server() {
    let home = example("warehouse", |text| text);
    let key = home.key(&["--scope", "pickup:request"]);
    let provider = home.start();
    let other = consumer_of(&provider, PICKUP, "api_key = \"{{ secrets.key }}\"", &key);
    let server = other.start();
    for (command, expected) in [
        (vec!["finish", "ID", "picked_up=true", "handed_to=customer"], "customer"),
        (vec!["refuse", "ID", "--reason", "the shelf is empty"], "the shelf is empty"),
    ] {
        let session = server.aap().session("script", &[("remote", true)]).await;
        let script = json!([[call("c1", "remote", json!({"order": "A-1002", "shelf": "C3"}))], [{"echo": "results"}]]);
        let client = server.aap();
        let turn = tokio::spawn(async move { client.play(&session, script).await });
        let waiting = task(&home).await;
        let name = waiting["id"].as_str().unwrap();
        let arguments: Vec<&str> = command.iter().map(|word| if *word == "ID" { name } else { word }).collect();
        home.json_command(&[&["task"], arguments.as_slice()].concat()).json();
        let answer = turn.await.unwrap();
        let content = answer["messages"][1]["content"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(content.contains(expected), "{content}");
    }
}
