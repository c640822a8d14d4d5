//! `nuncio chat` against `nuncio serve`, both as processes.

use std::fs;

use serde_json::{Value, json};

use crate::home::{SCRIPTED, TestAgentFolder, shell_tool};
use crate::process::{ProcessOutput, Server, until};

const CLOCK: &str = "name = \"clock\"\ndescription = \"Says the time.\"\ncommand = [\"sh\", \"-c\", \"echo noon; cat\"]\n\n[parameters]\ntype = \"object\"\n";

/// An agent with options.
const OPTIONAL: &str = r#"
[agent]
name = "tones"
version = "1.0.0"

[brain]
kind = "rules"

[[intent]]
name = "tone"
keywords = ["tone"]
answer = "The tone is {{ options.tone }}."

[[option]]
name = "tone"
type = "select"
options = ["formal", "casual"]
default = "formal"

[[option]]
name = "token"
type = "secret"
"#;

/// Runs `nuncio chat` with `lines` typed on its standard input.
fn chat(home: &TestAgentFolder, server: &Server, arguments: &[&str], lines: &[&str]) -> ProcessOutput {
    chat_in(home, server, arguments, lines, &[])
}

fn chat_in(
    home: &TestAgentFolder,
    server: &Server,
    arguments: &[&str],
    lines: &[&str],
    env: &[(&str, &str)],
) -> ProcessOutput {
    let target = server.url().trim_start_matches("http://");
    let command = home.nuncio(&[&["chat", target], arguments].concat());
    let command = env.iter().fold(command, |command, (name, value)| command.env(name, value));
    let mut typed = command.start_interactive();
    lines.iter().for_each(|line| typed.line(line));
    typed.wait_for_end()
}

/// Like [`chat`], in a terminal, where questions are asked; `None` if there is none.
fn chat_in_terminal(
    home: &TestAgentFolder,
    server: &Server,
    arguments: &[&str],
    lines: &[&str],
) -> Option<ProcessOutput> {
    let target = server.url().trim_start_matches("http://");
    let command = home.nuncio(&[&["chat", target], arguments].concat()).env("NO_COLOR", "1").in_terminal();
    let Some(command) = command else {
        eprintln!("skipped: `script` is not installed");
        return None;
    };
    let mut typed = command.start_interactive();
    lines.iter().for_each(|line| typed.line(line));
    Some(typed.wait_for_end())
}

fn play(script: &Value) -> String {
    json!({"script": script}).to_string()
}

fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"tool": {"id": id, "name": name, "input": input}})
}

fn session_of(ran: &ProcessOutput) -> String {
    ran.stdout.split("--session ").nth(1).unwrap_or_else(|| panic!("{ran:?}")).trim().to_owned()
}

#[test]
fn chat_prints_answers_to_typed_lines_and_runs_slash_commands() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let ran = chat(
        &home,
        &server,
        &[],
        &["hello there", "/help", "/tools", "/session", "/nope", "/history", "/quit", "unheard"],
    );
    assert_eq!(ran.status, Some(0), "{ran:?}");
    for text in [
        "Talking to Script",
        "You said: hello there",
        "Ctrl-C stops the agent",
        "add (asks first)",
        "/nope is not a command",
        "you> hello there",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("unheard"));
    assert!(ran.stdout.contains(&format!("Session {}", session_of(&ran))));
}

