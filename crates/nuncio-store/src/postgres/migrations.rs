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
pub(super) const LOCK: i64 = 0x6e75_6e63_696f;

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

/// Creates the tables of a version in the open transaction, in a database without a store.
pub(super) async fn create(session: &Session, version: u32) -> Result<(), SqlError> {
    let count = (usize::try_from(version).unwrap_or(usize::MAX).saturating_add(1)).saturating_sub(FIRST_VERSION);
    let steps = STEPS.get(..count).ok_or_else(|| SqlError::Damaged(newer(version.into())))?;
    if steps.is_empty() {
        return Err(SqlError::Unusable(format!(
            "its schema is version {version}, and PostgreSQL stores begin with version {FIRST_VERSION}; restore the \
             backup into a data directory, and copy that with `nuncio store copy`"
        )));
    }
    for step in steps {
        session.client.batch_execute(step).await?;
    }
    let schema =
        format!("CREATE TABLE IF NOT EXISTS schema (version BIGINT NOT NULL); INSERT INTO schema VALUES ({version})");
    Ok(session.client.batch_execute(&schema).await?)
}

/// The version of the schema; `None` in a database without a store.
pub(super) async fn version(session: &Session) -> Result<Option<u32>, SqlError> {
    if !session.exists("SELECT 1 WHERE to_regclass('public.schema') IS NOT NULL", []).await? {
        return Ok(None);
    }
    let found = session.rows("SELECT version FROM schema", []).await?;
    found.first().map(|row| rows::small(row, 0)).transpose()
}

fn newer(version: u64) -> String {
    let newest = FIRST_VERSION + STEPS.len() - 1;
    format!(
        "its schema is version {version}, and this version of Nuncio supports versions up to {newest}; use the newer Nuncio that wrote it"
    )
}

async fn run_locked(session: &Session) -> Result<(), SqlError> {
    let table = "CREATE TABLE IF NOT EXISTS schema (version BIGINT NOT NULL)";
    session.client.batch_execute(table).await?;
    let found = session.rows("SELECT version FROM schema", []).await?;
    let version = found.first().map(|row| rows::number(row, 0)).transpose()?.unwrap_or_default();
    let number = usize::try_from(version).unwrap_or(usize::MAX);
    let done = if number == 0 { 0 } else { number.saturating_add(1).saturating_sub(FIRST_VERSION) };
    let missing = STEPS.get(done..).ok_or_else(|| SqlError::Damaged(newer(version)))?;
    for (step, number) in missing.iter().zip(FIRST_VERSION + done..) {
        let unit = format!("BEGIN; {step}; DELETE FROM schema; INSERT INTO schema VALUES ({number}); COMMIT");
        session.client.batch_execute(&unit).await?;
    }
    Ok(())
}
