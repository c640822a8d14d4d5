//! The inbox: tasks that people carry out, also across restarts.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::AuditOutcome;
use nuncio_core::execution::{Execution, ExecutionState};
use nuncio_core::principal::Principal;
use nuncio_core::task::{HumanTask, TaskState};
use nuncio_engine::EngineError;
use nuncio_engine::tasks::TaskCommand;
use nuncio_testkit::{Gateway, GatewayBuilder, ManualClock, eventually};
use serde_json::{Value, json};

use crate::agents::{DESK, call_once, desk, messages, result_of};
use crate::executions::{anyone, code, invocation, look, output, over, submit};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A tool that a person carries out; `more` are further keys of its table.
fn pickup(more: &str) -> String {
    format!(
        "[[tool]]\nname = \"pickup\"\ntitle = \"Pick up\"\ndescription = \"Fetches a parcel.\"\n\
         input = {{ type = \"object\", properties = {{ shelf = {{ type = \"string\" }} }}, required = [\"shelf\"] }}\n\
         run = {{ human = {{ instructions = \"Fetch it from {{{{ args.shelf }}}}.\" }} }}\n{more}\n"
    )
}

const FORM: &str = "output = { type = \"object\", properties = { kg = { type = \"number\" } }, required = [\"kg\"] }\n\
    skill = { type = \"task\" }";

fn builder(clock: &ManualClock) -> GatewayBuilder {
    Gateway::builder().agent(DESK, &desk(&[pickup(FORM)])).clock(clock)
}

async fn start(clock: &ManualClock) -> Gateway {
    builder(clock).start().await
}

/// Waits until the inbox has exactly `count` open tasks.
async fn inbox(gateway: &Gateway, count: usize) -> Vec<HumanTask> {
    eventually("the work is in the inbox", async || {
        let tasks = gateway.engine().inbox().open_tasks().await.unwrap();
        (tasks.len() == count).then_some(tasks)
    })
    .await
}

async fn ask(gateway: &Gateway, shelf: &str) -> (Execution, HumanTask) {
    let before = gateway.engine().inbox().open_tasks().await.unwrap().len();
    let execution = submit(gateway, invocation("pickup", json!({"shelf": shelf}))).await;
    let task = inbox(gateway, before + 1).await.into_iter().find(|task| task.execution.as_ref() == Some(&execution.id));
    (execution, task.unwrap())
}

async fn step(gateway: &Gateway, task: &HumanTask, step: TaskCommand, by: &str) -> Result<HumanTask, EngineError> {
    gateway.engine().inbox().step_task(&task.id, step, by).await
}

fn take() -> TaskCommand {
    TaskCommand::Take { over: false }
}

fn done(kg: f64) -> TaskCommand {
    TaskCommand::Finish(json!({"kg": kg}))
}

fn refusal(stepped: Result<HumanTask, EngineError>) -> ErrorCode {
    stepped.unwrap_err().code
}

#[tokio::test]
async fn task_in_the_inbox_shows_inputs_form_and_deadline() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let (execution, task) = ask(&gateway, "A <1>").await;
    assert_eq!((task.title.as_str(), task.instructions.as_str()), ("Pick up", "Fetch it from A <1>."));
    assert_eq!(Value::Object(task.inputs.clone()), json!({"shelf": "A <1>"}));
    assert_eq!(task.form.as_ref().unwrap()["required"], json!(["kg"]));
    assert_eq!((&task.asked_by, &task.state), (&Principal::Anonymous, &TaskState::Open));
    assert_eq!(task.due, execution.order.deadline());
    assert_eq!(task.due, execution.order.created_at.after(DAY));
    let waiting = look(&gateway, &execution).await;
    assert_eq!((waiting.state, waiting.attempt), (ExecutionState::Running, 1));
}

