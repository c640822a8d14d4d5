//! Audit records of operator commands: one before the command runs, so that nothing happens unrecorded, and one when it is
//! over.

use nuncio_core::audit::{AuditEvent, AuditEventRecord};
use nuncio_core::principal::Principal;

use crate::EngineError;
use crate::ports::store::AuditChange;
use crate::record::AuditChainService;

/// Issuer of an operator command: `local` and the system account on the admin socket, the key holder on the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorCommandIssuer {
    pub principal: Principal,
    /// Operating-system account that issued the command.
    pub account: Option<String>,
}

impl AuditChainService {
    /// Audit record of a command. `action` is its name, such as `key_create`.
    #[must_use]
    pub fn command_record(&self, action: &str, by: &OperatorCommandIssuer) -> AuditEventRecord {
        AuditEventRecord {
            action: Some(action.to_owned()),
            account: by.account.clone(),
            ..AuditEventRecord::new(AuditEvent::OperatorOrdered, by.principal.clone(), self.context.now())
        }
    }

    /// Runs an operator's command with a record before and after. `subject` extracts the affected object from the result
    /// where the record does not name it yet.
    ///
    /// # Errors
    /// The command could not be recorded, in which case `work` is not run; or `work` failed.
    pub async fn run_recorded<T, E: From<EngineError>>(
        &self,
        record: AuditEventRecord,
        work: impl Future<Output = Result<T, E>>,
        subject: impl FnOnce(&T) -> Option<String>,
    ) -> Result<T, E> {
        self.record_command(record.clone()).await?;
        let result = work.await;
        let (event, found) = match &result {
            Ok(done) => (AuditEvent::OperatorOrderDone, subject(done)),
            Err(_) => (AuditEvent::OperatorOrderFailed, None),
        };
        let over =
            AuditEventRecord { event, subject: found.or(record.subject.clone()), at: self.context.now(), ..record };
        if let Err(error) = self.record_command(over).await {
            // Only logged, because the start of the command is already recorded.
            tracing::error!(%error, "the outcome of an operator command could not be recorded");
        }
        result
    }

    async fn record_command(&self, record: AuditEventRecord) -> Result<(), EngineError> {
        self.context.commit_one(AuditChange::AppendEvent(record)).await?;
        Ok(())
    }
}
