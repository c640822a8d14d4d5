//! `process` brains: correct and faulty programs.

use nuncio_core::turn::{StopReason, TokenUsage};
use nuncio_engine::ports::Runner as _;
use nuncio_engine::ports::brain::BrainError;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::processes;
use crate::test_brain::TestBrain;
use crate::test_runners::RunnersFixture;

/// Brain that is a shell script with the key in its environment.
fn sh(script: &str) -> TestBrain {
    TestBrain::new(&format!(
        "[allow]\nwrite = [\".\"]\n[brain]\nkind = \"process\"\ncommand = [\"sh\", \"-c\", '''{script}''']\nenv = {{ KEY = \"{{{{ secrets.KEY }}}}\" }}\n\
         [[option]]\nname = \"pin\"\ntype = \"secret\"\n\
         [[tool]]\nname = \"add\"\ndescription = \"Adds.\"\ninput = {{ type = \"object\" }}\nrun = {{ command = [\"true\"] }}\n"
    ))
}

#[tokio::test]
async fn process_brain_gets_the_prompt_as_one_json_line() {
    let mut thinker = sh("cat > told; pwd > place; env > environment");
    thinker.set("pin", "1234-5678");
    let (thought, blocks) = thinker.think().await.blocks();
    assert_eq!((thought.stop, thought.usage, blocks), (StopReason::EndTurn, None, json!([])));
    let read = |name: &str| std::fs::read_to_string(thinker.workshop.folder.path().join(name)).unwrap();
    let told = read("told");
    assert_eq!((told.matches('\n').count(), told.ends_with('\n')), (1, true));
    assert_eq!(
        serde_json::from_str::<Value>(&told).unwrap(),
        json!({
            "agent": "hotel",
            "history": [{"role": "user", "content": "Hello"}],
            "options": {"pin": "1234-5678"},
            "tools": [{"name": "add", "description": "Adds.", "parameters": {"type": "object"}}],
        })
    );
    assert!(read("environment").lines().any(|line| line == "KEY=sk-hunter22"));
    assert_eq!(
        std::fs::canonicalize(read("place").trim()).unwrap(),
        thinker.workshop.folder.path().canonicalize().unwrap()
    );
}

#[tokio::test]
async fn every_kind_of_output_line_of_a_process_brain_takes_effect() {
    let script = r#"
cat > /dev/null
echo '{"thinking":"hm"}'
echo
echo '{"text":"Good "}'
printf '{"text":"morn'; sleep 0.05; echo 'ing 早"}'
echo '{"tool":{"name":"add","input":{"a":1},"id":"c1"}}'
echo '{"tool":{"name":"add"}}'
echo '{"usage":{"inputTokens":3,"outputTokens":4}}'
printf '{"stop":"max_tokens"}'
"#;
    let (thought, blocks) = sh(script).think().await.blocks();
    let usage = Some(TokenUsage { input_tokens: 3, output_tokens: 4 });
    assert_eq!((thought.stop, thought.usage), (StopReason::MaxTokens, usage));
    assert_eq!(
        blocks,
        json!([
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "Good morning 早"},
            {"type": "tool_use", "toolCallId": "c1", "name": "add", "input": {"a": 1}},
            {"type": "tool_use", "toolCallId": "call-3", "name": "add", "input": {}},
        ])
    );
    let (thought, _) = sh("echo '{\"tool\":{\"name\":\"add\"}}'").think().await.blocks();
    assert_eq!(thought.stop, StopReason::ToolUse);
}

#[tokio::test]
async fn process_brain_program_is_ended_after_its_stop_line() {
    let thinker = sh("echo $$ > pid; echo '{\"stop\":\"refusal\"}'; echo nonsense; sleep 1000");
    let (thought, _) = thinker.think().await.blocks();
    assert_eq!(thought.stop, StopReason::Refusal);
    let pid = std::fs::read_to_string(thinker.workshop.folder.path().join("pid")).unwrap();
    processes::wait_for_end(pid.trim().parse().unwrap()).await;
}

