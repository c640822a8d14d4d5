//! Times of executions: deadlines, cancellation, retries, waiting and retention.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::AuditOutcome;
use nuncio_core::execution::{Execution, ExecutionState};
use nuncio_core::principal::Principal;
use nuncio_engine::Caller;
use nuncio_server::settings::LimitSettings;
use nuncio_testkit::{Gateway, ManualClock, eventually};
use serde_json::json;

use crate::agents::{DESK, count, desk, gone, held, held_pid, release, runs, tool};
use crate::executions::{OPEN, anyone, code, invocation, look, output, over, script, submit, submit_as, whole_desk};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

async fn start(clock: &ManualClock, tools: &[String], limit: impl FnOnce(&mut LimitSettings)) -> Gateway {
    let gateway = Gateway::builder().agent(DESK, &desk(tools)).clock(clock);
    gateway.settings(|settings| limit(&mut settings.limits)).start().await
}

async fn cancel(gateway: &Gateway, execution: &Execution) -> Execution {
    gateway.engine().executions().cancel_execution(&anyone(), execution.id.as_str()).await.unwrap()
}

#[tokio::test]
async fn shorter_of_caller_and_author_timeout_applies() {
    for (asked, limit) in [(Some(5), 5), (Some(90), 60), (None, 60)] {
        let clock = ManualClock::new();
        let gateway = start(&clock, &[held(&format!("timeout_ms = 60000\n{OPEN}"))], |_| {}).await;
        let wished = match asked {
            Some(limit) => invocation("held", json!({})).with_timeout(seconds(limit)),
            None => invocation("held", json!({})),
        };
        let execution = submit(&gateway, wished).await;
        assert_eq!(execution.order.timeout_ms, limit * 1000, "{asked:?}");
        let pid = held_pid(&gateway).await;
        clock.wait_for_sleeper(seconds(limit)).await;
        clock.advance(seconds(limit) - Duration::from_millis(1));
        assert_eq!(look(&gateway, &execution).await.state, ExecutionState::Running);
        clock.pass(Duration::from_millis(1)).await;
        let late = over(&gateway, &execution).await;
        assert_eq!((code(&late), late.attempt), (("timeout", ErrorCode::ToolTimeout), 1), "{asked:?}");
        gone(pid).await;
        let audit = gateway.audit().await;
        assert_eq!((audit.len(), &audit[0].outcome), (1, &AuditOutcome::Failed { code: ErrorCode::ToolTimeout }));
    }
}

/// The time limit begins at acceptance, not at the start of the run.
#[tokio::test]
async fn deadline_runs_while_an_execution_is_queued() {
    let clock = ManualClock::new();
    let more = "timeout_ms = 60000\nskill = { type = \"task\", concurrency = 1 }";
    let gateway = start(&clock, &[held(more)], |_| {}).await;
    let running = submit(&gateway, invocation("held", json!({}))).await;
    held_pid(&gateway).await;
    let queued = submit(&gateway, invocation("held", json!({})).with_timeout(seconds(5))).await;
    clock.pass(seconds(5)).await;
    let late = over(&gateway, &queued).await;
    assert_eq!((code(&late), late.attempt), (("timeout", ErrorCode::ToolTimeout), 0));
    assert_eq!(gateway.engine().load().open_executions, 1);
    release(&gateway, "held.gate", "done").await;
    assert_eq!(output(&over(&gateway, &running).await), "done", "other executions keep their deadline");
    assert_eq!(gateway.audit().await.len(), 1, "an execution that never began has no audit record");
}

/// Executions and turns share the concurrency limit of a tool, where an execution may wait too.
#[tokio::test]
async fn deadline_runs_while_the_tool_is_busy() {
    let clock = ManualClock::new();
    let gateway =
        start(&clock, &[held("timeout_ms = 60000\nskill = { type = \"task\", concurrency = 5 }")], |limits| {
            limits.calls_per_tool = 1;
        })
        .await;
    let running = submit(&gateway, invocation("held", json!({}))).await;
    held_pid(&gateway).await;
    let waiting = submit(&gateway, invocation("held", json!({})).with_timeout(seconds(5))).await;
    clock.pass(seconds(5)).await;
    let late = over(&gateway, &waiting).await;
    assert_eq!((late.state.as_str(), late.attempt), ("timeout", 0), "{late:?}");
    release(&gateway, "held.gate", "done").await;
    over(&gateway, &running).await;
}

