//! Store of tasks for people.

use async_trait::async_trait;
use nuncio_core::ids::TaskId;
use nuncio_core::task::HumanTask;

use super::StoreError;

#[derive(Debug, Clone, PartialEq)]
pub enum TaskChange {
    /// Creates a human task. `Exists` if its id is taken.
    Create(Box<HumanTask>),
    /// Updates a task. `Missing` if it does not exist; `TaskMoved` unless the stored task equals `from`.
    Move { from: Box<HumanTask>, to: Box<HumanTask> },
}

#[async_trait]
pub trait TaskStore: Send + Sync {
    async fn task(&self, id: &TaskId) -> Result<Option<HumanTask>, StoreError>;
    /// At most `limit` unfinished human tasks, oldest first.
    async fn open_tasks(&self, limit: usize) -> Result<Vec<HumanTask>, StoreError>;
}
