//! Damage checks of a database.

use nuncio_engine::ports::store::{StoreCheckResult, StoreError};
use serde::de::IgnoredAny;

use super::connection::Connector;
use super::rows;

/// Tables with a JSON column that the check parses, and the key of the table.
const JSON: &[(&str, &str, &str)] = &[
    ("approvals", "id", "content"),
    ("audit_links", "number::TEXT", "record"),
    ("executions", "id", "content"),
    ("executions", "id", "outcome"),
    ("grants", "id", "content"),
    ("messages", "session || '/' || number", "message"),
    ("sessions", "id", "pending"),
    ("sessions", "id", "settings"),
    ("tasks", "id", "content"),
    ("turns", "session || '/' || number", "stop"),
];

/// Rows that are fetched at a time.
const ROWS_PER_FETCH: usize = 500;

/// Reads all rows with JSON columns. PostgreSQL checks its pages itself when they are read, if it has checksums.
pub(super) async fn full(connector: &Connector) -> Result<StoreCheckResult, StoreError> {
    let session = connector.connect_for_maintenance().await?;
    let mut found = StoreCheckResult { complete: true, problems: Vec::new() };
    for (table, key, column) in JSON {
        session.client.batch_execute("BEGIN").await.map_err(super::problem::SqlError::from)?;
        let sql = format!(
            "DECLARE checked CURSOR FOR SELECT {column} FROM {table} WHERE {column} IS NOT NULL ORDER BY {key}"
        );
        session.execute(&sql, []).await?;
        let mut wrong = 0_usize;
        loop {
            let page = session.rows(&format!("FETCH {ROWS_PER_FETCH} FROM checked"), []).await?;
            for row in &page {
                let text: &str = rows::get(row, 0)?;
                wrong += usize::from(serde_json::from_str::<IgnoredAny>(text).is_err());
            }
            if page.len() < ROWS_PER_FETCH {
                break;
            }
        }
        session.client.batch_execute("COMMIT").await.map_err(super::problem::SqlError::from)?;
        if wrong > 0 {
            found.problems.push(format!("{wrong} values of {table}.{column} are not JSON"));
        }
    }
    Ok(found)
}
