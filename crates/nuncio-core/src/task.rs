//! Work for people: it lies in the inbox until somebody takes it and finishes or refuses it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{AgentName, CallId, ExecutionId, TaskId, ToolName};
use crate::principal::Principal;
use crate::time::Timestamp;

/// A piece of work for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its id. The same work asked for again, after a crash, is the same task.
    pub id: TaskId,
    /// Whose tool it is.
    pub agent: AgentName,
    /// Which tool.
    pub tool: ToolName,
    /// What it is called.
    pub title: String,
    /// What is to be done.
    pub instructions: String,
    /// With what.
    pub inputs: Map<String, Value>,
    /// What the result must look like; none means one text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub form: Option<Value>,
    /// Who asked for it.
    pub asked_by: Principal,
    /// The call it answers.
    pub call: CallId,
    /// The execution it belongs to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub execution: Option<ExecutionId>,
    /// Since when it waits.
    pub created_at: Timestamp,
    /// When it must be done.
    pub due: Timestamp,
    /// How far it has got.
    pub state: TaskState,
}

/// How far a piece of work has got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum TaskState {
    /// Nobody has taken it.
    Open,
    /// Somebody is at it.
    Taken {
        /// Who.
        by: String,
        /// Since when.
        at: Timestamp,
    },
    /// It is done.
    Done {
        /// By whom.
        by: String,
        /// When.
        at: Timestamp,
        /// The result.
        output: Value,
    },
    /// Somebody said that it will not be done.
    Refused {
        /// Who.
        by: String,
        /// When.
        at: Timestamp,
        /// Why.
        reason: String,
    },
    /// It is no longer wanted: cancelled, or past its time.
    Withdrawn {
        /// When.
        at: Timestamp,
    },
}

impl TaskState {
    /// Its word, as it is stored.
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

    /// Whether nothing more happens to it.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Refused { .. } | Self::Withdrawn { .. })
    }
}

/// Why a piece of work cannot move on like that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskError {
    /// It is over.
    Over(&'static str),
    /// Somebody else has it.
    TakenBy(String),
    /// Its time is up.
    TooLate,
    /// Nobody has it, so nobody can give it back.
    NotTaken,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over(state) => write!(f, "it is already {state}"),
            Self::TakenBy(by) => write!(f, "{by} has taken it; they can give it back, or you can take it over"),
            Self::TooLate => f.write_str("its time is up"),
            Self::NotTaken => f.write_str("nobody has taken it"),
        }
    }
}

impl std::error::Error for TaskError {}

impl Task {
    /// Somebody takes it; with `over`, also from somebody else.
    ///
    /// # Errors
    /// It is over, late, or somebody else's.
    pub fn take(self, by: &str, over: bool, at: Timestamp) -> Result<Self, TaskError> {
        self.open(at)?;
        match &self.state {
            TaskState::Taken { by: holder, .. } if holder != by && !over => Err(TaskError::TakenBy(holder.clone())),
            _ => Ok(Self { state: TaskState::Taken { by: by.to_owned(), at }, ..self }),
        }
    }

    /// Whoever has it gives it back.
    ///
    /// # Errors
    /// It is over, late, nobody's or somebody else's.
    pub fn give_back(self, by: &str, at: Timestamp) -> Result<Self, TaskError> {
        self.open(at)?;
        match &self.state {
            TaskState::Taken { by: holder, .. } if holder == by => Ok(Self { state: TaskState::Open, ..self }),
            TaskState::Taken { by: holder, .. } => Err(TaskError::TakenBy(holder.clone())),
            _ => Err(TaskError::NotTaken),
        }
    }

    /// It is done. Whether the output fits is for whoever knows the form to say.
    ///
    /// # Errors
    /// It is over, late, or somebody else's.
    pub fn finish(self, by: &str, output: Value, at: Timestamp) -> Result<Self, TaskError> {
        let task = self.take(by, false, at)?;
        Ok(Self { state: TaskState::Done { by: by.to_owned(), at, output }, ..task })
    }

    /// It will not be done.
    ///
    /// # Errors
    /// It is over, late, or somebody else's.
    pub fn refuse(self, by: &str, reason: &str, at: Timestamp) -> Result<Self, TaskError> {
        let task = self.take(by, false, at)?;
        Ok(Self { state: TaskState::Refused { by: by.to_owned(), at, reason: reason.to_owned() }, ..task })
    }

    /// It is no longer wanted. Nothing happens to what is over.
    #[must_use]
    pub fn withdraw(self, at: Timestamp) -> Self {
        if self.state.is_over() { self } else { Self { state: TaskState::Withdrawn { at }, ..self } }
    }

    fn open(&self, at: Timestamp) -> Result<(), TaskError> {
        if self.state.is_over() {
            return Err(TaskError::Over(self.state.as_str()));
        }
        if at >= self.due { Err(TaskError::TooLate) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn task() -> Task {
        Task {
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
    fn work_passes_from_hand_to_hand() {
        let task = task().take("ada", false, at(1)).unwrap();
        assert_eq!(task.clone().take("bob", false, at(2)), Err(TaskError::TakenBy("ada".to_owned())));
        assert_eq!(task.clone().finish("bob", json!({}), at(2)), Err(TaskError::TakenBy("ada".to_owned())));
        assert_eq!(task.clone().give_back("bob", at(2)), Err(TaskError::TakenBy("ada".to_owned())));
        let task = task.take("bob", true, at(3)).unwrap();
        let task = task.give_back("bob", at(4)).unwrap();
        assert_eq!(task.clone().give_back("bob", at(4)), Err(TaskError::NotTaken));
        let done = task.finish("ada", json!({"ok": true}), at(5)).unwrap();
        assert_eq!(done.clone().take("bob", true, at(6)), Err(TaskError::Over("done")));
        assert_eq!(done.clone().withdraw(at(6)), done);
    }

    #[test]
    fn nothing_happens_after_its_time_but_its_withdrawal() {
        assert_eq!(task().take("ada", false, at(100)), Err(TaskError::TooLate));
        assert_eq!(task().refuse("ada", "no", at(100)), Err(TaskError::TooLate));
        assert_eq!(task().withdraw(at(100)).state, TaskState::Withdrawn { at: at(100) });
    }
}
