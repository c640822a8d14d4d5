//! Whole turns of agents whose brain is a language model's server or a separate program.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::client::last_text;
use crate::home::TestAgentFolder;

pub(crate) fn model_server(answers: Vec<String>) -> (String, JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let serve = move || {
        let mut requests = Vec::new();
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if line.trim().is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            requests.push(if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() });
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
        }
        requests
    };
    (url, std::thread::spawn(serve))
}

pub(crate) fn stream(events: &[Value]) -> String {
    let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}data: [DONE]\n\n")
}

#[tokio::test]
async fn model_brain_runs_tool_calls_and_reports_provider_errors_without_the_key() {
    let call = json!({"index": 0, "id": "call_1", "function": {"name": "clock", "arguments": "{\"zone\":\"UTC\"}"}});
    let (url, server) = model_server(vec![
        stream(&[
            json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}),
            json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 1}}),
        ]),
        stream(&[
            json!({"choices": [{"delta": {"content": "It is late."}, "finish_reason": "stop"}]}),
            json!({"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 2}}),
        ]),
        "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 31\r\n\r\n{\"error\":{\"message\":\"bad key\"}} ".to_owned(),
    ]);
    let home = TestAgentFolder::hotel();
    home.json_command(&["init", "far", "--model", "openai/gpt-5"]).json();
    let file = home.path("far/agent.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replace("# base_url = \"http://localhost:8080/v1\"", &format!("base_url = \"{url}\""));
    std::fs::write(&file, text).unwrap();

    let running = home.serve().arg("far").env("OPENAI_API_KEY", "sk-secret-1").start();
    let session = running.aap().session("far", &[("clock", true)]).await;
    let answer = running.aap().say(&session, "How late is it?").await;
    assert_eq!(last_text(answer["messages"].as_array().unwrap()), "It is late.");
    let answer = running.aap().say(&session, "And now?").await;
    assert_eq!(answer["stopReason"], "error", "{answer}");
    let response = answer.to_string();
    assert!(response.contains("openai (127.0.0.1) answered with status 401 Unauthorized: bad key"), "{response}");
    assert!(!response.contains("sk-secret-1"));

    let requests = server.join().unwrap();
    let roles = |body: &Value| -> Vec<String> {
        body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["role"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(roles(&requests[0]), ["system", "user"]);
    assert_eq!(roles(&requests[1]), ["system", "user", "assistant", "tool"]);
    assert_eq!(requests[1]["messages"][3]["tool_call_id"], "call_1");
    assert_eq!(roles(&requests[2]), ["system", "user", "assistant", "tool", "assistant", "user"]);
}

#[tokio::test]
async fn example_agents_with_process_brains_answer_a_message() {
    let home = TestAgentFolder::hotel();
    for name in ["process-python", "process-node", "process-shell"] {
        let folder = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
        let running = home.serve().arg(&folder).start();
        let session = running.aap().session(name, &[("clock", true)]).await;
        let answer = running.aap().say(&session, "What time is it?").await;
        let text = last_text(answer["messages"].as_array().unwrap());
        assert!(text.starts_with("It is ") && text.contains(':'), "{text}");
        running.stop();
    }
}

#[tokio::test]
async fn traceback_of_a_process_brain_is_in_the_log_and_not_in_the_answer() {
    let home = TestAgentFolder::with_agent(
        "[agent]\nname = \"broken\"\nversion = \"1.0.0\"\n\n[brain]\nkind = \"process\"\n\
         command = [\"sh\", \"-c\", \"echo 'Traceback: no module named langgraph' >&2; exit 1\"]\n",
    );
    let running = home.start();
    let session = running.aap().session("broken", &[]).await;
    let answer = running.aap().say(&session, "Hello").await;
    let message = "the agent's program failed; the log of its server says why";
    assert_eq!(answer["error"], json!({"code": "brain_failed", "message": message}), "{answer}");
    running.terminate();
    let (_, log) = running.wait_for_end();
    assert!(log.contains("no module named langgraph") && log.contains(&session), "{log}");
}
