//! The reference MCP server `@modelcontextprotocol/server-everything` over stdio and HTTP.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::agent::Agent;
use nuncio_core::message::Block;
use nuncio_engine::ports::Runner;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::processes;
use crate::test_runners::{RunnersFixture, failure_text, unavailable_text};

fn script() -> PathBuf {
    let path = std::env::var_os("NUNCIO_TEST_MCP_EVERYTHING").map(PathBuf::from);
    path.expect("NUNCIO_TEST_MCP_EVERYTHING must name dist/index.js of @modelcontextprotocol/server-everything: run `cargo xtask test`")
}

/// Agent that imports the server's tools; the server first writes its process id into `pid`.
async fn over_stdio(workshop: &RunnersFixture) -> Arc<Agent> {
    let command = json!(["sh", "-c", "echo $$ > pid; exec node \"$@\"", "sh", script()]);
    let installed = script().ancestors().find(|folder| folder.ends_with("node_modules")).unwrap().to_owned();
    let allow = format!("[allow]\nwrite = [\".\"]\nread = [{:?}]\n", installed.display().to_string());
    let server = format!("[[mcp]]\nname = \"everything\"\ncommand = {command}\nimport = true\n");
    workshop.resolve(&(allow + &server)).await.unwrap()
}

fn pid(workshop: &RunnersFixture) -> u32 {
    std::fs::read_to_string(workshop.folder.path().join("pid")).unwrap().trim().parse().unwrap()
}

async fn call_tools(workshop: &RunnersFixture, agent: &Arc<Agent>) {
    let echo = workshop.run(agent, "echo", json!({"message": "hello"})).await.unwrap();
    assert_eq!(echo.message_content(), "Echo: hello".into());
    let sum = workshop.run(agent, "get-sum", json!({"a": 2, "b": 3})).await.unwrap();
    assert_eq!(sum.message_content(), "The sum of 2 and 3 is 5.".into());
    let image = workshop.run(agent, "get-tiny-image", json!({})).await.unwrap();
    assert!(
        matches!(&image.content[1], Block::Image { url, .. } if url.starts_with("data:image/png;base64,iVBOR")),
        "{:?}",
        image.content
    );
    let weather = workshop.run(agent, "get-structured-content", json!({"location": "Chicago"})).await.unwrap();
    let structured = weather.structured.unwrap();
    assert_eq!(structured["temperature"], 36);
    agent.tool("get-structured-content").unwrap().output.as_ref().unwrap().check(&structured).unwrap();
    let why = failure_text(workshop.run(agent, "echo", json!({"message": 7})).await);
    assert!(why.contains("message"), "{why}");
}

#[tokio::test]
async fn mcp_reference_server_tools_are_imported_and_called() {
    let workshop = RunnersFixture::new();
    let agent = over_stdio(&workshop).await;
    call_tools(&workshop, &agent).await;
    workshop.runners.release(&agent).await;
    processes::wait_for_end(pid(&workshop)).await;
}

#[tokio::test]
async fn dropping_a_long_mcp_call_keeps_the_connection_usable() {
    let workshop = RunnersFixture::new();
    let agent = over_stdio(&workshop).await;
    let long = json!({"duration": 1000, "steps": 1});
    let mut long = Box::pin(workshop.run(&agent, "trigger-long-running-operation", long));
    // Other calls are answered while the long call runs and after it was dropped.
    tokio::select! {
        outcome = &mut long => panic!("it ended: {outcome:?}"),
        () = call_tools(&workshop, &agent) => {}
    }
    drop(long);
    call_tools(&workshop, &agent).await;
    workshop.runners.release(&agent).await;
    processes::wait_for_end(pid(&workshop)).await;
}

#[tokio::test]
async fn killed_mcp_reference_server_is_restarted_after_a_delay() {
    let workshop = RunnersFixture::new();
    let agent = over_stdio(&workshop).await;
    call_tools(&workshop, &agent).await;
    let first = pid(&workshop);
    processes::kill(first);
    unavailable_text(workshop.run(&agent, "echo", json!({"message": "hello"})).await);
    let why = unavailable_text(workshop.run(&agent, "echo", json!({"message": "hello"})).await);
    assert!(why.contains("it will be tried again in 250ms"), "{why}");
    workshop.clock.advance(Duration::from_millis(250));
    call_tools(&workshop, &agent).await;
    assert_ne!(pid(&workshop), first);
    workshop.runners.release(&agent).await;
}

/// Starts the reference server with HTTP on a port.
async fn over_http(port: u16) -> Child {
    let mut child = Command::new("node")
        .arg(script())
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("listening on port") {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return child;
        }
    }
    panic!("it did not start");
}

#[tokio::test]
async fn mcp_http_server_is_reconnected_after_restart() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let mut server = over_http(port).await;
    let workshop = RunnersFixture::new();
    let file = format!(
        "[[mcp]]\nname = \"everything\"\nurl = \"http://127.0.0.1:{port}/mcp\"\nimport = [\"echo\", \"get-sum\", \"get-tiny-image\", \"get-structured-content\"]\n"
    );
    let agent = workshop.resolve(&file).await.unwrap();
    call_tools(&workshop, &agent).await;

    server.kill().await.unwrap();
    let why = unavailable_text(workshop.run(&agent, "echo", json!({"message": "hello"})).await);
    assert!(why.starts_with("the connection to the MCP server `everything` was lost: "), "{why}");
    let _server = over_http(port).await;
    let why = unavailable_text(workshop.run(&agent, "echo", json!({"message": "hello"})).await);
    assert!(why.contains("it will be tried again in 250ms"), "{why}");
    workshop.clock.advance(Duration::from_millis(250));
    call_tools(&workshop, &agent).await;
    workshop.runners.release(&agent).await;
}
