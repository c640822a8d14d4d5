//! Human tasks.

use async_trait::async_trait;
use nuncio_core::ids::{ExecutionId, Incarnation, TaskId};
use nuncio_core::task::HumanTask;
use nuncio_engine::ports::store::{Conflict, StoreError, TaskChange, TaskStore};

use super::PostgresStore;
use super::rows::{self, to_json, to_limit};
use super::writes::{SqlWrite, Translated, Writes, params};

pub(super) fn translate(change: &TaskChange, out: &mut Writes) -> Translated {
    out.push(match change {
        TaskChange::Create { task, node } => SqlWrite::one_or(
            Conflict::Exists,
            "INSERT INTO tasks (id, open, created_at, execution, content, node) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (id) DO NOTHING",
            params![
                task.id.as_str(),
                !task.state.is_over(),
                task.created_at,
                task.execution.as_ref().map(ExecutionId::as_str),
                to_json(task)?,
                node.as_ref().map(Incarnation::as_str)
            ],
        ),
        TaskChange::Move { from, to } => SqlWrite::found_or(
            Conflict::TaskMoved,
            Conflict::Missing,
            "SELECT 1 FROM tasks WHERE id = $1",
            "UPDATE tasks SET open = $3, content = $4 WHERE id = $1 AND content = $2",
            params![from.id.as_str(), to_json(from)?, !to.state.is_over(), to_json(to)?],
        ),
    });
    Ok(())
}

#[async_trait]
impl TaskStore for PostgresStore {
    async fn task(&self, id: &TaskId) -> Result<Option<HumanTask>, StoreError> {
        let sql = "SELECT content FROM tasks WHERE id = $1";
        self.readers.first(sql, params![id.as_str()], rows::json_row).await
    }

    async fn open_tasks(&self, limit: usize) -> Result<Vec<HumanTask>, StoreError> {
        let sql = "SELECT content FROM tasks WHERE open = 1 ORDER BY created_at, id LIMIT $1";
        self.readers.all(sql, params![to_limit(limit)], rows::json_row).await
    }

    async fn open_tasks_of(&self, node: &Incarnation) -> Result<Vec<HumanTask>, StoreError> {
        let sql = "SELECT content FROM tasks WHERE open = 1 AND node = $1 ORDER BY created_at, id";
        self.readers.all(sql, params![node.as_str()], rows::json_row).await
    }
}
