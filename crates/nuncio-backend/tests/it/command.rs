//! Tools that are programs.

use std::time::Duration;

use nuncio_engine::ports::Runner;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::processes;
use crate::test_runners::{RunnersFixture, failure_text, tool, unavailable_text};

fn sh(name: &str, script: &str) -> String {
    tool(name, &format!("{{ command = [\"sh\", \"-c\", '''{script}'''] }}"))
}

#[tokio::test]
async fn program_gets_arguments_on_stdin_and_answers_on_stdout() {
    let workshop = RunnersFixture::new();
    let agent = workshop
        .resolve(&[sh("echo", "cat"), sh("say", "echo hello; echo"), sh("silent", "true")].concat())
        .await
        .unwrap();
    let echoed = workshop.run(&agent, "echo", json!({"room": "12", "nights": 2})).await.unwrap();
    assert_eq!(echoed.structured, Some(json!({"room": "12", "nights": 2})));
    let said = workshop.run(&agent, "say", json!({})).await.unwrap();
    assert_eq!((said.structured.as_ref(), said.message_content()), (None, "hello\n".into()));
    assert_eq!(workshop.run(&agent, "silent", json!({})).await.unwrap().message_content(), "".into());
}

#[tokio::test]
async fn command_arguments_are_not_interpreted_by_a_shell() {
    let workshop = RunnersFixture::new();
    let agent =
        workshop.resolve(&tool("say", r#"{ command = ["echo", "$HOME; `id`", "{{ args.x }}"] }"#)).await.unwrap();
    let said = workshop.run(&agent, "say", json!({"x": "$(id) 'y'"})).await.unwrap();
    assert_eq!(said.message_content(), "$HOME; `id` $(id) 'y'".into());
}

#[tokio::test]
async fn command_arguments_are_filled_in_and_each_stays_one_argument() {
    let workshop = RunnersFixture::new();
    std::fs::write(workshop.folder.path().join("key"), "hunter22\n").unwrap();
    let run = r#"{ command = ["printf", "[%s]", "{{ args.a }}", "--b={{ args.b | tojson }}", "{{ args.c | default('') }}", "{{ secrets.key }}", "{% raw %}{{.ID}}{% endraw %}"] }"#;
    let text = tool("say", run) + "[secrets]\nkey = { file = \"key\" }\n";
    let agent = workshop.resolve(&text).await.unwrap();
    let said = workshop.run(&agent, "say", json!({"a": "x  y", "b": ["é", 1]})).await.unwrap();
    assert_eq!(said.message_content(), r#"[x  y][--b=["é",1]][][hunter22][{{.ID}}]"#.into());
}

/// The commands of `docs/agent-file.md`.
#[tokio::test]
async fn documented_search_commands_accept_a_value_that_begins_with_a_hyphen() {
    let workshop = RunnersFixture::new();
    std::fs::write(workshop.folder.path().join("notes.txt"), "one\n-e two\n").unwrap();
    let direct = r#"{ command = ["grep", "-n", "--", "{{ args.text }}", "notes.txt"] }"#;
    let shell = r#"{ command = ["sh", "-c", 'grep -n -- "$TEXT" notes.txt'], env = { TEXT = "{{ args.text }}" } }"#;
    let agent = workshop.resolve(&[tool("direct", direct), tool("shell", shell)].concat()).await.unwrap();
    for name in ["direct", "shell"] {
        let found = workshop.run(&agent, name, json!({"text": "-e two"})).await.unwrap();
        assert_eq!(found.message_content(), "2:-e two".into(), "{name}");
    }
}

#[tokio::test]
async fn call_whose_argument_is_missing_an_option_or_has_control_characters_starts_nothing() {
    let workshop = RunnersFixture::new();
    let run = r#"{ command = ["touch", "{{ args.a }}"] }"#;
    let agent = workshop.resolve(&tool("touch", run)).await.unwrap();
    for (arguments, expected) in [
        (json!({}), "argument 1 of `touch` cannot be filled in: `args.a` has no value"),
        (json!({"a": "--reference=/etc/passwd"}), "argument 1 of `touch` would be read as an option"),
        (json!({"a": "x\0y"}), "argument 1 of `touch` cannot be filled in: a value contains a control character"),
        (json!({"a": "x\ny"}), "argument 1 of `touch` cannot be filled in: a value contains a control character"),
    ] {
        let why = failure_text(workshop.run(&agent, "touch", arguments.clone()).await);
        assert!(why.starts_with(expected), "{arguments}: {why}");
    }
    assert_eq!(std::fs::read_dir(workshop.folder.path()).unwrap().count(), 0, "no file was made");
}

#[tokio::test]
async fn failed_command_reports_exit_status_and_stderr() {
    let workshop = RunnersFixture::new();
    let script = "yes complaint | head -c 10000 >&2; echo the end >&2; exit 3";
    let agent = workshop.resolve(&[sh("fail", script), sh("killed", "kill -9 $$")].concat()).await.unwrap();
    let why = failure_text(workshop.run(&agent, "fail", json!({})).await);
    assert!(why.starts_with("`sh` ended with exit status: 3: ") && why.ends_with("the end"), "{why}");
    assert!(why.len() < 5000, "{}", why.len());
    let why = failure_text(workshop.run(&agent, "killed", json!({})).await);
    assert!(why.contains("signal: 9"), "{why}");
}

#[tokio::test]
async fn missing_program_makes_the_tool_unavailable() {
    let workshop = RunnersFixture::new();
    let agent = workshop.resolve(&tool("gone", r#"{ command = ["./not-there"] }"#)).await.unwrap();
    let why = unavailable_text(workshop.run(&agent, "gone", json!({})).await);
    assert!(why.starts_with("`./not-there` cannot be started"), "{why}");
}

#[tokio::test]
async fn relative_program_is_found_and_run_in_the_agent_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    let workshop = RunnersFixture::new();
    let script = workshop.folder.path().join("where");
    std::fs::write(&script, "#!/bin/sh\npwd\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let tools = [tool("where", r#"{ command = ["./where"] }"#), tool("own", r#"{ command = ["nuncio", "demo"] }"#)];
    let agent = workshop.resolve(&tools.concat()).await.unwrap();
    let place = workshop.run(&agent, "where", json!({})).await.unwrap().message_content().text();
    assert_eq!(std::fs::canonicalize(place).unwrap(), workshop.folder.path().canonicalize().unwrap());
    // The fixture starts `echo` for the command `nuncio`.
    assert_eq!(workshop.run(&agent, "own", json!({})).await.unwrap().message_content(), "demo".into());
}

#[tokio::test]
async fn program_environment_contains_only_declared_and_standard_variables() {
    let workshop = RunnersFixture::new();
    std::fs::write(workshop.folder.path().join("key"), "hunter22\n").unwrap();
    let run = r#"{ command = ["env"], env = { KEY = "Bearer {{ secrets.key }}" } }"#;
    let agent =
        workshop.resolve(&format!("{}[secrets]\nkey = {{ file = \"key\" }}\n", tool("env", run))).await.unwrap();
    let env = workshop.run(&agent, "env", json!({})).await.unwrap().message_content().text();
    let mut names: Vec<&str> = env.lines().filter_map(|line| line.split('=').next()).collect();
    names.retain(|name| !matches!(*name, "HOME" | "LANG" | "PATH"));
    names.sort_unstable();
    let folders = ["NUNCIO_STATE", "TMPDIR", "XDG_CACHE_HOME", "npm_config_cache"];
    names.retain(|name| !folders.contains(name) && !name.starts_with("UV_"));
    assert_eq!(names, ["KEY", "TRACEPARENT"], "{env}");
    assert!(env.contains("KEY=Bearer hunter22\n") || env.ends_with("KEY=Bearer hunter22"), "{env}");
}

#[tokio::test]
async fn call_identifiers_are_in_the_environment_unless_the_agent_file_sets_them() {
    let workshop = RunnersFixture::new();
    let run = r#"{ command = ["env"], env = { NUNCIO_TRACE_ID = "mine" } }"#;
    let agent = workshop.resolve(&tool("env", run)).await.unwrap();
    let mut call = workshop.call(&agent, "env", json!({}));
    let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    call.trace = [
        ("execution_id", "exe_1"),
        ("attempt", "2"),
        ("request_id", "nothing\0in it"),
        ("trace_id", "theirs; $(id)"),
        ("traceparent", context),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into();
    let env = workshop.runners.run(call).await.unwrap().message_content().text();
    let mut told: Vec<&str> =
        env.lines().filter(|line| line.starts_with("NUNCIO_") || line.contains("TRACE")).collect();
    told.retain(|line| !line.starts_with("NUNCIO_STATE="));
    told.sort_unstable();
    let traceparent = format!("TRACEPARENT={context}");
    assert_eq!(told, ["NUNCIO_ATTEMPT=2", "NUNCIO_EXECUTION_ID=exe_1", "NUNCIO_TRACE_ID=mine", &traceparent]);
}

#[tokio::test]
async fn environment_templates_are_filled_with_call_arguments() {
    let workshop = RunnersFixture::new();
    let run = r#"{ command = ["sh", "-c", "echo $ROOM"], env = { ROOM = "room {{ args.room }}" } }"#;
    let agent = workshop.resolve(&tool("say", run)).await.unwrap();
    let said = workshop.run(&agent, "say", json!({"room": "12; id"})).await.unwrap();
    assert_eq!(said.message_content(), "room 12; id".into());
    for (arguments, complaint) in
        [(json!({}), "`args.room` has no value"), (json!({"room": "1\n2"}), "control character")]
    {
        let why = failure_text(workshop.run(&agent, "say", arguments).await);
        assert!(why.starts_with("the value of `ROOM` cannot be filled in") && why.contains(complaint), "{why}");
    }
}

#[tokio::test]
async fn secret_is_redacted_in_command_error() {
    let workshop = RunnersFixture::new();
    std::fs::write(workshop.folder.path().join("key"), "hunter22").unwrap();
    let run = r#"{ command = ["sh", "-c", "echo $KEY is wrong >&2; exit 1"], env = { KEY = "{{ secrets.key }}" } }"#;
    let agent =
        workshop.resolve(&format!("{}[secrets]\nkey = {{ file = \"key\" }}\n", tool("fail", run))).await.unwrap();
    let why = failure_text(workshop.run(&agent, "fail", json!({})).await);
    assert_eq!(why, "`sh` ended with exit status: 1: [secret] is wrong");
}

#[tokio::test]
async fn agent_with_unreadable_secret_is_refused_before_serving() {
    let workshop = RunnersFixture::new();
    std::fs::write(workshop.folder.path().join("empty"), "\n").unwrap();
    for (source, complaint) in [
        (r#"{ file = "nowhere" }"#, "cannot be read from"),
        (r#"{ file = "empty" }"#, "is empty"),
        (r#"{ env = "NUNCIO_TEST_NOT_SET" }"#, "NUNCIO_TEST_NOT_SET, which is not set"),
    ] {
        let why = workshop.resolve(&format!("[secrets]\nkey = {source}\n")).await.unwrap_err();
        assert!(why.starts_with("the secret `key` ") && why.contains(complaint), "{why}");
    }
}

#[tokio::test]
async fn program_that_does_not_read_large_stdin_still_succeeds() {
    let workshop = RunnersFixture::new();
    let agent =
        workshop.resolve(&[sh("deaf", "echo done"), sh("closes", "exec 0<&-; echo done")].concat()).await.unwrap();
    let large = json!({"text": "x".repeat(1_000_000)});
    for name in ["deaf", "closes"] {
        assert_eq!(workshop.run(&agent, name, large.clone()).await.unwrap().message_content(), "done".into());
    }
}

#[tokio::test]
async fn output_above_1_mib_fails_the_call_and_ends_the_program() {
    let workshop = RunnersFixture::new();
    let script = "echo $$ > pid; yes 2>/dev/null & yes";
    let agent = workshop.resolve(&sh("endless", script)).await.unwrap();
    let why = failure_text(workshop.run(&agent, "endless", json!({})).await);
    assert_eq!(why, "`sh` answered with more than 1048576 bytes");
    let pid = std::fs::read_to_string(workshop.folder.path().join("pid")).unwrap();
    processes::wait_for_end(pid.trim().parse().unwrap()).await;
}

/// Tool whose program starts another one, reports both process ids on a socket and never ends.
async fn stuck(workshop: &RunnersFixture) -> (std::sync::Arc<nuncio_core::agent::Agent>, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("sleep 1000 & exec bash -c \"echo $$ $! > /dev/tcp/127.0.0.1/{port}; sleep 1000\"");
    (workshop.resolve(&sh("stuck", &script)).await.unwrap(), listener)
}

async fn pids(listener: &TcpListener) -> Vec<u32> {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut line = String::new();
    stream.read_to_string(&mut line).await.unwrap();
    line.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[tokio::test]
async fn dropped_call_ends_program_and_its_children() {
    let workshop = RunnersFixture::new();
    let (agent, listener) = stuck(&workshop).await;
    let started = async {
        let pids = pids(&listener).await;
        assert!(pids.len() == 2 && pids.iter().all(|pid| processes::is_running(*pid)), "{pids:?}");
        pids
    };
    let pids = tokio::select! {
        outcome = workshop.run(&agent, "stuck", json!({})) => panic!("it ended: {outcome:?}"),
        pids = started => pids,
    };
    for pid in pids {
        processes::wait_for_end(pid).await;
    }
}

#[tokio::test]
async fn deadline_ends_program_and_its_children() {
    let workshop = RunnersFixture::new();
    let (agent, listener) = stuck(&workshop).await;
    let call = workshop.call(&agent, "stuck", json!({}));
    let (outcome, pids) = tokio::join!(workshop.runners.run(call), async {
        let pids = pids(&listener).await;
        workshop.clock.advance(Duration::from_secs(61));
        pids
    });
    assert_eq!(failure_text(outcome), "the tool `stuck` did not finish by its deadline");
    for pid in pids {
        processes::wait_for_end(pid).await;
    }
}

#[tokio::test]
async fn background_processes_end_with_the_call() {
    let workshop = RunnersFixture::new();
    let agent = workshop.resolve(&sh("daemon", "sleep 1000 & echo $!")).await.unwrap();
    let pid = workshop.run(&agent, "daemon", json!({})).await.unwrap().structured.unwrap();
    processes::wait_for_end(pid.as_u64().unwrap().try_into().unwrap()).await;
}
