//! Size of the store, and its unfinished work.

use nuncio_engine::ports::store::{StoreError, StoreStatus, TableSize, UnfinishedWork};

use super::PostgresStore;
use super::rows;
use crate::common::UNFINISHED;

pub(super) async fn read(store: &PostgresStore) -> Result<StoreStatus, StoreError> {
    let names =
        "SELECT table_name::TEXT, pg_total_relation_size(quote_ident(table_name)) FROM information_schema.tables
                 WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY 1";
    let sizes = store.readers.few(names, Vec::new(), |row| Ok((rows::get::<String>(row, 0)?, rows::number(row, 1)?)));
    let mut tables = Vec::new();
    for (name, bytes) in sizes.await? {
        let count = format!("SELECT count(*) FROM \"{name}\"");
        let rows = store.readers.all(&count, Vec::new(), |row| rows::number(row, 0)).await?;
        tables.push(TableSize { name, rows: rows.first().copied().unwrap_or_default(), bytes });
    }
    let mut unfinished = Vec::new();
    for (kind, sql) in UNFINISHED {
        let found = store
            .readers
            .all(sql, Vec::new(), |row| Ok((rows::number(row, 0)?, rows::optional(row, 1, rows::moment)?)));
        for (count, oldest) in found.await? {
            unfinished.extend(oldest.map(|oldest| UnfinishedWork { kind: kind.to_owned(), count, oldest }));
        }
    }
    unfinished.sort_by_key(|work| work.oldest);
    let schema = store.readers.few("SELECT version FROM schema", Vec::new(), |row| rows::number(row, 0)).await?;
    let schema = schema.first().copied().and_then(|version| u32::try_from(version).ok()).unwrap_or_default();
    let place = store.connector.address().to_string();
    Ok(StoreStatus { kind: "postgresql".to_owned(), place, schema, tables, unfinished })
}
