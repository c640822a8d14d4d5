//! Handles one tool call from arrival to answer: check, prompt, claim, run once, answer and log.

use std::time::Duration;

use nuncio_a2h::client::{Relay as _, RelayError};
use nuncio_a2h::peer::InboundMessage;
use nuncio_a2h::wire::artifact::{ErrorCode, Outcome, Reason, ToolCall, ToolResponse};
use nuncio_core::Code;
use nuncio_core::agent::Sensitivity;
use nuncio_core::audit::references::LedgerReference;
use nuncio_core::backoff::Backoff;
use nuncio_core::conversation::{ConversationType, MessageRef};
use nuncio_core::device_time::PERSON_ANSWERS;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, ConversationId, DeviceId};
use nuncio_core::policy::Decision;
use nuncio_core::text::plain;
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::RecordChange;
use tokio::sync::broadcast::error::RecvError;

use super::Device;
use crate::audit::AuditEntry;
use crate::calls::{self, CallArrival, CallState, Origin};
use crate::consent_windows::{self, ConsentWindowKey};
use crate::device_events::DeviceEvent;
use crate::did_verification;
use crate::error::DeviceError;
use crate::guard::{self, AgentFacts, CallFacts, PermittedCall, PersonDecision, denied, failed};
use crate::known_agents::{self, KnownAgent};
use crate::localized_text::{LocalizedText, ScopeTexts};
use crate::prompt::{AgentVerification, PromptAnswer, Question, readable};
use crate::tools::{ToolCaller, ToolFailure};

/// Limit of a tool result, in bytes of JSON.
const MAX_RESULT: usize = 64 * 1024;

/// How long sending an answer is retried in this process; it is tried again at the next start.
const SEND_RETRY_TIME: Duration = Duration::from_secs(600);

/// Delays between retries.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(200), Duration::from_secs(30));

/// Record with the time of the last clean-up.
const TIDIED: &str = "tidied";
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) struct IncomingCall {
    pub(super) message: InboundMessage,
    pub(super) agent: AgentId,
    pub(super) call: ToolCall,
}

impl IncomingCall {
    fn place(&self) -> MessageRef {
        MessageRef { conversation: self.message.conversation.clone(), seq: self.message.seq }
    }

    pub(super) fn origin(&self) -> Origin<'_> {
        let InboundMessage { conversation, seq, envelope, .. } = &self.message;
        Origin { agent: &self.agent, conversation, seq: *seq, envelope: *envelope }
    }
}

/// Outcome of a call on this device and how it came about.
struct CallEnd {
    outcome: Outcome,
    /// Whether the person was prompted.
    asked: bool,
    /// Result of the claim, if one was made.
    claim: Option<ClaimResult>,
    /// Last ledger entry that the decision was based on.
    ledger: Option<LedgerReference>,
}

impl CallEnd {
    const fn now(outcome: Outcome, asked: bool) -> Self {
        Self { outcome, asked, claim: None, ledger: None }
    }

    fn under(self, admitted: &PermittedCall) -> Self {
        Self { ledger: Some(admitted.ledger.clone()), ..self }
    }
}

/// Result of prompting the person.
enum PromptResult {
    Answered(PromptAnswer),
    TimedOut,
    /// Another device claimed the call.
    ClaimedElsewhere,
    /// The person revoked a needed scope meanwhile; the call ends with this outcome.
    Revoked(Outcome),
}

/// Answer of the relay to a device that claims a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimResult {
    Mine,
    Elsewhere,
    Unknown,
}

impl Device {
    /// Stores an incoming call.
    pub(super) fn take(&self, arrived: &IncomingCall) -> Result<CallArrival, DeviceError> {
        let _lock = self.state_lock();
        Ok(calls::take(self.records(), arrived.origin(), &arrived.call, self.now())?)
    }

