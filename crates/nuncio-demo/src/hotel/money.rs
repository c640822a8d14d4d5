//! Exact amounts of money.

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::{Serialize, Serializer};

/// Currency of every price (ISO 4217).
pub const CURRENCY: &str = "EUR";

/// Amount in cents, so that sums are exact. Serialised in euros with at most two decimals: `298`, `94.5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EuroCents(i64);

impl EuroCents {
    #[must_use]
    pub const fn new(cents: i64) -> Self {
        Self(cents)
    }

    #[must_use]
    pub const fn from_euros(euros: i64) -> Self {
        Self(euros * 100)
    }

    /// Price of `nights` nights if `self` is the price of one night.
    #[must_use]
    pub fn times(self, nights: u32) -> Self {
        Self(self.0 * i64::from(nights))
    }
}

impl Serialize for EuroCents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 100 == 0 {
            serializer.serialize_i64(self.0 / 100)
        } else {
            // Whole cents divided by 100 give a double that prints with at most two decimals.
            serializer.serialize_f64(self.0 as f64 / 100.0)
        }
    }
}

impl ToSql for EuroCents {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl FromSql for EuroCents {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(Self)
    }
}
