//! Deletes old data every hour: sessions and audit records by the `[retention]` settings, expired events and messages.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::principal::Principal;
use nuncio_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::checkpoints::AuditCheckpoints;
use crate::error::OperatorError;
use crate::settings::RetentionSettings;

const PRUNE_INTERVAL: Duration = Duration::from_secs(3600);

/// Deletes old data until `stop`.
pub(crate) async fn run(
    engine: Engine,
    checkpoints: Arc<AuditCheckpoints>,
    settings: RetentionSettings,
    stop: CancellationToken,
) {
    loop {
        if let Err(error) = prune(&engine, &checkpoints, &settings).await {
            tracing::error!(%error, "old sessions or audit records could not be deleted");
        }
        if let Err(error) = engine.mailbox().forget_old_mail().await {
            tracing::error!(%error, "old events could not be deleted");
        }
        if let Err(error) = engine.relay().forget_old_messages().await {
            tracing::error!(%error, "old messages could not be deleted");
        }
        tokio::select! {
            () = engine.clock().sleep_until(engine.now().after(PRUNE_INTERVAL)) => {}
            () = stop.cancelled() => return,
        }
    }
}

fn days(days: NonZeroU32) -> Duration {
    Duration::from_secs(u64::from(days.get()) * 24 * 3600)
}

async fn prune(
    engine: &Engine,
    checkpoints: &AuditCheckpoints,
    settings: &RetentionSettings,
) -> Result<(), OperatorError> {
    if let Some(age) = settings.sessions_days {
        let sessions = engine.records().prune_sessions(engine.now().before(days(age)), Principal::Operator).await?;
        if sessions > 0 {
            tracing::info!(sessions, "deleted sessions without recent turns");
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
