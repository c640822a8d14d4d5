//! Responses while the database accepts no writes.

use std::fs;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::client::{call, play, turns};
use crate::home::{SCRIPTED, TestAgentFolder, shell_tool};
use crate::process::{Server, until};

/// Shell line of a tool that waits until the file `gate` exists.
const HOLD: &str = "touch begun; while [ ! -e gate ]; do sleep 0.01; done; echo done";

async fn readyz(server: &Server) -> u16 {
    reqwest::get(format!("{}/readyz", server.url())).await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_commits_end_the_turn_and_make_readyz_fail_until_they_succeed() {
    let tool = shell_tool("hold", HOLD);
    let home = TestAgentFolder::with_agent(&format!("{SCRIPTED}{tool}"));
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[("hold", true)]).await;
    let script = json!([[call("c1", "hold", json!({}))], [{"text": "never said"}]]);
    let turn = tokio::spawn({
        let (client, path, body) = (client.clone(), turns(&session), json!({"messages": [play(&script)]}));
        async move { client.post(&path, &body).await }
    });
    until("the tool runs", async || home.path("begun").exists().then_some(())).await;
    assert_eq!(readyz(&server).await, 200);

    let database = Connection::open(home.data().join("nuncio.db")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    fs::write(home.path("gate"), "").unwrap();
    let (status, answer) = turn.await.unwrap();
    assert_eq!((status, &answer["stopReason"]), (200, &json!("error")), "{answer}");
    assert!(answer.to_string().contains("store_unavailable"), "{answer}");
    assert_eq!(readyz(&server).await, 503);

    database.execute_batch("ROLLBACK").unwrap();
    until("it is ready again", async || (readyz(&server).await == 200).then_some(())).await;
    let answer = until("the session takes another turn", async || {
        let (status, answer) =
            client.post(&turns(&session), &json!({"messages": [play(&json!([[{"text": "hello"}]]))]})).await;
        (status == 200).then_some(answer)
    })
    .await;
    assert_eq!(answer["stopReason"], "end_turn", "{answer}");
    let history = client.history(&session).await;
    let result = history.iter().find(|message| message["toolCallId"] == "c1").unwrap();
    assert!(result["content"].as_str().unwrap().contains("may or may not have had an effect"), "{result}");
    let records = home.audit();
    let of_call: Vec<&Value> = records.iter().filter(|record| record["call"] == "c1").collect();
    assert_eq!(of_call.len(), 1, "{records:?}");
}
