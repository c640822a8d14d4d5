//! Running statements, and what stands in their columns.

use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::Conflict;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// Runs a statement that changes rows, and says how many it changed.
pub(super) fn execute(connection: &Connection, sql: &str, params: impl Params) -> Result<usize, Problem> {
    Ok(connection.prepare_cached(sql)?.execute(params)?)
}

/// Runs a statement that must change a row; if it changes none, the condition did not hold.
pub(super) fn execute_or(
    conflict: Conflict,
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<(), Problem> {
    match execute(connection, sql, params)? {
        0 => Err(conflict.into()),
        _ => Ok(()),
    }
}

/// The first row, if there is one.
pub(super) fn first<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, Problem>,
) -> Result<Option<T>, Problem> {
    connection.prepare_cached(sql)?.query(params)?.next()?.map(read).transpose()
}

/// Every row.
pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    connection.prepare_cached(sql)?.query_and_then(params, read)?.collect()
}

/// How long a value mostly is as JSON, at most.
const USUAL: usize = 512;

/// A value as JSON, to be put into a column.
pub(super) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, Problem> {
    let not_json = |error: &dyn std::fmt::Display| Problem::Unwritable(format!("it is not JSON: {error}"));
    // Most fit, and are not moved while they grow.
    let mut text = Vec::with_capacity(USUAL);
    serde_json::to_writer(&mut text, value).map_err(|error| not_json(&error))?;
    String::from_utf8(text).map_err(|error| not_json(&error))
}

/// A count or a place, to be put into a column.
pub(super) fn to_integer(number: u64) -> Result<i64, Problem> {
    i64::try_from(number).map_err(|_| Problem::Unwritable(format!("{number} is too large a number to be kept")))
}

/// A place to compare with those in a column; none there is beyond the last.
pub(super) fn clamped(place: u64) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}

/// How many rows to read at most.
pub(super) fn to_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A column holding JSON.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T, Problem> {
    serde_json::from_str(text(row, column)?).map_err(|error| {
        // Not its text, which quotes what it did not expect.
        let what = if error.is_data() { "JSON of another shape" } else { "not JSON" };
        damaged(row, column, &format!("{what}, at line {} column {}", error.line(), error.column()))
    })
}

/// A column holding something or nothing.
pub(super) fn optional<T>(
    row: &Row<'_>,
    column: usize,
    read: impl FnOnce(&Row<'_>, usize) -> Result<T, Problem>,
) -> Result<Option<T>, Problem> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => read(row, column).map(Some),
    }
}

/// A column holding a name, a word or an id.
pub(super) fn parsed<T>(row: &Row<'_>, column: usize, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Problem> {
    parse(text(row, column)?).ok_or_else(|| damaged(row, column, "the text is not what belongs there"))
}

/// A column holding a digest.
pub(super) fn digest(row: &Row<'_>, column: usize) -> Result<Digest, Problem> {
    parsed(row, column, Digest::parse)
}

/// A column holding a count or a place.
pub(super) fn number(row: &Row<'_>, column: usize) -> Result<u64, Problem> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|_| damaged(row, column, "the number is negative"))
}

/// A column holding a moment.
pub(super) fn moment(row: &Row<'_>, column: usize) -> Result<Timestamp, Problem> {
    Ok(Timestamp::from_millis(row.get(column)?))
}

/// A column holding bytes.
pub(super) fn bytes<'row>(row: &'row Row<'_>, column: usize) -> Result<&'row [u8], Problem> {
    row.get_ref(column)?.as_blob().map_err(|error| damaged(row, column, &error.to_string()))
}

fn text<'row>(row: &'row Row<'_>, column: usize) -> Result<&'row str, Problem> {
    row.get_ref(column)?.as_str().map_err(|error| damaged(row, column, &error.to_string()))
}

/// Names the column but never shows what is in it: it may be somebody's conversation.
fn damaged(row: &Row<'_>, column: usize, why: &str) -> Problem {
    let name = row.as_ref().column_name(column).unwrap_or("?");
    Problem::Damaged(format!("column {name}: {why}"))
}
