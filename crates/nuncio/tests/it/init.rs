//! `nuncio init --from-mcp` and `--model`: agent files generated from MCP servers and models.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::client::last_text;
use crate::home::Home;

fn lint_file(home: &Home, folder: &str) -> Value {
    home.json_command(&["lint", folder]).json()["agents"][0].clone()
}

#[tokio::test]
async fn init_from_the_hotel_mcp_server_makes_a_working_agent() {
    let home = Home::hotel();
    let written = home.json_command(&["init", "desk", "--from-mcp", "nuncio demo hotel"]).json();
    assert_eq!(written, json!({"written": "desk/agent.toml", "skipped": []}));
    assert_eq!(lint_file(&home, "desk")["notes"], json!([]));
    let entries: Vec<_> = fs::read_dir(home.path("desk")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(entries, ["agent.toml"], "asking leaves nothing else behind");
    let text = fs::read_to_string(home.path("desk/agent.toml")).unwrap();
    assert!(text.contains("[[mcp]]\nname = \"hotel\"\ncommand = [\"nuncio\", \"demo\", \"hotel\"]\n"), "{text}");
    assert!(text.contains("run = { mcp = \"hotel\" }"), "{text}");

    let server = home.serve().arg("desk").start();
    assert_eq!(server.greeting["agents"], json!(["desk"]));
    let session = server.aap().session("desk", &[]).await;
    let answer = server.aap().say(&session, "help").await;
    let text = last_text(answer["messages"].as_array().unwrap());
    assert!(text.starts_with("I can: ") && text.contains("search_rooms"), "{text}");
}

#[test]
fn init_from_the_reference_mcp_server_with_a_model_writes_a_valid_agent_file() {
    let script = std::env::var_os("NUNCIO_TEST_MCP_EVERYTHING").map(PathBuf::from);
    let script = script.expect("NUNCIO_TEST_MCP_EVERYTHING must name dist/index.js of @modelcontextprotocol/server-everything: run `cargo xtask test`");
    let home = Home::hotel();
    let command = format!("node '{}'", script.display());
    home.json_command(&["init", "all", "--from-mcp", &command, "--model", "anthropic/claude-sonnet-4-5"]).json();
    let agent = lint_file(&home, "all");
    assert_eq!((&agent["agent"], &agent["notes"]), (&json!("all"), &json!([])));
    let text = fs::read_to_string(home.path("all/agent.toml")).unwrap();
    for part in [
        "kind = \"model\"\nprovider = \"anthropic\"\nmodel = \"claude-sonnet-4-5\"\nkey = \"ANTHROPIC_API_KEY\"\n",
        "[secrets]\nANTHROPIC_API_KEY = { env = \"ANTHROPIC_API_KEY\" }",
        "name = \"get-sum\"\n",
        "[tool.input.properties]\n",
        "[tool.output.properties]\n",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn init_with_a_model_and_no_mcp_server_writes_a_valid_agent_file() {
    let home = Home::hotel();
    home.json_command(&["init", "local", "--model", "ollama/qwen3:8b"]).json();
    assert_eq!(lint_file(&home, "local")["notes"], json!([]));
    let text = fs::read_to_string(home.path("local/agent.toml")).unwrap();
    assert!(text.contains("provider = \"ollama\"\nmodel = \"qwen3:8b\"\n") && !text.contains("[secrets]"), "{text}");
    let shown = home.nuncio(&["init", "far", "--model", "openai/gpt-5"]).run();
    assert!(shown.stdout.contains("export OPENAI_API_KEY="), "{shown:?}");
}

#[test]
fn init_with_an_unreachable_mcp_server_or_wrong_arguments_writes_nothing() {
    let home = Home::hotel();
    let (code, message) = home.json_command(&["init", "gone", "--from-mcp", "./no-such-server"]).failure();
    assert_eq!(code, "tool_unavailable");
    assert!(message.contains("./no-such-server"), "{message}");
    let (_, message) = home.json_command(&["init", "gone", "--from-mcp", "http://127.0.0.1:9/mcp"]).failure();
    assert!(message.contains("MCP server `127`"), "{message}");
    for arguments in [["--model", "gpt-5"], ["--from-mcp", "'open"], ["--from-mcp", ""]] {
        let ran = home.nuncio(&["init", "gone"]).arg(arguments[0]).arg(arguments[1]).run();
        assert_eq!(ran.status, Some(2), "{ran:?}");
    }
    assert!(!home.path("gone").exists());
}
