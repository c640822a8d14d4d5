//! Human tasks: they wait in the inbox until a person finishes or refuses them, and the call waits.

use async_trait::async_trait;
use futures_util::StreamExt as _;
use nuncio_core::ErrorCode;
use nuncio_core::execution::ExecutionFailure;
use nuncio_core::ids::{ExecutionId, Incarnation, TaskId};
use nuncio_core::schema::Schema;
use nuncio_core::task::{HumanTask, TaskState, TaskTransitionError};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

use crate::call_failure::cancelled;
use crate::context::{CommitResultExt as _, EngineContext};
use crate::error::EngineError;
use crate::ports::bus::BusNotice;
use crate::ports::runner::{AuthorizedToolCall, HumanTaskInbox, ToolOutput, ToolRunError};
use crate::ports::store::{Conflict, TaskChange, TaskStore};

const MAX_LISTED_TASKS: usize = 1000;

/// Inbox for the tool runner of one call.
#[derive(Debug)]
pub(crate) struct CallTaskInbox {
    pub(crate) inbox: Arc<TaskInbox>,
    /// Execution of the call. Its task is found again after a restart; a call without an execution gets a new task.
    pub(crate) execution: Option<ExecutionId>,
    pub(crate) cancel: CancellationToken,
}

#[async_trait]
impl HumanTaskInbox for CallTaskInbox {
    async fn run_by_person(&self, call: &AuthorizedToolCall, instructions: String) -> Result<ToolOutput, ToolRunError> {
        self.inbox
            .run_by_person(self, call, instructions)
            .await
            .unwrap_or_else(|error| Err(ToolRunError::NoOutcome { code: error.code, message: error.message }))
    }
}

/// An action of a person on a task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskCommand {
    Take {
        /// Whether to take the task from a person who took it before.
        over: bool,
    },
    GiveBack,
    Finish(Value),
    Refuse(String),
}

impl TaskCommand {
    /// Name of the action in audit records.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Take { .. } => "task_take",
            Self::GiveBack => "task_give_back",
            Self::Finish(_) => "task_finish",
            Self::Refuse(_) => "task_refuse",
        }
    }
}

/// Service for tasks that people do.
pub struct TaskInbox {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn TaskStore>,
}

impl fmt::Debug for TaskInbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskInbox")
    }
}

impl TaskInbox {
    /// Creates the task of a call, or finds that of the same execution, and waits until it is done, refused, late or
    /// cancelled. Fails when the server stops; the task then stays in the inbox.
    pub(crate) async fn run_by_person(
        &self,
        from: &CallTaskInbox,
        call: &AuthorizedToolCall,
        instructions: String,
    ) -> Result<Result<ToolOutput, ToolRunError>, EngineError> {
        // Subscribed before the task is created, so that no answer is missed.
        let mut notices = self.context.bus.subscribe();
        // The call has started, so it must not fail because the store is unavailable for a while.
        let create = || self.create_inbox_task(from.execution.clone(), call, instructions.clone());
        let id = self.context.until_available(create).await?;
        loop {
            let task = self.context.until_available(|| self.task(&id)).await?;
            if let Some(outcome) = outcome(&task) {
                return Ok(outcome);
            }
            tokio::select! {
                // A stopping server cancels every call; that is not a cancellation by the caller.
                biased;
                () = self.context.closing.cancelled() => {
                    return Err(EngineError::new(ErrorCode::ShuttingDown, "the server is stopping; the task stays in the \
                                                                     inbox"));
                }
                () = from.cancel.cancelled() => {
                    self.context.until_available(|| self.withdraw_task(task.clone())).await?;
                    let ExecutionFailure { code, message } = cancelled();
                    return Ok(Err(ToolRunError::Refused { code, message }));
                }
                _ = notices.next() => {}
                () = self.context.clock.sleep_until(task.due) => {
                    self.context.until_available(|| self.withdraw_task(task.clone())).await?;
                }
                () = self.context.until_next_poll() => {}
            }
        }
    }

    /// Creates the task of a call, or returns the existing one of the same execution.
    async fn create_inbox_task(
        &self,
        execution: Option<ExecutionId>,
        call: &AuthorizedToolCall,
        instructions: String,
    ) -> Result<TaskId, EngineError> {
        let id = match &execution {
            Some(execution) => format!("task_{}", execution.as_str().trim_start_matches("exe_")),
            // The task id is random, because turns are not resumed and their call ids may repeat.
            None => self.context.random_name("task_"),
        };
        let id = TaskId::parse(&id)?;
        if self.store.task(&id).await?.is_some() {
            return Ok(id);
        }
        let tool = &call.tool;
        let node = execution.is_none().then(|| self.context.incarnation.clone());
        let task = HumanTask {
            id: id.clone(),
            agent: call.agent.name.clone(),
            tool: tool.name.clone(),
            title: tool.title_in("en").to_owned(),
            instructions,
            inputs: call.arguments.clone(),
            form: tool.output.as_ref().map(|schema| schema.source().clone()),
            asked_by: call.caller.clone(),
            call: call.id.clone(),
            execution,
            created_at: self.context.now(),
            due: call.deadline,
            state: TaskState::Open,
        };
        self.context
            .commit_one(TaskChange::Create { task: Box::new(task), node })
            .await
            .made_unless(Conflict::Exists)?;
        self.context.bus.publish(BusNotice::Tasks).await;
        tracing::info!(task = %id, "a new task waits for a person: `nuncio task list`, or /console/tasks");
        Ok(id)
    }

