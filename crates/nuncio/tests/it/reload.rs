//! A running server serves a changed agent file, and reports an invalid one without serving it.

use std::fs;

use serde_json::{Value, json};

use crate::client::{Client, last_text, new_session};
use crate::home::TestAgentFolder;
use crate::process::until;

fn greeter(title: &str, answer: &str) -> String {
    format!(
        "[agent]\nname = \"greeter\"\ntitle = {title:?}\nversion = \"1.0.0\"\ndescription = \"Greets.\"\n\n[brain]\nkind = \"rules\"\n\n[[intent]]\nname = \"greet\"\nkeywords = [\"hello\"]\nanswer = {answer:?}\n"
    )
}

async fn title(client: &Client) -> Value {
    client.get("/meta").await.1["agents"][0]["title"].clone()
}

async fn greeting(client: &Client, session: &str) -> String {
    last_text(client.say(session, "hello").await["messages"].as_array().unwrap())
}

#[tokio::test]
async fn changed_agent_file_is_reloaded_and_an_invalid_one_keeps_the_old_agent() {
    let home = TestAgentFolder::with_agent(&greeter("First", "one"));
    let server = home.start();
    let client = server.aap();
    let session = client.session("greeter", &[]).await;
    assert_eq!((title(&client).await, greeting(&client, &session).await), ("First".into(), "one".into()));

    home.write_agent(&greeter("Second", "two"));
    until("the change is served", async || (title(&client).await == "Second").then_some(())).await;
    assert_eq!(greeting(&client, &session).await, "two", "a session goes on with the agent as it is now");

    home.write_agent(
        &greeter("Third", "three").replace("version = \"1.0.0\"", "version = \"third\"").replace("rules", "magic"),
    );
    let reported =
        until("the fault is said", async || Some(server.stderr()).filter(|reported| reported.contains("agent.toml:")))
            .await;
    assert!(reported.contains("agent.toml:4:") && reported.contains("agent.toml:8:"), "{reported}");
    assert_eq!((title(&client).await, greeting(&client, &session).await), ("Second".into(), "two".into()));

    home.write_agent(&greeter("Fourth", "four"));
    until("the mended file is served", async || (title(&client).await == "Fourth").then_some(())).await;
    assert_eq!(greeting(&client, &session).await, "four");

    fs::remove_file(home.path("agent.toml")).unwrap();
    until("the loss is said", async || server.stderr().contains("cannot be read").then_some(())).await;
    assert_eq!(greeting(&client, &session).await, "four");
}

#[tokio::test]
async fn agent_folders_added_or_removed_at_run_time_change_the_served_agents() {
    let home = TestAgentFolder::hotel();
    let write = |folder: &str| {
        fs::create_dir_all(home.path("agents").join(folder)).unwrap();
        let text = greeter("A greeter", "hello").replace("\"greeter\"", &format!("{folder:?}"));
        fs::write(home.path("agents").join(folder).join("agent.toml"), text).unwrap();
    };
    write("one");
    let server = home.serve().arg("agents").start();
    let client = server.aap();
    let names = async || -> Vec<String> {
        let meta = client.get("/meta").await.1;
        let mut names: Vec<_> =
            meta["agents"].as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names().await, ["one"]);
    let session = client.session("one", &[]).await;
    write("two");
    until("the new agent is served", async || (names().await == ["one", "two"]).then_some(())).await;
    fs::remove_dir_all(home.path("agents/one")).unwrap();
    until("the old agent is gone", async || (names().await == ["two"]).then_some(())).await;
    let (status, body) = client.post("/sessions", &new_session("one", &[])).await;
    assert_eq!((status, &body["code"]), (400, &json!("unknown_agent")));
    write("one");
    until("it is back", async || (names().await == ["one", "two"]).then_some(())).await;
    assert_eq!(greeting(&client, &session).await, "hello", "its conversations go on");
}
