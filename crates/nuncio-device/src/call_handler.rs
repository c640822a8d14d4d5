//! Handles one tool call from arrival to answer: check, prompt, claim, run once, answer and log.

use std::sync::Arc;
use std::time::Duration;

use nuncio_a2h::client::{RelayClient as _, RelayClientError};
use nuncio_a2h::peer::InboundMessage;
use nuncio_a2h::wire::artifact::{DenialReason, MalformedToolCall, ToolCall, ToolErrorCode, ToolOutcome, ToolResponse};
use nuncio_core::audit::references::LedgerReference;
use nuncio_core::backoff::Backoff;
use nuncio_core::conversation::ConversationType;
use nuncio_core::ids::{AgentId, ConversationId};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::SealedRecordChange;

use crate::audit::{AUDIT_RETENTION, CallAuditEntry};
use crate::calls::{self, CallArrival, CallOrigin, CallState};
use crate::consent::AgentConsentService;
use crate::context::DeviceContext;
use crate::device_events::DeviceEvent;
use crate::error::DeviceError;
use crate::guard::{denied, failed};
use crate::kept_arguments;
use crate::known_agents;
use crate::other_device_claims::CallsClaimedByOtherDevices;

mod decide;

/// How long sending an answer is retried; an unsent answer is tried again at the next start of the process.
const SEND_RETRY_TIME: Duration = Duration::from_secs(600);

const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(200), Duration::from_secs(30));

/// Name of the record with the time of the last clean-up.
const LAST_CLEANUP_RECORD: &str = "tidied";
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) struct IncomingCall {
    pub(crate) message: InboundMessage,
    pub(crate) agent: AgentId,
    pub(crate) call: ToolCall,
}

impl IncomingCall {
    fn origin(&self) -> CallOrigin<'_> {
        let InboundMessage { conversation, seq, envelope, .. } = &self.message;
        CallOrigin { agent: &self.agent, conversation, seq: *seq, envelope: *envelope }
    }
}

/// Outcome of a call on this device, with the facts for its audit entry.
struct IncomingCallEnd {
    outcome: ToolOutcome,
    /// Whether the person was prompted for the call.
    asked: bool,
    claim: Option<CallClaimResult>,
    /// Last entry of the consent ledger that the decision was based on.
    ledger: Option<LedgerReference>,
}

impl IncomingCallEnd {
    /// Outcome of a call without a prompt to the person and without a claim at the relay.
    const fn unasked(outcome: ToolOutcome, ledger: Option<LedgerReference>) -> Self {
        Self { outcome, asked: false, claim: None, ledger }
    }
}

/// Result of claiming a call at the relay; `Unknown` if the relay could not be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallClaimResult {
    Mine,
    Elsewhere,
    Unknown,
}

pub(crate) struct CallHandler {
    pub(crate) context: Arc<DeviceContext>,
    pub(crate) consents: Arc<AgentConsentService>,
    pub(crate) claimed: CallsClaimedByOtherDevices,
}

impl CallHandler {
    /// Answers the calls that the previous process left open. No tool runs again and the person is not asked again.
    pub(crate) fn resume(self: &Arc<Self>) -> Result<(), DeviceError> {
        self.tidy()?;
        for (record, outcome) in calls::unanswered(&self.context.records)? {
            let handler = Arc::clone(self);
            tokio::spawn(async move { handler.answer_leftover(record, outcome).await });
        }
        Ok(())
    }

    /// Returns how an incoming call compares with the stored calls, and stores it if it is new.
    pub(crate) fn take(&self, incoming: &IncomingCall) -> Result<CallArrival, DeviceError> {
        let _lock = self.context.state_lock();
        Ok(calls::take(&self.context.records, incoming.origin(), &incoming.call, self.context.now())?)
    }

    pub(crate) async fn serve(&self, incoming: &IncomingCall, arrival: CallArrival) -> Result<(), DeviceError> {
        let (conversation, call) = (&incoming.message.conversation, &incoming.call);
        match arrival {
            CallArrival::New => {
                self.tidy_when_due()?;
                let end = self.decide(incoming).await?;
                self.finish(incoming.origin(), call, end).await
            }
            // A call id repeated in a group is always refused, because all members would see the outcome.
            _ if incoming.message.conversation_type == ConversationType::Group => {
                self.refuse(incoming, denied(DenialReason::ToolNotSupportedInGroup)).await
            }
            CallArrival::IdReused => {
                let outcome = failed(ToolErrorCode::InvalidArguments, "another call has the same call_id");
                self.refuse(incoming, outcome).await
            }
            CallArrival::Repeated(outcome) => {
                self.claim_repetition(incoming).await?;
                self.answer(conversation, call, outcome).await;
                Ok(())
            }
            CallArrival::Pending => self.claim_repetition(incoming).await,
            CallArrival::Elsewhere => Ok(()),
        }
    }