#[test]
fn chat_shows_tool_calls_and_runs_them_only_if_permitted() {
    let home = TestAgentFolder::script();
    let server = home.start();
    fs::write(home.path("clock.toml"), CLOCK).unwrap();
    let script = json!([
        [{"thinking": "let me see"}, call("c1", "add", &json!({"a": 1, "b": 2})), call("c2", "clock", &json!({"zone": "here"}))],
        [{"echo": "results"}],
    ]);
    let lines = [play(&script), "perhaps".into(), "y".into(), "n too early".into()];
    let lines = lines.iter().map(String::as_str).collect::<Vec<_>>();
    let Some(ran) = chat_in_terminal(&home, &server, &["--tool", "clock.toml"], &lines) else { return };
    for text in
        ["→ add {\"a\":1,\"b\":2}", "Allow add? [y]es once", "Please answer y", "← 3", "Tool call denied: too early"]
    {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    let lines = [play(&script), "y".into(), "yes".into()];
    let lines = lines.iter().map(String::as_str).collect::<Vec<_>>();
    let Some(ran) = chat_in_terminal(&home, &server, &["--tool", "clock.toml"], &lines) else { return };
    assert!(ran.stdout.replace('\r', "").contains("← noon\n{\"zone\":\"here\"}"), "{}", ran.stdout);
}

#[test]
fn piped_lines_are_messages_and_never_answers_to_questions() {
    let home = TestAgentFolder::script();
    let server = home.start();
    fs::write(home.path("clock.toml"), CLOCK).unwrap();
    let script = play(&json!([
        [call("c1", "add", &json!({"a": 1, "b": 2})), call("c2", "clock", &json!({}))],
        [{"echo": "results"}],
    ]));
    let ran = chat(&home, &server, &["--tool", "clock.toml"], &[&script, "y", "a"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    for text in ["add was denied: questions need a terminal", "clock was denied", "You said: y", "You said: a"] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("Allow add?") && !ran.stdout.contains("← 3"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("noon"), "{}", ran.stdout);
}

#[test]
fn result_without_content_is_named_as_such() {
    let home = TestAgentFolder::with_agent(&format!("{SCRIPTED}{}", shell_tool("quiet", "true")));
    let server = home.start();
    let script = play(&json!([[call("c1", "quiet", &json!({}))], [{"text": "done"}]]));
    let ran = chat(&home, &server, &["--trust"], &[&script]);
    assert!(ran.stdout.contains("← (no content)"), "{}", ran.stdout);
}

#[test]
fn tool_permitted_with_always_is_not_asked_about_again_in_the_session() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let script = play(
        &json!([[call("c1", "lookup", &json!({"key": "k"}))], [call("c2", "lookup", &json!({"key": "l"}))], [{"text": "done"}]]),
    );
    let Some(ran) = chat_in_terminal(&home, &server, &[], &[&script, "a", &script]) else { return };
    assert_eq!(ran.stdout.matches("Allow lookup?").count(), 1, "{}", ran.stdout);
    assert_eq!(ran.stdout.matches("← value-of-l").count(), 2, "{}", ran.stdout);
}

#[test]
fn chat_with_a_resumed_session_shows_history_and_asks_about_pending_calls() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let script =
        play(&json!([[{"text": "one moment"}, call("c1", "add", &json!({"a": 1, "b": 2}))], [{"echo": "results"}]]));
    let Some(first) = chat_in_terminal(&home, &server, &[], &[&script]) else { return };
    assert!(first.stdout.contains("stay unanswered"), "{}", first.stdout);
    let session = session_of(&first);
    let Some(second) = chat_in_terminal(&home, &server, &["--session", &session], &["y", "and now?"]) else { return };
    for text in ["agent>", "→ add {\"a\":1,\"b\":2}", "← 3", "[\"3\"]", "You said: and now?"] {
        assert!(second.stdout.contains(text), "{text}: {}", second.stdout);
    }
    assert_eq!(session_of(&second), session_of(&first));
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_opened_during_a_turn_shows_it_once_and_follows_it_to_its_end() {
    let gate = "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo went";
    let home = TestAgentFolder::with_agent(&format!("{SCRIPTED}{}", shell_tool("gate", gate)));
    let server = home.start();
    let session = server.aap().session("script", &[("gate", true)]).await;
    server.aap().play(&session, json!([[{"text": "an earlier answer"}]])).await;
    let script = json!([[{"text": "before it"}, call("c1", "gate", &json!({}))], [{"text": "after it"}]]);
    let (client, name) = (server.aap(), session.clone());
    let turn = tokio::spawn(async move { client.play(&name, script).await });
    until("the tool runs", async || home.path("begun").exists().then_some(())).await;

    let target = server.url().trim_start_matches("http://").to_owned();
    let chat =
        |more: &[&str]| home.nuncio(&[&["chat", &target, "--session", &session], more].concat()).start_interactive();
    let (mut person, program) = (chat(&[]), chat(&["--json"]));
    until("the call is shown", async || person.stdout().contains("→ gate").then_some(())).await;
    until("the call is told", async || program.stdout().contains("\"tool_call\"").then_some(())).await;
    // The user's messages are scripts that contain the answers in quotes; those are not counted.
    let unquoted_count =
        |out: &str, text: &str| out.matches(text).count() - out.matches(&format!("\"{text}\"")).count();
    let so_far = person.stdout();
    assert_eq!((unquoted_count(&so_far, "before it"), unquoted_count(&so_far, "after it")), (1, 0), "{so_far}");
    assert!(so_far.contains("still running") && !so_far.contains("Allow"), "nobody is asked about what runs: {so_far}");
    fs::write(home.path("go"), "").unwrap();
    until("its end", async || (unquoted_count(&person.stdout(), "after it") == 1).then_some(())).await;
    person.line("/history");
    person.line(&play(&json!([[{"text": "and a new one"}]])));
    let ran = person.wait_for_end();
    turn.await.unwrap();
    let times = [("an earlier answer", 2), ("before it", 2), ("← went", 2), ("after it", 2), ("and a new one", 1)];
    for (text, times) in times {
        assert_eq!(unquoted_count(&ran.stdout, text), times, "{text}, once more by /history: {}", ran.stdout);
    }
    let program = program.wait_for_end();
    let events: Vec<Value> = program.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let history = events.iter().find(|event| event["event"] == "history").unwrap();
    assert_eq!(history["messages"].as_array().unwrap().len(), 3, "two questions and an answer: {history}");
    assert_eq!(events.iter().filter(|event| event["event"] == "tool_result").count(), 1, "{events:?}");
}

#[test]
fn json_chat_prints_one_event_per_line_and_denies_calls_without_trust_flag() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let script = play(&json!([[{"text": "a b"}, call("c1", "add", &json!({"a": 1, "b": 2}))], [{"echo": "results"}]]));
    let events = |trust: &[&str]| -> Vec<Value> {
        let ran = chat(&home, &server, &[&["--json"], trust].concat(), &[&script]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let results = |events: &[Value]| -> Vec<Value> {
        events.iter().filter(|event| event["event"] == "tool_result").map(|event| event["content"].clone()).collect()
    };
    let denied = events(&[]);
    assert_eq!(denied[0]["event"], "session");
    assert_eq!(denied[1], json!({"event": "turn_start"}));
    assert_eq!(denied[2], json!({"event": "text_delta", "delta": "a "}));
    let starts = denied.iter().filter(|event| event["event"] == "turn_start").count();
    assert_eq!(starts, 2, "the message and the answer to the call: {denied:?}");
    assert_eq!(results(&denied), [json!("Tool call denied: there is no person to ask")]);
    assert_eq!(denied.last().unwrap()["stopReason"], "end_turn");
    assert_eq!(results(&events(&["--trust"])), [json!("3")]);
}

#[test]
fn piped_chat_continues_after_a_failed_turn_and_ends_with_status_1() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let failing = play(&json!([[{"throw": "the model is down"}]]));
    for flags in [&[][..], &["--json"]] {
        let ran = chat(&home, &server, flags, &[&failing, "still there?"]);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert!(ran.stdout.contains("the model is down") && ran.stdout.contains("still"), "it went on: {ran:?}");
        let ran = chat(&home, &server, flags, &["hello"]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
}

#[test]
fn options_are_set_by_flag_and_command_and_listed_without_secrets() {
    let home = TestAgentFolder::with_agent(OPTIONAL);
    let server = home.start();
    let tone = "which tone";
    let typed = ["/options", tone, "/set tone rude", "/set tone", "/set tone formal", tone];
    let ran = chat(&home, &server, &["--option", "tone=casual", "--option", "token=s3cret"], &typed);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    for text in [
        "tone = casual [formal | casual]",
        "token = ***",
        "\"rude\" is not a value of \"tone\"; allowed: formal, casual",
        "Write: /set NAME VALUE",
        "From your next message on: tone = formal",
        "The tone is casual.",
        "The tone is formal.",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    let wrong = chat(&home, &server, &["--option", "colour=red"], &[]);
    assert_eq!(wrong.status, Some(2));
    assert!(wrong.stderr.contains("it has: tone, token"), "{wrong:?}");
    assert_eq!(chat(&home, &server, &["--option", "tone"], &[]).status, Some(2));
}

#[test]
fn chat_with_a_server_without_aap_names_every_address_that_was_tried() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let elsewhere = format!("{}/console", server.url());
    let ran = home.nuncio(&["chat", &elsewhere]).run();
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.contains("there is no AAP server at") && ran.stderr.contains("/console ("), "{ran:?}");
    let closed = home.nuncio(&["chat", "localhost:1"]).run();
    assert!(closed.stderr.contains("http://localhost:1/aap: the server cannot be reached"), "{closed:?}");
}

#[test]
fn chat_prints_no_terminal_escapes_from_agent_text() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let ran = chat(
        &home,
        &server,
        &[],
        &[&play(&json!([[{"text": "a\u{1b}[2Jb \u{202e}c"}, call("c1", "add\u{1b}", &json!({}))]]))],
    );
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\u{202e}'), "{}", ran.stdout);
}

#[test]
fn chat_wraps_at_the_terminal_width_and_uses_the_language_of_the_locale() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let ran =
        chat_in(&home, &server, &[], &[&"word ".repeat(60), "/help"], &[("COLUMNS", "40"), ("LANG", "zh_CN.UTF-8")]);
    assert!(ran.stdout.contains("正在对话"), "{}", ran.stdout);
    for line in ran.stdout.lines().filter(|line| line.contains("word")) {
        assert!(line.len() <= 40, "{line:?}");
    }
}

#[test]
fn chat_without_a_required_key_fails_and_a_given_key_is_never_printed() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let key = home.key(&[]);
    let without = chat(&home, &server, &[], &["hello"]);
    assert_eq!(without.status, Some(1));
    assert!(without.stderr.contains("401"), "{without:?}");
    let with = chat_in(&home, &server, &[], &["hello"], &[("NUNCIO_KEY", &key)]);
    assert!(with.stdout.contains("You said: hello"), "{with:?}");
    assert!(!with.stdout.contains(&key) && !with.stderr.contains(&key));
    let help = home.nuncio(&["chat", "--help"]).env("NUNCIO_KEY", &key).run();
    assert!(!help.stdout.contains(&key), "{}", help.stdout);
}