    /// Answers an incoming call.
    pub(super) async fn serve(&self, arrived: &IncomingCall, came: CallArrival) -> Result<(), DeviceError> {
        let (conversation, call) = (&arrived.message.conversation, &arrived.call);
        match came {
            CallArrival::New => {
                self.tidy_when_due()?;
                let end = self.decide(arrived).await?;
                self.finish(arrived.origin(), call, end).await
            }
            // A repetition in a group is always refused, because all members would see the outcome.
            _ if arrived.message.conversation_type == ConversationType::Group => {
                self.refuse(arrived, denied(Reason::ToolNotSupportedInGroup)).await
            }
            CallArrival::IdReused => {
                let outcome = failed(ErrorCode::InvalidArguments, "another call has the same call_id");
                self.refuse(arrived, outcome).await
            }
            CallArrival::Repeated(outcome) => {
                self.claim_repetition(arrived).await?;
                self.answer(conversation, call, outcome).await;
                Ok(())
            }
            CallArrival::Pending => self.claim_repetition(arrived).await,
            CallArrival::Elsewhere => Ok(()),
        }
    }

    /// Claims a repeated message too, so that a device that sees only the repetition does not run the call.
    async fn claim_repetition(&self, arrived: &IncomingCall) -> Result<(), DeviceError> {
        self.claim(&arrived.place(), self.now()).await.map(drop)
    }

    /// Refuses a message that reuses the id of another call; the stored call is not changed.
    async fn refuse(&self, arrived: &IncomingCall, outcome: Outcome) -> Result<(), DeviceError> {
        let state = CallState::Over { outcome: outcome.clone(), sent: true };
        {
            let _lock = self.state_lock();
            self.records().save(self.written(arrived.origin(), &arrived.call, &state, (false, None))?)?;
        }
        self.answer(&arrived.message.conversation, &arrived.call, outcome).await;
        Ok(())
    }

    /// Deletes expired records, once per day.
    fn tidy_when_due(&self) -> Result<(), DeviceError> {
        let last: Option<Timestamp> = self.records().get(TIDIED)?;
        if last.is_none_or(|last| self.now() >= last.after(DAY) || self.now() < last) {
            self.tidy()?;
            self.records().set(TIDIED, &self.now())?;
        }
        Ok(())
    }

    /// Answers a call that was open when the previous process stopped.
    pub(super) async fn finish_leftover(&self, record: calls::CallRecord, outcome: Outcome) {
        let origin = record.origin();
        if let Err(error) = self.finish(origin, &record.call, CallEnd::now(outcome, false)).await {
            tracing::error!(%error, call = %record.call.call_id, "cannot end a call of the previous process");
        }
    }

    /// Closes and answers the call, unless another device claimed it.
    async fn finish(&self, origin: Origin<'_>, call: &ToolCall, end: CallEnd) -> Result<(), DeviceError> {
        let place = MessageRef { conversation: origin.conversation.clone(), seq: origin.seq };
        let claim = match end.claim {
            Some(known @ (ClaimResult::Mine | ClaimResult::Elsewhere)) => known,
            // Without the relay's reply another device may already have answered.
            Some(ClaimResult::Unknown) | None => self.claim(&place, self.now().after(SEND_RETRY_TIME)).await?,
        };
        let decided = (end.asked, end.ledger);
        if claim == ClaimResult::Elsewhere {
            return self.close(origin, call, CallState::Elsewhere, decided);
        }
        self.close(origin, call, CallState::Over { outcome: end.outcome.clone(), sent: false }, decided)?;
        self.send(origin, call, end.outcome).await
    }

    /// Sends a stored answer and marks it as sent.
    async fn send(&self, origin: Origin<'_>, call: &ToolCall, outcome: Outcome) -> Result<(), DeviceError> {
        if self.answer(origin.conversation, call, outcome).await {
            let _lock = self.state_lock();
            calls::sent(self.records(), origin.agent, call)?;
        }
        Ok(())
    }

    /// Sends the stored answer of a call that ended before the previous process stopped.
    pub(super) async fn send_leftover(&self, record: calls::CallRecord, outcome: Outcome) {
        let origin = record.origin();
        if let Err(error) = self.send(origin, &record.call, outcome).await {
            tracing::error!(%error, call = %record.call.call_id, "cannot send the answer of a call");
        }
    }

