//! The call chain, the only way to run a tool, for every protocol: known caller → declared tool → granted scope → valid
//! arguments → approval → concurrency limit → run with a deadline → valid output → audit record.

use std::sync::Arc;

use nuncio_core::audit::AuditReferences;
use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;
use serde_json::Value;
use tracing::Instrument as _;

use crate::access::AccessControl;
use crate::approve::ApprovalService;
use crate::context::EngineContext;
use crate::error::EngineError;
use crate::ports::Runner;
use crate::ports::runner::{ProgramStartSignal, SentCallMessages};
use crate::record::AuditChainService;
use crate::tasks::TaskInbox;

mod admit;
mod attempt;
mod end;
mod output;
mod pending_insert;
mod request;
mod run;

use admit::CallAdmissionResult;
pub use pending_insert::PendingExecutionInsert;
pub(crate) use pending_insert::{CommitResultReceiver, CommitResultSender, NotifyWhen};
pub use request::{ClientDecision, FinishedCall, ToolCallOutcome, ToolCallRequest};

/// The call chain, the only way to run a tool.
pub struct CallService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) access: Arc<AccessControl>,
    pub(crate) approvals: Arc<ApprovalService>,
    pub(crate) inbox: Arc<TaskInbox>,
    pub(crate) records: Arc<AuditChainService>,
}

impl CallService {
    /// Takes a tool call through the call chain.
    ///
    /// # Errors
    ///
    /// The store failed, another process took over the execution, or the server stopped while the call waited for a
    /// person. A refused or failed tool call is an `Ok` outcome and is recorded.
    pub async fn call(&self, call: ToolCallRequest<'_>) -> Result<ToolCallOutcome, EngineError> {
        let span =
            tracing::debug_span!("tool call", agent = %call.published.agent.name, tool = %call.tool, call = %call.id);
        let chain = CallInProgress::new(self, call);
        async move {
            match chain.admit().await? {
                CallAdmissionResult::AskClient => Ok(ToolCallOutcome::AskClient),
                CallAdmissionResult::Refused(refusal) => chain.refuse(refusal).await.map(ToolCallOutcome::Ended),
                CallAdmissionResult::Admitted(admitted) => chain.run(admitted).await.map(ToolCallOutcome::Ended),
            }
        }
        .instrument(span)
        .await
    }
}

/// State of one tool call on its way through the call chain.
struct CallInProgress<'a> {
    calls: &'a CallService,
    call: ToolCallRequest<'a>,
    arguments: Value,
    digest: Digest,
    asked_at: Timestamp,
    program_start: ProgramStartSignal,
    /// References for the audit record of the call, as far as known.
    references: AuditReferences,
    /// Messages that carried the call to a person's device.
    sent: SentCallMessages,
}

impl<'a> CallInProgress<'a> {
    fn new(calls: &'a CallService, mut call: ToolCallRequest<'a>) -> Self {
        let arguments = Value::Object(std::mem::take(&mut call.arguments));
        let digest = Digest::of_json(&arguments);
        let (program_start, references, sent) = Default::default();
        Self { calls, call, arguments, digest, asked_at: calls.context.now(), program_start, references, sent }
    }
}
