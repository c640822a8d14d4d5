//! Human tasks.

use nuncio_core::ids::TaskId;
use nuncio_core::task::Task;
use nuncio_engine::ports::store::Conflict;
use rusqlite::{Connection, params};

use super::problem::SqlProblem;
use super::rows::{self, all, changed_or, execute, execute_or, first, to_json, to_limit};

pub(super) fn create(connection: &Connection, task: &Task) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO tasks (id, open, created_at, execution, content) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (id) DO NOTHING",
        params![
            task.id.as_str(),
            !task.state.is_over(),
            task.created_at.as_millis(),
            task.execution.as_ref().map(nuncio_core::ids::ExecutionId::as_str),
            to_json(task)?
        ],
    )
}

pub(super) fn move_on(connection: &Connection, from: &Task, to: &Task) -> Result<(), SqlProblem> {
    let moved = execute(
        connection,
        "UPDATE tasks SET open = ?3, content = ?4 WHERE id = ?1 AND content = ?2",
        params![from.id.as_str(), to_json(from)?, !to.state.is_over(), to_json(to)?],
    )?;
    changed_or(Conflict::TaskMoved, connection, moved, "tasks", from.id.as_str())
}

pub(super) fn one(connection: &Connection, id: &TaskId) -> Result<Option<Task>, SqlProblem> {
    first(connection, "SELECT content FROM tasks WHERE id = ?1", [id.as_str()], |row| rows::json(row, 0))
}

pub(super) fn open(connection: &Connection, limit: usize) -> Result<Vec<Task>, SqlProblem> {
    let sql = "SELECT content FROM tasks WHERE open = 1 ORDER BY created_at, id LIMIT ?1";
    all(connection, sql, [to_limit(limit)], |row| rows::json(row, 0))
}