#[test]
fn empty_key_variable_is_the_same_as_none() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let ran = chat_in(&home, &server, &[], &["hello"], &[("NUNCIO_KEY", "")]);
    assert!(ran.status == Some(0) && ran.stdout.contains("You said: hello"), "{ran:?}");
    let ran = home.nuncio(&["discover", server.url()]).env("NUNCIO_KEY", " ").run();
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

#[test]
fn chat_with_an_invalid_target_agent_session_or_tool_file_fails() {
    let home = TestAgentFolder::script();
    let server = home.start();
    assert_eq!(home.nuncio(&["chat", "ftp://x"]).run().status, Some(2));
    assert_eq!(chat(&home, &server, &["--agent", "nobody"], &[]).status, Some(1));
    assert_eq!(chat(&home, &server, &["--session", "ses_none"], &[]).status, Some(1));
    assert_eq!(chat(&home, &server, &["--tool", "missing.toml"], &[]).status, Some(1));
    fs::write(home.path("bad.toml"), "name = 1").unwrap();
    assert_eq!(chat(&home, &server, &["--tool", "bad.toml"], &[]).status, Some(2));
}

#[tokio::test]
async fn ctrl_c_cancels_a_running_turn_and_pressed_twice_when_idle_leaves_the_chat() {
    let home = TestAgentFolder::with_agent(&format!("{SCRIPTED}{}", shell_tool("mark", "touch begun; sleep 600")));
    let server = home.start();
    let target = server.url().trim_start_matches("http://").to_owned();
    let script = play(&json!([[call("c1", "mark", &json!({}))], [{"text": "never"}]]));
    let mut running = home.nuncio(&["chat", &target, "--trust"]).start_interactive();
    running.line(&script);
    until("the tool runs", async || home.path("begun").exists().then_some(())).await;
    running.interrupt();
    until("the turn is stopped", async || running.stdout().contains("Stopped.").then_some(())).await;
    running.line("still there?");
    until("the chat goes on", async || running.stdout().contains("You said: still there?").then_some(())).await;
    running.interrupt();
    until("it asks back", async || running.stdout().contains("Ctrl-C again to leave.").then_some(())).await;
    running.interrupt();
    let ran = running.wait_for_end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(!ran.stdout.contains("never"));
}

#[tokio::test]
async fn chat_in_a_terminal_prompts_dims_thinking_and_obeys_ctrl_c_and_ctrl_d() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let target = server.url().trim_start_matches("http://").to_owned();
    let Some(command) = home.nuncio(&["chat", &target]).in_terminal() else {
        return eprintln!("skipped: `script` is not installed");
    };
    let mut terminal = command.start_interactive();
    until("it prompts", async || terminal.stdout().contains("you> ").then_some(())).await;
    terminal.line(&play(&json!([[{"thinking": "hm"}, {"text": "slowly "}, {"sleep": 600_000}, {"text": "never"}]])));
    until("it speaks", async || terminal.stdout().contains("\u{1b}[2mhm").then_some(())).await;
    // The chat prints a word only when it is complete.
    terminal.keys("\u{3}");
    until("the turn is stopped", async || terminal.stdout().contains("Stopped.").then_some(())).await;
    terminal.line(&play(&json!([[{"text": "# Rooms\n- **101**"}]])));
    until("it prints Markdown", async || terminal.stdout().contains("• \u{1b}[1m101").then_some(())).await;
    terminal.keys("\u{4}");
    let ran = terminal.wait_for_end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("Resume with:"), "{ran:?}");
}
