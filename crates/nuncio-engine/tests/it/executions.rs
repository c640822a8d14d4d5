//! Executions while the store refuses writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::agent::Agent;
use nuncio_core::execution::{ExecutionState, Priority, TraceIds};
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_engine::Caller;
use nuncio_engine::invoke::ExecutionRequest;
use nuncio_engine::ports::runner::{AuthorizedToolCall, Runner, ToolOutput, ToolRunError};
use serde_json::{Map, json};

use super::world::TestEngine;

const AGENT: &str = r#"
[agent]
name = "helper"
version = "1.0.0"
[brain]
kind = "script"

[[tool]]
name = "count"
description = "Counts."
input = { type = "object" }
run = { command = ["true"] }
skill = { type = "task" }
"#;

/// Runner that counts its runs and makes the table of executions read-only during the first.
#[derive(Debug)]
struct StoreBreakingRunner {
    database: PathBuf,
    runs: AtomicUsize,
}

#[async_trait]
impl Runner for StoreBreakingRunner {
    async fn run(&self, _call: AuthorizedToolCall) -> Result<ToolOutput, ToolRunError> {
        if self.runs.fetch_add(1, Ordering::SeqCst) == 0 {
            let refuse =
                "CREATE TRIGGER refuse BEFORE UPDATE ON executions BEGIN SELECT RAISE(ABORT, 'no writes'); END";
            execute(&self.database, refuse);
        }
        Ok(ToolOutput::json(json!({"ran": true})))
    }

    async fn resolve(&self, agent: Agent) -> Result<Agent, String> {
        Ok(agent)
    }

    async fn release(&self, _agent: &Agent) {}
}

fn execute(database: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(database).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    connection.execute_batch(sql).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_runs_once_although_storing_its_result_fails_at_first() {
    let world = TestEngine::new().await;
    let runner = Arc::new(StoreBreakingRunner { database: world.database(), runs: AtomicUsize::new(0) });
    let engine = world.with_runner(Arc::clone(&runner) as _).await;
    engine.agents().publish(nuncio_agent_file::parse("agent.toml", AGENT).unwrap().agent).await.unwrap();
    let submission = ExecutionRequest {
        protocol: Protocol::Skill,
        inputs: Map::new(),
        priority: Priority::Normal,
        timeout: None,
        trace: TraceIds::default(),
        callback: None,
        idempotency: None,
    };
    let caller = Caller::new(Principal::Local);
    let offered = engine.skills().skill(Some(&caller), "helper/count").unwrap();
    let permit = engine.skills().permit(caller.clone(), offered).unwrap();
    let submitted = engine.executions().submit(&permit, submission, None).await.unwrap();
    let finished = async {
        for round in 0.. {
            // The clock moves only here, so every pause before another try ends in one of the rounds.
            world.clock.advance(Duration::from_millis(200));
            tokio::time::sleep(Duration::from_millis(5)).await;
            if round == 20 {
                execute(&world.database(), "DROP TRIGGER refuse");
            }
            let execution = engine.executions().execution(&caller, submitted.execution.id.as_str()).await.unwrap();
            if execution.state.is_over() {
                assert!(round >= 20, "an execution ended before its end was stored");
                return execution;
            }
        }
        unreachable!("the maintenance loop does not end");
    };
    let execution = tokio::time::timeout(Duration::from_secs(60), finished).await.unwrap();
    assert_eq!(execution.state, ExecutionState::Completed { output: json!({"ran": true}) });
    assert_eq!((runner.runs.load(Ordering::SeqCst), execution.attempt), (1, 1));
    engine.shut_down(Duration::ZERO).await;
}
