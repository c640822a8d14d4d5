//! Decides on a new tool call: check, prompt, claim and run.

use nuncio_a2h::peer::InboundMessage;
use nuncio_a2h::wire::artifact::{DenialReason, ToolCall, ToolErrorCode, ToolOutcome};
use nuncio_core::agent::Sensitivity;
use nuncio_core::call_source::CallSource;
use nuncio_core::device_time::PERSON_ANSWERS;
use nuncio_core::ids::ScopeId;
use nuncio_core::policy::PolicyDecision;
use nuncio_core::text::plain;
use tokio::sync::broadcast::error::RecvError;

use super::{CallClaimResult, CallHandler, IncomingCall, IncomingCallEnd};
use crate::calls::{self, CallState};
use crate::consent_windows::{self, ConsentWindowKey};
use crate::device_events::DeviceEvent;
use crate::did_verification::verify_agent;
use crate::error::DeviceError;
use crate::guard::{self, AgentFacts, CheckedCall, IncomingCallFacts, PriorDecision, denied, failed};
use crate::known_agents::{self, KnownAgent};
use crate::localized_text::SanitisedTextByLanguage;
use crate::prompt::{PromptAnswer, PromptQuestion, readable};
use crate::tools::{LocalToolCaller, LocalToolFailure};

/// Limit of a tool's result, in bytes of JSON.
const MAX_RESULT: usize = 64 * 1024;

/// Whether a permitted call opens or extends the consent window of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConsentWindowEffect {
    Open,
    /// The person allowed this call only.
    None,
}

enum PromptResult {
    Answered(PromptAnswer),
    TimedOut,
    ClaimedElsewhere,
    /// The person revoked a needed scope during the prompt; the call ends with this outcome.
    Revoked(ToolOutcome),
}

impl CallHandler {
    /// Decides on a new tool call and runs it if it is allowed.
    pub(super) async fn decide(&self, incoming: &IncomingCall) -> Result<IncomingCallEnd, DeviceError> {
        let (known, permitted) = match self.admit_or_refresh(incoming).await? {
            Ok(permitted) => permitted,
            Err(outcome) => {
                if self.other_devices_may_allow(incoming, &outcome)? {
                    self.wait_for_other_devices().await;
                }
                return Ok(IncomingCallEnd::unasked(outcome, None));
            }
        };
        if self.context.config.tools.find(&permitted.tool.name, &permitted.tool.scope).is_none() {
            // Another device of the person may have the tool, so this device waits before it answers.
            if known.has_other_devices() {
                self.wait_for_other_devices().await;
            }
            let outcome = missing_tool(&permitted.tool.scope);
            return Ok(IncomingCallEnd::unasked(outcome, Some(permitted.ledger)));
        }
        let in_window = consent_windows::is_open(
            &self.context.records,
            incoming.window_key(&permitted),
            permitted.ledger.seq,
            self.context.now(),
        )?;
        let mut window_use = ConsentWindowEffect::Open;
        let mut decision = if in_window { PriorDecision::RecentYes } else { PriorDecision::Unasked };
        let call_facts = self.call_facts(incoming);
        let attended = self.context.config.prompt.is_attended();
        if let PolicyDecision::Ask(_) = guard::decide_call(call_facts, &permitted, decision) {
            let refused = match self.ask(incoming, &permitted, &known).await? {
                PromptResult::Answered(PromptAnswer::Yes) => None,
                PromptResult::Answered(PromptAnswer::Once) => {
                    window_use = ConsentWindowEffect::None;
                    None
                }
                PromptResult::Answered(PromptAnswer::No) => {
                    // A device without a user waits before it denies, because the person may answer on another device.
                    if !attended && known.has_other_devices() {
                        self.wait_for_other_devices().await;
                    }
                    Some((denied(DenialReason::UserRefused), None))
                }
                PromptResult::TimedOut => Some((denied(DenialReason::UserTimeout), None)),
                PromptResult::ClaimedElsewhere => {
                    let outcome = failed(ToolErrorCode::Unavailable, "another device claimed the call");
                    Some((outcome, Some(CallClaimResult::Elsewhere)))
                }
                PromptResult::Revoked(outcome) => Some((outcome, None)),
            };
            if let Some((outcome, claim)) = refused {
                return Ok(IncomingCallEnd { outcome, asked: attended, claim, ledger: Some(permitted.ledger) });
            }
            decision = PriorDecision::Yes;
        }
        let asked = decision == PriorDecision::Yes && attended;
        let claim = self.claim(incoming.origin(), self.context.now()).await?;
        let mut ledger = permitted.ledger;
        let outcome = match claim {
            CallClaimResult::Mine => match self.begin(incoming, decision, window_use)? {
                Ok(permitted) => {
                    ledger.clone_from(&permitted.ledger);
                    let caller = LocalToolCaller { agent: incoming.agent.clone(), name: known.name };
                    self.perform(&caller, &incoming.call, &permitted).await
                }
                Err(outcome) => outcome,
            },
            CallClaimResult::Elsewhere | CallClaimResult::Unknown => failed(
                ToolErrorCode::Unavailable,
                "the device cannot reach its relay, or another device claimed the call",
            ),
        };
        Ok(IncomingCallEnd { outcome, asked, claim: Some(claim), ledger: Some(ledger) })
    }

