//! What can go wrong in SQLite, told in the port's words.

use nuncio_engine::ports::store::{Conflict, StoreError};
use rusqlite::ErrorCode;

/// Anything that keeps a statement from doing its work.
#[derive(Debug)]
pub(super) enum Problem {
    /// The condition of a change does not hold.
    Conflict(Conflict),
    /// SQLite refused.
    Sqlite(rusqlite::Error),
    /// A column holds what this version cannot read.
    Damaged(String),
    /// Something cannot be put into a column.
    Unwritable(String),
}

impl Problem {
    /// The problem of a row whose only foreign key is its session.
    pub(super) fn of_no_session(self) -> Self {
        self.of_no_owner(Conflict::NoSession)
    }

    /// The problem of a row with one foreign key, whose absence is that conflict.
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

impl From<Conflict> for Problem {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Problem> for StoreError {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Conflict(conflict) => Self::Conflict(conflict),
            Problem::Damaged(what) => Self::Damaged(what),
            Problem::Unwritable(what) => Self::Unavailable(what),
            Problem::Sqlite(error) => from_sqlite(&error),
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
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Damaged(error.to_string()),
            code => StoreError::Unavailable(match reason(code) {
                Some(reason) => format!("{reason} ({error})"),
                None => error.to_string(),
            }),
        },
        _ => StoreError::Unavailable(error.to_string()),
    }
}

/// The cause in words that say where to look.
fn reason(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::DiskFull => "the disk is full",
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => "another process holds its lock",
        ErrorCode::SystemIoFailure => "the disk failed to read or write",
        ErrorCode::ReadOnly => "the file or its folder cannot be written to",
        ErrorCode::CannotOpen => "the file cannot be opened",
        ErrorCode::PermissionDenied => "the file may not be used by this user",
        _ => return None,
    })
}
