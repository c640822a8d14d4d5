//! A whole agent as a skill: one text in, one answer out, through a temporary session of one turn.

use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_core::execution::{Execution, ExecutionFailure};
use nuncio_core::schema::SchemaViolation;
use serde_json::{Map, Value, json};

use super::queue::LiveExecution;
use crate::access::Caller;
use crate::call_failure::cancelled;
use crate::converse::IdempotencyKey;
use crate::error::EngineError;
use crate::invoke::ExecutionService;
use crate::skills::PublishedSkill;

pub(super) const TEXT_INPUT: &str = "text";

/// Checks that the inputs are exactly one text.
pub(super) fn check_inputs(inputs: Map<String, Value>) -> Result<Map<String, Value>, Vec<SchemaViolation>> {
    let fault =
        |pointer: &str, message: &str| SchemaViolation { pointer: pointer.to_owned(), message: message.to_owned() };
    let mut faults: Vec<_> = inputs
        .keys()
        .filter(|name| *name != TEXT_INPUT)
        .map(|name| fault(&format!("/{name}"), "there is no such input; the only input is text"))
        .collect();
    match inputs.get(TEXT_INPUT) {
        Some(Value::String(text)) if !text.is_empty() => {}
        Some(Value::String(_)) => faults.push(fault("/text", "it is empty")),
        Some(_) => faults.push(fault("/text", "it is not a string")),
        None => faults.push(fault("", "\"text\" is a required property")),
    }
    if faults.is_empty() { Ok(inputs) } else { Err(faults) }
}

impl ExecutionService {
    /// Deletes the temporary session that a stopped process left.
    pub(super) async fn delete_left_conversation(&self, execution: &Execution) -> Result<(), EngineError> {
        let owner = &execution.order.caller.principal;
        match self.conversations.store.idempotency_record(owner, "sessions", execution.id.as_str()).await? {
            Some(left) => self.conversations.delete_session(&Caller::new(owner.clone()), left.session.as_str()).await,
            None => Ok(()),
        }
    }

    pub(super) async fn ask_agent(
        &self,
        live: &LiveExecution,
        execution: &Execution,
        offered: &PublishedSkill,
        caller: &Caller,
    ) -> Result<Result<Value, ExecutionFailure>, EngineError> {
        let text = execution.order.inputs.get(TEXT_INPUT).and_then(Value::as_str).unwrap_or_default();
        // The execution's id is the idempotency key, so that the session is found after a crash.
        let idempotency = IdempotencyKey { key: execution.id.to_string(), body: Digest::ZERO };
        let session = self.conversations.open_unattended_session(caller, &offered.served, Some(idempotency)).await?;
        let answer = async {
            let turn = self
                .conversations
                .begin_unattended_turn(caller, session.as_str(), text, execution.order.protocol, None)
                .await?;
            self.calls.mark_started(&execution.id, execution.attempt + 1).await;
            let failure = tokio::select! {
                biased;
                () = turn.finished() => return Ok(turn.answer().map(|said| json!({ TEXT_INPUT: said }))),
                () = live.cancel.cancelled() => cancelled(),
                () = self.context.clock.sleep_until(execution.order.deadline()) => {
                    let message = "the agent did not answer in time".to_owned();
                    ExecutionFailure { code: ErrorCode::ToolTimeout, message }
                }
            };
            turn.cancel();
            turn.finished().await;
            Ok(Err(failure))
        }
        .await;
        // The result is stored with the execution; the session is temporary.
        if let Err(error) = self.conversations.delete_session(caller, session.as_str()).await {
            tracing::warn!(%error, %session, "the temporary conversation of an execution could not be deleted");
        }
        answer
    }
}