#[tokio::test]
async fn execution_of_a_whole_agent_as_a_skill_can_time_out_or_be_cancelled() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &whole_desk(&[])).clock(&clock).start().await;
    let ada = gateway.key(&[]).await;
    let slow = invocation("ask", script(&json!([[{"text": "well "}, {"sleep": 300_000}, {"text": "yes"}]])));
    let engine = gateway.engine();
    let hurried = submit_as(engine, &ada.caller, slow.clone().with_timeout(seconds(20))).await.unwrap().execution;
    clock.wait_for_sleeper(seconds(300)).await;
    clock.pass(seconds(20)).await;
    let late = over(&gateway, &hurried).await;
    assert_eq!((code(&late), late.attempt), (("timeout", ErrorCode::ToolTimeout), 1));

    let stopped = submit_as(engine, &ada.caller, slow).await.unwrap().execution;
    clock.wait_for_sleeper(seconds(300)).await;
    engine.executions().cancel_execution(&ada.caller, stopped.id.as_str()).await.unwrap();
    assert_eq!(code(&over(&gateway, &stopped).await), ("failed", ErrorCode::Cancelled));
    assert_eq!(ada.aap.get("/sessions").await.1, json!({"sessions": []}), "no conversation remains");
    assert_eq!(engine.load().running_turns, 0);
}

#[tokio::test]
async fn queued_execution_can_be_cancelled() {
    let clock = ManualClock::new();
    let gateway = start(&clock, &[held("skill = { type = \"task\", concurrency = 1 }")], |_| {}).await;
    let running = submit(&gateway, invocation("held", json!({}))).await;
    held_pid(&gateway).await;
    let queued = submit(&gateway, invocation("held", json!({}))).await;
    let told = cancel(&gateway, &queued).await;
    assert_eq!((code(&told), told.attempt), (("failed", ErrorCode::Cancelled), 0), "a queued execution ends at once");
    assert_eq!(look(&gateway, &queued).await, told);
    assert_eq!(cancel(&gateway, &queued).await, told, "a second cancellation changes nothing");
    release(&gateway, "held.gate", "done").await;
    assert_eq!(output(&over(&gateway, &running).await), "done");
    assert_eq!(gateway.audit().await.len(), 1);
}

#[tokio::test]
async fn cancelled_running_execution_fails_with_cancelled_and_its_program_ends() {
    let clock = ManualClock::new();
    let gateway = start(&clock, &[held(OPEN)], |_| {}).await;
    let execution = submit(&gateway, invocation("held", json!({}))).await;
    let pid = held_pid(&gateway).await;
    cancel(&gateway, &execution).await;
    let cancelled = over(&gateway, &execution).await;
    assert_eq!((code(&cancelled), cancelled.attempt), (("failed", ErrorCode::Cancelled), 1));
    gone(pid).await;
    assert_eq!(cancel(&gateway, &execution).await, cancelled);
    let audit = gateway.audit().await;
    assert_eq!((audit.len(), &audit[0].outcome), (1, &AuditOutcome::Failed { code: ErrorCode::Cancelled }));
}

#[tokio::test]
async fn execution_waiting_for_approval_can_be_cancelled() {
    let clock = ManualClock::new();
    let sign = tool("sign", "printf signed", &format!("human_authorization = true\n{OPEN}"));
    let gateway = start(&clock, &[sign], |_| {}).await;
    let execution = submit(&gateway, invocation("sign", json!({}))).await;
    gateway.question().await;
    cancel(&gateway, &execution).await;
    let cancelled = over(&gateway, &execution).await;
    assert_eq!((code(&cancelled), cancelled.attempt), (("failed", ErrorCode::Cancelled), 0));
    gateway.questions(0).await;
}

#[tokio::test]
async fn cancelling_a_finished_execution_changes_nothing() {
    let clock = ManualClock::new();
    let gateway = start(&clock, &[count(OPEN)], |_| {}).await;
    let execution = submit(&gateway, invocation("count", json!({}))).await;
    let done = over(&gateway, &execution).await;
    clock.advance(seconds(1));
    assert_eq!(cancel(&gateway, &execution).await, done);
    assert_eq!(look(&gateway, &execution).await, done);
}

/// A tool whose program does not exist until [`mend`] creates it.
fn absent(skill: &str) -> String {
    tool("absent", "", &format!("timeout_ms = 600000\nskill = {{ type = \"task\"{skill} }}"))
        .replace("[\"sh\", \"-c\", '''''']", "[\"./absent.sh\"]")
}