    /// Whether another device of the person may allow a call that this device refuses for lack of consent.
    fn other_devices_may_allow(&self, incoming: &IncomingCall, outcome: &ToolOutcome) -> Result<bool, DeviceError> {
        let known = known_agents::load(&self.context.records, &incoming.agent)?;
        let is_unsure =
            |known: KnownAgent| known.is_unsure(&self.context.identity.person, &incoming.call.permission_scope);
        Ok(*outcome == denied(DenialReason::ScopeNotGranted) && known.is_some_and(is_unsure))
    }

    /// Waits as long as a person may take to answer, so that the person's other devices can answer first.
    async fn wait_for_other_devices(&self) {
        self.context.pause(PERSON_ANSWERS).await;
    }

    /// Marks a call as running, after a second check under the lock: during the prompt, consent may have been revoked
    /// or a one-time grant used.
    fn begin(
        &self,
        incoming: &IncomingCall,
        mut decision: PriorDecision,
        window_use: ConsentWindowEffect,
    ) -> Result<Result<CheckedCall, ToolOutcome>, DeviceError> {
        let _lock = self.context.state_lock();
        let Some(mut known) = known_agents::load(&self.context.records, &incoming.agent)? else {
            return Ok(Err(denied(DenialReason::ScopeNotGranted)));
        };
        let permitted = match self.admit(incoming, &known) {
            Ok(permitted) => permitted,
            Err(outcome) => return Ok(Err(outcome)),
        };
        let window_key = incoming.window_key(&permitted);
        if decision == PriorDecision::RecentYes
            && !consent_windows::is_open(&self.context.records, window_key, permitted.ledger.seq, self.context.now())?
        {
            decision = PriorDecision::Unasked;
        }
        if guard::decide_call(self.call_facts(incoming), &permitted, decision) != PolicyDecision::Allow {
            return Ok(Err(failed(
                ToolErrorCode::Unavailable,
                "the grants of the person changed meanwhile; call again",
            )));
        }
        let mut changes = vec![calls::moved(incoming.origin(), &incoming.call, CallState::Running, self.context.now())];
        if permitted.stake == Sensitivity::Medium && window_use == ConsentWindowEffect::Open {
            changes.push(consent_windows::used(window_key, permitted.ledger.seq, self.context.now()));
        }
        known.spend(&permitted.tool.scope);
        changes.push(known_agents::put(&known));
        self.context.records.save(changes)?;
        Ok(Ok(permitted))
    }

    fn call_facts<'a>(&'a self, incoming: &'a IncomingCall) -> IncomingCallFacts<'a> {
        IncomingCallFacts {
            person: &self.context.identity.person,
            agent: &incoming.agent,
            kind: incoming.message.conversation_type,
            call: &incoming.call,
            sealed_at: incoming.message.sealed_at,
            now: self.context.now(),
        }
    }

    fn admit(&self, incoming: &IncomingCall, known: &KnownAgent) -> Result<CheckedCall, ToolOutcome> {
        let manifest = known.manifest(self.context.presets());
        let standing = known.standing(&self.context.identity.person);
        let about = AgentFacts {
            known,
            manifest: manifest.as_ref(),
            standing: standing.as_ref(),
            presets: self.context.presets(),
            floors: &self.context.config.floors,
        };
        guard::admit(self.call_facts(incoming), &about)
    }

    /// Checks a call against the stored consent; before a refusal the consent is reloaded from the relay, if possible.
    async fn admit_or_refresh(
        &self,
        incoming: &IncomingCall,
    ) -> Result<Result<(KnownAgent, CheckedCall), ToolOutcome>, DeviceError> {
        let unknown = || KnownAgent::new(incoming.agent.clone(), self.context.now());
        let known = known_agents::load(&self.context.records, &incoming.agent)?.unwrap_or_else(unknown);
        let outcome = match self.admit(incoming, &known) {
            Ok(permitted) => return Ok(Ok((known, permitted))),
            Err(outcome) => outcome,
        };
        match outcome {
            ToolOutcome::Denied { reason: DenialReason::ToolNotDeclared | DenialReason::ScopeNotGranted }
            | ToolOutcome::Error { error_code: ToolErrorCode::InvalidArguments, .. } => {}
            _ => return Ok(Err(outcome)),
        }
        match self.consents.refresh(&incoming.agent).await {
            Ok(known) => Ok(self.admit(incoming, &known).map(|permitted| (known, permitted))),
            Err(error) => {
                tracing::warn!(agent = %incoming.agent, %error, "cannot refresh an agent; the stored consent decides");
                Ok(Err(outcome))
            }
        }
    }

