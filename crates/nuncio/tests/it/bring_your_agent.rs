//! The examples of `docs/bring-your-agent.md`: existing agents behind a process brain, with their real frameworks.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::brains::{model_server, stream};
use crate::client::last_text;
use crate::home::TestAgentFolder;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/bring-your-agent");

/// Copies an example, with `.venv/bin/python` replaced by an installed Python that its programs may read.
fn copy(home: &TestAgentFolder, name: &str, python: Option<&Path>) -> PathBuf {
    let folder = home.path(name);
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(format!("{EXAMPLES}/{name}")).unwrap() {
        let file = entry.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
    }
    if let Some(python) = python {
        let venv = python.parent().and_then(Path::parent).unwrap();
        let file = folder.join("agent.toml");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(".venv/bin/python"), "{text}");
        let text = text.replace(".venv/bin/python", python.to_str().unwrap());
        let allow = format!("\n[allow]\nread = [{:?}]\n\n[[tool]]", venv.to_str().unwrap());
        fs::write(file, text.replacen("\n[[tool]]", &allow, 1)).unwrap();
    }
    folder
}

fn python_with(variable: &str) -> PathBuf {
    let python = std::env::var_os(variable).map(PathBuf::from);
    python.unwrap_or_else(|| panic!("{variable} must name a Python with the package: run `cargo xtask test`"))
}

async fn ask_and_call_the_clock(home: &TestAgentFolder, name: &str) {
    let running = home.serve().arg(name).start();
    let agent = format!("my-{name}");
    let session = running.aap().session(&agent, &[("clock", true)]).await;
    let answer = running.aap().say(&session, "Hello there").await;
    assert_eq!(last_text(answer["messages"].as_array().unwrap()).trim(), "You said: Hello there", "{answer}");
    let answer = running.aap().say(&session, "What time is it?").await;
    let text = last_text(answer["messages"].as_array().unwrap());
    assert!(text.starts_with("It is ") && text.contains(':'), "{answer}");
    running.stop();
}

#[tokio::test]
async fn plain_python_and_node_agents_answer_and_call_a_tool() {
    let home = TestAgentFolder::hotel();
    for name in ["python", "node"] {
        copy(&home, name, None);
        ask_and_call_the_clock(&home, name).await;
    }
}

#[tokio::test]
async fn langgraph_agent_answers_and_calls_a_tool() {
    let home = TestAgentFolder::hotel();
    copy(&home, "langgraph", Some(&python_with("NUNCIO_TEST_LANGGRAPH_PYTHON")));
    ask_and_call_the_clock(&home, "langgraph").await;
}

#[tokio::test]
async fn openai_agents_sdk_agent_streams_and_calls_a_tool() {
    let call = json!({"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "clock", "arguments": "{\"zone\":\"UTC\"}"}});
    let chunk = |delta, reason| {
        json!({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5-mini",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
    };
    let (url, server) = model_server(vec![
        stream(&[
            chunk(json!({"role": "assistant", "tool_calls": [call]}), json!(null)),
            chunk(json!({}), json!("tool_calls")),
        ]),
        stream(&[
            chunk(json!({"role": "assistant", "content": "It is "}), json!(null)),
            chunk(json!({"content": "late."}), json!(null)),
            chunk(json!({}), json!("stop")),
        ]),
    ]);
    let home = TestAgentFolder::hotel();
    let folder = copy(&home, "openai-agents", Some(&python_with("NUNCIO_TEST_OPENAI_AGENTS_PYTHON")));
    let file = folder.join("agent.toml");
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("env = { OPENAI_API_KEY", &format!("env = {{ OPENAI_BASE_URL = {url:?}, OPENAI_API_KEY"));
    fs::write(file, text).unwrap();

    let running = home.serve().arg("openai-agents").env("OPENAI_API_KEY", "sk-1").start();
    let session = running.aap().session("my-openai-agents", &[("clock", true)]).await;
    let answer = running.aap().say(&session, "What time is it?").await;
    assert_eq!(last_text(answer["messages"].as_array().unwrap()), "It is late.", "{answer}");
    let requests = server.join().unwrap();
    assert_eq!(requests[0]["tools"][0]["function"]["name"], "clock");
    let roles: Vec<_> = requests[1]["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
}

#[test]
fn code_in_the_documents_is_every_file_of_the_examples_as_a_whole() {
    let mut files = Vec::new();
    for folder in fs::read_dir(EXAMPLES).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap().map(|file| file.unwrap().path()) {
            if file.is_file() {
                files.push(fs::read_to_string(file).unwrap());
            }
        }
    }
    files.sort();
    for page in ["bring-your-agent.md", "zh-CN/bring-your-agent.md"] {
        let text = fs::read_to_string(format!("{EXAMPLES}/../../docs/{page}")).unwrap();
        let mut code: Vec<String> = Vec::new();
        for block in text.split("\n```") {
            let Some((language, block)) = block.split_once('\n') else { continue };
            if ["python", "js", "toml"].contains(&language) {
                code.push(format!("{block}\n"));
            }
        }
        code.sort();
        assert_eq!(code, files, "{page}");
    }
}
