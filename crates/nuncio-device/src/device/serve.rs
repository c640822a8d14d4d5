//! One call, from its arrival to its answer: looked at, asked about, claimed, run once, answered and written down.

use nuncio_a2h::client::Relay as _;
use nuncio_a2h::peer::Inbound;
use nuncio_a2h::wire::artifact::{ErrorCode, Outcome, Reason, ToolCall, ToolResponse};
use nuncio_core::Code;
use nuncio_core::agent::Sensitivity;
use nuncio_core::conversation::MessagePlace;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, ConversationId};
use nuncio_core::policy::Decision;
use tokio::sync::broadcast::error::RecvError;

use super::Device;
use crate::audit::AuditEntry;
use crate::calls::{self, CallState, Came, Origin};
use crate::error::DeviceError;
use crate::guard::{self, ANSWER, Admitted, Background, Case, Word, denied, failed};
use crate::prompt::{Question, Said, Verified, readable};
use crate::standing::{self, Known};
use crate::tools::ToolFailure;
use crate::vouched;
use crate::windows::{self, Pane};

/// The largest answer, in bytes of JSON.
const MAX_RESULT: usize = 64 * 1024;

/// A call that came.
pub(super) struct Arrived {
    pub(super) message: Inbound,
    pub(super) agent: AgentId,
    pub(super) call: ToolCall,
}

impl Arrived {
    fn place(&self) -> MessagePlace {
        MessagePlace { conversation: self.message.conversation.clone(), seq: self.message.seq }
    }

    pub(super) fn origin(&self) -> Origin<'_> {
        Origin { agent: &self.agent, conversation: &self.message.conversation, seq: self.message.seq }
    }
}

/// How a call ends on this device.
struct End {
    outcome: Outcome,
    /// Whether the person was asked.
    asked: bool,
    /// What the relay said, where it was told that this device takes it.
    claim: Option<Claim>,
}

impl End {
    const fn now(outcome: Outcome, asked: bool) -> Self {
        Self { outcome, asked, claim: None }
    }
}

/// What came of asking the person.
enum Heard {
    Said(Said),
    /// Nothing, in time.
    Nothing,
    /// Another device took the call.
    Taken,
}

/// What the relay says when a device wants a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Mine,
    Elsewhere,
    /// It does not say.
    Unknown,
}

impl Device {
    /// Writes down that a call came.
    pub(super) fn take(&self, arrived: &Arrived) -> Result<Came, DeviceError> {
        let _turn = self.turn();
        Ok(calls::take(self.records(), arrived.origin(), &arrived.call, self.now())?)
    }

    /// Deals with a call that came.
    pub(super) async fn serve(&self, arrived: &Arrived, came: Came) -> Result<(), DeviceError> {
        let (conversation, call) = (&arrived.message.conversation, &arrived.call);
        match came {
            Came::Pending => Ok(()),
            Came::Again(outcome) => {
                self.answer(conversation, call, outcome).await;
                Ok(())
            }
            Came::Other => {
                let outcome = failed(ErrorCode::InvalidArguments, "another call has the same call_id");
                self.answer(conversation, call, outcome).await;
                Ok(())
            }
            Came::New => {
                let end = self.decide(arrived).await?;
                self.finish(arrived.origin(), call, end).await
            }
        }
    }

    /// Answers what a process before this one left open.
    pub(super) async fn finish_leftover(&self, record: calls::CallRecord, outcome: Outcome) {
        let origin = Origin { agent: &record.agent, conversation: &record.conversation, seq: record.seq };
        if let Err(error) = self.finish(origin, &record.call, End::now(outcome, false)).await {
            tracing::error!(%error, call = %record.call.call_id, "a call could not be ended");
        }
    }

