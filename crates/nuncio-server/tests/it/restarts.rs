//! Executions across stops and crashes of the server.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::AuditOutcome;
use nuncio_core::execution::{Execution, ExecutionState};
use nuncio_engine::invoke::ExecutionSubmitError;
use nuncio_engine::ports::store::{CallStore as _, NodeState, NodeStore as _};
use nuncio_store::SqliteStore;
use nuncio_testkit::{Gateway, GatewayBuilder, ManualClock};
use serde_json::json;
use tempfile::TempDir;

use crate::agents::{DESK, count, desk, gone, held, held_pid, release, runs, tool};
use crate::executions::{OPEN, anyone, code, invocation, look, output, over, script, submit, submit_as, whole_desk};

const ALONE: &str = "skill = { type = \"task\", concurrency = 1 }";

fn builder(clock: &ManualClock, tools: &[String]) -> GatewayBuilder {
    Gateway::builder().agent(DESK, &desk(tools)).clock(clock)
}

/// A gateway that gives running work no time when it stops.
fn at_once(builder: GatewayBuilder) -> GatewayBuilder {
    builder.settings(|settings| settings.limits.shutdown_seconds = 0)
}

/// The outcomes of an execution's attempts, as they were recorded.
async fn outcomes(gateway: &Gateway, execution: &Execution) -> Vec<AuditOutcome> {
    let mine = |call: &str| call.split_once('.').is_some_and(|(id, _)| id == execution.id.as_str());
    let audit = gateway.audit().await.into_iter().filter(|record| mine(record.call.as_str()));
    audit.map(|record| record.outcome).collect()
}

/// A tool that creates the pipe `gate` and returns the line that it reads from it, one call at a time.
fn gated() -> [String; 1] {
    [tool(
        "held",
        "echo ran >> runs; mkfifo gate 2>/dev/null; echo $$ > held.new; mv held.new held.pid; cat gate",
        ALONE,
    )]
}

#[tokio::test]
async fn stopped_server_leaves_queued_and_running_executions_to_the_next_process() {
    let clock = ManualClock::new();
    let tools = gated();
    let gateway = at_once(builder(&clock, &tools)).start().await;
    let running = submit(&gateway, invocation("held", json!({})).with_key("k", "b")).await;
    let pid = held_pid(&gateway).await;
    clock.advance(Duration::from_millis(1));
    let queued = submit(&gateway, invocation("held", json!({}))).await;
    let data = gateway.stop().await;
    gone(pid).await;

    let gateway = at_once(builder(&clock, &tools)).data(data).start().await;
    assert_eq!(look(&gateway, &running).await.state, ExecutionState::Running, "it never goes back to accepted");
    let again = submit_as(gateway.engine(), &anyone(), invocation("held", json!({})).with_key("k", "b")).await.unwrap();
    assert_eq!((&again.execution.id, again.again), (&running.id, true), "its key is known");
    release(&gateway, "gate", "first").await;
    let first = over(&gateway, &running).await;
    assert_eq!((output(&first), first.attempt), (&json!("first"), 2));
    assert_eq!(first.order, running.order);
    release(&gateway, "gate", "second").await;
    let second = over(&gateway, &queued).await;
    assert_eq!((output(&second), second.attempt), (&json!("second"), 1));
    assert_eq!(
        outcomes(&gateway, &running).await,
        [AuditOutcome::Failed { code: ErrorCode::Cancelled }, AuditOutcome::Completed]
    );
    assert_eq!(outcomes(&gateway, &queued).await, [AuditOutcome::Completed]);
}

