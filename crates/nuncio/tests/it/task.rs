//! `nuncio task`: the inbox from a terminal, with and without a running server.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::client::{Client, call, play, turns};
use crate::home::{SCRIPTED, TestAgentFolder};
use crate::process::until;

const PICKUP: &str = r#"
[[tool]]
name = "pickup"
title = "Pick up a parcel"
description = "Somebody picks up a parcel."
timeout_ms = 600000
input = { type = "object", properties = { shelf = { type = "string" } } }
output = { type = "object", required = ["weight_kg"], properties = { weight_kg = { type = "number", description = "Without the pallet, which is never weighed together with what is on it." }, condition = { enum = ["intact", "damaged"] }, seals = { type = "array", items = { type = "string" } } } }
run = { human = { instructions = "Fetch the parcel from shelf {{ args.shelf }}, weigh it without the pallet, and bring it to the desk." } }

[[tool]]
name = "answer"
description = "Somebody answers in their own words."
input = { type = "object" }
timeout_ms = 600000
run = { human = true }
"#;

fn home() -> TestAgentFolder {
    TestAgentFolder::with_agent(&format!("{SCRIPTED}{PICKUP}"))
}

/// Starts a turn that creates a task and waits for the task's result.
async fn hand_over(client: &Client, tool: &str, input: Value) -> JoinHandle<(u16, Value)> {
    let session = client.session("script", &[(tool, true)]).await;
    let script = json!([[call("c1", tool, input)], [{"echo": "results"}]]);
    let (client, path, body) = (client.clone(), turns(&session), json!({"messages": [play(&script)]}));
    tokio::spawn(async move { client.post(&path, &body).await })
}

async fn task(home: &TestAgentFolder) -> String {
    until("a new task waits for a person", async || {
        let listed = home.json_command(&["task", "list"]).json();
        listed["tasks"][0]["id"].as_str().map(str::to_owned)
    })
    .await
}

fn content(answer: &(u16, Value)) -> &str {
    answer.1["messages"][1]["content"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn task_is_listed_shown_taken_over_and_finished_with_form_fields() {
    let home = home();
    let server = home.start();
    assert_eq!(home.nuncio(&["task", "list"]).run().stdout, "There are no open tasks.\n");
    let turn = hand_over(&server.aap(), "pickup", json!({"shelf": "B7 \u{1b}[2J"})).await;
    let id = task(&home).await;
    for command in [vec!["task", "list"], vec!["task", "show", &id]] {
        let shown = home.nuncio(&command).run().stdout;
        assert!(shown.contains("Pick up a parcel") && shown.contains(" min (") && shown.contains(" UTC)"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
    }
    let shown = home.nuncio(&["task", "show", &id]).run().stdout;
    assert!(shown.contains("number, required: Without the pallet") && shown.contains("intact | damaged"), "{shown}");

    let taken = home.nuncio(&["task", "take", &id, "--as", "ada"]).run();
    assert!(taken.stdout.starts_with("Taken, as ada."), "{taken:?}");
    let finish = |by: &str, words: &[&str]| home.json_command(&[&["task", "finish", &id, "--as", by], words].concat());
    let (code, message) = finish("bob", &["weight_kg=2.5"]).failure();
    assert!(code == "task_closed" && message.contains("ada has taken it"), "{message}");
    assert_eq!(home.json_command(&["task", "give-back", &id, "--as", "bob"]).failure().0, "task_closed");
    let (_, message) = home.json_command(&["task", "take", &id, "--as", "bob"]).failure();
    assert!(message.ends_with(&format!("take it over: nuncio task take {id} --over")), "{message}");
    home.json_command(&["task", "take", &id, "--as", "bob", "--over"]).json();

    let wrong = finish("bob", &["weight_kg=heavy"]);
    assert_eq!(wrong.status, Some(2), "{wrong:?}");
    let (code, message) = finish("bob", &["condition=intact"]).failure();
    assert!(code == "invalid_output" && message.contains("weight_kg"), "{message}");
    let done = finish("bob", &["weight_kg=2.5", "condition=damaged", "seals=A1", "seals=A2"]).json();
    let output = json!({"weight_kg": 2.5, "condition": "damaged", "seals": ["A1", "A2"]});
    assert_eq!((&done["task"]["state"]["by"], &done["task"]["state"]["output"]), (&json!("bob"), &output));
    let answer = turn.await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(content(&answer)).unwrap(), output);
    assert_eq!(finish("bob", &["weight_kg=1"]).failure().0, "task_closed");
    assert!(home.nuncio(&["task", "show", &id]).run().stdout.contains("by bob"));
    assert_eq!(home.json_command(&["task", "show", "task_unknown"]).failure().0, "task_not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn task_without_form_is_finished_with_a_text_and_a_refusal_reaches_the_agent() {
    let home = home();
    let server = home.start();
    let turn = hand_over(&server.aap(), "answer", json!({})).await;
    let id = task(&home).await;
    home.json_command(&["task", "finish", &id, "It is", "at the desk."]).json();
    assert_eq!(content(&turn.await.unwrap()), "It is at the desk.");

    let turn = hand_over(&server.aap(), "pickup", json!({"shelf": "B8"})).await;
    let id = task(&home).await;
    home.json_command(&["task", "refuse", &id, "--reason", "The shelf is empty."]).json();
    let answer = turn.await.unwrap();
    assert!(content(&answer).contains("The shelf is empty."), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn task_commands_work_without_a_running_server() {
    let home = home();
    home.key(&[]);
    let listed = home.json_command(&["task", "list"]).json();
    assert_eq!(listed["tasks"], json!([]));
    assert_eq!(home.json_command(&["task", "take", "task_1", "--as", "ada"]).failure().0, "task_not_found");
    let nobody = home.json_command(&["task", "take", "task_1", "--as", " "]);
    assert_eq!(nobody.status, Some(2), "{nobody:?}");
}
