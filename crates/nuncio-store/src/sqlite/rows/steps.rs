//! Counts the work of statements, for tests that limit it.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use rusqlite::{CachedStatement, Connection, StatementStatus};

use crate::sqlite::problem::SqlError;

thread_local! {
    static STEPS: Cell<i32> = const { Cell::new(0) };
}

/// Steps of SQLite's virtual machine on this thread since the last call, including those of triggers.
pub(crate) fn take() -> i32 {
    STEPS.take()
}

/// A statement that counts its steps when it is dropped.
pub(super) struct CountedStatement<'a>(CachedStatement<'a>);

pub(super) fn prepared<'a>(connection: &'a Connection, sql: &str) -> Result<CountedStatement<'a>, SqlError> {
    Ok(CountedStatement(connection.prepare_cached(sql)?))
}

impl Drop for CountedStatement<'_> {
    fn drop(&mut self) {
        STEPS.set(STEPS.get() + self.0.reset_status(StatementStatus::VmStep));
    }
}

impl<'a> Deref for CountedStatement<'a> {
    type Target = CachedStatement<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for CountedStatement<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