fn mend(gateway: &Gateway) {
    use std::os::unix::fs::PermissionsExt as _;
    let (new, path) = (gateway.file(DESK, "new.sh"), gateway.file(DESK, "absent.sh"));
    std::fs::write(&new, "#!/bin/sh\nprintf mended").unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(new, path).unwrap();
}

const RETRY: &str = ", retry = { max_attempts = 4, backoff_ms = 2000 }";

/// No other task of the server wakes at the time of such a retry, so the clock moves only when the retry waits for it.
const SEPARATE_RETRY: &str = ", retry = { max_attempts = 4, backoff_ms = 2100 }";

async fn attempts(gateway: &Gateway, execution: &Execution, count: u32) {
    eventually("the expected number of attempts was made", async || {
        (look(gateway, execution).await.attempt == count && gateway.audit().await.len() == count as usize).then_some(())
    })
    .await;
}

#[tokio::test]
async fn unreachable_tool_is_retried_by_the_declared_policy() {
    let clock = ManualClock::new();
    let gateway = start(&clock, &[absent(SEPARATE_RETRY)], |_| {}).await;
    let execution = submit(&gateway, invocation("absent", json!({}))).await;
    for (attempt, pause) in [(1, 2100), (2, 4200)] {
        attempts(&gateway, &execution, attempt).await;
        assert_eq!(look(&gateway, &execution).await.state, ExecutionState::Running);
        clock.pass(Duration::from_millis(pause)).await;
    }
    attempts(&gateway, &execution, 3).await;
    mend(&gateway);
    clock.pass(Duration::from_millis(8400)).await;
    let mended = over(&gateway, &execution).await;
    assert_eq!((output(&mended), mended.attempt), (&json!("mended"), 4));
    let outcomes: Vec<_> = gateway.audit().await.into_iter().map(|record| (record.call, record.outcome)).collect();
    let unavailable = AuditOutcome::Failed { code: ErrorCode::ToolUnavailable };
    let expected = [unavailable.clone(), unavailable.clone(), unavailable, AuditOutcome::Completed];
    for (number, ((call, outcome), expected)) in outcomes.iter().zip(&expected).enumerate() {
        assert_eq!((call.as_str(), outcome), (format!("{}.{}", execution.id, number + 1).as_str(), expected));
    }
    assert_eq!(outcomes.len(), 4, "each attempt has one record");
}

#[tokio::test]
async fn retries_stop_at_the_declared_maximum() {
    for (skill, most) in [("", 1), (", retry = { max_attempts = 1, backoff_ms = 2000 }", 1), (SEPARATE_RETRY, 4)] {
        let clock = ManualClock::new();
        let gateway = start(&clock, &[absent(skill)], |_| {}).await;
        let execution = submit(&gateway, invocation("absent", json!({}))).await;
        for attempt in 1..most {
            attempts(&gateway, &execution, attempt).await;
            clock.pass(Duration::from_millis(2100 << (attempt - 1))).await;
        }
        let failed = over(&gateway, &execution).await;
        assert_eq!((code(&failed), failed.attempt), (("failed", ErrorCode::ToolUnavailable), most), "{skill}");
        assert_eq!(gateway.audit().await.len(), most as usize);
    }
}

#[tokio::test]
async fn tool_that_ran_and_failed_is_not_retried() {
    let clock = ManualClock::new();
    let more = format!("skill = {{ type = \"task\"{RETRY} }}");
    let gateway = start(&clock, &[tool("broken", "echo ran >> runs; exit 1", &more)], |_| {}).await;
    let execution = submit(&gateway, invocation("broken", json!({}))).await;
    let failed = over(&gateway, &execution).await;
    assert_eq!((code(&failed), failed.attempt, runs(&gateway)), (("failed", ErrorCode::ToolFailed), 1, 1));
}

#[tokio::test]
async fn execution_between_attempts_can_be_cancelled_or_time_out() {
    let clock = ManualClock::new();
    let gateway = start(&clock, &[absent(RETRY)], |_| {}).await;
    let execution = submit(&gateway, invocation("absent", json!({}))).await;
    attempts(&gateway, &execution, 1).await;
    clock.wait_for_sleeper(seconds(2)).await;
    cancel(&gateway, &execution).await;
    let cancelled = over(&gateway, &execution).await;
    assert_eq!((code(&cancelled), cancelled.attempt), (("failed", ErrorCode::Cancelled), 1));

    let hurried = submit(&gateway, invocation("absent", json!({})).with_timeout(seconds(3))).await;
    eventually("it was tried", async || (gateway.audit().await.len() == 2).then_some(())).await;
    clock.pass(seconds(2)).await;
    eventually("and again", async || (gateway.audit().await.len() == 3).then_some(())).await;
    clock.pass(seconds(1)).await;
    let late = over(&gateway, &hurried).await;
    assert_eq!((code(&late), late.attempt), (("timeout", ErrorCode::ToolTimeout), 2));
}