    /// One device answers: this one, unless another took the call.
    async fn finish(&self, origin: Origin<'_>, call: &ToolCall, end: End) -> Result<(), DeviceError> {
        let place = MessagePlace { conversation: origin.conversation.clone(), seq: origin.seq };
        let claim = match end.claim {
            Some(claim) => claim,
            None => self.claim(&place).await?,
        };
        if claim == Claim::Elsewhere {
            return self.close(origin, call, CallState::Elsewhere, end.asked);
        }
        self.close(origin, call, CallState::Over { outcome: end.outcome.clone(), sent: false }, end.asked)?;
        self.send(origin, call, end.outcome).await
    }

    /// Sends an answer that is written down, and remembers that it is on its way.
    async fn send(&self, origin: Origin<'_>, call: &ToolCall, outcome: Outcome) -> Result<(), DeviceError> {
        if self.answer(origin.conversation, call, outcome).await {
            let _turn = self.turn();
            calls::sent(self.records(), origin.agent, call)?;
        }
        Ok(())
    }

    /// Sends the answer to a call that was over when the process before this one ended.
    pub(super) async fn send_leftover(&self, record: calls::CallRecord, outcome: Outcome) {
        let origin = Origin { agent: &record.agent, conversation: &record.conversation, seq: record.seq };
        if let Err(error) = self.send(origin, &record.call, outcome).await {
            tracing::error!(%error, call = %record.call.call_id, "an answer could not be sent");
        }
    }

