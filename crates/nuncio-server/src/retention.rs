//! Deletes sessions and audit records older than the `[retention]` settings, every hour.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::principal::Principal;
use nuncio_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::checkpoints::Checkpoints;
use crate::error::StartError;
use crate::settings::{RetentionSettings, days};

const EVERY: Duration = Duration::from_secs(3600);

/// Runs until `stop`.
pub(crate) async fn run(
    engine: Engine,
    checkpoints: Arc<Checkpoints>,
    settings: RetentionSettings,
    stop: CancellationToken,
) {
    loop {
        if let Err(error) = prune(&engine, &checkpoints, &settings).await {
            tracing::error!(%error, "old sessions or audit records could not be deleted");
        }
        tokio::select! {
            () = engine.clock().sleep_until(engine.now().after(EVERY)) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn prune(engine: &Engine, checkpoints: &Checkpoints, settings: &RetentionSettings) -> Result<(), StartError> {
    if let Some(age) = settings.sessions_days {
        let sessions = engine.records().prune_sessions(engine.now().before(days(age)), Principal::Operator).await?;
        if sessions > 0 {
            tracing::info!(sessions, "deleted sessions that nobody used any more");
        }
    }
    if let Some(age) = settings.audit_days {
        let records = checkpoints.prune(engine, engine.now().before(days(age)), Principal::Operator).await?;
        if records > 0 {
            tracing::info!(records, "deleted old audit records");
        }
    }
    Ok(())
}