#[tokio::test]
async fn waiting_request_returns_at_the_end_or_at_its_time_limit() {
    let clock = ManualClock::new();
    let gateway = start(&clock, &[held(OPEN), count(OPEN)], |_| {}).await;
    let engine = gateway.engine();
    let execution = submit(&gateway, invocation("held", json!({}))).await;
    held_pid(&gateway).await;
    let until = engine.now().after(seconds(7));
    let caller = anyone();
    let waits = engine.executions().execution_until(&caller, execution.id.as_str(), until);
    let (told, ()) = tokio::join!(waits, clock.pass(seconds(7)));
    assert_eq!(told.unwrap().state, ExecutionState::Running);
    let at_once = engine.executions().execution_until(&caller, execution.id.as_str(), engine.now()).await.unwrap();
    assert_eq!(at_once.state, ExecutionState::Running, "a wait that is already due returns at once");

    let early = engine.now().after(seconds(1000));
    let waits = engine.executions().execution_until(&caller, execution.id.as_str(), early);
    let (told, ()) = tokio::join!(waits, release(&gateway, "held.gate", "done"));
    assert_eq!(output(&told.unwrap()), "done", "the clock has not moved");
    let told = engine.executions().execution_until(&caller, execution.id.as_str(), early).await.unwrap();
    assert_eq!(output(&told), "done", "the wait for an ended execution returns at once");
}

#[tokio::test]
async fn finished_execution_is_deleted_after_its_retention_time() {
    let clock = ManualClock::new();
    let more = "skill = { type = \"task\", keep_hours = 2 }";
    let gateway =
        start(&clock, &[count(OPEN), tool("brief", "printf brief", more)], |limits| limits.keep_hours = 3).await;
    let engine = gateway.engine();
    let (usual, brief) = (
        submit(&gateway, invocation("count", json!({})).with_key("k", "b")).await,
        submit(&gateway, invocation("brief", json!({}))).await,
    );
    for execution in [&usual, &brief] {
        over(&gateway, execution).await;
    }
    let found = |execution: &Execution| {
        let id = execution.id.clone();
        async move {
            match engine.executions().execution(&Caller::new(Principal::Operator), id.as_str()).await {
                Ok(_) => true,
                Err(error) => {
                    assert_eq!(error.code, ErrorCode::ExecutionNotFound);
                    false
                }
            }
        }
    };
    clock.advance(seconds(2 * 3600) - Duration::from_millis(1));
    assert!(found(&usual).await && found(&brief).await);
    clock.advance(Duration::from_millis(1));
    assert!(found(&usual).await && !found(&brief).await, "each result is kept for the time its skill declares");
    let again = submit_as(engine, &anyone(), invocation("count", json!({})).with_key("k", "b")).await.unwrap();
    assert!(again.again);
    clock.advance(seconds(3600));
    assert!(!found(&usual).await);
    // The idempotency key is free again, also before the rows are removed.
    let anew = submit_as(engine, &anyone(), invocation("count", json!({})).with_key("k", "another")).await.unwrap();
    assert!(!anew.again && anew.execution.id != usual.id);
    over(&gateway, &anew.execution).await;
    assert_eq!(runs(&gateway), 2);
}

#[tokio::test]
async fn deleted_executions_leave_no_rows_on_disk() {
    let clock = ManualClock::new();
    let gateway = start(&clock, &[count(OPEN)], |limits| limits.keep_hours = 1).await;
    for number in 0..5 {
        let execution = submit(&gateway, invocation("count", json!({})).with_key(&number.to_string(), "b")).await;
        over(&gateway, &execution).await;
    }
    clock.advance(seconds(3600));
    let file = gateway.data().join("nuncio.db");
    eventually("they are gone", async || {
        let store = nuncio_store::SqliteStore::open(&file).unwrap();
        let left =
            nuncio_engine::ports::store::ExecutionStore::is_any_execution_to_forget(&store, gateway.engine().now());
        (!left.await.unwrap()).then_some(())
    })
    .await;
}
