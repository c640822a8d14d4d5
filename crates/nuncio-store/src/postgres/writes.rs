//! Statements that change the database, as data.
//!
//! A change is translated to statements before any of them is sent. So all statements of a transaction are sent in one
//! go, and a transaction needs two round trips: one for its statements and one for `COMMIT`. A condition is part of its
//! statement: if no row changes, the condition does not hold.

use std::error::Error;

use bytes::BytesMut;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::Conflict;
use tokio_postgres::types::{IsNull, ToSql, Type};

use super::problem::SqlError;

/// Value of a parameter. It is opaque in `Debug`, because the driver logs the parameters of statements.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum SqlValue {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
    Texts(Vec<String>),
}

nuncio_core::opaque_debug!(SqlValue);

impl ToSql for SqlValue {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(number) => number.to_sql_checked(kind, out),
            Self::Text(text) => text.to_sql_checked(kind, out),
            Self::Bytes(bytes) => bytes.to_sql_checked(kind, out),
            Self::Texts(texts) => texts.to_sql_checked(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(kind, out)
    }
}

macro_rules! into_value {
    ($($from:ty: $value:ident => $into:expr),* $(,)?) => {
        $(impl From<$from> for SqlValue {
            fn from($value: $from) -> Self {
                $into
            }
        })*
    };
}

into_value! {
    &str: text => Self::Text(text.to_owned()),
    String: text => Self::Text(text),
    &String: text => Self::Text(text.clone()),
    i64: number => Self::Integer(number),
    u32: number => Self::Integer(number.into()),
    bool: flag => Self::Integer(flag.into()),
    Timestamp: at => Self::Integer(at.as_millis()),
    &[u8]: bytes => Self::Bytes(bytes.to_vec()),
    Vec<String>: texts => Self::Texts(texts),
}

impl<T: Into<Self>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Parameters of a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::postgres::writes::SqlValue::from($value)),*]
    };
}
pub(super) use params;

/// SQL for the time of the database in milliseconds, also within a transaction.
macro_rules! database_now {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT"
    };
}
pub(super) use database_now;

/// A row that is locked before the statements of a transaction run. Transactions lock such rows in one order, so that
/// they do not wait for each other in a circle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CounterRow {
    Account(String),
    Conversation(String),
    Mailbox(String),
}

/// What it means that a statement changes no row.
#[derive(Debug)]
pub(super) enum Refusal {
    Conflict(Conflict),
    /// The conflict of the first query that finds a row, or else the last one.
    Queries(Vec<(&'static str, Vec<SqlValue>, Conflict)>, Conflict),
    /// Another process appended to the audit chain: its head is read again.
    StaleAuditHead,
    /// The number of the last transaction is not the expected one.
    StaleNumber,
    /// This incarnation was declared dead.
    Fenced,
}

/// One statement of a transaction.
#[derive(Debug)]
pub(super) struct SqlWrite {
    pub(super) sql: &'static str,
    pub(super) params: Vec<SqlValue>,
    /// `None` if any number of rows may change.
    pub(super) refusal: Option<Refusal>,
    /// Conflict for a reference to a row that does not exist.
    pub(super) missing_reference: Option<Conflict>,
    pub(super) counter: Option<CounterRow>,
}

impl SqlWrite {
    /// A statement that may change any number of rows.
    pub(super) fn any(sql: &'static str, params: Vec<SqlValue>) -> Self {
        Self { sql, params, refusal: None, missing_reference: None, counter: None }
    }

    /// A statement that must change a row.
    pub(super) fn one_or(conflict: Conflict, sql: &'static str, params: Vec<SqlValue>) -> Self {
        Self { refusal: Some(Refusal::Conflict(conflict)), ..Self::any(sql, params) }
    }

    pub(super) fn one_or_refused(refusal: Refusal, sql: &'static str, params: Vec<SqlValue>) -> Self {
        Self { refusal: Some(refusal), ..Self::any(sql, params) }
    }

    /// A statement that must change a row: the conflict if the query finds one for the first parameter, or else
    /// `missing`.
    pub(super) fn found_or(
        conflict: Conflict,
        missing: Conflict,
        query: &'static str,
        sql: &'static str,
        params: Vec<SqlValue>,
    ) -> Self {
        let id = params.first().cloned().unwrap_or(SqlValue::Null);
        let refusal = Refusal::Queries(vec![(query, vec![id], conflict)], missing);
        Self { refusal: Some(refusal), ..Self::any(sql, params) }
    }

    /// Sets the conflict for a reference to a row that does not exist.
    pub(super) fn of_no_owner(self, conflict: Conflict) -> Self {
        Self { missing_reference: Some(conflict), ..self }
    }

    pub(super) fn counting(self, row: CounterRow) -> Self {
        Self { counter: Some(row), ..self }
    }
}

/// Statements of a commit, in order.
pub(super) type Writes = Vec<SqlWrite>;

/// Result of a translation of changes.
pub(super) type Translated = Result<(), SqlError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_text_of_parameters_contains_no_stored_content() {
        let write = SqlWrite::any("SELECT $1", params!["private words", &b"private bytes"[..]]);
        assert!(!format!("{write:?}").contains("private"), "{write:?}");
    }
}