#[tokio::test]
async fn process_brain_failures_name_line_and_cause() {
    for (script, expected) in [
        (
            "echo '{\"text\":\"a\"}'; echo; echo hello; sleep 1000",
            "`sh` wrote line 3, which is not valid: expected value at line 1 column 1: hello",
        ),
        ("echo the model is gone >&2; exit 3", "`sh` ended with exit status: 3; its standard error: the model is gone"),
        ("echo '{\"text\":\"a\"}'; kill -9 $$", "`sh` ended with signal: 9 (SIGKILL)"),
        ("echo trace >&2; echo '{\"error\":\"out of ideas\"}'; exit 0", "out of ideas"),
        ("echo \"{\\\"error\\\":\\\"no $KEY\\\"}\"; exit 0", "no [secret]"),
        (
            "echo \"my key is $KEY\" >&2; exit 1",
            "`sh` ended with exit status: 1; its standard error: my key is [secret]",
        ),
        (
            "printf '{\"text\":\"cut o'",
            "`sh` wrote line 1, which is not valid: EOF while parsing a string at line 1 column 14: {\"text\":\"cut o",
        ),
        ("head -c 2000000 /dev/zero", "`sh` wrote more than 1048576 bytes in line 1"),
        ("yes '{\"usage\":{\"inputTokens\":1,\"outputTokens\":1}}'", "`sh` wrote more than 16777216 bytes"),
        ("yes '{\"tool\":{\"name\":\"add\"}}'", "`sh` called more than 256 tools at once"),
    ] {
        assert_eq!(sh(script).think().await.failure(), expected);
    }
    let mut thinker = sh("read line; echo \"$line\" >&2; exit 1");
    thinker.set("pin", "1234-5678");
    let why = thinker.think().await.failure();
    assert!(why.contains("\"pin\":\"[secret]\""), "{why}");
}

#[tokio::test]
async fn error_text_of_a_failed_program_is_general_and_of_its_error_line_its_own() {
    let text = async |script: &str| sh(script).think().await.outcome.unwrap_err().to_string();
    for broken in ["echo Traceback >&2; exit 1", "echo '  File \"brain.py\", line 2'", "kill -9 $$"] {
        assert_eq!(text(broken).await, "the agent's program failed; the log of its server says why");
    }
    assert_eq!(text("echo Traceback >&2; echo '{\"error\":\"the model is down\"}'").await, "the model is down");
}

#[tokio::test]
async fn process_brain_output_above_the_limit_is_refused() {
    let text = "x".repeat(60_000);
    match sh(&format!("yes '{{\"text\":\"{text}\"}}'")).think().await.outcome.unwrap_err() {
        BrainError::TooMuch(_) => {}
        BrainError::ProgramFailed { details } => assert!(details.contains("16777216"), "{details}"),
        BrainError::Failed(why) => panic!("{why}"),
    }
}

#[tokio::test]
async fn missing_program_of_a_process_brain_is_named_in_the_error() {
    let thinker = TestBrain::new("[brain]\nkind = \"process\"\ncommand = [\"./not-there\"]\n");
    let why = thinker.think().await.failure();
    assert!(why.starts_with("`./not-there` cannot be started: "), "{why}");
}

#[tokio::test]
async fn process_brain_with_unreadable_secret_is_refused_before_serving() {
    let workshop = RunnersFixture::new();
    let text = "[agent]\nname = \"hotel\"\nversion = \"1.0.0\"\n[brain]\nkind = \"process\"\ncommand = [\"true\"]\nenv = { A = \"{{ secrets.KEY }}\" }\n[secrets]\nKEY = { file = \"nowhere\" }\n";
    let agent = nuncio_agent_file::parse("agent.toml", text).unwrap().agent;
    let why = workshop.runners.resolve(agent).await.unwrap_err();
    assert!(why.starts_with("the secret `KEY` cannot be read"), "{why}");
}

#[tokio::test]
async fn dropped_step_ends_the_process_brain_and_its_children() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let thinker = sh(&format!("sleep 1000 & exec bash -c \"echo $$ $! > /dev/tcp/127.0.0.1/{port}; sleep 1000\""));
    let pids = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut line = String::new();
        stream.read_to_string(&mut line).await.unwrap();
        line.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()
    };
    let pids = tokio::select! {
        step = thinker.think() => panic!("it ended: {step:?}"),
        pids = pids => pids,
    };
    assert_eq!(pids.len(), 2);
    for pid in pids {
        processes::wait_for_end(pid).await;
    }
}

#[tokio::test]
async fn background_process_is_ended_and_does_not_delay_the_step() {
    let thinker = sh("sleep 1000 & echo $! > pid; echo '{\"text\":\"done\"}'");
    let (_, blocks) = thinker.think().await.blocks();
    assert_eq!(blocks[0]["text"], "done");
    let pid = std::fs::read_to_string(thinker.workshop.folder.path().join("pid")).unwrap();
    processes::wait_for_end(pid.trim().parse().unwrap()).await;
}
