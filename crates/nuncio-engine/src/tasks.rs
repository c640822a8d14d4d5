//! Work for people: it lies in the inbox until someone takes it and finishes or refuses it, and what
//! asked for it waits.

use futures_util::StreamExt as _;
use nuncio_core::Code;
use nuncio_core::agent::{HumanRun, Tool};
use nuncio_core::execution::ExecutionFailure;
use nuncio_core::ids::{AgentName, CallId, ExecutionId, TaskId};
use nuncio_core::principal::Principal;
use nuncio_core::schema::Schema;
use nuncio_core::task::{Task, TaskError, TaskState};
use nuncio_core::template::EscapeContext as TemplatePlace;
use nuncio_core::time::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::Engine;
use crate::call::cancelled;
use crate::error::EngineError;
use crate::ports::bus::Notice;
use crate::ports::entropy::random_name;
use crate::ports::runner::ToolOutput;
use crate::ports::store::{Change, Conflict, StoreError};

/// How many tasks are listed at most.
const LISTED: usize = 1000;

/// What is to be done, and for whom.
pub(crate) struct Work<'a> {
    pub(crate) agent: &'a AgentName,
    pub(crate) tool: &'a Tool,
    pub(crate) run: &'a HumanRun,
    pub(crate) arguments: &'a Value,
    pub(crate) asked_by: &'a Principal,
    pub(crate) call: &'a CallId,
    pub(crate) execution: Option<ExecutionId>,
    pub(crate) due: Timestamp,
}

/// What someone does with a task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskStep {
    /// Takes it.
    Take {
        /// Also from somebody else.
        over: bool,
    },
    /// Gives it back.
    GiveBack,
    /// Has done it.
    Finish(Value),
    /// Will not do it.
    Refuse(String),
}

impl TaskStep {
    /// What the record calls it.
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

impl Engine {
    /// Puts the work into the inbox and waits until it is done, refused, late or cancelled.
    ///
    /// # Errors
    /// The store cannot be used, or the server stops: the work stays where it is.
    pub(crate) async fn have_done(
        &self,
        work: Work<'_>,
        cancel: &CancellationToken,
    ) -> Result<Result<ToolOutput, ExecutionFailure>, EngineError> {
        // Listening before asking, so that no answer is missed.
        let mut notices = self.bus().subscribe();
        let id = self.put_into_inbox(work).await?;
        loop {
            let task = self.task(&id).await?;
            if let Some(outcome) = outcome(&task) {
                return Ok(outcome);
            }
            tokio::select! {
                // A server that stops cancels everything in the end; that is nobody's wish.
                biased;
                () = self.closing().cancelled() => {
                    return Err(EngineError::new(Code::ShuttingDown, "the server stops; the work stays in the inbox"));
                }
                () = cancel.cancelled() => {
                    self.withdraw_task(task).await?;
                    return Ok(Err(cancelled()));
                }
                _ = notices.next() => {}
                () = self.clock().sleep_until(task.due) => self.withdraw_task(task).await?,
            }
        }
    }

    /// The same work asked for again is the same task.
    async fn put_into_inbox(&self, work: Work<'_>) -> Result<TaskId, EngineError> {
        let id = match &work.execution {
            Some(execution) => format!("task_{}", execution.as_str().trim_start_matches("exe_")),
            // A turn that was cut short is not taken up again, and its calls may be named like others.
            None => random_name(self.entropy(), "task_"),
        };
        let id = TaskId::parse(&id)?;
        if self.store().task(&id).await?.is_some() {
            return Ok(id);
        }
        let instructions = match &work.run.instructions {
            Some(template) => template
                .render(TemplatePlace::Text, json!({ "args": work.arguments }))
                .map_err(|error| EngineError::new(Code::ToolFailed, format!("its instructions: {error}")))?,
            None => work.tool.description.clone(),
        };
        let task = Task {
            id: id.clone(),
            agent: work.agent.clone(),
            tool: work.tool.name.clone(),
            title: work.tool.title.clone().unwrap_or_else(|| work.tool.name.to_string()),
            instructions,
            inputs: work.arguments.as_object().cloned().unwrap_or_default(),
            form: work.tool.output.as_ref().map(|schema| schema.source().clone()),
            asked_by: work.asked_by.clone(),
            call: work.call.clone(),
            execution: work.execution,
            created_at: self.now(),
            due: work.due,
            state: TaskState::Open,
        };
        match self.store().commit(vec![Change::CreateTask(Box::new(task))]).await {
            Ok(()) | Err(StoreError::Conflict(Conflict::Exists)) => {}
            Err(error) => return Err(error.into()),
        }
        self.bus().publish(Notice::Tasks).await;
        tracing::info!(task = %id, "work for a person: `nuncio task list`, or /console/tasks");
        Ok(id)
    }

