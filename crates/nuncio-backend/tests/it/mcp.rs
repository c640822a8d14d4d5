//! Tools of MCP servers over stdio: connecting, losing and restoring connections.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::agent::Agent;
use nuncio_engine::ports::Runner;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::processes;
use crate::test_mcp_server;
use crate::test_runners::{self, RunnersFixture, failure_text, tool, unavailable_text};

const SECRETS: &str = "[secrets]\nkey = { file = \"key\" }\n";

fn workshop() -> RunnersFixture {
    let workshop = RunnersFixture::new();
    std::fs::write(workshop.folder.path().join("key"), "hunter22\n").unwrap();
    workshop
}

/// Agent file text that imports all tools of one test MCP server.
fn importing(mode: &str) -> String {
    format!("{}{SECRETS}", test_mcp_server::section("fake", mode, "import = true"))
}

async fn pid(workshop: &RunnersFixture, agent: &Arc<Agent>) -> u32 {
    let output = workshop.run(agent, "pid", json!({})).await.unwrap();
    output.message_content().text().parse().unwrap()
}

#[tokio::test]
async fn mcp_tools_of_all_pages_are_imported() {
    let workshop = workshop();
    let agent = workshop.resolve(&importing("plain")).await.unwrap();
    let names: Vec<&str> = agent.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["pid", "wait", "fail", "exit", "key", "trace", "structured", "last"]);
    let tool = agent.tool("pid").unwrap();
    assert_eq!((tool.title_in("en"), tool.description.as_str()), ("Process number", "Does pid."));
    workshop.runners.release(&agent).await;
}