#[tokio::test]
async fn task_can_be_taken_returned_reassigned_and_finished() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let (execution, task) = ask(&gateway, "A").await;
    let taken = step(&gateway, &task, take(), "ada").await.unwrap();
    assert_eq!(taken.state, TaskState::Taken { by: "ada".into(), at: gateway.engine().now() });
    assert_eq!(gateway.engine().inbox().open_tasks().await.unwrap(), [taken], "the list shows who has taken the task");
    for (what, by) in [(take(), "bob"), (TaskCommand::GiveBack, "bob"), (done(1.0), "bob")] {
        assert_eq!(refusal(step(&gateway, &task, what, by).await), ErrorCode::TaskClosed);
    }
    step(&gateway, &task, TaskCommand::GiveBack, "ada").await.unwrap();
    assert_eq!(refusal(step(&gateway, &task, TaskCommand::GiveBack, "ada").await), ErrorCode::TaskClosed);
    step(&gateway, &task, take(), "bob").await.unwrap();
    step(&gateway, &task, TaskCommand::Take { over: true }, "ada").await.unwrap();
    assert_eq!(refusal(step(&gateway, &task, done(1.0), "bob").await), ErrorCode::TaskClosed);
    assert_eq!(look(&gateway, &execution).await.state, ExecutionState::Running);

    let finished = step(&gateway, &task, done(2.5), "ada").await.unwrap();
    assert!(matches!(&finished.state, TaskState::Done { by, .. } if by == "ada"));
    let completed = over(&gateway, &execution).await;
    assert_eq!((output(&completed), completed.attempt), (&json!({"kg": 2.5}), 1));
    inbox(&gateway, 0).await;
    for what in [take(), TaskCommand::GiveBack, done(1.0), TaskCommand::Refuse(String::new())] {
        assert_eq!(refusal(step(&gateway, &task, what, "ada").await), ErrorCode::TaskClosed, "it is over");
    }
    assert_eq!(gateway.engine().inbox().task(&task.id).await.unwrap(), finished);
    let audit = gateway.audit().await;
    assert_eq!((audit.len(), &audit[0].outcome), (1, &AuditOutcome::Completed));
}

#[tokio::test]
async fn task_result_that_violates_its_schema_is_refused() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let (execution, task) = ask(&gateway, "A").await;
    for wrong in [json!({}), json!({"kg": "heavy"}), json!("2.5"), json!(null), json!([2.5])] {
        let error = step(&gateway, &task, TaskCommand::Finish(wrong.clone()), "ada").await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidOutput, "{wrong}");
        assert_eq!(gateway.engine().inbox().task(&task.id).await.unwrap(), task, "{wrong}");
    }
    assert_eq!(look(&gateway, &execution).await.state, ExecutionState::Running);
    step(&gateway, &task, done(1.0), "ada").await.unwrap();
    assert_eq!(output(&over(&gateway, &execution).await), &json!({"kg": 1.0}));
}

#[tokio::test]
async fn task_without_a_form_accepts_only_one_text() {
    let clock = ManualClock::new();
    let agent = desk(&[pickup("skill = { type = \"task\" }")]);
    let gateway = Gateway::builder().agent(DESK, &agent).clock(&clock).start().await;
    let (execution, task) = ask(&gateway, "A").await;
    assert_eq!(task.form, None);
    for wrong in [json!({}), json!(1), json!(null)] {
        assert_eq!(refusal(step(&gateway, &task, TaskCommand::Finish(wrong), "ada").await), ErrorCode::InvalidOutput);
    }
    step(&gateway, &task, TaskCommand::Finish(json!("it is there")), "ada").await.unwrap();
    assert_eq!(output(&over(&gateway, &execution).await), &json!("it is there"));
}

#[tokio::test]
async fn refused_task_fails_its_execution() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let (execution, task) = ask(&gateway, "A").await;
    step(&gateway, &task, TaskCommand::Refuse("too heavy".into()), "ada").await.unwrap();
    let refused = over(&gateway, &execution).await;
    assert_eq!(code(&refused), ("failed", ErrorCode::Refused));
    let ExecutionState::Failed { failure } = &refused.state else { unreachable!("it has failed") };
    assert!(failure.message.contains("too heavy"), "{}", failure.message);
    inbox(&gateway, 0).await;
    assert_eq!(gateway.audit().await[0].outcome, AuditOutcome::Failed { code: ErrorCode::Refused });
}

#[tokio::test]
async fn overdue_task_times_out_its_execution() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let (execution, task) = ask(&gateway, "A").await;
    step(&gateway, &task, take(), "ada").await.unwrap();
    clock.pass(DAY).await;
    let late = over(&gateway, &execution).await;
    assert_eq!((code(&late), late.attempt), (("timeout", ErrorCode::ToolTimeout), 1));
    assert!(matches!(gateway.engine().inbox().task(&task.id).await.unwrap().state, TaskState::Withdrawn { .. }));
    assert_eq!(refusal(step(&gateway, &task, done(1.0), "ada").await), ErrorCode::TaskClosed);
    assert_eq!(gateway.engine().inbox().open_tasks().await.unwrap(), []);
}