#[tokio::test]
async fn stopping_server_lets_running_executions_finish_and_starts_none() {
    let clock = ManualClock::new();
    let tools = gated();
    let gateway = builder(&clock, &tools).start().await;
    let running = submit(&gateway, invocation("held", json!({}))).await;
    held_pid(&gateway).await;
    let queued = submit(&gateway, invocation("held", json!({}))).await;
    let (engine, gate, ran) = (gateway.engine().clone(), gateway.file(DESK, "gate"), gateway.file(DESK, "runs"));
    let stopping = tokio::spawn(gateway.stop());
    nuncio_testkit::eventually("it stops", async || engine.is_closing().then_some(())).await;
    let refused = submit_as(&engine, &anyone(), invocation("held", json!({}))).await;
    assert!(matches!(refused, Err(ExecutionSubmitError::Engine(error)) if error.code == ErrorCode::ShuttingDown));
    // The folder is deleted with the gateway, so the runs are counted when the first one ends.
    std::thread::spawn(move || std::fs::write(gate, "done").unwrap());
    // The gateway waits until all references to its engine are dropped.
    drop(engine);
    let data = stopping.await.unwrap();
    assert!(!ran.exists() || std::fs::read_to_string(ran).unwrap().lines().count() == 1);

    let gateway = builder(&clock, &tools).data(data).start().await;
    let first = look(&gateway, &running).await;
    assert_eq!((output(&first), first.attempt), (&json!("done"), 1));
    release(&gateway, "gate", "then").await;
    let second = over(&gateway, &queued).await;
    assert_eq!((output(&second), second.attempt), (&json!("then"), 1));
}

async fn crash(gateway: &Gateway, clock: &ManualClock, tools: &[String]) -> Gateway {
    builder(clock, tools).data(gateway.data_as_after_a_crash()).start().await
}

#[tokio::test]
async fn running_execution_is_restarted_after_a_crash() {
    let clock = ManualClock::new();
    let tools = [held(OPEN), count(OPEN)];
    let gateway = builder(&clock, &tools).start().await;
    let done = submit(&gateway, invocation("count", json!({}))).await;
    let done = over(&gateway, &done).await;
    let running = submit(&gateway, invocation("held", json!({}))).await;
    held_pid(&gateway).await;
    program_start_recorded(&gateway, &running).await;
    let gateway = crash(&gateway, &clock, &tools).await;
    assert_eq!(look(&gateway, &done).await, done, "an ended execution is unchanged");
    release(&gateway, "held.gate", "again").await;
    let again = over(&gateway, &running).await;
    assert_eq!((output(&again), again.attempt), (&json!("again"), 2));
    let interrupted = AuditOutcome::Failed { code: ErrorCode::Interrupted };
    assert_eq!(outcomes(&gateway, &running).await, [interrupted, AuditOutcome::Completed]);
    assert_eq!(runs(&gateway), 0, "the tool is not run again");
}

/// Waits until it is on disk that the program of an execution has started.
async fn program_start_recorded(gateway: &Gateway, execution: &Execution) {
    nuncio_testkit::eventually("the start of the program is recorded", async || {
        let data = gateway.data_as_after_a_crash();
        let store = SqliteStore::open(&data.path().join("nuncio.db")).unwrap();
        let mut nodes = store.nodes().await.unwrap();
        nodes.retain(|node| node.state == NodeState::Alive);
        let begun = store.begun_calls(&nodes.remove(0).incarnation).await.unwrap();
        begun.iter().any(|(begun, call)| begun.id == execution.id && call.started).then_some(())
    })
    .await;
}

#[tokio::test]
async fn crashes_before_the_tool_starts_do_not_count_towards_the_limit_of_interruptions() {
    let clock = ManualClock::new();
    // An MCP server that never answers: the call waits for its connection.
    let late = tool("late", "", OPEN).replace("command = [\"sh\", \"-c\", '''''']", "mcp = \"silent\"");
    let tools = [late, "[[mcp]]\nname = \"silent\"\ncommand = [\"sleep\", \"600\"]\n".to_owned()];
    let mut gateway = builder(&clock, &tools).start().await;
    let execution = submit(&gateway, invocation("late", json!({}))).await;
    for attempt in 1..=5 {
        nuncio_testkit::eventually("it is begun", async || {
            (look(&gateway, &execution).await.attempt == attempt).then_some(())
        })
        .await;
        gateway = crash(&gateway, &clock, &tools).await;
    }
    let again = nuncio_testkit::eventually("it is begun again", async || {
        let execution = look(&gateway, &execution).await;
        (execution.attempt == 6 || execution.state.is_over()).then_some(execution)
    })
    .await;
    assert_eq!((again.state, again.attempt, again.unstarted), (ExecutionState::Running, 6, 5));
    assert_eq!(outcomes(&gateway, &execution).await, vec![AuditOutcome::NotRun; 5]);
}

