//! The clients of the simulated nodes. Each repeats what was not answered, at any node, with the same idempotency key.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::approval::ApprovalAnswer;
use nuncio_core::digest::Digest;
use nuncio_core::execution::{Priority, TraceIds};
use nuncio_core::ids::{ExecutionId, SessionId, ToolName};
use nuncio_core::message::Message;
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_core::session::EnabledTool;
use nuncio_core::turn::{StreamMode, TurnInput};
use nuncio_engine::converse::{IdempotencyKey, NewSession, PermissionResponder, SessionSettingsPatch, TurnRequest};
use nuncio_engine::invoke::ExecutionRequest;
use nuncio_engine::ports::store::{Job, JobKind, JobLane};
use nuncio_engine::tasks::TaskCommand;
use nuncio_engine::{Caller, Engine};
use serde_json::{Map, json};
use url::Url;

use crate::cluster::Cluster;
use crate::deliveries::key_in_lane;

/// Time after which a client gives up a request and repeats it.
const PATIENCE: Duration = Duration::from_secs(3);

const SKILLS: [&str; 4] = ["steady", "broken", "flaky", "human"];

fn anyone() -> Caller {
    Caller::new(Principal::Anonymous)
}

fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey { key: name.to_owned(), body: Digest::of_bytes(b"") }
}

async fn pause(cluster: &Cluster, most: usize) {
    let millis = cluster.scheduler.random_below(most) as u64;
    cluster.scheduler.sleep(Duration::from_millis(millis)).await;
}

/// Submits an execution, sometimes twice, and waits for its end.
pub(crate) async fn execute(cluster: &Cluster, number: usize) {
    pause(cluster, 800).await;
    let name = format!("key {number}");
    let skill = SKILLS[cluster.scheduler.random_below(SKILLS.len())];
    let id = submit(cluster, &name, skill).await;
    if cluster.scheduler.random_below(3) == 0 {
        submit(cluster, &name, skill).await;
    }
    if cluster.scheduler.random_below(4) == 0 {
        pause(cluster, 300).await;
        if let Some(engine) = cluster.any_engine() {
            let cancel = async { engine.executions().cancel_execution(&anyone(), id.as_str()).await };
            let _ = cluster.within(PATIENCE, cancel).await;
        }
    }
    loop {
        pause(cluster, 1000).await;
        let Some(engine) = cluster.any_engine() else { continue };
        let read = async { engine.executions().execution(&anyone(), id.as_str()).await };
        match cluster.within(PATIENCE, read).await {
            Some(Ok(execution)) if execution.state.is_over() => {
                cluster.observer.ended(&execution);
                return;
            }
            Some(Err(error)) if error.code == ErrorCode::ExecutionNotFound => {
                return cluster.observer.violation(1, format!("the acknowledged execution {id} is missing"));
            }
            _ => {}
        }
    }
}

async fn submit(cluster: &Cluster, name: &str, skill: &str) -> ExecutionId {
    loop {
        if let Some(engine) = cluster.any_engine()
            && let Some(id) = cluster.within(PATIENCE, submit_to(&engine, name, skill)).await.flatten()
        {
            cluster.observer.acknowledged(name, &id);
            return id;
        }
        pause(cluster, 1000).await;
    }
}

/// Address that is called when the execution for an idempotency key ends. Half of the executions have the same receiver.
fn callback_url(key: &str) -> Url {
    let host = if key.len().is_multiple_of(2) { "even" } else { key.rsplit(' ').next().unwrap_or_default() };
    Url::parse(&format!("https://h{host}.example/done")).expect("it is a URL")
}

async fn submit_to(engine: &Engine, name: &str, skill: &str) -> Option<ExecutionId> {
    let offered = engine.skills().skill(Some(&anyone()), &format!("mortal/{skill}"))?;
    let permit = engine.skills().permit(anyone(), offered).ok()?;
    let submission = ExecutionRequest {
        protocol: Protocol::Skill,
        inputs: Map::new(),
        priority: Priority::Normal,
        timeout: None,
        trace: TraceIds::default(),
        callback: Some(callback_url(name)),
        idempotency: Some(key(name)),
    };
    Some(engine.executions().submit(&permit, submission, None).await.ok()?.execution.id)
}