    async fn withdraw_task(&self, task: HumanTask) -> Result<(), EngineError> {
        let withdrawn = task.clone().withdraw(self.context.now());
        match self.move_task(task, withdrawn).await {
            // A concurrent request changed the task first; the next read shows that.
            Err(error) if error.code == ErrorCode::TaskClosed => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Withdraws the tasks for which turns of a dead incarnation waited.
    pub(crate) async fn withdraw_tasks_of(&self, node: &Incarnation) -> Result<(), EngineError> {
        for task in self.store.open_tasks_of(node).await? {
            self.withdraw_task(task).await?;
        }
        Ok(())
    }

    /// Unfinished human tasks that are not overdue, also taken ones, oldest first; at most 1000.
    pub async fn open_tasks(&self) -> Result<Vec<HumanTask>, EngineError> {
        let now = self.context.now();
        let mut tasks = self.store.open_tasks(MAX_LISTED_TASKS).await?;
        tasks.retain(|task| task.due > now);
        Ok(tasks)
    }

    /// A human task, open or finished.
    pub async fn task(&self, id: &TaskId) -> Result<HumanTask, EngineError> {
        self.store.task(id).await?.ok_or_else(|| {
            EngineError::new(
                ErrorCode::TaskNotFound,
                format!("there is no task {id}; `nuncio task list` shows the open tasks"),
            )
        })
    }

    /// Applies a person's action to a task. A result that does not fit the form is refused.
    pub async fn step_task(&self, id: &TaskId, step: TaskCommand, by: &str) -> Result<HumanTask, EngineError> {
        let task = self.task(id).await?;
        if let TaskCommand::Finish(output) = &step {
            check_form(&task, output)?;
        }
        let now = self.context.now();
        let current = task.clone();
        let moved = match step {
            TaskCommand::Take { over } => current.take(by, over, now),
            TaskCommand::GiveBack => current.give_back(by, now),
            TaskCommand::Finish(output) => current.finish(by, output, now),
            TaskCommand::Refuse(reason) => current.refuse(by, &reason, now),
        };
        let moved = moved.map_err(|error: TaskTransitionError| closed(id, &error))?;
        self.move_task(task, moved).await
    }

    async fn move_task(&self, from: HumanTask, to: HumanTask) -> Result<HumanTask, EngineError> {
        let id = from.id.clone();
        let change = TaskChange::Move { from: Box::new(from), to: Box::new(to.clone()) };
        if !self.context.commit_one(change).await.made_unless(Conflict::TaskMoved)? {
            return Err(closed(&id, &Conflict::TaskMoved));
        }
        self.context.bus.publish(BusNotice::Tasks).await;
        Ok(to)
    }
}

/// Result of a finished task; `None` while it waits.
fn outcome(task: &HumanTask) -> Option<Result<ToolOutput, ToolRunError>> {
    let failure = |code, message| Some(Err(ToolRunError::Refused { code, message }));
    match &task.state {
        TaskState::Open | TaskState::Taken { .. } => None,
        TaskState::Done { output, .. } => Some(Ok(ToolOutput::json(output.clone()))),
        TaskState::Refused { reason, .. } if reason.is_empty() => {
            failure(ErrorCode::Refused, "it was refused".to_owned())
        }
        TaskState::Refused { reason, .. } => failure(ErrorCode::Refused, format!("it was refused: {reason}")),
        TaskState::Withdrawn { .. } => failure(ErrorCode::ToolTimeout, "it was not done in time".to_owned()),
    }
}

fn check_form(task: &HumanTask, output: &Value) -> Result<(), EngineError> {
    let wrong = |message: String| EngineError::new(ErrorCode::InvalidOutput, message);
    let Some(form) = &task.form else {
        return if output.is_string() {
            Ok(())
        } else {
            Err(wrong("the result of this task must be a string".to_owned()))
        };
    };
    let schema = Schema::compile(form.clone())
        .map_err(|error| wrong(format!("the form of this task cannot be used: {error}")))?;
    schema.check(output).map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        wrong(format!("the result does not match the form: {}", faults.join("; ")))
    })
}

fn closed(id: &TaskId, why: &dyn fmt::Display) -> EngineError {
    EngineError::new(ErrorCode::TaskClosed, format!("task {id}: {why}"))
}
