//! Accepts an execution: authorisation, input validation and capacity, then the commit.

use std::sync::{Arc, Weak};
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::execution::{AcceptedInvocation, Execution, Priority, TraceIds};
use nuncio_core::ids::ExecutionId;
use nuncio_core::policy::Protocol;
use nuncio_core::schema::SchemaViolation;
use nuncio_core::time::Timestamp;
use serde_json::{Map, Value};
use url::Url;

use super::agent;
use super::queue::{LiveExecution, QueueLimitReached};
use crate::access::Caller;
use crate::call::{CommitResultReceiver, NotifyWhen, PendingExecutionInsert};
use crate::converse::IdempotencyKey;
use crate::error::EngineError;
use crate::invoke::ExecutionService;
use crate::ports::store::{Conflict, StoreError};
use crate::skills::{PublishedSkill, SkillPermit};

/// Request to execute a skill.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionRequest {
    pub protocol: Protocol,
    pub inputs: Map<String, Value>,
    pub priority: Priority,
    /// Caller's timeout; the skill's own timeout is the maximum.
    pub timeout: Option<Duration>,
    /// Trace identifiers that are forwarded to the tool.
    pub trace: TraceIds,
    /// URL that is called when the execution ends.
    pub callback: Option<Url>,
    pub idempotency: Option<IdempotencyKey>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SubmittedExecution {
    /// The execution in its state when the request was answered.
    pub execution: Execution,
    /// Whether the execution is that of an earlier request, which this request repeats.
    pub again: bool,
}

/// Why an execution was not accepted. Nothing was stored.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutionSubmitError {
    Inputs(Vec<SchemaViolation>),
    Full(QueueLimitReached),
    Engine(EngineError),
}

impl<E: Into<EngineError>> From<E> for ExecutionSubmitError {
    fn from(error: E) -> Self {
        Self::Engine(error.into())
    }
}

impl ExecutionService {
    /// Accepts an execution. It is stored when this returns and will reach an end state. With `until` this waits until
    /// the execution is over or that time.
    pub async fn submit(
        self: &Arc<Self>,
        permit: &SkillPermit,
        submission: ExecutionRequest,
        until: Option<Timestamp>,
    ) -> Result<SubmittedExecution, ExecutionSubmitError> {
        let submitted = self.submit_once(permit, submission, until).await?;
        let Some(until) = until.filter(|_| submitted.again) else { return Ok(submitted) };
        let execution = self.execution_until(&permit.caller, submitted.execution.id.as_str(), until).await?;
        Ok(SubmittedExecution { execution, again: true })
    }