    /// Answers; whether the answer is on its way.
    async fn answer(&self, conversation: &ConversationId, call: &ToolCall, outcome: Outcome) -> bool {
        let response = ToolResponse { call_id: call.call_id.clone(), outcome };
        match self.inner.peer.respond(conversation, response).await {
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(%conversation, %error, "an answer could not be sent");
                false
            }
        }
    }

    async fn claim(&self, place: &MessagePlace) -> Result<Claim, DeviceError> {
        let id = place.id().map_err(|why| DeviceError::new(Code::Internal, why.to_string()))?;
        Ok(match self.relay().claim(&id).await {
            Ok(true) => Claim::Mine,
            Ok(false) => Claim::Elsewhere,
            Err(error) => {
                tracing::warn!(%error, "a call could not be claimed");
                Claim::Unknown
            }
        })
    }

    /// Writes down how a call ended, and that it did.
    fn close(&self, origin: Origin<'_>, call: &ToolCall, state: CallState, asked: bool) -> Result<(), DeviceError> {
        let _turn = self.turn();
        let (status, reason) = words(&state);
        let log = self.audit_log();
        let mut changes = log.append(AuditEntry {
            call_id: call.call_id.clone(),
            agent_id: origin.agent.clone(),
            tool_name: call.tool_name.clone(),
            scope: call.permission_scope.clone(),
            arguments_digest: log.digest(&call.arguments)?,
            status: status.to_owned(),
            reason,
            asked,
            timestamp: self.now(),
        })?;
        changes.push(calls::moved(origin, call, state, self.now()));
        Ok(self.records().save(changes)?)
    }

    /// What becomes of a new call.
    async fn decide(&self, arrived: &Arrived) -> Result<End, DeviceError> {
        let (known, admitted) = match self.admit_or_look(arrived).await? {
            Ok(admitted) => admitted,
            Err(outcome) => return Ok(End::now(outcome, false)),
        };
        if self.inner.config.tools.find(&admitted.tool.name, &admitted.tool.scope).is_none() {
            // Another device of the person's may have it: it goes first.
            if known.devices.iter().filter(|device| device.revoked_at.is_none()).count() > 1 {
                self.inner.config.clock.sleep_until(self.now().after(ANSWER)).await;
            }
            return Ok(End::now(failed(ErrorCode::Unavailable, "this device has no such tool"), false));
        }
        let lately = windows::is_open(self.records(), arrived.pane(&admitted), admitted.ledger, self.now())?;
        let mut word = if lately { Word::Lately } else { Word::None };
        let case = self.case(arrived);
        if let Decision::Ask(_) = guard::weigh(case, &admitted, word) {
            match self.ask(arrived, &admitted, &known).await? {
                Heard::Said(Said::Yes) => word = Word::Yes,
                Heard::Said(Said::No) => return Ok(End::now(denied(Reason::UserRefused), true)),
                Heard::Nothing => return Ok(End::now(denied(Reason::UserTimeout), true)),
                Heard::Taken => {
                    let outcome = failed(ErrorCode::Unavailable, "another device was faster");
                    return Ok(End { outcome, asked: true, claim: Some(Claim::Elsewhere) });
                }
            }
        }
        let asked = word == Word::Yes;
        let claim = self.claim(&arrived.place()).await?;
        let outcome = match claim {
            Claim::Mine => match self.begin(arrived, word)? {
                Ok(admitted) => self.perform(&arrived.call, &admitted).await,
                Err(outcome) => outcome,
            },
            Claim::Elsewhere | Claim::Unknown => {
                failed(ErrorCode::Unavailable, "the device cannot reach its relay, or another one was faster")
            }
        };
        Ok(End { outcome, asked, claim: Some(claim) })
    }

    /// The last look, with nothing between it and the record that the call runs: what was allowed may have been taken
    /// back while the person was asked, or used up by another call.
    fn begin(&self, arrived: &Arrived, mut word: Word) -> Result<Result<Admitted, Outcome>, DeviceError> {
        let _turn = self.turn();
        let Some(mut known) = standing::load(self.records(), &arrived.agent)? else {
            return Ok(Err(denied(Reason::ScopeNotGranted)));
        };
        let admitted = match self.admit(arrived, &known) {
            Ok(admitted) => admitted,
            Err(outcome) => return Ok(Err(outcome)),
        };
        let pane = arrived.pane(&admitted);
        if word == Word::Lately && !windows::is_open(self.records(), pane, admitted.ledger, self.now())? {
            word = Word::None;
        }
        if guard::weigh(self.case(arrived), &admitted, word) != Decision::Allow {
            return Ok(Err(failed(ErrorCode::Unavailable, "what the person allows changed meanwhile; call again")));
        }
        let mut changes = vec![calls::moved(arrived.origin(), &arrived.call, CallState::Running, self.now())];
        if admitted.stake == Sensitivity::Medium {
            changes.push(windows::used(pane, admitted.ledger, self.now()));
        }
        known.used.insert(admitted.tool.scope.clone(), known.given_at(&admitted.tool.scope));
        changes.push(standing::put(&known));
        self.records().save(changes)?;
        Ok(Ok(admitted))
    }

    fn case<'a>(&'a self, arrived: &'a Arrived) -> Case<'a> {
        Case {
            person: &self.inner.identity.person,
            agent: &arrived.agent,
            kind: arrived.message.conversation_type,
            call: &arrived.call,
            sealed_at: arrived.message.sealed_at,
            now: self.now(),
        }
    }

    fn admit(&self, arrived: &Arrived, known: &Known) -> Result<Admitted, Outcome> {
        let (manifest, standing) = (known.manifest(self.presets()), known.standing(&self.inner.identity.person));
        let about = Background {
            known,
            manifest: manifest.as_ref(),
            standing: standing.as_ref(),
            presets: self.presets(),
            floors: self.floors(),
        };
        guard::admit(self.case(arrived), &about)
    }

    /// Whether anything forbids the call. Before it is refused for what is known of the agent, that is looked up anew,
    /// once; what cannot be looked up allows no more than what is known.
    async fn admit_or_look(&self, arrived: &Arrived) -> Result<Result<(Known, Admitted), Outcome>, DeviceError> {
        let unknown = || Known::new(arrived.agent.clone(), self.now());
        let known = standing::load(self.records(), &arrived.agent)?.unwrap_or_else(unknown);
        let outcome = match self.admit(arrived, &known) {
            Ok(admitted) => return Ok(Ok((known, admitted))),
            Err(outcome) => outcome,
        };
        let Outcome::Denied { reason: Reason::ToolNotDeclared | Reason::ScopeNotGranted } = outcome else {
            return Ok(Err(outcome));
        };
        match self.refresh(&arrived.agent).await {
            Ok(known) => Ok(self.admit(arrived, &known).map(|admitted| (known, admitted))),
            Err(error) => {
                tracing::warn!(agent = %arrived.agent, %error, "an agent could not be looked up");
                Ok(Err(outcome))
            }
        }
    }

    /// Asks the person, for half a minute, or until another device has the answer.
    async fn ask(&self, arrived: &Arrived, admitted: &Admitted, known: &Known) -> Result<Heard, DeviceError> {
        let id = arrived.place().id().map_err(|why| DeviceError::new(Code::Internal, why.to_string()))?;
        let mut taken = self.inner.taken.subscribe();
        let elsewhere = async {
            loop {
                match taken.recv().await {
                    Ok(other) if other == id => return,
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        let Arrived { message, agent, call } = arrived;
        let verified = self.verified(agent).await;
        let until = self.now().after(ANSWER);
        let description = admitted.tool.description_fallback.as_ref();
        let question = Question {
            id: format!("{}-{}", message.conversation, message.seq),
            agent: agent.clone(),
            agent_name: known.name.clone(),
            verified,
            call: call.call_id.clone(),
            conversation: message.conversation.clone(),
            tool: call.tool_name.clone(),
            description: description.map(|text| nuncio_core::text::plain(text.in_language("en"))),
            arguments: readable(&call.arguments),
            scope: admitted.tool.scope.clone(),
            sensitivity: admitted.stake,
            until,
        };
        Ok(tokio::select! {
            said = self.inner.config.prompt.ask(&question) => Heard::Said(said),
            () = self.inner.config.clock.sleep_until(until) => Heard::Nothing,
            () = elsewhere => Heard::Taken,
        })
    }

    /// How it is known that an agent is who it says: a DID may vouch for the keys that are pinned.
    async fn verified(&self, agent: &AgentId) -> Verified {
        let pinned = self.inner.peer.pinned(&Recipient::Agent(agent.clone())).await.unwrap_or_default();
        for bundle in &pinned {
            if let Some(did) = vouched::by(&*self.inner.config.fetch, bundle, self.now()).await {
                return Verified::Did { did };
            }
        }
        Verified::FirstContact
    }

    async fn perform(&self, call: &ToolCall, admitted: &Admitted) -> Outcome {
        let Some(tool) = self.inner.config.tools.find(&admitted.tool.name, &admitted.tool.scope) else {
            return failed(ErrorCode::Unavailable, "this device has no such tool");
        };
        let late = self.inner.config.clock.sleep_until(self.now().after(admitted.time));
        let done = tokio::select! {
            done = tool.run(&call.arguments, admitted.time) => done,
            () = late => Err(ToolFailure::Failed("it took longer than its time".to_owned())),
        };
        match done {
            Ok(result) => match result.to_string().len() {
                size if size > MAX_RESULT => {
                    failed(ErrorCode::PlatformError, &format!("the result has {size} bytes, more than {MAX_RESULT}"))
                }
                _ => Outcome::Ok { result },
            },
            Err(ToolFailure::Unavailable(why)) => failed(ErrorCode::Unavailable, &why),
            Err(ToolFailure::Arguments(why)) => failed(ErrorCode::InvalidArguments, &why),
            Err(ToolFailure::Failed(why)) => failed(ErrorCode::PlatformError, &why),
        }
    }
}

impl Arrived {
    fn pane<'a>(&'a self, admitted: &'a Admitted) -> Pane<'a> {
        Pane { agent: &self.agent, conversation: &self.message.conversation, scope: &admitted.tool.scope }
    }
}

/// The words for an end in the log.
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