#[tokio::test]
async fn cancelling_an_execution_withdraws_its_task() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let (execution, task) = ask(&gateway, "A").await;
    gateway.engine().executions().cancel_execution(&anyone(), execution.id.as_str()).await.unwrap();
    assert_eq!(code(&over(&gateway, &execution).await), ("failed", ErrorCode::Cancelled));
    assert!(matches!(gateway.engine().inbox().task(&task.id).await.unwrap().state, TaskState::Withdrawn { .. }));
    assert_eq!(refusal(step(&gateway, &task, take(), "ada").await), ErrorCode::TaskClosed);
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_concurrent_takers_gets_the_task() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let (_, task) = ask(&gateway, "A").await;
    let takers: Vec<_> = (0..32)
        .map(|number| {
            let (engine, id) = (gateway.engine().clone(), task.id.clone());
            tokio::spawn(async move { engine.inbox().step_task(&id, take(), &format!("person {number}")).await })
        })
        .collect();
    let mut won = Vec::new();
    for taker in takers {
        match taker.await.unwrap() {
            Ok(task) => won.push(task),
            Err(error) => assert_eq!(error.code, ErrorCode::TaskClosed),
        }
    }
    assert_eq!(won.len(), 1);
    assert_eq!(gateway.engine().inbox().task(&task.id).await.unwrap(), won[0]);
}

#[tokio::test]
async fn waiting_human_tasks_do_not_count_against_concurrency_limits() {
    let clock = ManualClock::new();
    let gateway = builder(&clock)
        .settings(|settings| {
            settings.limits.calls_per_tool = 1;
            settings.limits.running_per_caller = 1;
        })
        .start()
        .await;
    let mut asked = Vec::new();
    for shelf in ["A", "B", "C"] {
        asked.push(ask(&gateway, shelf).await);
        clock.advance(Duration::from_secs(1));
    }
    let shelves: Vec<_> = inbox(&gateway, 3).await.into_iter().map(|task| task.inputs["shelf"].clone()).collect();
    assert_eq!(shelves, ["A", "B", "C"], "oldest first");
    for (number, (execution, task)) in asked.iter().enumerate().rev() {
        step(&gateway, task, done(number as f64), "ada").await.unwrap();
        assert_eq!(output(&over(&gateway, execution).await), &json!({"kg": number as f64}));
    }
}

#[tokio::test]
async fn task_and_its_holder_survive_restarts() {
    for grace in [30, 0] {
        let clock = ManualClock::new();
        let stopping = |builder: GatewayBuilder| builder.settings(|settings| settings.limits.shutdown_seconds = grace);
        let gateway = stopping(builder(&clock)).start().await;
        let (first, task) = ask(&gateway, "A").await;
        clock.advance(Duration::from_secs(1));
        let (second, other) = ask(&gateway, "B").await;
        step(&gateway, &task, take(), "ada").await.unwrap();
        let data = gateway.stop().await;

        let gateway = stopping(builder(&clock)).data(data).start().await;
        let kept = inbox(&gateway, 2).await;
        assert_eq!(kept.iter().map(|task| &task.id).collect::<Vec<_>>(), [&task.id, &other.id]);
        assert!(matches!(&kept[0].state, TaskState::Taken { by, .. } if by == "ada"), "{kept:?}");
        assert_eq!(look(&gateway, &first).await.state, ExecutionState::Running);
        step(&gateway, &task, done(2.5), "ada").await.unwrap();
        let completed = over(&gateway, &first).await;
        assert_eq!((output(&completed), completed.attempt), (&json!({"kg": 2.5}), 2));

        // Restarts do not count as failed attempts.
        let mut data = gateway.stop().await;
        for _ in 0..4 {
            let gateway = stopping(builder(&clock)).data(data).start().await;
            assert_eq!(inbox(&gateway, 1).await[0].id, other.id);
            data = gateway.stop().await;
        }
        let gateway = stopping(builder(&clock)).data(data).start().await;
        step(&gateway, &other, done(1.0), "bob").await.unwrap();
        assert_eq!(output(&over(&gateway, &second).await), &json!({"kg": 1.0}));
        let audit = gateway.audit().await;
        let of = |execution: &Execution| {
            audit.iter().filter(|record| record.call.as_str().starts_with(execution.id.as_str())).count()
        };
        assert_eq!(of(&first), 2, "each attempt has one record");
        assert_eq!(of(&second), look(&gateway, &second).await.attempt as usize);
    }
}

