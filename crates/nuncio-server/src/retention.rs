//! The sweeps of the `[retention]` settings, which delete old sessions and audit records.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::principal::Principal;
use nuncio_engine::Engine;
use nuncio_engine::sweeps::Sweeps;

use crate::checkpoints::AuditCheckpoints;
use crate::error::OperatorError;
use crate::settings::RetentionSettings;

const PRUNE_INTERVAL: Duration = Duration::from_secs(3600);

/// Adds the sweeps that the settings ask for.
pub(crate) fn add_sweeps(
    mut sweeps: Sweeps,
    checkpoints: Arc<AuditCheckpoints>,
    settings: &RetentionSettings,
) -> Sweeps {
    if let Some(age) = settings.sessions_days.map(days) {
        sweeps = sweeps.with("sessions", PRUNE_INTERVAL, move |engine| prune_sessions(engine, age));
    }
    if let Some(age) = settings.audit_days.map(days) {
        let prune = move |engine| prune_audit(engine, Arc::clone(&checkpoints), age);
        sweeps = sweeps.with("audit_records", PRUNE_INTERVAL, prune);
    }
    sweeps
}

fn days(days: NonZeroU32) -> Duration {
    Duration::from_secs(u64::from(days.get()) * 24 * 3600)
}

async fn prune_sessions(engine: Engine, age: Duration) -> Result<(), OperatorError> {
    let sessions = engine.records().prune_sessions(engine.now().before(age), Principal::Operator).await?;
    if sessions > 0 {
        tracing::info!(sessions, "deleted sessions without recent turns");
    }
    Ok(())
}

async fn prune_audit(engine: Engine, checkpoints: Arc<AuditCheckpoints>, age: Duration) -> Result<(), OperatorError> {
    let records = checkpoints.prune(&engine, engine.now().before(age), Principal::Operator).await?;
    if records > 0 {
        tracing::info!(records, "deleted old audit records");
    }
    Ok(())
}