    async fn withdraw_task(&self, task: Task) -> Result<(), EngineError> {
        let withdrawn = task.clone().withdraw(self.now());
        match self.move_task(task, withdrawn).await {
            // Someone was quicker; the next look sees it.
            Err(error) if error.code == Code::TaskClosed => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Takes out the work nobody waits for any more: that of turns, which ended with their process.
    pub(crate) async fn withdraw_stale_tasks(&self) -> Result<(), EngineError> {
        for task in self.store().open_tasks(usize::MAX).await? {
            if task.execution.is_none() {
                self.withdraw_task(task).await?;
            }
        }
        Ok(())
    }

    /// What waits in the inbox, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn inbox(&self) -> Result<Vec<Task>, EngineError> {
        let now = self.now();
        let mut tasks = self.store().open_tasks(LISTED).await?;
        tasks.retain(|task| task.due > now);
        Ok(tasks)
    }

    /// One task, also one that is over.
    ///
    /// # Errors
    /// There is none of that id.
    pub async fn task(&self, id: &TaskId) -> Result<Task, EngineError> {
        self.store().task(id).await?.ok_or_else(|| {
            EngineError::new(Code::TaskNotFound, format!("there is no task {id}; `nuncio task list` shows what waits"))
        })
    }

    /// Somebody does something with a task. A result that does not fit its form is refused, and
    /// nothing changes.
    ///
    /// # Errors
    /// There is no such task, it is over, somebody else's, or the result does not fit.
    pub async fn step_task(&self, id: &TaskId, step: TaskStep, by: &str) -> Result<Task, EngineError> {
        let task = self.task(id).await?;
        if let TaskStep::Finish(output) = &step {
            check_form(&task, output)?;
        }
        let now = self.now();
        let current = task.clone();
        let moved = match step {
            TaskStep::Take { over } => current.take(by, over, now),
            TaskStep::GiveBack => current.give_back(by, now),
            TaskStep::Finish(output) => current.finish(by, output, now),
            TaskStep::Refuse(reason) => current.refuse(by, &reason, now),
        };
        let moved = moved.map_err(|error: TaskError| closed(id, &error))?;
        self.move_task(task, moved).await
    }

    async fn move_task(&self, from: Task, to: Task) -> Result<Task, EngineError> {
        let id = from.id.clone();
        let change = Change::MoveTask { from: Box::new(from), to: Box::new(to.clone()) };
        match self.store().commit(vec![change]).await {
            Err(StoreError::Conflict(conflict @ Conflict::TaskMoved)) => return Err(closed(&id, &conflict)),
            other => other?,
        }
        self.bus().publish(Notice::Tasks).await;
        Ok(to)
    }
}

/// What a task came to; none while it waits.
fn outcome(task: &Task) -> Option<Result<ToolOutput, ExecutionFailure>> {
    let failure = |code, message| Some(Err(ExecutionFailure { code, message }));
    match &task.state {
        TaskState::Open | TaskState::Taken { .. } => None,
        TaskState::Done { output, .. } => Some(Ok(ToolOutput::json(output.clone()))),
        TaskState::Refused { reason, .. } if reason.is_empty() => failure(Code::Refused, "it was refused".to_owned()),
        TaskState::Refused { reason, .. } => failure(Code::Refused, format!("it was refused: {reason}")),
        TaskState::Withdrawn { .. } => failure(Code::ToolTimeout, "nobody did it in time".to_owned()),
    }
}

fn check_form(task: &Task, output: &Value) -> Result<(), EngineError> {
    let wrong = |message: String| EngineError::new(Code::InvalidOutput, message);
    let Some(form) = &task.form else {
        return if output.is_string() { Ok(()) } else { Err(wrong("the result of this task is one text".to_owned())) };
    };
    let schema = Schema::compile(form.clone()).map_err(|error| wrong(format!("its form: {error}")))?;
    schema.check(output).map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        wrong(format!("the result does not fit: {}", faults.join("; ")))
    })
}

fn closed(id: &TaskId, why: &dyn std::fmt::Display) -> EngineError {
    EngineError::new(Code::TaskClosed, format!("task {id}: {why}"))
}