    /// Sends an answer with retries. Returns whether the relay accepted it.
    async fn answer(&self, conversation: &ConversationId, call: &ToolCall, outcome: Outcome) -> bool {
        let response = ToolResponse { call_id: call.call_id.clone(), outcome };
        let (until, mut failures) = (self.now().after(SEND_RETRY_TIME), BACKOFF.start());
        loop {
            let Err(error) = self.inner.peer.respond(conversation, response.clone()).await else { return true };
            tracing::warn!(%conversation, %error, "cannot send the answer of a call; retrying");
            if !error.is_retryable() || self.now() >= until {
                return false;
            }
            self.pause(failures.next_delay()).await;
        }
    }

    /// Claims a call for this device. Tries at least once, and again until `until` while the relay cannot be reached.
    async fn claim(&self, place: &MessageRef, until: Timestamp) -> Result<ClaimResult, DeviceError> {
        let id = place.id().map_err(|why| DeviceError::new(Code::Internal, why.to_string()))?;
        let mut failures = BACKOFF.start();
        loop {
            let error = match self.relay().claim(&id).await {
                Ok(true) => return Ok(ClaimResult::Mine),
                Ok(false) => return Ok(ClaimResult::Elsewhere),
                Err(error) => error,
            };
            tracing::warn!(%error, "cannot claim a call at the relay");
            let is_retryable = error.is_retryable() || matches!(error, RelayError::TooMany { .. });
            if !is_retryable || self.now() >= until {
                return Ok(ClaimResult::Unknown);
            }
            self.pause(failures.next_delay()).await;
        }
    }

    /// Writes the final state and the audit entry of a call in one change.
    fn close(
        &self,
        origin: Origin<'_>,
        call: &ToolCall,
        state: CallState,
        decided: (bool, Option<LedgerReference>),
    ) -> Result<(), DeviceError> {
        let _lock = self.state_lock();
        let mut changes = self.written(origin, call, &state, decided)?;
        if state == CallState::Elsewhere
            && let Some(mut known) = known_agents::load(self.records(), origin.agent)?
        {
            // A one-time grant may have been used on the other device.
            known.spend(&call.permission_scope);
            changes.push(known_agents::put(&known));
        }
        changes.push(calls::moved(origin, call, state, self.now()));
        self.records().save(changes)?;
        self.notify(DeviceEvent::AuditChanged);
        Ok(())
    }

    /// Changes that append the audit entry of an ended call.
    fn written(
        &self,
        origin: Origin<'_>,
        call: &ToolCall,
        state: &CallState,
        (asked, ledger): (bool, Option<LedgerReference>),
    ) -> Result<Vec<RecordChange>, DeviceError> {
        let (status, reason) = words(state);
        let log = self.audit_log();
        Ok(log.append(AuditEntry {
            call_id: call.call_id.clone(),
            agent_id: origin.agent.clone(),
            tool_name: call.tool_name.clone(),
            scope: call.permission_scope.clone(),
            arguments_digest: log.digest(&call.arguments)?,
            status: status.to_owned(),
            reason,
            asked,
            timestamp: self.now(),
            message_id: origin.message_id(),
            envelope_digest: origin.envelope,
            ledger,
        })?)
    }

