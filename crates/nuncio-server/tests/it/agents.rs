//! Agent files for tests: the script brain, and tools that are small shell programs in the agent's folder.

use std::path::PathBuf;

use nuncio_testkit::{Gateway, eventually, is_alive};
use serde_json::{Value, json};

/// Folder and name of the agent that most tests use.
pub(crate) const DESK: &str = "desk";

pub(crate) fn desk(rest: &[String]) -> String {
    // The tools write down in the agent's folder that they ran.
    let head = format!(
        "[agent]\nname = \"{DESK}\"\nversion = \"1.0.0\"\n[allow]\nwrite = [\".\"]\n[brain]\nkind = \"script\"\n"
    );
    head + &rest.concat()
}

/// A tool that takes any object and runs a shell program; `more` are further keys of its table.
pub(crate) fn tool(name: &str, program: &str, more: &str) -> String {
    let input = if more.contains("input =") { "" } else { "input = { type = \"object\" }\n" };
    format!(
        "[[tool]]\nname = \"{name}\"\ndescription = \"Does it.\"\n{input}run = {{ command = [\"sh\", \"-c\", '''{program}'''] }}\n{more}\n"
    )
}

pub(crate) fn scope(id: &str, sensitivity: &str) -> String {
    format!("[[scope]]\nid = \"{id}\"\nlabel = \"{id}\"\ndescription = \"{id}\"\nsensitivity = \"{sensitivity}\"\n")
}

pub(crate) fn echo() -> String {
    tool("echo", "cat", "")
}

/// A tool that adds a line to the file `runs` each time it runs.
pub(crate) fn count(more: &str) -> String {
    tool("count", "echo ran >> runs; printf counted", more)
}

pub(crate) fn held(more: &str) -> String {
    tool("held", "mkfifo held.gate; echo $$ > held.new; mv held.new held.pid; cat held.gate", more)
}

pub(crate) async fn held_pid(gateway: &Gateway) -> u32 {
    let file = gateway.file(DESK, "held.pid");
    eventually("the tool runs", async || std::fs::read_to_string(&file).ok()?.trim().parse().ok()).await
}

/// Releases a program that reads from the named pipe.
pub(crate) async fn release(gateway: &Gateway, pipe: &str, text: &'static str) {
    let path: PathBuf = gateway.file(DESK, pipe);
    eventually("the program has made its pipe", async || path.exists().then_some(())).await;
    // Opening a pipe blocks until it has a reader, so it runs on another thread.
    std::thread::spawn(move || std::fs::write(path, text).unwrap());
}

/// Waits until a process has ended.
pub(crate) async fn gone(pid: u32) {
    eventually("the process is gone", async || (!is_alive(pid)).then_some(())).await;
}

/// Number of runs of `count`.
pub(crate) fn runs(gateway: &Gateway) -> usize {
    std::fs::read_to_string(gateway.file(DESK, "runs")).unwrap_or_default().lines().count()
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> Value {
    let mut item = json!({"tool": {"id": id, "name": name}});
    item["tool"]["input"] = input;
    item
}

pub(crate) fn call_once(id: &str, name: &str, input: Value) -> Value {
    json!([[call(id, name, input)], [{"text": "done"}]])
}

/// The result of a call among the messages of a turn or a history.
pub(crate) fn result_of<'a>(messages: &'a [Value], call: &str) -> &'a Value {
    let found = messages.iter().rev().find(|message| message["role"] == "tool" && message["toolCallId"] == call);
    &found.unwrap_or_else(|| panic!("no result of {call} in {messages:#?}"))["content"]
}

pub(crate) fn messages(answer: &Value) -> &[Value] {
    answer["messages"].as_array().unwrap()
}
