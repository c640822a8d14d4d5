//! Helpers for columns and values.

use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::problem::SqlError;
pub(super) use crate::common::{clamped, text_or_empty, to_integer, to_json, to_limit};
use crate::common::{from_json, from_text_form};

pub(super) fn get<'row, T: FromSql<'row>>(row: &'row Row, column: usize) -> Result<T, SqlError> {
    row.try_get(column).map_err(|_| damaged(row, column, "the value does not have the expected type"))
}

pub(super) fn json<T: DeserializeOwned>(row: &Row, column: usize) -> Result<T, SqlError> {
    from_json(get(row, column)?).map_err(|why| damaged(row, column, &why))
}

/// Reads a row that is one JSON column.
pub(super) fn json_row<T: DeserializeOwned>(row: &Row) -> Result<T, SqlError> {
    json(row, 0)
}

pub(super) fn optional<T>(
    row: &Row,
    column: usize,
    read: impl FnOnce(&Row, usize) -> Result<T, SqlError>,
) -> Result<Option<T>, SqlError> {
    match row.try_get::<_, Null>(column) {
        Ok(Null(true)) => Ok(None),
        _ => read(row, column).map(Some),
    }
}

/// Whether a value of any type is NULL.
struct Null(bool);

impl<'row> FromSql<'row> for Null {
    fn from_sql(
        _: &tokio_postgres::types::Type,
        _: &'row [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(false))
    }

    fn from_sql_null(_: &tokio_postgres::types::Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(true))
    }

    fn accepts(_: &tokio_postgres::types::Type) -> bool {
        true
    }
}

/// Reads a text column that contains the serde text form of the type.
pub(super) fn text_form<T: DeserializeOwned>(row: &Row, column: usize) -> Result<T, SqlError> {
    parsed(row, column, from_text_form)
}

pub(super) fn parsed<T>(row: &Row, column: usize, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, SqlError> {
    parse(get(row, column)?).ok_or_else(|| damaged(row, column, "the text does not have the expected form"))
}

pub(super) fn digest(row: &Row, column: usize) -> Result<Digest, SqlError> {
    parsed(row, column, Digest::parse)
}

pub(super) fn number(row: &Row, column: usize) -> Result<u64, SqlError> {
    u64::try_from(get::<i64>(row, column)?).map_err(|_| damaged(row, column, "the number is negative"))
}

/// Reads a small number, such as a count of attempts.
pub(super) fn small(row: &Row, column: usize) -> Result<u32, SqlError> {
    u32::try_from(get::<i64>(row, column)?).map_err(|_| damaged(row, column, "the number is out of range"))
}

pub(super) fn moment(row: &Row, column: usize) -> Result<Timestamp, SqlError> {
    Ok(Timestamp::from_millis(get(row, column)?))
}

/// Error for an unreadable column. It names the column without its content, which may be private.
fn damaged(row: &Row, column: usize, why: &str) -> SqlError {
    let name = row.columns().get(column).map_or("?", tokio_postgres::Column::name);
    SqlError::Damaged(format!("column {name}: {why}"))
}
