//! Size of the store, and its unfinished work.

use std::path::Path;

use nuncio_engine::ports::store::{StoreStatus, TableSize, UnfinishedWork};
use rusqlite::Connection;

use super::problem::SqlError;
use super::rows::{self, all};
use crate::common::UNFINISHED;

pub(super) fn read(connection: &Connection, path: &Path) -> Result<StoreStatus, SqlError> {
    let sizes = "SELECT schema.tbl_name, sum(pages.pgsize) FROM dbstat AS pages
                 JOIN sqlite_schema AS schema ON schema.name = pages.name
                 WHERE pages.aggregate = 1 GROUP BY schema.tbl_name ORDER BY schema.tbl_name";
    let mut tables = Vec::new();
    for (name, bytes) in all(connection, sizes, [], |row| Ok((row.get::<_, String>(0)?, rows::number(row, 1)?)))? {
        let count = format!("SELECT count(*) FROM \"{name}\"");
        let rows = connection.query_row(&count, [], |row| row.get::<_, i64>(0))?;
        tables.push(TableSize { name, rows: rows.unsigned_abs(), bytes });
    }
    let mut unfinished = Vec::new();
    for (kind, sql) in UNFINISHED {
        let found = all(connection, sql, [], |row| Ok((rows::number(row, 0)?, rows::optional(row, 1, rows::moment)?)))?;
        for (count, oldest) in found {
            unfinished.extend(oldest.map(|oldest| UnfinishedWork { kind: kind.to_owned(), count, oldest }));
        }
    }
    unfinished.sort_by_key(|work| work.oldest);
    let schema = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(StoreStatus { kind: "sqlite".to_owned(), place: path.display().to_string(), schema, tables, unfinished })
}