/// Creates a session and has a few turns in it.
pub(crate) async fn converse(cluster: &Cluster, number: usize) {
    pause(cluster, 500).await;
    let session = create_session(cluster, number).await;
    for turn in 0..=cluster.scheduler.random_below(3) {
        let tool = ["note", "guarded", "nothing"][cluster.scheduler.random_below(3)];
        let text = format!("{tool} {number}.{turn}");
        take_turn(cluster, &session, &text).await;
        cluster.observer.lock().said.entry(session.clone()).or_default().push(text);
    }
}

async fn create_session(cluster: &Cluster, number: usize) -> SessionId {
    loop {
        if let Some(engine) = cluster.any_engine() {
            let tools = ["note", "guarded"]
                .map(|name| EnabledTool { name: ToolName::parse(name).expect("it is a tool name"), trust: Some(true) });
            let settings = SessionSettingsPatch { tools: Some(tools.to_vec()), ..SessionSettingsPatch::default() };
            let new = NewSession { agent: "mortal".to_owned(), settings, messages: Vec::new() };
            let caller = anyone();
            let create = engine.conversations().create_session(&caller, new, Some(key(&format!("session {number}"))));
            if let Some(Ok(id)) = cluster.within(PATIENCE, create).await {
                return id;
            }
        }
        pause(cluster, 1000).await;
    }
}

/// Begins a turn and waits until it is stored as ended.
async fn take_turn(cluster: &Cluster, session: &SessionId, text: &str) {
    let number = loop {
        if let Some(engine) = cluster.any_engine() {
            let request = TurnRequest {
                input: TurnInput::User(Message::user(text)),
                mode: StreamMode::None,
                settings: SessionSettingsPatch::default(),
                protocol: Protocol::Aap,
                prompts: PermissionResponder::App,
            };
            let caller = anyone();
            let begin = engine.conversations().begin_turn(&caller, session.as_str(), request, Some(key(text)));
            if let Some(Ok(turn)) = cluster.within(PATIENCE, begin).await {
                break turn.number;
            }
        }
        pause(cluster, 1000).await;
    };
    loop {
        pause(cluster, 1000).await;
        let Some(engine) = cluster.any_engine() else { continue };
        let caller = anyone();
        let read = engine.conversations().turn(&caller, session.as_str(), Some(number));
        if let Some(Ok(turn)) = cluster.within(PATIENCE, read).await
            && cluster.within(PATIENCE, turn.finished()).await.is_some()
        {
            return;
        }
    }
}

/// Stores the jobs of a lane, one after another.
pub(crate) async fn fill_lane(cluster: &Cluster, number: usize) {
    let lane = format!("lane_{number}");
    for seq in 1..=1 + cluster.scheduler.random_below(4) as u64 {
        pause(cluster, 300).await;
        let key = key_in_lane(&lane, seq);
        while !put_in_lane(cluster, &lane, seq, &key).await {
            pause(cluster, 1000).await;
        }
        cluster.observer.lock().jobs.acknowledged.insert(key);
    }
}

async fn put_in_lane(cluster: &Cluster, lane: &str, seq: u64, key: &str) -> bool {
    let Some(engine) = cluster.any_engine() else { return false };
    let place = JobLane { name: lane.to_owned(), seq };
    let (key, receiver, due) = (key.to_owned(), "receiver".to_owned(), engine.now());
    let job = Job { kind: JobKind::Delivery, key, receiver, lane: Some(place), due, attempts: 0 };
    let put = async { engine.jobs().schedule([job]).await };
    matches!(cluster.within(PATIENCE, put).await, Some(Ok(())))
}

/// Allows or denies approvals and finishes tasks.
pub(crate) async fn operate(cluster: &Cluster) {
    loop {
        pause(cluster, 3000).await;
        let Some(engine) = cluster.any_engine() else { continue };
        let _ = cluster.within(PATIENCE, operate_once(&engine)).await;
    }
}

async fn operate_once(engine: &Engine) {
    for task in engine.inbox().open_tasks().await.unwrap_or_default() {
        let _ = engine.inbox().step_task(&task.id, TaskCommand::Finish(json!("done")), "ada").await;
    }
    for approval in engine.approvals().pending_approvals().await.unwrap_or_default() {
        let answer = match approval.id.as_str().len() % 2 {
            0 => ApprovalAnswer::Allow,
            _ => ApprovalAnswer::Deny { reason: None },
        };
        let _ = engine.approvals().decide_approval(&approval.id, answer, Principal::Operator).await;
    }
}
