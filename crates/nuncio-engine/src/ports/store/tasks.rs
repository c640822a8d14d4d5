//! Store of tasks for people.

use async_trait::async_trait;
use nuncio_core::ids::{Incarnation, TaskId};
use nuncio_core::task::HumanTask;

use super::StoreError;

#[derive(Debug, Clone, PartialEq)]
pub enum TaskChange {
    /// Creates a human task. `Exists` if its id is taken.
    Create {
        task: Box<HumanTask>,
        /// Incarnation whose call waits for the result; `None` if the task belongs to an execution, which finds it again.
        node: Option<Incarnation>,
    },
    /// Updates a task. `Missing` if it does not exist; `TaskMoved` unless the stored task equals `from`.
    Move { from: Box<HumanTask>, to: Box<HumanTask> },
}

#[async_trait]
pub trait TaskStore: Send + Sync {
    async fn task(&self, id: &TaskId) -> Result<Option<HumanTask>, StoreError>;
    /// At most `limit` unfinished human tasks, oldest first.
    async fn open_tasks(&self, limit: usize) -> Result<Vec<HumanTask>, StoreError>;
    /// Unfinished tasks for which a call of an incarnation waits, oldest first.
    async fn open_tasks_of(&self, node: &Incarnation) -> Result<Vec<HumanTask>, StoreError>;
}