#[tokio::test]
async fn execution_interrupted_by_three_crashes_fails() {
    let clock = ManualClock::new();
    let tools = [held(OPEN)];
    let mut gateway = builder(&clock, &tools).start().await;
    let poison = submit(&gateway, invocation("held", json!({}))).await;
    for attempt in 1..=3 {
        held_pid(&gateway).await;
        assert_eq!(look(&gateway, &poison).await.attempt, attempt);
        program_start_recorded(&gateway, &poison).await;
        gateway = crash(&gateway, &clock, &tools).await;
    }
    let given_up = over(&gateway, &poison).await;
    assert_eq!((code(&given_up), given_up.attempt), (("failed", ErrorCode::Interrupted), 3));
    assert_eq!(outcomes(&gateway, &poison).await, vec![AuditOutcome::Failed { code: ErrorCode::Interrupted }; 3]);
    assert!(!gateway.file(DESK, "held.pid").exists(), "it was not begun a fourth time");
    assert_eq!(gateway.engine().load().open_executions, 0);
}

#[tokio::test]
async fn retries_by_policy_do_not_count_as_interruptions() {
    let clock = ManualClock::new();
    let more = "timeout_ms = 600000\nskill = { type = \"task\", retry = { max_attempts = 8, backoff_ms = 1000 } }";
    let absent = tool("absent", "", more).replace("[\"sh\", \"-c\", '''''']", "[\"./absent.sh\"]");
    let tools = [absent];
    let gateway = builder(&clock, &tools).start().await;
    let execution = submit(&gateway, invocation("absent", json!({}))).await;
    for (attempt, pause) in [(1, 1), (2, 2), (3, 4)] {
        nuncio_testkit::eventually("it was tried", async || {
            (outcomes(&gateway, &execution).await.len() == attempt).then_some(())
        })
        .await;
        clock.pass(Duration::from_secs(pause)).await;
    }
    nuncio_testkit::eventually("four times", async || (gateway.audit().await.len() == 4).then_some(())).await;
    let gateway = crash(&gateway, &clock, &tools).await;
    nuncio_testkit::eventually("and a fifth", async || (look(&gateway, &execution).await.attempt == 5).then_some(()))
        .await;
    assert_eq!(look(&gateway, &execution).await.state, ExecutionState::Running);
}

#[tokio::test]
async fn execution_of_a_removed_skill_fails_after_restart() {
    let clock = ManualClock::new();
    let gateway = builder(&clock, &[held(ALONE)]).start().await;
    let running = submit(&gateway, invocation("held", json!({}))).await;
    held_pid(&gateway).await;
    let queued = submit(&gateway, invocation("held", json!({}))).await;
    let gateway = crash(&gateway, &clock, &[held("")]).await;
    for (execution, attempt) in [(running, 1), (queued, 0)] {
        let failed = over(&gateway, &execution).await;
        assert_eq!((code(&failed), failed.attempt), (("failed", ErrorCode::SkillNotFound), attempt));
    }
}

#[tokio::test]
async fn deadline_of_an_execution_runs_while_the_server_is_down() {
    let clock = ManualClock::new();
    let tools = [held("timeout_ms = 60000\nskill = { type = \"task\", concurrency = 1 }")];
    let gateway = at_once(builder(&clock, &tools)).start().await;
    let running = submit(&gateway, invocation("held", json!({}))).await;
    held_pid(&gateway).await;
    let queued = submit(&gateway, invocation("held", json!({}))).await;
    let data = gateway.stop().await;
    clock.advance(Duration::from_secs(60));
    let gateway = at_once(builder(&clock, &tools)).data(data).start().await;
    for (execution, attempt) in [(running, 1), (queued, 0)] {
        let late = over(&gateway, &execution).await;
        assert_eq!((code(&late), late.attempt), (("timeout", ErrorCode::ToolTimeout), attempt));
    }
    assert!(!gateway.file(DESK, "held.pid").exists(), "it is too late to begin");
}