    /// Answers a call that cannot be read, unless another device of the person does. It is not in the audit log, whose
    /// entries name a tool and a scope.
    pub(crate) async fn answer_malformed(
        &self,
        message: &InboundMessage,
        malformed: MalformedToolCall,
    ) -> Result<(), DeviceError> {
        let RelayParty::Agent(agent) = &message.sender else { return Ok(()) };
        let MalformedToolCall { call_id, why, denial } = malformed;
        tracing::warn!(%agent, call = %call_id, why, "refused a malformed call");
        let (conversation, seq, envelope) = (&message.conversation, message.seq, message.envelope);
        let origin = CallOrigin { agent, conversation, seq, envelope };
        if self.claim(origin, self.context.now().after(SEND_RETRY_TIME)).await? == CallClaimResult::Elsewhere {
            return Ok(());
        }
        let outcome = match (message.conversation_type, denial) {
            (ConversationType::Group, _) => denied(DenialReason::ToolNotSupportedInGroup),
            (_, Some(reason)) => denied(reason),
            (_, None) => failed(ToolErrorCode::InvalidArguments, &format!("the call cannot be read: {why}")),
        };
        self.respond(conversation, ToolResponse { call_id, outcome }).await;
        Ok(())
    }

    /// Claims the message of a repeated call too, so that a device that sees only the repetition does not run the call.
    async fn claim_repetition(&self, incoming: &IncomingCall) -> Result<(), DeviceError> {
        self.claim(incoming.origin(), self.context.now()).await.map(drop)
    }

    /// Refuses and logs a message that reuses a call id; the stored call is not changed.
    async fn refuse(&self, incoming: &IncomingCall, outcome: ToolOutcome) -> Result<(), DeviceError> {
        let state = CallState::Over { outcome: outcome.clone(), sent: true };
        {
            let _lock = self.context.state_lock();
            let changes = self.audit_changes(incoming.origin(), &incoming.call, &state, (false, None))?;
            self.context.records.save(changes)?;
        }
        self.answer(&incoming.message.conversation, &incoming.call, outcome).await;
        Ok(())
    }

    /// Deletes expired audit entries and calls if the last clean-up was a day ago.
    fn tidy_when_due(&self) -> Result<(), DeviceError> {
        let last: Option<Timestamp> = self.context.records.get(LAST_CLEANUP_RECORD)?;
        if last.is_none_or(|last| self.context.now() >= last.after(DAY) || self.context.now() < last) {
            self.tidy()?;
            self.context.records.set(LAST_CLEANUP_RECORD, &self.context.now())?;
        }
        Ok(())
    }

    /// Deletes expired audit entries and calls.
    fn tidy(&self) -> Result<(), DeviceError> {
        let _lock = self.context.state_lock();
        let mut changes = self.context.audit_log().forget(self.context.now())?;
        changes.extend(kept_arguments::forget(&self.context.records, self.context.now())?);
        changes.extend(calls::forget(&self.context.records, self.context.now().before(AUDIT_RETENTION))?);
        Ok(self.context.records.save(changes)?)
    }

    /// Answers a call that the previous process left open, or sends the stored answer of a call that had ended.
    async fn answer_leftover(&self, record: calls::CallRecord, outcome: ToolOutcome) {
        let (origin, call) = (record.origin(), &record.call);
        if let CallState::Over { .. } = record.state {
            if let Err(error) = self.send(origin, call, outcome).await {
                tracing::error!(%error, call = %call.call_id, "cannot send the answer of a call");
            }
        } else if let Err(error) = self.finish(origin, call, IncomingCallEnd::unasked(outcome, None)).await {
            tracing::error!(%error, call = %call.call_id, "cannot end a call of the previous process");
        }
    }

    /// Logs the end of a call, and answers the call unless another device claimed it.
    async fn finish(&self, origin: CallOrigin<'_>, call: &ToolCall, end: IncomingCallEnd) -> Result<(), DeviceError> {
        let claim = match end.claim {
            Some(known @ (CallClaimResult::Mine | CallClaimResult::Elsewhere)) => known,
            // The claim is tried again: unless this device holds it, another device may already have answered.
            Some(CallClaimResult::Unknown) | None => {
                self.claim(origin, self.context.now().after(SEND_RETRY_TIME)).await?
            }
        };
        let decided = (end.asked, end.ledger);
        if claim == CallClaimResult::Elsewhere {
            return self.close(origin, call, CallState::Elsewhere, decided);
        }
        self.close(origin, call, CallState::Over { outcome: end.outcome.clone(), sent: false }, decided)?;
        self.send(origin, call, end.outcome).await
    }

