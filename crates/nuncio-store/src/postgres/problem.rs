//! PostgreSQL errors, mapped to store errors.

use nuncio_engine::ports::store::{Conflict, StoreError};
use tokio_postgres::error::SqlState;

use crate::common::UnstorableValue;

/// Reason why an SQL statement failed.
#[derive(Debug)]
pub(super) enum SqlError {
    Conflict(Conflict),
    Postgres(tokio_postgres::Error),
    /// A column or the whole schema cannot be read by this version.
    Damaged(String),
    /// The value cannot be written, or the server cannot be used.
    Unusable(String),
}

impl SqlError {
    /// Whether the connection is gone or the server is starting or stopping, so that the same statement may succeed on
    /// another connection.
    pub(super) fn is_lost_connection(&self) -> bool {
        let Self::Postgres(error) = self else { return false };
        match error.code() {
            Some(code) => {
                code.code().starts_with("08")
                    || [
                        &SqlState::ADMIN_SHUTDOWN,
                        &SqlState::CRASH_SHUTDOWN,
                        &SqlState::CANNOT_CONNECT_NOW,
                        &SqlState::TOO_MANY_CONNECTIONS,
                        &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                    ]
                    .contains(&code)
            }
            None => is_io(error),
        }
    }

    /// Whether the transaction met another one, so that it may succeed when it is repeated.
    pub(super) fn is_collision(&self) -> bool {
        let codes =
            [&SqlState::T_R_DEADLOCK_DETECTED, &SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::LOCK_NOT_AVAILABLE];
        self.code().is_some_and(|code| codes.contains(&code))
    }

    /// Whether a statement failed because its condition did not hold: it divides by the number of changed rows.
    pub(super) fn is_unmet_condition(&self) -> bool {
        self.code() == Some(&SqlState::DIVISION_BY_ZERO)
    }

    pub(super) fn is_missing_reference(&self) -> bool {
        self.code() == Some(&SqlState::FOREIGN_KEY_VIOLATION)
    }

    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Postgres(error) => error.code(),
            _ => None,
        }
    }
}

impl From<UnstorableValue> for SqlError {
    fn from(UnstorableValue(why): UnstorableValue) -> Self {
        Self::Unusable(why)
    }
}

impl From<Conflict> for SqlError {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}

impl From<tokio_postgres::Error> for SqlError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<SqlError> for StoreError {
    fn from(problem: SqlError) -> Self {
        match problem {
            SqlError::Conflict(conflict) => Self::Conflict(conflict),
            SqlError::Damaged(what) => Self::Damaged(what),
            SqlError::Unusable(what) => Self::Unavailable(what),
            SqlError::Postgres(error) => from_postgres(&error),
        }
    }
}

fn from_postgres(error: &tokio_postgres::Error) -> StoreError {
    match error.as_db_error() {
        // The detail of an error may quote stored content, so only the message is passed on.
        Some(refused) if [&SqlState::DATA_CORRUPTED, &SqlState::INDEX_CORRUPTED].contains(&refused.code()) => {
            StoreError::Damaged(refused.message().to_owned())
        }
        Some(refused) => StoreError::Unavailable(match reason(refused.code()) {
            Some(reason) => format!("{reason} ({})", refused.message()),
            None => format!("PostgreSQL refused a statement: {} ({})", refused.message(), refused.code().code()),
        }),
        None => {
            let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
            let what = match is_io(error) {
                true => "the PostgreSQL server cannot be reached",
                false => "PostgreSQL cannot be used",
            };
            StoreError::Unavailable(format!("{what} ({cause})"))
        }
    }
}

/// Whether the connection was closed or could not be opened.
fn is_io(error: &tokio_postgres::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    // TLS reports a certificate that does not fit as invalid data; waiting does not change it.
    error.is_closed() || cause.is_some_and(|cause| cause.kind() != std::io::ErrorKind::InvalidData)
}

/// Explanation of a PostgreSQL error for operators.
fn reason(code: &SqlState) -> Option<&'static str> {
    Some(match *code {
        SqlState::DISK_FULL => "the disk of the PostgreSQL server is full",
        SqlState::IO_ERROR => "the disk of the PostgreSQL server failed to read or write",
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW => {
            "the PostgreSQL server is stopping or starting"
        }
        SqlState::TOO_MANY_CONNECTIONS => "the PostgreSQL server has no free connection; raise max_connections",
        SqlState::INSUFFICIENT_PRIVILEGE => "the database user may not do this; it must own the tables",
        SqlState::READ_ONLY_SQL_TRANSACTION => "the database is read-only; connect to the primary server",
        SqlState::QUERY_CANCELED => "a statement took longer than its time limit",
        _ => return None,
    })
}
