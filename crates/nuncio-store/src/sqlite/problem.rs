//! SQLite errors, mapped to store errors.

use nuncio_engine::ports::store::{Conflict, StoreError};
use rusqlite::ErrorCode as SqliteErrorCode;

use crate::common::UnstorableValue;

/// Reason why an SQL statement failed.
#[derive(Debug)]
pub(super) enum SqlError {
    Conflict(Conflict),
    Sqlite(rusqlite::Error),
    /// A column or the whole schema cannot be read by this version.
    Damaged(String),
    /// A value cannot be written to a column.
    Unwritable(String),
    /// The incarnation that commits was declared dead.
    Fenced,
}

impl SqlError {
    /// Maps a foreign key violation to `NoSession`.
    pub(super) fn of_no_session(self) -> Self {
        self.of_no_owner(Conflict::NoSession)
    }

    /// Maps a foreign key violation to `conflict`.
    pub(super) fn of_no_owner(self, conflict: Conflict) -> Self {
        match self {
            Self::Sqlite(rusqlite::Error::SqliteFailure(cause, _))
                if cause.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY =>
            {
                conflict.into()
            }
            other => other,
        }
    }
}

impl From<UnstorableValue> for SqlError {
    fn from(UnstorableValue(why): UnstorableValue) -> Self {
        Self::Unwritable(why)
    }
}

impl From<Conflict> for SqlError {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}

impl From<rusqlite::Error> for SqlError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<SqlError> for StoreError {
    fn from(problem: SqlError) -> Self {
        match problem {
            SqlError::Conflict(conflict) => Self::Conflict(conflict),
            SqlError::Damaged(what) => Self::Damaged(what),
            SqlError::Unwritable(what) => Self::Unavailable(what),
            SqlError::Fenced => Self::Fenced,
            SqlError::Sqlite(error) => from_sqlite(&error),
        }
    }
}

fn from_sqlite(error: &rusqlite::Error) -> StoreError {
    use rusqlite::Error;
    match error {
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..) => StoreError::Damaged(error.to_string()),
        Error::SqliteFailure(cause, _) => match cause.code {
            SqliteErrorCode::DatabaseCorrupt | SqliteErrorCode::NotADatabase => StoreError::Damaged(error.to_string()),
            code => StoreError::Unavailable(match reason(code) {
                Some(reason) => format!("{reason} ({error})"),
                None => error.to_string(),
            }),
        },
        _ => StoreError::Unavailable(error.to_string()),
    }
}

/// Explanation of a SQLite error for operators.
fn reason(code: SqliteErrorCode) -> Option<&'static str> {
    Some(match code {
        SqliteErrorCode::DiskFull => "the disk is full",
        SqliteErrorCode::DatabaseBusy | SqliteErrorCode::DatabaseLocked => "another process holds its lock",
        SqliteErrorCode::SystemIoFailure => "the disk failed to read or write",
        SqliteErrorCode::ReadOnly => "the file or its folder cannot be written to",
        SqliteErrorCode::CannotOpen => "the file cannot be opened",
        SqliteErrorCode::PermissionDenied => "the file may not be used by this user",
        _ => return None,
    })
}