    /// Sends the stored answer of a call and marks it as sent.
    async fn send(&self, origin: CallOrigin<'_>, call: &ToolCall, outcome: ToolOutcome) -> Result<(), DeviceError> {
        if self.answer(origin.conversation, call, outcome).await {
            let _lock = self.context.state_lock();
            calls::mark_answer_sent(&self.context.records, origin.agent, call)?;
        }
        Ok(())
    }

    /// Sends the answer of a call with retries. Returns whether the relay accepted the answer.
    async fn answer(&self, conversation: &ConversationId, call: &ToolCall, outcome: ToolOutcome) -> bool {
        self.respond(conversation, ToolResponse { call_id: call.call_id.clone(), outcome }).await
    }

    async fn respond(&self, conversation: &ConversationId, response: ToolResponse) -> bool {
        let (until, mut failures) = (self.context.now().after(SEND_RETRY_TIME), BACKOFF.start());
        loop {
            let Err(error) = self.context.peer.calls().respond(conversation, response.clone()).await else {
                return true;
            };
            tracing::warn!(%conversation, %error, "cannot send the answer of a call; retrying");
            if !error.is_retryable() || self.context.now() >= until {
                return false;
            }
            self.context.pause(failures.next_delay()).await;
        }
    }

    /// Claims a call for this device. Tries at least once, and again until `until` while the relay cannot be reached.
    async fn claim(&self, origin: CallOrigin<'_>, until: Timestamp) -> Result<CallClaimResult, DeviceError> {
        let id = origin.message_id()?;
        let mut failures = BACKOFF.start();
        loop {
            let error = match self.context.relay.claim(&id).await {
                Ok(true) => return Ok(CallClaimResult::Mine),
                Ok(false) => return Ok(CallClaimResult::Elsewhere),
                Err(error) => error,
            };
            tracing::warn!(%error, "cannot claim a call at the relay");
            let is_retryable = error.is_retryable() || matches!(error, RelayClientError::TooMany { .. });
            if !is_retryable || self.context.now() >= until {
                return Ok(CallClaimResult::Unknown);
            }
            self.context.pause(failures.next_delay()).await;
        }
    }

    /// Writes the final state and the audit entry of a call in one change.
    fn close(
        &self,
        origin: CallOrigin<'_>,
        call: &ToolCall,
        state: CallState,
        decided: (bool, Option<LedgerReference>),
    ) -> Result<(), DeviceError> {
        let _lock = self.context.state_lock();
        let mut changes = self.audit_changes(origin, call, &state, decided)?;
        if state == CallState::Elsewhere
            && let Some(mut known) = known_agents::load(&self.context.records, origin.agent)?
        {
            // A one-time grant may have been used on the other device.
            known.spend(&call.permission_scope);
            changes.push(known_agents::put(&known));
        }
        changes.push(calls::moved(origin, call, state, self.context.now()));
        self.context.records.save(changes)?;
        self.context.notify(DeviceEvent::AuditChanged);
        Ok(())
    }

    /// Record changes that append the audit entry of an ended call.
    fn audit_changes(
        &self,
        origin: CallOrigin<'_>,
        call: &ToolCall,
        state: &CallState,
        (asked, ledger): (bool, Option<LedgerReference>),
    ) -> Result<Vec<SealedRecordChange>, DeviceError> {
        let (status, reason) = audit_status(state);
        let log = self.context.audit_log();
        let mut changes = log.append(CallAuditEntry {
            call_id: call.call_id.clone(),
            agent_id: origin.agent.clone(),
            tool_name: call.tool_name.clone(),
            scope: call.permission_scope.clone(),
            arguments_digest: log.digest(&call.arguments)?,
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
            asked,
            timestamp: self.context.now(),
            message_id: origin.message_id().ok(),
            envelope_digest: origin.envelope,
            ledger,
        })?;
        if let Ok(message) = origin.message_id() {
            let (records, now) = (&self.context.records, self.context.now());
            changes.extend(kept_arguments::keep(records, &message, &call.arguments, now)?);
        }
        Ok(changes)
    }
}

/// Status and reason that the audit log stores for the final state of a call.
fn audit_status(state: &CallState) -> (&'static str, Option<&'static str>) {
    match state {
        CallState::Over { outcome: ToolOutcome::Ok { .. }, .. } => ("ok", None),
        CallState::Over { outcome: ToolOutcome::Error { error_code, .. }, .. } => ("error", Some(error_code.as_str())),
        CallState::Over { outcome: ToolOutcome::Denied { reason }, .. } => ("denied", Some(reason.as_str())),
        CallState::Elsewhere => ("elsewhere", None),
        CallState::Asked | CallState::Running => ("error", None),
    }
}
