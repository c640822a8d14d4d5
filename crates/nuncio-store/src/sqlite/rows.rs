//! Helpers for SQL statements and columns.

use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::Conflict;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row};
use serde::de::DeserializeOwned;

use super::problem::SqlError;
pub(super) use crate::common::{clamped, text_or_empty, to_integer, to_json, to_limit};
use crate::common::{from_json, from_text_form};
#[cfg(feature = "contract")]
pub(super) use steps::prepared;

#[cfg(feature = "contract")]
pub(super) mod steps;

/// Runs a statement and returns the number of changed rows.
pub(super) fn execute(connection: &Connection, sql: &str, params: impl Params) -> Result<usize, SqlError> {
    Ok(prepared(connection, sql)?.execute(params)?)
}

/// Runs a statement that may change any number of rows.
pub(super) fn run(connection: &Connection, sql: &str, params: impl Params) -> Result<(), SqlError> {
    execute(connection, sql, params).map(drop)
}

/// Runs a statement that must change a row; otherwise returns the conflict.
pub(super) fn execute_or(
    conflict: Conflict,
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<(), SqlError> {
    match execute(connection, sql, params)? {
        0 => Err(conflict.into()),
        _ => Ok(()),
    }
}

/// Runs an update that must change the row of a table with this id; otherwise returns `Missing` if there is no such
/// row, or else the conflict.
pub(super) fn update_or(
    conflict: Conflict,
    connection: &Connection,
    (table, id): (&str, &str),
    sql: &str,
    params: impl Params,
) -> Result<(), SqlError> {
    if execute(connection, sql, params)? > 0 {
        return Ok(());
    }
    let is_there = exists(connection, &format!("SELECT 1 FROM {table} WHERE id = ?1"), [id])?;
    Err(if is_there { conflict } else { Conflict::Missing }.into())
}

pub(super) fn exists(connection: &Connection, sql: &str, params: impl Params) -> Result<bool, SqlError> {
    Ok(prepared(connection, sql)?.exists(params)?)
}

pub(super) fn first<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, SqlError>,
) -> Result<Option<T>, SqlError> {
    prepared(connection, sql)?.query(params)?.next()?.map(read).transpose()
}

pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T, SqlError>,
) -> Result<Vec<T>, SqlError> {
    prepared(connection, sql)?.query_and_then(params, read)?.collect()
}

#[cfg(not(feature = "contract"))]
pub(super) fn prepared<'a>(connection: &'a Connection, sql: &str) -> Result<rusqlite::CachedStatement<'a>, SqlError> {
    Ok(connection.prepare_cached(sql)?)
}

pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T, SqlError> {
    from_json(text(row, column)?).map_err(|why| damaged(row, column, &why))
}

/// Reads a row that is one JSON column.
pub(super) fn json_row<T: DeserializeOwned>(row: &Row<'_>) -> Result<T, SqlError> {
    json(row, 0)
}

pub(super) fn optional<T>(
    row: &Row<'_>,
    column: usize,
    read: impl FnOnce(&Row<'_>, usize) -> Result<T, SqlError>,
) -> Result<Option<T>, SqlError> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => read(row, column).map(Some),
    }
}

/// Reads a text column that contains the serde text form of the type.
pub(super) fn text_form<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T, SqlError> {
    parsed(row, column, from_text_form)
}

pub(super) fn parsed<T>(row: &Row<'_>, column: usize, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, SqlError> {
    parse(text(row, column)?).ok_or_else(|| damaged(row, column, "the text does not have the expected form"))
}

pub(super) fn digest(row: &Row<'_>, column: usize) -> Result<Digest, SqlError> {
    parsed(row, column, Digest::parse)
}

pub(super) fn number(row: &Row<'_>, column: usize) -> Result<u64, SqlError> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|_| damaged(row, column, "the number is negative"))
}

pub(super) fn moment(row: &Row<'_>, column: usize) -> Result<Timestamp, SqlError> {
    Ok(Timestamp::from_millis(row.get(column)?))
}

pub(super) fn bytes<'row>(row: &'row Row<'_>, column: usize) -> Result<&'row [u8], SqlError> {
    row.get_ref(column)?.as_blob().map_err(|error| damaged(row, column, &error.to_string()))
}

fn text<'row>(row: &'row Row<'_>, column: usize) -> Result<&'row str, SqlError> {
    row.get_ref(column)?.as_str().map_err(|error| damaged(row, column, &error.to_string()))
}

/// Error for an unreadable column. It names the column without its content, which may be private.
fn damaged(row: &Row<'_>, column: usize, why: &str) -> SqlError {
    let name = row.as_ref().column_name(column).unwrap_or("?");
    SqlError::Damaged(format!("column {name}: {why}"))
}