    /// Prompts the person for at most [`PERSON_ANSWERS`]; ends if another device claims the call or consent is revoked.
    async fn ask(
        &self,
        incoming: &IncomingCall,
        permitted: &CheckedCall,
        known: &KnownAgent,
    ) -> Result<PromptResult, DeviceError> {
        let id = incoming.origin().message_id()?;
        let IncomingCall { message, agent, call } = incoming;
        let verified = verify_agent(&self.context, agent, Some(&message.device)).await;
        let until = self.context.now().after(PERSON_ANSWERS);
        let question = PromptQuestion {
            id: format!("{}-{}", message.conversation, message.seq),
            agent: agent.clone(),
            agent_name: known.name.clone(),
            verified,
            call: call.call_id.clone(),
            conversation: message.conversation.clone(),
            tool: call.tool_name.clone(),
            description: SanitisedTextByLanguage::of(permitted.tool.description_fallback.as_ref()),
            arguments: readable(&call.arguments),
            scope: permitted.tool.scope.clone(),
            source: call.source.as_ref().map(CallSource::readable),
            scope_words: known.scope_texts(&permitted.tool.scope, self.context.presets()).unwrap_or_default(),
            sensitivity: permitted.stake,
            until,
        };
        let result = tokio::select! {
            answer = self.context.config.prompt.ask(&question) => PromptResult::Answered(answer),
            () = self.context.config.clock.sleep_until(until) => PromptResult::TimedOut,
            () = self.claimed.wait_for(&id) => PromptResult::ClaimedElsewhere,
            outcome = self.wait_for_revocation(incoming) => PromptResult::Revoked(outcome?),
        };
        // Timers stop while the machine sleeps, so a yes is also compared with the wall clock.
        let late = matches!(result, PromptResult::Answered(PromptAnswer::Yes | PromptAnswer::Once))
            && self.context.now() > until;
        Ok(if late { PromptResult::TimedOut } else { result })
    }

    /// Waits until the call would be refused without a prompt, because the person revoked a needed scope.
    async fn wait_for_revocation(&self, incoming: &IncomingCall) -> Result<ToolOutcome, DeviceError> {
        let mut events = self.context.events.subscribe();
        loop {
            match events.recv().await {
                Ok(DeviceEvent::Agent { agent }) if agent == incoming.agent => {}
                Ok(_) => continue,
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
            let refused = |known: KnownAgent| self.admit(incoming, &known).err();
            if let Some(outcome) = known_agents::load(&self.context.records, &incoming.agent)?.and_then(refused) {
                return Ok(outcome);
            }
        }
    }

    async fn perform(&self, caller: &LocalToolCaller, call: &ToolCall, permitted: &CheckedCall) -> ToolOutcome {
        let Some(tool) = self.context.config.tools.find(&permitted.tool.name, &permitted.tool.scope) else {
            return missing_tool(&permitted.tool.scope);
        };
        let late = self.context.config.clock.sleep_until(self.context.now().after(permitted.time));
        let done = tokio::select! {
            done = tool.run_for(caller, &call.arguments, permitted.time) => done,
            () = late => Err(LocalToolFailure::Failed("the tool did not answer within its time limit".to_owned())),
        };
        match done {
            Ok(result) => match result.to_string().len() {
                size if size > MAX_RESULT => failed(
                    ToolErrorCode::PlatformError,
                    &format!("the result has {size} bytes, more than {MAX_RESULT}"),
                ),
                _ => ToolOutcome::Ok { result },
            },
            Err(LocalToolFailure::Unavailable(why)) => failed(ToolErrorCode::Unavailable, &plain(&why)),
            Err(LocalToolFailure::Arguments(why)) => failed(ToolErrorCode::InvalidArguments, &plain(&why)),
            Err(LocalToolFailure::Failed(why)) => failed(ToolErrorCode::PlatformError, &plain(&why)),
        }
    }
}

/// The outcome of a call whose tool this device does not have.
fn missing_tool(scope: &ScopeId) -> ToolOutcome {
    let message = match scope.as_str() {
        "filesystem:read" => {
            "its owner shares no folder yet; to share one, they stop the device and start it with `nuncio device run \
             --folder DIR`"
        }
        _ => "this device has no such tool",
    };
    failed(ToolErrorCode::Unavailable, message)
}

impl IncomingCall {
    fn window_key<'a>(&'a self, permitted: &'a CheckedCall) -> ConsentWindowKey<'a> {
        let InboundMessage { device, conversation, .. } = &self.message;
        let source = self.call.source.as_ref().map(CallSource::digest);
        ConsentWindowKey { agent: &self.agent, by: device, conversation, scope: &permitted.tool.scope, source }
    }
}
