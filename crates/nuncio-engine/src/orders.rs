//! The record of what operators order: once before it is done, so that nothing is done without a record, and once when
//! it is over.

use nuncio_core::audit::{AuditEvent, AuditEventRecord};
use nuncio_core::principal::Principal;

use crate::ports::store::{Change, ConsentChange};
use crate::{Engine, EngineError};

/// Who orders something: over the admin socket `local` and the account of the system, on the console the holder of a
/// key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderedBy {
    /// Who.
    pub principal: Principal,
    /// The account on this system.
    pub account: Option<String>,
}

impl Engine {
    /// A record of an order. `action` names it, such as `key_create`.
    #[must_use]
    pub fn order_record(&self, action: &str, by: &OrderedBy) -> AuditEventRecord {
        AuditEventRecord {
            action: Some(action.to_owned()),
            account: by.account.clone(),
            ..AuditEventRecord::new(AuditEvent::OperatorOrdered, by.principal.clone(), self.now())
        }
    }

    /// Does what an operator ordered, with a record before and after. `subject` finds in the result what the order was
    /// about, where the record does not say it yet.
    ///
    /// # Errors
    /// The order cannot be recorded, and nothing is done; or it fails.
    pub async fn run_order<T, E: From<EngineError>>(
        &self,
        record: AuditEventRecord,
        work: impl Future<Output = Result<T, E>>,
        subject: impl FnOnce(&T) -> Option<String>,
    ) -> Result<T, E> {
        self.record_order(record.clone()).await?;
        let result = work.await;
        let (happened, found) = match &result {
            Ok(done) => (AuditEvent::OperatorOrderDone, subject(done)),
            Err(_) => (AuditEvent::OperatorOrderFailed, None),
        };
        let over = AuditEventRecord { happened, subject: found.or(record.subject.clone()), at: self.now(), ..record };
        if let Err(error) = self.record_order(over).await {
            // The order itself is on record.
            tracing::error!(%error, "the outcome of an order could not be recorded");
        }
        result
    }

    async fn record_order(&self, record: AuditEventRecord) -> Result<(), EngineError> {
        self.store().commit(vec![Change::from(ConsentChange::Record(record))]).await?;
        Ok(())
    }
}
