//! Human tasks.

use async_trait::async_trait;
use nuncio_core::ids::{ExecutionId, Incarnation, TaskId};
use nuncio_core::task::HumanTask;
use nuncio_engine::ports::store::{Conflict, StoreError, TaskChange, TaskStore};
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{self, execute_or, to_json, to_limit, update_or};

pub(super) fn apply(connection: &Connection, change: &TaskChange) -> Result<(), SqlError> {
    match change {
        TaskChange::Create { task, node } => execute_or(
            Conflict::Exists,
            connection,
            "INSERT INTO tasks (id, open, created_at, execution, content, node) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (id) DO NOTHING",
            params![
                task.id.as_str(),
                !task.state.is_over(),
                task.created_at.as_millis(),
                task.execution.as_ref().map(ExecutionId::as_str),
                to_json(task)?,
                node.as_ref().map(Incarnation::as_str)
            ],
        ),
        TaskChange::Move { from, to } => update_or(
            Conflict::TaskMoved,
            connection,
            ("tasks", from.id.as_str()),
            "UPDATE tasks SET open = ?3, content = ?4 WHERE id = ?1 AND content = ?2",
            params![from.id.as_str(), to_json(from)?, !to.state.is_over(), to_json(to)?],
        ),
    }
}

#[async_trait]
impl TaskStore for SqliteStore {
    async fn task(&self, id: &TaskId) -> Result<Option<HumanTask>, StoreError> {
        self.readers.first("SELECT content FROM tasks WHERE id = ?1", [id.as_str()], rows::json_row)
    }

    async fn open_tasks(&self, limit: usize) -> Result<Vec<HumanTask>, StoreError> {
        let sql = "SELECT content FROM tasks WHERE open = 1 ORDER BY created_at, id LIMIT ?1";
        self.readers.all(sql, [to_limit(limit)], rows::json_row).await
    }

    async fn open_tasks_of(&self, node: &Incarnation) -> Result<Vec<HumanTask>, StoreError> {
        let sql = "SELECT content FROM tasks WHERE open = 1 AND node = ?1 ORDER BY created_at, id";
        self.readers.all(sql, [node.to_string()], rows::json_row).await
    }
}