    /// Decides on a new call, and runs it where it is allowed.
    async fn decide(&self, arrived: &IncomingCall) -> Result<CallEnd, DeviceError> {
        let (known, admitted) = match self.admit_or_refresh(arrived).await? {
            Ok(admitted) => admitted,
            Err(outcome) => {
                if self.other_devices_may_allow(arrived, &outcome)? {
                    self.wait_for_other_devices().await;
                }
                return Ok(CallEnd::now(outcome, false));
            }
        };
        if self.inner.config.tools.find(&admitted.tool.name, &admitted.tool.scope).is_none() {
            // Another device of the person may have the tool: this one answers last.
            if known.has_other_devices() {
                self.wait_for_other_devices().await;
            }
            let outcome = failed(ErrorCode::Unavailable, "this device has no such tool");
            return Ok(CallEnd::now(outcome, false).under(&admitted));
        }
        let lately =
            consent_windows::is_open(self.records(), arrived.window_key(&admitted), admitted.ledger.seq, self.now())?;
        let mut word = if lately { PersonDecision::RecentYes } else { PersonDecision::Unasked };
        let case = self.case(arrived);
        let attended = self.inner.config.prompt.is_attended();
        if let Decision::Ask(_) = guard::decide_call(case, &admitted, word) {
            match self.ask(arrived, &admitted, &known).await? {
                PromptResult::Answered(PromptAnswer::Yes) => word = PersonDecision::Yes,
                PromptResult::Answered(PromptAnswer::No) => {
                    // A device without a user interface denies last, because the person may answer on another device.
                    if !attended && known.has_other_devices() {
                        self.wait_for_other_devices().await;
                    }
                    return Ok(CallEnd::now(denied(Reason::UserRefused), attended).under(&admitted));
                }
                PromptResult::TimedOut => {
                    return Ok(CallEnd::now(denied(Reason::UserTimeout), attended).under(&admitted));
                }
                PromptResult::ClaimedElsewhere => {
                    let outcome = failed(ErrorCode::Unavailable, "another device was faster");
                    let end = CallEnd { claim: Some(ClaimResult::Elsewhere), ..CallEnd::now(outcome, attended) };
                    return Ok(end.under(&admitted));
                }
                PromptResult::Revoked(outcome) => return Ok(CallEnd::now(outcome, attended).under(&admitted)),
            }
        }
        let asked = word == PersonDecision::Yes && attended;
        let claim = self.claim(&arrived.place(), self.now()).await?;
        let mut ledger = admitted.ledger;
        let outcome = match claim {
            ClaimResult::Mine => match self.begin(arrived, word)? {
                Ok(admitted) => {
                    ledger.clone_from(&admitted.ledger);
                    let caller = ToolCaller { agent: arrived.agent.clone(), name: known.name };
                    self.perform(&caller, &arrived.call, &admitted).await
                }
                Err(outcome) => outcome,
            },
            ClaimResult::Elsewhere | ClaimResult::Unknown => {
                failed(ErrorCode::Unavailable, "the device cannot reach its relay, or another one was faster")
            }
        };
        Ok(CallEnd { outcome, asked, claim: Some(claim), ledger: Some(ledger) })
    }

    /// Whether another device of the person may have newer consent than this one.
    fn other_devices_may_allow(&self, arrived: &IncomingCall, outcome: &Outcome) -> Result<bool, DeviceError> {
        let known = known_agents::load(self.records(), &arrived.agent)?;
        let unsure = |known: KnownAgent| known.is_unsure(&self.inner.identity.person, &arrived.call.permission_scope);
        Ok(*outcome == denied(Reason::ScopeNotGranted) && known.is_some_and(unsure))
    }

    /// Waits so that the person's other devices can answer first.
    async fn wait_for_other_devices(&self) {
        self.inner.config.clock.sleep_until(self.now().after(PERSON_ANSWERS)).await;
    }

    /// Repeats the check under the lock and marks the call as running: consent may have been revoked, or a one-time
    /// grant used, while the person was asked.
    fn begin(
        &self,
        arrived: &IncomingCall,
        mut word: PersonDecision,
    ) -> Result<Result<PermittedCall, Outcome>, DeviceError> {
        let _lock = self.state_lock();
        let Some(mut known) = known_agents::load(self.records(), &arrived.agent)? else {
            return Ok(Err(denied(Reason::ScopeNotGranted)));
        };
        let admitted = match self.admit(arrived, &known) {
            Ok(admitted) => admitted,
            Err(outcome) => return Ok(Err(outcome)),
        };
        let window_key = arrived.window_key(&admitted);
        if word == PersonDecision::RecentYes
            && !consent_windows::is_open(self.records(), window_key, admitted.ledger.seq, self.now())?
        {
            word = PersonDecision::Unasked;
        }
        if guard::decide_call(self.case(arrived), &admitted, word) != Decision::Allow {
            return Ok(Err(failed(ErrorCode::Unavailable, "what the person allows changed meanwhile; call again")));
        }
        let mut changes = vec![calls::moved(arrived.origin(), &arrived.call, CallState::Running, self.now())];
        if admitted.stake == Sensitivity::Medium {
            changes.push(consent_windows::used(window_key, admitted.ledger.seq, self.now()));
        }
        known.spend(&admitted.tool.scope);
        changes.push(known_agents::put(&known));
        self.records().save(changes)?;
        Ok(Ok(admitted))
    }