#[tokio::test]
async fn mcp_import_list_selects_tools_and_unknown_or_duplicate_tools_are_refused() {
    let workshop = workshop();
    let resolve = async |sections: &[String]| {
        let resolved = workshop.resolve(&format!("{}{SECRETS}", sections.concat())).await;
        if let Ok(agent) = &resolved {
            workshop.runners.release(agent).await;
        }
        resolved
    };
    let section = |name, mode, rest| test_mcp_server::section(name, mode, rest);

    let agent = resolve(&[section("a", "plain", "import = [\"last\", \"pid\"]\nexpose = false")]).await.unwrap();
    assert_eq!(agent.tools.len(), 2);
    assert!(agent.exposed_tools().next().is_none());

    let why = resolve(&[section("a", "plain", "import = [\"pid\", \"book\"]")]).await.unwrap_err();
    assert!(why.starts_with("the MCP server `a` has no tool `book` to import; it has `pid`, `wait`"), "{why}");

    let both = [section("a", "plain", "import = [\"pid\"]"), section("b", "plain", "import = [\"key\"]")];
    assert_eq!(resolve(&both).await.unwrap().tools.len(), 2);
    let clash = [section("a", "plain", "import = true"), section("b", "plain", "import = true")];
    let why = resolve(&clash).await.unwrap_err();
    assert!(why.starts_with("the MCP servers `a` and `b` both have a tool `pid`"), "{why}");
    assert!(why.contains("`import = [\"search\"]`"), "{why}");

    let why = resolve(&[section("a", "bad-schema", "import = true")]).await.unwrap_err();
    assert!(
        why.starts_with("the tool `pid` of the MCP server `a` cannot be imported, since its input schema"),
        "{why}"
    );
    let why = resolve(&[section("a", "odd-name", "import = true")]).await.unwrap_err();
    assert!(why.contains("`make reservation`") && why.contains("`import = [\"search\"]`"), "{why}");
    assert!(resolve(&[section("a", "odd-name", "import = [\"pid\"]")]).await.is_ok());

    let declared = [tool("pid", r#"{ command = ["echo", "mine"] }"#), section("a", "plain", "import = true")];
    let agent = resolve(&declared).await.unwrap();
    assert_eq!(workshop.run(&agent, "pid", json!({})).await.unwrap().message_content(), "mine".into());
}

#[tokio::test]
async fn mcp_server_without_imports_is_not_started_before_first_call() {
    let workshop = workshop();
    let file = format!("{}[[mcp]]\nname = \"gone\"\ncommand = [\"./not-there\"]\n", tool("pid", r#"{ mcp = "gone" }"#));
    let agent = workshop.resolve(&file).await.unwrap();
    let why = unavailable_text(workshop.run(&agent, "pid", json!({})).await);
    assert!(why.starts_with("the MCP server `gone` cannot be used: `./not-there` cannot be started"), "{why}");
}

#[tokio::test]
async fn unreachable_mcp_http_server_makes_its_tool_unavailable() {
    let workshop = workshop();
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let server = format!("[[mcp]]\nname = \"gone\"\nurl = \"http://{address}/mcp?token=hunter22\"\n");
    let agent = workshop.resolve(&format!("{}{server}", tool("pid", r#"{ mcp = "gone" }"#))).await.unwrap();
    let why = unavailable_text(workshop.run(&agent, "pid", json!({})).await);
    assert!(why.starts_with("the MCP server `gone` cannot be used: ") && why.contains("refused"), "{why}");
    assert!(!why.contains("hunter22"), "{why}");
}

#[tokio::test]
async fn mcp_call_passes_secret_and_trace_and_returns_result_or_error() {
    let workshop = workshop();
    let ghost = tool("ghost", r#"{ mcp = "fake" }"#);
    let agent = workshop.resolve(&format!("{ghost}{}", importing("plain"))).await.unwrap();
    let said = async |tool: &str| workshop.run(&agent, tool, json!({})).await.unwrap().message_content().text();
    assert_eq!(said("key").await, "hunter22");
    assert_eq!(said("trace").await, "\"00-1-2-01\"");
    let output = workshop.run(&agent, "structured", json!({"room": 12})).await.unwrap();
    assert_eq!(output.structured, Some(json!({"echo": {"room": 12}})));
    assert_eq!(failure_text(workshop.run(&agent, "fail", json!({})).await), "no rooms left");
    let why = failure_text(workshop.run(&agent, "ghost", json!({})).await);
    assert!(why.starts_with("the MCP server `fake` has no tool `ghost` any more; it has `pid`, "), "{why}");
    workshop.runners.release(&agent).await;
}

#[tokio::test]
async fn mcp_server_without_initialize_is_supported() {
    let workshop = workshop();
    let agent = workshop.resolve(&importing("modern")).await.unwrap();
    assert!(processes::is_running(pid(&workshop, &agent).await));
    workshop.runners.release(&agent).await;
}

#[tokio::test]
async fn mcp_calls_share_a_connection_and_dropped_call_is_cancelled() {
    let workshop = workshop();
    let agent = workshop.resolve(&importing("plain")).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let first = pid(&workshop, &agent).await;
    let mut waiting = Box::pin(workshop.run(&agent, "wait", json!({"port": port})));
    let mut socket = tokio::select! {
        outcome = &mut waiting => panic!("it did not wait: {outcome:?}"),
        socket = listener.accept() => socket.unwrap().0,
    };
    // While the first call waits, the same process answers other calls.
    let others = futures_util::future::join_all((0..20).map(|_| pid(&workshop, &agent))).await;
    assert!(others.iter().all(|pid| *pid == first), "{others:?}");
    drop(waiting);
    let mut heard = String::new();
    socket.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "began,cancelled");
    assert_eq!(pid(&workshop, &agent).await, first, "the connection lives on");
    workshop.runners.release(&agent).await;
}

#[tokio::test]
async fn killed_mcp_server_is_restarted_after_delay() {
    let workshop = workshop();
    let agent = workshop.resolve(&importing("plain")).await.unwrap();
    let first = pid(&workshop, &agent).await;
    processes::kill(first);
    unavailable_text(workshop.run(&agent, "pid", json!({})).await);
    workshop.clock.advance(Duration::from_millis(249));
    let why = unavailable_text(workshop.run(&agent, "pid", json!({})).await);
    assert!(why.starts_with("the connection to the MCP server `fake` was lost: "), "{why}");
    assert!(why.ends_with("; it will be tried again in 1ms, at 2026-11-15T11:00:00.250Z"), "{why}");
    workshop.clock.advance(Duration::from_millis(1));
    let second = pid(&workshop, &agent).await;
    assert_ne!(first, second);

    // A response reset the failure count. This time the server dies during a call.
    let why = unavailable_text(workshop.run(&agent, "exit", json!({})).await);
    assert!(why.starts_with("the connection to the MCP server `fake` was lost: "), "{why}");
    workshop.clock.advance(Duration::from_millis(250));
    assert!(![first, second].contains(&pid(&workshop, &agent).await));
    workshop.runners.release(&agent).await;
}

#[tokio::test]
async fn failing_mcp_server_is_retried_with_growing_delays() {
    let workshop = workshop();
    let file =
        format!("{}{}{SECRETS}", tool("pid", r#"{ mcp = "fake" }"#), test_mcp_server::section("fake", "dies", ""));
    let agent = workshop.resolve(&file).await.unwrap();
    for rest in [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000_u64] {
        let why = unavailable_text(workshop.run(&agent, "pid", json!({})).await);
        assert!(
            why.contains("ended before the initialization was complete") && why.contains("my key is [secret]"),
            "{why}"
        );
        workshop.clock.advance(Duration::from_millis(rest - 1));
        let why = unavailable_text(workshop.run(&agent, "pid", json!({})).await);
        assert!(why.contains("tried again in 1ms"), "{why}");
        workshop.clock.advance(Duration::from_millis(1));
    }
    let why = workshop.resolve(&importing("dies")).await.unwrap_err();
    assert!(
        why.starts_with("the MCP server `fake` cannot be used: it ended before the initialization was complete"),
        "{why}"
    );
}

#[tokio::test]
async fn mcp_server_without_handshake_answer_times_out_and_is_ended() {
    let workshop = workshop();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mode = format!("gated:{}", listener.local_addr().unwrap().port());
    let file = importing(&mode);
    let (outcome, mut gate) = tokio::join!(workshop.resolve(&file), async {
        let (gate, _) = listener.accept().await.unwrap();
        workshop.clock.advance(Duration::from_secs(10));
        gate
    });
    assert_eq!(
        outcome.unwrap_err(),
        "the MCP server `fake` cannot be used: it did not complete the initialization within 10s"
    );
    // The end of the server closes the socket.
    gate.read_to_end(&mut Vec::new()).await.unwrap();
}

#[tokio::test]
async fn dropped_call_does_not_stop_a_slow_mcp_server_from_starting() {
    let workshop = workshop();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mode = format!("gated:{}", listener.local_addr().unwrap().port());
    let file =
        format!("{}{}{SECRETS}", tool("pid", r#"{ mcp = "fake" }"#), test_mcp_server::section("fake", &mode, ""));
    let agent = workshop.resolve(&file).await.unwrap();
    let mut gate = tokio::select! {
        outcome = workshop.run(&agent, "pid", json!({})) => panic!("it came through: {outcome:?}"),
        gate = listener.accept() => gate.unwrap().0,
    };
    let (_, pid) = tokio::join!(gate.write_all(b"!"), pid(&workshop, &agent));
    assert!(processes::is_running(pid));
    assert!(futures_util::FutureExt::now_or_never(listener.accept()).is_none(), "the server was started twice");
    workshop.runners.release(&agent).await;
}

/// Agent whose MCP server has a child process, and the id of that child.
async fn with_grandchild(workshop: &RunnersFixture) -> (Arc<Agent>, u32) {
    let mut command: Vec<String> = serde_json::from_str(&test_mcp_server::command()).unwrap();
    let wrapper = ["sh", "-c", "sleep 1000 & echo $! > grandchild; exec \"$@\"", "sh"];
    command.splice(0..0, wrapper.map(str::to_owned));
    let file = format!(
        "[allow]\nwrite = [\".\"]\nread = [{}]\n[[mcp]]\nname = \"fake\"\ncommand = {}\nenv = {{ FAKE = \"plain\" }}\nimport = true\n",
        json!(std::env::current_exe().unwrap()),
        json!(command)
    );
    let agent = workshop.resolve(&file).await.unwrap();
    let grandchild = std::fs::read_to_string(workshop.folder.path().join("grandchild")).unwrap();
    (agent, grandchild.trim().parse().unwrap())
}

#[tokio::test]
async fn releasing_an_agent_ends_its_mcp_processes() {
    let workshop = workshop();
    let (agent, grandchild) = with_grandchild(&workshop).await;
    let server = pid(&workshop, &agent).await;
    assert!(processes::is_running(server) && processes::is_running(grandchild));
    workshop.runners.release(&agent).await;
    processes::wait_for_end(server).await;
    processes::wait_for_end(grandchild).await;
}

#[tokio::test]
async fn dropping_runners_ends_all_mcp_processes() {
    let workshop = workshop();
    let (agent, grandchild) = with_grandchild(&workshop).await;
    let server = pid(&workshop, &agent).await;
    drop(workshop);
    processes::wait_for_end(server).await;
    processes::wait_for_end(grandchild).await;
}

#[tokio::test]
async fn unchanged_mcp_server_survives_agent_reload() {
    let workshop = workshop();
    let old = workshop.resolve(&importing("plain")).await.unwrap();
    let first = pid(&workshop, &old).await;
    let extra = tool("more", r#"{ command = ["true"] }"#);
    let new = workshop.resolve(&format!("{extra}{}", importing("plain"))).await.unwrap();
    workshop.runners.release(&old).await;
    assert_eq!(pid(&workshop, &new).await, first);
    // An agent that cannot be resolved releases the servers it held.
    let broken = test_mcp_server::section("fake", "plain", "import = [\"nothing\"]");
    workshop.resolve(&format!("{broken}{SECRETS}")).await.unwrap_err();
    assert_eq!(pid(&workshop, &new).await, first);
    workshop.runners.release(&new).await;
    processes::wait_for_end(first).await;
}

#[tokio::test]
async fn debug_output_of_mcp_connections_contains_no_secret() {
    let workshop = workshop();
    let agent = workshop.resolve(&importing("plain")).await.unwrap();
    let shown = format!("{:?}", workshop.runners);
    assert!(!shown.contains("hunter22"), "{shown}");
    assert_eq!(test_runners::agent(&importing("plain")).secrets, agent.secrets);
    workshop.runners.release(&agent).await;
}