    /// Accepts an execution, or finds that of an earlier request with the same key.
    async fn submit_once(
        self: &Arc<Self>,
        SkillPermit { caller, offered }: &SkillPermit,
        submission: ExecutionRequest,
        until: Option<Timestamp>,
    ) -> Result<SubmittedExecution, ExecutionSubmitError> {
        self.context.check_not_closing()?;
        // Both reads at once, because the store may be on another machine.
        let (before, quota) = tokio::join!(
            self.submitted_before(caller, offered, submission.idempotency.as_ref()),
            self.context.check_quota(caller)
        );
        if let Some(before) = before? {
            return Ok(before);
        }
        quota?;
        let idempotency = submission.idempotency.clone();
        let order = self.order(caller, offered, submission)?;
        let id = ExecutionId::parse(&self.context.timed_name("exe_")).map_err(EngineError::from)?;
        let execution = Execution::accepted(id, order);
        let (who, skill) = (&execution.order.caller.principal, &execution.order.skill);

        self.queue.reserve(who, skill).map_err(ExecutionSubmitError::Full)?;
        match self.accept(execution, Arc::clone(offered), idempotency.clone(), until).await {
            Ok(execution) => Ok(SubmittedExecution { execution, again: false }),
            // A concurrent copy of the same request was stored first.
            Err(StoreError::Conflict(Conflict::Exists)) if idempotency.is_some() => {
                let before = self.submitted_before(caller, offered, idempotency.as_ref()).await?;
                before.ok_or_else(|| EngineError::new(ErrorCode::Internal, "the execution id is already used").into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Stores and starts the execution; a caller that disconnects changes nothing. With `until` the state at that time
    /// is returned, otherwise the accepted one.
    async fn accept(
        self: &Arc<Self>,
        execution: Execution,
        offered: Arc<PublishedSkill>,
        idempotency: Option<IdempotencyKey>,
        until: Option<Timestamp>,
    ) -> Result<Execution, StoreError> {
        let notify = if until.is_some() { NotifyWhen::WhenOver } else { NotifyWhen::AtOnce };
        let live = LiveExecution::new(execution.clone(), Some(offered), &self.context.closed);
        let idempotency = idempotency.map(|it| (it.key, it.body));
        self.queue.announce(&live);
        let (pending_insert, accepted) =
            PendingExecutionInsert::new(execution.clone(), self.context.incarnation.clone(), idempotency, notify);
        let pending_insert = Arc::new(pending_insert);
        let weak_insert = Arc::downgrade(&pending_insert);
        self.context.tasks.spawn(Arc::clone(self).insert_and_run(Arc::clone(&live), pending_insert));
        match until {
            None => accepted.await.unwrap_or_else(|_| given_up()).map(|()| execution),
            Some(until) => self.wait_until_over(&live, &weak_insert, accepted, until).await.map(|()| live.now()),
        }
    }

    /// Background task that stores the execution and runs it if a slot is free.
    async fn insert_and_run(self: Arc<Self>, live: Arc<LiveExecution>, pending_insert: Arc<PendingExecutionInsert>) {
        let ready = if self.queue.enter_at_once(&live) {
            let ready = self.run_one(&live, Some(&pending_insert)).await;
            pending_insert.notify_committed();
            ready
        } else if self.calls.ensure_committed(Some(&pending_insert)).await.is_ok() {
            pending_insert.notify_committed();
            self.queue.enter(&live)
        } else {
            return self.queue.give_up(&live);
        };
        // Usually no other execution waits for the freed slot.
        if !ready.is_empty() {
            self.run_queued(ready).await;
        }
    }

    /// Waits until the execution is over, or until that time but at least until it is stored.
    async fn wait_until_over(
        &self,
        live: &LiveExecution,
        pending_insert: &Weak<PendingExecutionInsert>,
        mut accepted: CommitResultReceiver,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        tokio::select! {
            biased;
            stored = &mut accepted => {
                stored.unwrap_or_else(|_| given_up())?;
                self.until_over(live, until).await;
                Ok(())
            }
            () = self.until_or_closing(until) => {
                // If the task that stores the execution is gone, the closed channel reports that.
                pending_insert.upgrade().inspect(|insert| insert.notify_committed());
                accepted.await.unwrap_or_else(|_| given_up())
            }
        }
    }

    /// Execution of an earlier request with the same key; an error if its body differed.
    async fn submitted_before(
        &self,
        caller: &Caller,
        offered: &PublishedSkill,
        idempotency: Option<&IdempotencyKey>,
    ) -> Result<Option<SubmittedExecution>, EngineError> {
        let Some(idempotency) = idempotency else { return Ok(None) };
        let skill = &offered.skill().id;
        let found = self.store.execution_by_key(&caller.principal, skill, &idempotency.key).await?;
        let Some((id, body)) = found else { return Ok(None) };
        let execution = match self.execution(caller, id.as_str()).await {
            // The retention of the earlier execution ended; its key is deleted with it.
            Err(error) if error.code == ErrorCode::ExecutionNotFound => {
                self.forget_executions(self.context.now()).await?;
                return Ok(None);
            }
            found => found?,
        };
        if body != idempotency.body {
            let message = "this Idempotency-Key was already used with another body; use a new key for a new request";
            return Err(EngineError::new(ErrorCode::IdempotencyMismatch, message));
        }
        Ok(Some(SubmittedExecution { execution, again: true }))
    }

    /// Builds the accepted invocation: validates the inputs and fills in defaults.
    fn order(
        &self,
        caller: &Caller,
        offered: &PublishedSkill,
        submission: ExecutionRequest,
    ) -> Result<AcceptedInvocation, ExecutionSubmitError> {
        let skill = offered.skill();
        let inputs = match &offered.tool {
            Some(tool) => {
                let inputs = Value::Object(with_defaults(tool.input.source(), submission.inputs));
                tool.input.check(&inputs).map_err(ExecutionSubmitError::Inputs)?;
                let Value::Object(inputs) = inputs else { unreachable!("it was made from a map") };
                inputs
            }
            None => agent::check_inputs(submission.inputs).map_err(ExecutionSubmitError::Inputs)?,
        };
        let limits = self.queue.limits();
        let timeout = self.skills.execution_timeout(offered);
        let timeout = submission.timeout.map_or(timeout, |asked| asked.min(timeout));
        Ok(AcceptedInvocation {
            skill: skill.id.clone(),
            version: skill.version,
            agent: offered.served.agent.name.clone(),
            target: offered.target(),
            caller: caller.clone(),
            protocol: submission.protocol,
            inputs,
            priority: submission.priority,
            trace: submission.trace,
            callback: submission.callback,
            created_at: self.context.now(),
            timeout_ms: millis(timeout),
            keep_ms: millis(skill.retention.unwrap_or(limits.keep)),
        })
    }
}

fn given_up() -> Result<(), StoreError> {
    Err(StoreError::Unavailable("the request was interrupted".to_owned()))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Fills in schema defaults for missing inputs.
fn with_defaults(schema: &Value, mut inputs: Map<String, Value>) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let Some(default) = property.get("default").filter(|_| !inputs.contains_key(name)) {
            inputs.insert(name.clone(), default.clone());
        }
    }
    inputs
}