    fn case<'a>(&'a self, arrived: &'a IncomingCall) -> CallFacts<'a> {
        CallFacts {
            person: &self.inner.identity.person,
            agent: &arrived.agent,
            kind: arrived.message.conversation_type,
            call: &arrived.call,
            sealed_at: arrived.message.sealed_at,
            now: self.now(),
        }
    }

    fn admit(&self, arrived: &IncomingCall, known: &KnownAgent) -> Result<PermittedCall, Outcome> {
        let (manifest, standing) = (known.manifest(self.presets()), known.standing(&self.inner.identity.person));
        let about = AgentFacts {
            known,
            manifest: manifest.as_ref(),
            standing: standing.as_ref(),
            presets: self.presets(),
            floors: self.floors(),
        };
        guard::admit(self.case(arrived), &about)
    }

    /// Checks a call against the stored consent. Before a refusal the agent is reloaded once; if that fails, the stored
    /// consent decides.
    async fn admit_or_refresh(
        &self,
        arrived: &IncomingCall,
    ) -> Result<Result<(KnownAgent, PermittedCall), Outcome>, DeviceError> {
        let unknown = || KnownAgent::new(arrived.agent.clone(), self.now());
        let known = known_agents::load(self.records(), &arrived.agent)?.unwrap_or_else(unknown);
        let outcome = match self.admit(arrived, &known) {
            Ok(admitted) => return Ok(Ok((known, admitted))),
            Err(outcome) => outcome,
        };
        match outcome {
            Outcome::Denied { reason: Reason::ToolNotDeclared | Reason::ScopeNotGranted }
            | Outcome::Error { error_code: ErrorCode::InvalidArguments, .. } => {}
            _ => return Ok(Err(outcome)),
        }
        match self.refresh(&arrived.agent).await {
            Ok(known) => Ok(self.admit(arrived, &known).map(|admitted| (known, admitted))),
            Err(error) => {
                tracing::warn!(agent = %arrived.agent, %error, "cannot refresh an agent; the stored consent decides");
                Ok(Err(outcome))
            }
        }
    }

    /// Prompts the person for at most [`PERSON_ANSWERS`], or until another device claims the call.
    async fn ask(
        &self,
        arrived: &IncomingCall,
        admitted: &PermittedCall,
        known: &KnownAgent,
    ) -> Result<PromptResult, DeviceError> {
        let id = arrived.place().id().map_err(|why| DeviceError::new(Code::Internal, why.to_string()))?;
        let IncomingCall { message, agent, call } = arrived;
        let verified = self.verified(agent, Some(&message.device)).await;
        let until = self.now().after(PERSON_ANSWERS);
        let manifest = known.manifest(self.presets());
        let scope = manifest
            .as_ref()
            .and_then(|checked| checked.manifest.scopes.iter().find(|declared| declared.id == admitted.tool.scope));
        let question = Question {
            id: format!("{}-{}", message.conversation, message.seq),
            agent: agent.clone(),
            agent_name: known.name.clone(),
            verified,
            call: call.call_id.clone(),
            conversation: message.conversation.clone(),
            tool: call.tool_name.clone(),
            description: LocalizedText::of(admitted.tool.description_fallback.as_ref()),
            arguments: readable(&call.arguments),
            scope: admitted.tool.scope.clone(),
            scope_words: scope.map(|scope| ScopeTexts::of(self.presets(), scope)).unwrap_or_default(),
            sensitivity: admitted.stake,
            until,
        };
        let heard = tokio::select! {
            said = self.inner.config.prompt.ask(&question) => PromptResult::Answered(said),
            () = self.inner.config.clock.sleep_until(until) => PromptResult::TimedOut,
            () = self.inner.taken.wait_for(&id) => PromptResult::ClaimedElsewhere,
            outcome = self.taken_back(arrived) => PromptResult::Revoked(outcome?),
        };
        // Timers stop while the machine sleeps, so the wall clock is compared too.
        let late = matches!(heard, PromptResult::Answered(PromptAnswer::Yes)) && self.now() > until;
        Ok(if late { PromptResult::TimedOut } else { heard })
    }