#[tokio::test]
async fn execution_requeued_after_a_crash_can_be_cancelled() {
    let clock = ManualClock::new();
    let tools = [held(ALONE)];
    let gateway = builder(&clock, &tools).start().await;
    let first = submit(&gateway, invocation("held", json!({}))).await;
    held_pid(&gateway).await;
    let second = submit(&gateway, invocation("held", json!({}))).await;
    let gateway = crash(&gateway, &clock, &tools).await;
    held_pid(&gateway).await;
    for execution in [&first, &second] {
        gateway.engine().executions().cancel_execution(&anyone(), execution.id.as_str()).await.unwrap();
        assert_eq!(code(&over(&gateway, execution).await), ("failed", ErrorCode::Cancelled));
    }
}

#[tokio::test]
async fn approval_question_is_asked_again_after_a_restart() {
    let clock = ManualClock::new();
    let sign = tool("sign", "echo ran >> runs; printf signed", &format!("human_authorization = true\n{OPEN}"));
    let tools = [sign];
    let gateway = at_once(builder(&clock, &tools)).start().await;
    let execution = submit(&gateway, invocation("sign", json!({}))).await;
    let before = gateway.question().await;
    let data = gateway.stop().await;
    let gateway = at_once(builder(&clock, &tools)).data(data).start().await;
    let question = gateway.question().await;
    assert_ne!(question.id, before.id);
    let answer = nuncio_core::approval::ApprovalAnswer::Allow;
    let operator = nuncio_core::principal::Principal::Operator;
    gateway.engine().approvals().decide_approval(&question.id, answer, operator).await.unwrap();
    let signed = over(&gateway, &execution).await;
    assert_eq!((output(&signed), signed.attempt, runs(&gateway)), (&json!("signed"), 1, 1));
}

const THINKS: Duration = Duration::from_millis(4711);

#[tokio::test]
async fn agent_skill_is_run_again_after_a_restart_and_leaves_no_session() {
    let clock = ManualClock::new();
    let start = |data: Option<Arc<TempDir>>| {
        let builder = at_once(Gateway::builder().agent(DESK, &whole_desk(&[])).clock(&clock));
        match data {
            Some(data) => builder.data(data),
            None => builder,
        }
    };
    let gateway = start(None).start().await;
    let ada = gateway.key(&[]).await;
    let slow = invocation("ask", script(&json!([[{"text": "well "}, {"sleep": 4711}, {"text": "yes"}]])));
    let execution = submit_as(gateway.engine(), &ada.caller, slow).await.unwrap().execution;
    clock.wait_for_sleeper(THINKS).await;
    let crashed = gateway.data_as_after_a_crash();
    let stopped = gateway.stop().await;
    for data in [stopped, crashed] {
        let gateway = start(Some(data)).start().await;
        clock.pass(THINKS).await;
        let answered = over(&gateway, &execution).await;
        assert_eq!((output(&answered), answered.attempt), (&json!({"text": "well yes"}), 2));
        let sessions = gateway.aap_with_key(&ada.secret).get("/sessions").await.1;
        assert_eq!(sessions, json!({"sessions": []}));
    }
}

/// After a disconnect the execution either was accepted or does not exist.
#[tokio::test]
async fn submission_aborted_at_any_point_and_repeated_runs_once() {
    let clock = ManualClock::new();
    let gateway = builder(&clock, &[count(OPEN)]).start().await;
    let engine = gateway.engine().clone();
    for number in 0..20 {
        let wished = invocation("count", json!({})).with_key(&number.to_string(), "b");
        let asking = tokio::spawn({
            let (engine, wished) = (engine.clone(), wished.clone());
            async move { submit_as(&engine, &anyone(), wished).await }
        });
        for _ in 0..number {
            tokio::task::yield_now().await;
        }
        asking.abort();
        let asked = submit_as(&engine, &anyone(), wished).await.unwrap();
        over(&gateway, &asked.execution).await;
    }
    assert_eq!((runs(&gateway), gateway.audit().await.len()), (20, 20));
    nuncio_testkit::eventually("no execution is open any more", async || {
        (engine.load().open_executions == 0).then_some(())
    })
    .await;
}
