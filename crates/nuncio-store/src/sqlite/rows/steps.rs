//! For tests: counts the SQLite steps of statements, and records which statements ran on a database file.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{CachedStatement, Connection, StatementStatus};

use crate::sqlite::problem::SqlError;

thread_local! {
    static STEPS: Cell<i32> = const { Cell::new(0) };
}

/// Statements of each recorded file, by their SQL.
static RECORDED: Mutex<BTreeMap<PathBuf, BTreeMap<String, RecordedStatement>>> = Mutex::new(BTreeMap::new());

/// A statement with the work of all its executions, including its triggers.
#[derive(Debug, Clone, Default)]
pub struct RecordedStatement {
    /// SQLite's description of each step of the plan, without triggers.
    pub plan: Vec<String>,
    /// Number of rows from which a scan without an index condition went on to the next.
    pub scanned_rows: i32,
}

/// Steps of SQLite's virtual machine on this thread since the last call, including those of triggers.
#[cfg(test)]
pub(crate) fn take() -> i32 {
    STEPS.take()
}

/// Records the statements on a database file from now on.
pub fn record_statements(file: &Path) {
    let mut recorded = RECORDED.lock().unwrap_or_else(PoisonError::into_inner);
    recorded.insert(file.to_owned(), BTreeMap::new());
}

/// The statements that were executed on a database file since [`record_statements`].
#[must_use]
pub fn executed_statements(file: &Path) -> BTreeMap<String, RecordedStatement> {
    RECORDED.lock().unwrap_or_else(PoisonError::into_inner).get(file).cloned().unwrap_or_default()
}

/// A statement that counts its steps when it is dropped.
pub(crate) struct CountedStatement<'a> {
    statement: CachedStatement<'a>,
    connection: &'a Connection,
    sql: &'a str,
}

pub(crate) fn prepared<'a>(connection: &'a Connection, sql: &'a str) -> Result<CountedStatement<'a>, SqlError> {
    Ok(CountedStatement { statement: connection.prepare_cached(sql)?, connection, sql })
}

impl Drop for CountedStatement<'_> {
    fn drop(&mut self) {
        STEPS.set(STEPS.get() + self.statement.reset_status(StatementStatus::VmStep));
        let scanned_rows = self.statement.reset_status(StatementStatus::FullscanStep);
        let Some(file) = self.connection.path() else { return };
        let mut recorded = RECORDED.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(statements) = recorded.get_mut(Path::new(file)) else { return };
        let statement = statements.entry(self.sql.to_owned()).or_insert_with(|| RecordedStatement {
            plan: plan(self.connection, self.sql).unwrap_or_default(),
            scanned_rows: 0,
        });
        statement.scanned_rows += scanned_rows;
    }
}

fn plan(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
    explained.raw_query().mapped(|row| row.get("detail")).collect()
}

impl<'a> Deref for CountedStatement<'a> {
    type Target = CachedStatement<'a>;

    fn deref(&self) -> &Self::Target {
        &self.statement
    }
}

impl DerefMut for CountedStatement<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.statement
    }
}
