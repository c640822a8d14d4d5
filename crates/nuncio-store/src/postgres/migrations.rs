//! Schema migrations. A released step is never changed; new ones are appended.

use nuncio_engine::ports::store::StoreError;

use super::connection::Session;
use super::problem::SqlError;
use super::rows;
use super::writes::params;

/// Version that the first step creates. Versions are those of the SQLite schema.
const FIRST_VERSION: usize = 20;

/// Steps: step `n` leads to schema version `FIRST_VERSION + n`.
const STEPS: &[&str] = &[
    include_str!("migrations/0020_schema.sql"),
    include_str!("migrations/0021_keyring.sql"),
    include_str!("migrations/0022_system_messages.sql"),
    include_str!("migrations/0023_jobs.sql"),
    include_str!("migrations/0024_audit_chains.sql"),
];

/// Key of the advisory lock under which migrations run.
const LOCK: i64 = 0x6e75_6e63_696f;

/// Migrates to the current schema, or refuses a newer one. Other processes that start wait.
pub(super) async fn run(session: &Session) -> Result<(), StoreError> {
    session.execute("SELECT pg_advisory_lock($1)", params![LOCK]).await?;
    let migrated = run_locked(session).await;
    if migrated.is_err() {
        // The lock is released with the connection as well.
        let _ = session.client.batch_execute("ROLLBACK").await;
    }
    session.execute("SELECT pg_advisory_unlock($1)", params![LOCK]).await?;
    Ok(migrated?)
}

async fn run_locked(session: &Session) -> Result<(), SqlError> {
    let table = "CREATE TABLE IF NOT EXISTS schema (version BIGINT NOT NULL)";
    session.client.batch_execute(table).await?;
    let found = session.rows("SELECT version FROM schema", []).await?;
    let version = found.first().map(|row| rows::number(row, 0)).transpose()?.unwrap_or_default();
    let newest = FIRST_VERSION + STEPS.len() - 1;
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    let done = if version == 0 { 0 } else { (version + 1).saturating_sub(FIRST_VERSION) };
    let Some(missing) = STEPS.get(done..) else {
        return Err(SqlError::Damaged(format!(
            "its schema is version {version}, and this version of Nuncio supports versions up to {newest}; use the newer Nuncio that wrote it"
        )));
    };
    for (step, number) in missing.iter().zip(FIRST_VERSION + done..) {
        let unit = format!("BEGIN; {step}; DELETE FROM schema; INSERT INTO schema VALUES ({number}); COMMIT");
        session.client.batch_execute(&unit).await?;
    }
    Ok(())
}
