//! Damage checks of a database.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use nuncio_engine::ports::store::{StoreCheckResult, StoreError};
use rusqlite::{Connection, ErrorCode as SqliteErrorCode};

use super::problem::SqlError;
use super::rows::all;
use super::{connection, wal};

/// Time limit of the damage check at server start, enough for about a gigabyte on a fast disk. A larger database is
/// checked in part, so that the server starts soon; `nuncio store check` checks all of it.
pub(super) const QUICK_CHECK_TIME: Duration = Duration::from_secs(3);

/// Maximum number of reported problems.
const MOST: u32 = 100;

/// Tables and columns whose values the full check parses as JSON.
const JSON: &[(&str, &str)] = &[
    ("approvals", "content"),
    ("audit_links", "record"),
    ("executions", "content"),
    ("executions", "outcome"),
    ("grants", "content"),
    ("messages", "message"),
    ("sessions", "pending"),
    ("sessions", "settings"),
    ("tasks", "content"),
    ("turns", "stop"),
];

/// Checks the write-ahead file and the page structure, within a time limit.
pub(super) fn quick(path: &Path, time: Duration) -> Result<StoreCheckResult, StoreError> {
    let mut found = StoreCheckResult { complete: true, problems: Vec::new() };
    if check_log(path, &mut found)? || !path.exists() {
        return Ok(found);
    }
    found.complete = tolerant(&mut found, || {
        let connection = connection::checking(path)?;
        within(&connection, time, || lines(&connection, "PRAGMA quick_check(1)"))
    })?;
    Ok(found)
}

/// Checks the write-ahead file, pages, indexes, references and JSON columns.
pub(super) fn full(path: &Path) -> Result<StoreCheckResult, StoreError> {
    let mut found = StoreCheckResult { complete: true, problems: Vec::new() };
    // Without the commits in a damaged write-ahead log, intact data would look damaged too.
    if check_log(path, &mut found)? {
        return Ok(StoreCheckResult { complete: false, ..found });
    }
    tolerant(&mut found, || {
        let connection = connection::checking(path)?;
        let mut problems = lines(&connection, &format!("PRAGMA integrity_check({MOST})"))?;
        let dangling = "SELECT \"table\" || ' refers to something in ' || parent || ' that is not there'
                        FROM pragma_foreign_key_check LIMIT 100";
        problems.extend(all(&connection, dangling, [], |row| Ok(row.get(0)?))?);
        for (table, column) in JSON {
            let sql = format!("SELECT count(*) FROM {table} WHERE {column} IS NOT NULL AND NOT json_valid({column})");
            let wrong: Vec<i64> = all(&connection, &sql, [], |row| Ok(row.get(0)?))?;
            let wrong = wrong.first().copied().unwrap_or_default();
            if wrong > 0 {
                problems.push(format!("{wrong} values of {table}.{column} are not JSON"));
            }
        }
        Ok((problems, true))
    })?;
    Ok(found)
}

/// Adds damage of the write-ahead file to the problems found; true if there is any.
fn check_log(path: &Path, found: &mut StoreCheckResult) -> Result<bool, StoreError> {
    let damage = wal::damage(path).map_err(|error| wal::unreadable(path, &error))?;
    let is_damaged = damage.is_some();
    found.problems.extend(damage);
    Ok(is_damaged)
}

/// Adds the problems that `check` found. Damage that makes the check itself fail counts as a problem.
fn tolerant(
    found: &mut StoreCheckResult,
    check: impl FnOnce() -> Result<(Vec<String>, bool), SqlError>,
) -> Result<bool, StoreError> {
    match check().map_err(StoreError::from) {
        Ok((problems, complete)) => {
            found.problems.extend(problems);
            Ok(complete)
        }
        Err(StoreError::Damaged(why)) => {
            found.problems.push(why);
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// Output lines of a SQLite check, without "ok".
fn lines(connection: &Connection, sql: &str) -> Result<Vec<String>, SqlError> {
    let mut lines: Vec<String> = all(connection, sql, [], |row| Ok(row.get(0)?))?;
    lines.retain(|line| line != "ok");
    Ok(lines)
}

/// Runs a check and interrupts it at the time limit; the result says whether the check is complete.
fn within(
    connection: &Connection,
    time: Duration,
    check: impl FnOnce() -> Result<Vec<String>, SqlError>,
) -> Result<(Vec<String>, bool), SqlError> {
    let interrupt = connection.get_interrupt_handle();
    let (done, is_done) = channel::<()>();
    let checked = thread::scope(|scope| {
        scope.spawn(move || {
            if is_done.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                interrupt.interrupt();
            }
        });
        let checked = check();
        drop(done);
        checked
    });
    match checked {
        Err(SqlError::Sqlite(rusqlite::Error::SqliteFailure(error, _)))
            if error.code == SqliteErrorCode::OperationInterrupted =>
        {
            Ok((Vec::new(), false))
        }
        other => Ok((other?, true)),
    }
}