#[tokio::test]
async fn task_due_during_downtime_times_out_at_start() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let (execution, task) = ask(&gateway, "A").await;
    let data = gateway.stop().await;
    clock.advance(DAY);
    let gateway = builder(&clock).data(data).start().await;
    assert_eq!(code(&over(&gateway, &execution).await).0, "timeout");
    assert_eq!(gateway.engine().inbox().open_tasks().await.unwrap(), []);
    assert_eq!(refusal(step(&gateway, &task, done(1.0), "ada").await), ErrorCode::TaskClosed);
}

#[tokio::test]
async fn result_of_a_task_finished_before_a_crash_completes_its_execution() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let (execution, task) = ask(&gateway, "A").await;
    let data = gateway.data_as_after_a_crash();
    // The state after a crash between storing the result and the end of the execution.
    let finished = task.clone().finish("ada", json!({"kg": 7.0}), gateway.engine().now()).unwrap();
    finish_on_disk(&data, &task, &finished).await;
    let gateway = builder(&clock).data(data).start().await;
    let completed = over(&gateway, &execution).await;
    assert_eq!((output(&completed), completed.attempt), (&json!({"kg": 7.0}), 2));
    assert_eq!(gateway.engine().inbox().task(&task.id).await.unwrap(), finished);
}

async fn finish_on_disk(data: &Arc<tempfile::TempDir>, from: &HumanTask, to: &HumanTask) {
    use nuncio_engine::ports::store::{Store as _, TaskChange};
    let store = nuncio_store::SqliteStore::open(&data.path().join("nuncio.db")).unwrap();
    let change = TaskChange::Move { from: Box::new(from.clone()), to: Box::new(to.clone()) };
    store.commit(vec![change.into()]).await.unwrap();
}

#[tokio::test]
async fn turns_with_equal_call_ids_get_the_results_of_their_own_human_tasks() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let aap = gateway.aap();
    let play = |shelf: &'static str| {
        let aap = aap.clone();
        tokio::spawn(async move {
            let session = aap.session(DESK, &[("pickup", true)]).await;
            aap.play(&session, call_once("c1", "pickup", json!({"shelf": shelf}))).await
        })
    };
    let first = play("A");
    inbox(&gateway, 1).await;
    let second = play("B");
    let tasks = inbox(&gateway, 2).await;
    for task in &tasks {
        let kg = if task.inputs["shelf"] == "A" { 1.0 } else { 2.0 };
        step(&gateway, task, done(kg), "ada").await.unwrap();
    }
    for (turn, kg) in [(first, "1.0"), (second, "2.0")] {
        assert_eq!(result_of(messages(&turn.await.unwrap()), "c1"), &json!(format!("{{\"kg\":{kg}}}")));
    }
}

#[tokio::test]
async fn crash_withdraws_the_task_of_a_turn_and_keeps_that_of_an_execution() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("pickup", true)]).await;
    let turn = tokio::spawn(async move { aap.play(&session, call_once("c1", "pickup", json!({"shelf": "A"}))).await });
    let task = inbox(&gateway, 1).await.remove(0);
    let (execution, _) = ask(&gateway, "B").await;
    let data = gateway.data_as_after_a_crash();
    let restarted = builder(&clock).data(data).start().await;
    let left = inbox(&restarted, 1).await;
    assert_eq!(left[0].execution.as_ref(), Some(&execution.id), "the task of an execution stays");
    assert!(matches!(restarted.engine().inbox().task(&task.id).await.unwrap().state, TaskState::Withdrawn { .. }));
    turn.abort();
}

#[tokio::test]
async fn unknown_task_cannot_be_changed() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let none = nuncio_core::ids::TaskId::parse("task_none").unwrap();
    let error = gateway.engine().inbox().step_task(&none, take(), "ada").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::TaskNotFound);
}