    /// Resolves when the call would now be refused without a prompt, because the person revoked a needed scope.
    async fn taken_back(&self, arrived: &IncomingCall) -> Result<Outcome, DeviceError> {
        let mut news = self.events();
        loop {
            match news.recv().await {
                Ok(DeviceEvent::Agent { agent }) if agent == arrived.agent => {}
                Ok(_) => continue,
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
            let refused = |known: KnownAgent| self.admit(arrived, &known).err();
            if let Some(outcome) = known_agents::load(self.records(), &arrived.agent)?.and_then(refused) {
                return Ok(outcome);
            }
        }
    }

    /// Whether one DID vouches for the pinned keys of an agent: those of one device, or all.
    pub(crate) async fn verified(&self, agent: &AgentId, by: Option<&DeviceId>) -> AgentVerification {
        let pinned = self.inner.peer.pinned(&Recipient::Agent(agent.clone())).await.unwrap_or_default();
        let mut vouching = None;
        for bundle in did_verification::of(&pinned, by) {
            match (did_verification::by(&*self.inner.config.fetch, bundle, self.now()).await, &vouching) {
                (Some(did), None) => vouching = Some(did),
                (Some(did), Some(before)) if did == *before => {}
                // Keys without proof, or with proof of different DIDs, are unverified.
                _ => return AgentVerification::FirstContact,
            }
        }
        vouching.map_or(AgentVerification::FirstContact, |did| AgentVerification::Did { did })
    }

    async fn perform(&self, caller: &ToolCaller, call: &ToolCall, admitted: &PermittedCall) -> Outcome {
        let Some(tool) = self.inner.config.tools.find(&admitted.tool.name, &admitted.tool.scope) else {
            return failed(ErrorCode::Unavailable, "this device has no such tool");
        };
        let late = self.inner.config.clock.sleep_until(self.now().after(admitted.time));
        let done = tokio::select! {
            done = tool.run_for(caller, &call.arguments, admitted.time) => done,
            () = late => Err(ToolFailure::Failed("it took longer than its time".to_owned())),
        };
        match done {
            Ok(result) => match result.to_string().len() {
                size if size > MAX_RESULT => {
                    failed(ErrorCode::PlatformError, &format!("the result has {size} bytes, more than {MAX_RESULT}"))
                }
                _ => Outcome::Ok { result },
            },
            Err(ToolFailure::Unavailable(why)) => failed(ErrorCode::Unavailable, &plain(&why)),
            Err(ToolFailure::Arguments(why)) => failed(ErrorCode::InvalidArguments, &plain(&why)),
            Err(ToolFailure::Failed(why)) => failed(ErrorCode::PlatformError, &plain(&why)),
        }
    }
}

impl IncomingCall {
    fn window_key<'a>(&'a self, admitted: &'a PermittedCall) -> ConsentWindowKey<'a> {
        let InboundMessage { device, conversation, .. } = &self.message;
        ConsentWindowKey { agent: &self.agent, by: device, conversation, scope: &admitted.tool.scope }
    }
}

/// Status and reason of a final state in the audit log.
fn words(state: &CallState) -> (&'static str, Option<String>) {
    let word = |value: serde_json::Value| value.as_str().map(str::to_owned);
    match state {
        CallState::Over { outcome: Outcome::Ok { .. }, .. } => ("ok", None),
        CallState::Over { outcome: Outcome::Error { error_code, .. }, .. } => {
            ("error", word(serde_json::json!(error_code)))
        }
        CallState::Over { outcome: Outcome::Denied { reason }, .. } => ("denied", word(serde_json::json!(reason))),
        CallState::Elsewhere => ("elsewhere", None),
        CallState::Asked | CallState::Running => ("error", None),
    }
}
