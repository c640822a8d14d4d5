//! Human tasks: work that waits in the inbox until a person takes it and completes or refuses it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{AgentName, CallId, ExecutionId, TaskId, ToolName};
use crate::principal::Principal;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HumanTask {
    /// Id of the task, derived from the call, so that a repeated call after a crash finds the same task.
    pub id: TaskId,
    pub agent: AgentName,
    pub tool: ToolName,
    pub title: String,
    pub instructions: String,
    pub inputs: Map<String, Value>,
    /// JSON Schema of the result; `None` means one text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub form: Option<Value>,
    pub asked_by: Principal,
    pub call: CallId,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub execution: Option<ExecutionId>,
    pub created_at: Timestamp,
    /// Deadline of the task, at which an unfinished one is withdrawn.
    pub due: Timestamp,
    pub state: TaskState,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum TaskState {
    Open,
    Taken {
        by: String,
        at: Timestamp,
    },
    Done {
        by: String,
        at: Timestamp,
        output: Value,
    },
    Refused {
        by: String,
        at: Timestamp,
        reason: String,
    },
    /// The task was cancelled, or is past its deadline.
    Withdrawn {
        at: Timestamp,
    },
}

impl TaskState {
    /// Name of the task's state in the store.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Taken { .. } => "taken",
            Self::Done { .. } => "done",
            Self::Refused { .. } => "refused",
            Self::Withdrawn { .. } => "withdrawn",
        }
    }

    /// Whether the state of the task is final.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Refused { .. } | Self::Withdrawn { .. })
    }
}

/// A transition that the task's state does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskTransitionError {
    /// The task has ended; the text is the state's name.
    #[error("it is already {0}")]
    Over(&'static str),
    #[error("{0} has taken it; they can return it, or you can take it over")]
    TakenBy(String),
    #[error("its time limit has passed")]
    TooLate,
    /// Only a taken task can be given back.
    #[error("it has not been taken")]
    NotTaken,
}

impl HumanTask {
    /// Assigns the task to `by`; with `over`, also if another person has taken it. Fails if the task has ended or is
    /// past its deadline.
    pub fn take(self, by: &str, over: bool, at: Timestamp) -> Result<Self, TaskTransitionError> {
        self.open(at)?;
        match &self.state {
            TaskState::Taken { by: holder, .. } if holder != by && !over => {
                Err(TaskTransitionError::TakenBy(holder.clone()))
            }
            _ => Ok(Self { state: TaskState::Taken { by: by.to_owned(), at }, ..self }),
        }
    }

    /// Returns a taken task to the inbox. Fails if another person has taken it or nobody has, or if it has ended or is
    /// past its deadline.
    pub fn give_back(self, by: &str, at: Timestamp) -> Result<Self, TaskTransitionError> {
        self.open(at)?;
        match &self.state {
            TaskState::Taken { by: holder, .. } if holder == by => Ok(Self { state: TaskState::Open, ..self }),
            TaskState::Taken { by: holder, .. } => Err(TaskTransitionError::TakenBy(holder.clone())),
            _ => Err(TaskTransitionError::NotTaken),
        }
    }

    /// Completes the task, also one that nobody has taken; fails if another person has. The caller has validated the
    /// output against the form.
    pub fn finish(self, by: &str, output: Value, at: Timestamp) -> Result<Self, TaskTransitionError> {
        let task = self.take(by, false, at)?;
        Ok(Self { state: TaskState::Done { by: by.to_owned(), at, output }, ..task })
    }

    pub fn refuse(self, by: &str, reason: &str, at: Timestamp) -> Result<Self, TaskTransitionError> {
        let task = self.take(by, false, at)?;
        Ok(Self { state: TaskState::Refused { by: by.to_owned(), at, reason: reason.to_owned() }, ..task })
    }

    /// Withdraws the task. A task that has ended is not changed.
    #[must_use]
    pub fn withdraw(self, at: Timestamp) -> Self {
        if self.state.is_over() { self } else { Self { state: TaskState::Withdrawn { at }, ..self } }
    }

    fn open(&self, at: Timestamp) -> Result<(), TaskTransitionError> {
        if self.state.is_over() {
            return Err(TaskTransitionError::Over(self.state.as_str()));
        }
        if at >= self.due { Err(TaskTransitionError::TooLate) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn task() -> HumanTask {
        HumanTask {
            id: TaskId::parse("task_1").unwrap(),
            agent: AgentName::parse("depot").unwrap(),
            tool: ToolName::parse("pickup").unwrap(),
            title: "Pick up".to_owned(),
            instructions: "Fetch it".to_owned(),
            inputs: Map::new(),
            form: None,
            asked_by: Principal::Anonymous,
            call: CallId::parse("c1").unwrap(),
            execution: None,
            created_at: at(0),
            due: at(100),
            state: TaskState::Open,
        }
    }

    #[test]
    fn taken_task_is_changed_only_by_its_holder_until_given_back_or_taken_over() {
        let task = task().take("ada", false, at(1)).unwrap();
        assert_eq!(task.clone().take("bob", false, at(2)), Err(TaskTransitionError::TakenBy("ada".to_owned())));
        assert_eq!(task.clone().finish("bob", json!({}), at(2)), Err(TaskTransitionError::TakenBy("ada".to_owned())));
        assert_eq!(task.clone().give_back("bob", at(2)), Err(TaskTransitionError::TakenBy("ada".to_owned())));
        let task = task.take("bob", true, at(3)).unwrap();
        let task = task.give_back("bob", at(4)).unwrap();
        assert_eq!(task.clone().give_back("bob", at(4)), Err(TaskTransitionError::NotTaken));
        let done = task.finish("ada", json!({"ok": true}), at(5)).unwrap();
        assert_eq!(done.clone().take("bob", true, at(6)), Err(TaskTransitionError::Over("done")));
        assert_eq!(done.clone().withdraw(at(6)), done);
    }

    #[test]
    fn overdue_task_cannot_be_taken_or_refused_but_can_be_withdrawn() {
        assert_eq!(task().take("ada", false, at(100)), Err(TaskTransitionError::TooLate));
        assert_eq!(task().refuse("ada", "no", at(100)), Err(TaskTransitionError::TooLate));
        assert_eq!(task().withdraw(at(100)).state, TaskState::Withdrawn { at: at(100) });
    }
}
