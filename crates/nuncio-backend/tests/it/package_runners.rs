//! MCP servers started by `npx` and `uvx`, confined like any other program. `cargo xtask test` fills the package
//! cache, so that the tests need no network.

use std::path::PathBuf;
use std::process::Command;

use nuncio_engine::ports::Runner;
use serde_json::json;

use crate::test_runners::{RunnersFixture, failure_text};

fn tool(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).map(PathBuf::from);
    path.unwrap_or_else(|| panic!("{variable} must be set: run `cargo xtask test`"))
}

/// Fixture with a package cache, named by `variable`, in its agent's state folder.
fn workshop_with_cache(variable: &str, name: &str) -> RunnersFixture {
    let workshop = RunnersFixture::new();
    let state = workshop.data.path().join("programs/hotel");
    std::fs::create_dir_all(&state).unwrap();
    let copied = Command::new("cp").arg("-a").arg(tool(variable)).arg(state.join(name)).status().unwrap();
    assert!(copied.success());
    workshop
}

#[tokio::test]
async fn confined_mcp_server_started_by_npx_answers_calls() {
    let workshop = workshop_with_cache("NUNCIO_TEST_NPX_CACHE", "npm");
    let command = json!(["npx", "-y", "--offline", "@modelcontextprotocol/server-everything@2026.8.31"]);
    let file = format!("[allow]\n[[mcp]]\nname = \"m\"\ncommand = {command}\nimport = true\n");
    let agent = workshop.resolve(&file).await.unwrap();
    let echo = workshop.run(&agent, "echo", json!({"message": "hello"})).await.unwrap();
    assert_eq!(echo.message_content(), "Echo: hello".into());
    workshop.runners.release(&agent).await;
}

#[tokio::test]
async fn confined_mcp_server_started_by_uvx_answers_calls() {
    let workshop = workshop_with_cache("NUNCIO_TEST_UV_CACHE", "uv");
    let command = json!([tool("NUNCIO_TEST_UVX"), "--offline", "mcp-server-time==2026.10.19"]);
    let file = format!("[allow]\n[[mcp]]\nname = \"m\"\ncommand = {command}\nimport = true\n");
    let agent = workshop.resolve(&file).await.unwrap();
    let time = workshop.run(&agent, "get_current_time", json!({"timezone": "Asia/Shanghai"})).await.unwrap();
    assert!(time.message_content().text().contains("+08:00"), "{time:?}");
    failure_text(workshop.run(&agent, "get_current_time", json!({"timezone": "Nowhere"})).await);
    workshop.runners.release(&agent).await;
}
