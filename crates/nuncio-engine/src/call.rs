//! The call chain, the only way to run a tool, for every protocol: known caller → declared tool → granted scope → valid
//! arguments → approval → concurrency limit → run with a deadline → valid output → audit record.

use crate::access::Access;
use crate::approve::Approvals;
use crate::ports::Runner;
use crate::ports::Store;
use crate::record::Records;
use crate::runtime::Runtime;
use crate::tasks::Inbox;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::Code;
use nuncio_core::agent::{HumanRun, Run, Tool};
use nuncio_core::approval::{ApprovalQuestion, Approver};
use nuncio_core::audit::references::{ApprovalReference, PermissionSource};
use nuncio_core::audit::{AuditDecision, AuditOutcome, AuditRecord, References};
use nuncio_core::backoff::Backoff;
use nuncio_core::digest::Digest;
use nuncio_core::execution::CallAuthorization;
pub use nuncio_core::execution::ExecutionFailure;
use nuncio_core::ids::GrantId;
use nuncio_core::message::Message;
use nuncio_core::policy::{ClientConsent, Decision, PolicyFacts, decide};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument as _;

use crate::access::ScopeCheck;
use crate::approve::{ApprovalPermit, ApprovalReply};
use crate::error::EngineError;
use crate::ports::entropy::random_name;
use crate::ports::runner::{RunCall, SentMessages, StartSignal, ToolOutput};
use crate::ports::store::{Change, Conflict, ResultTarget, StoreError};
use crate::tasks::HumanWork;

mod attempt;
mod output;
mod pending_insert;
mod request;

pub use pending_insert::PendingInsert;
pub(crate) use pending_insert::{CommitReceiver, NotifyWhen};
pub use request::{CallOutcome, ClientDecision, FinishedCall, ToolCallRequest, denial};

/// Delays before the end of a call is stored again after a failed commit.
const STORE_AGAIN: Backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(30));

/// The call chain, the only way to run a tool.
pub struct Calls {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) access: Arc<Access>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) records: Arc<Records>,
}

impl Calls {
    /// Takes a tool call through the call chain.
    ///
    /// # Errors
    /// Only a store failure is an error. A refused or failed tool call is an `Ok` outcome and is recorded.
    pub async fn call(&self, call: ToolCallRequest<'_>) -> Result<CallOutcome, EngineError> {
        let span =
            tracing::debug_span!("tool call", agent = %call.served.agent.name, tool = %call.tool, call = %call.id);
        let walk = CallChain::new(self, call);
        async move {
            match walk.admit().await? {
                Admission::AskClient => Ok(CallOutcome::AskClient),
                Admission::Refused(refusal) => walk.refuse(refusal).await.map(CallOutcome::Ended),
                Admission::Admitted(admitted) => walk.run(admitted).await.map(CallOutcome::Ended),
            }
        }
        .instrument(span)
        .await
    }
}

/// State of one call on its way through the chain.
struct CallChain<'a> {
    calls: &'a Calls,
    call: ToolCallRequest<'a>,
    arguments: Value,
    digest: Digest,
    asked_at: Timestamp,
    program_start: StartSignal,
    /// References of the audit record, as far as known.
    references: References,
    /// Messages that carried the call to a person's device.
    sent: SentMessages,
}

enum Admission {
    AskClient,
    Refused(CallRefusal),
    Admitted(AdmittedCall),
}

struct CallRefusal {
    by: String,
    failure: ExecutionFailure,
    approval: Option<ApprovalReference>,
}

/// An admitted call, and the changes (used grant, used approval) that are committed with its start.
struct AdmittedCall {
    tool: Arc<Tool>,
    allowed_by: Vec<String>,
    spends: Vec<Change>,
    references: References,
}

impl CallRefusal {
    fn new(by: impl Into<String>, failure: ExecutionFailure) -> Self {
        Self { by: by.into(), failure, approval: None }
    }

    fn by_policy(code: Code, message: impl Into<String>) -> Admission {
        Admission::Refused(Self::new("policy", ExecutionFailure { code, message: message.into() }))
    }
}

impl<'a> CallChain<'a> {
    fn new(calls: &'a Calls, mut call: ToolCallRequest<'a>) -> Self {
        let arguments = Value::Object(std::mem::take(&mut call.arguments));
        let digest = Digest::of_json(&arguments);
        let program_start = match &call.place {
            Some(ResultTarget::Execution(_)) => StartSignal::observed(),
            Some(ResultTarget::Message(_)) | None => StartSignal::default(),
        };
        let (references, sent) = Default::default();
        Self { calls, call, arguments, digest, asked_at: calls.runtime.now(), program_start, references, sent }
    }

    /// Runs every check before the tool itself, in the order of the chain.
    async fn admit(&self) -> Result<Admission, EngineError> {
        let call = &self.call;
        let agent = &call.served.agent;
        // Device tools exist only for callers with a person.
        let reaches = |tool: &&Arc<Tool>| call.offered && (!tool.on_device() || call.caller.person.is_some());
        let Some(tool) = agent.tool(call.tool.as_str()).filter(reaches) else {
            return Ok(CallRefusal::by_policy(Code::ToolNotFound, format!("Tool not found: {}", call.tool)));
        };
        if let Decision::Deny(_) = decide(&self.facts(tool, &self.check_scope(tool).0, None)) {
            return Ok(Admission::Refused(ungranted(tool)));
        }
        if let Err(faults) = tool.input.check(&self.arguments) {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            return Ok(CallRefusal::by_policy(
                Code::InvalidArguments,
                format!("Invalid arguments: {}", faults.join("; ")),
            ));
        }
        if let ClientDecision::No { reason } = &call.client {
            let failure = ExecutionFailure { code: Code::Denied, message: denial(reason.as_deref()) };
            return Ok(Admission::Refused(CallRefusal::new("client", failure)));
        }

        let mut permit: Option<Box<ApprovalPermit>> = None;
        let (check, rule) = loop {
            // Checked again after each wait, because the grant may have been revoked.
            let (check, rule) = self.check_scope(tool);
            let approved_by = permit.as_ref().map(|permit| &permit.by);
            match decide(&self.facts(tool, &check, approved_by)) {
                Decision::Allow => break (check, rule),
                Decision::Deny(_) => return Ok(Admission::Refused(ungranted(tool))),
                Decision::Ask(Approver::Client) => return Ok(Admission::AskClient),
                Decision::Ask(_) if permit.is_some() => {
                    return Ok(CallRefusal::by_policy(Code::Denied, denial(Some("nobody else has approved it"))));
                }
                // Boxed, so that the futures of other calls stay small.
                Decision::Ask(approver) => match Box::pin(self.ask(tool, approver)).await? {
                    ApprovalReply::Yes(given) => permit = Some(given),
                    ApprovalReply::No { by, failure, approval } => {
                        return Ok(Admission::Refused(CallRefusal { by, failure, approval }));
                    }
                },
            }
        };

        let mut allowed_by = Vec::new();
        if call.client == ClientDecision::Yes {
            allowed_by.push("client".to_owned());
        }
        allowed_by.extend(permit.iter().map(|permit| permit.by.to_string()));
        if allowed_by.is_empty() {
            allowed_by.push("policy".to_owned());
        }
        let approval = permit.as_ref().map(|permit| permit.approval.clone());
        let references = References { approval, messages: Vec::new(), rule };
        let mut spends = Vec::new();
        if let ScopeCheck::Once(grant) = check {
            spends.push(Change::UseGrant(grant));
        }
        if let Some(permit) = permit {
            spends.push(permit.redeemed);
        }
        Ok(Admission::Admitted(AdmittedCall { tool: Arc::clone(tool), allowed_by, spends, references }))
    }

    fn facts<'b>(&'b self, tool: &Tool, check: &ScopeCheck, approved_by: Option<&'b Principal>) -> PolicyFacts<'b> {
        let scope = tool.scope.as_ref().and_then(|id| self.call.served.agent.scope(id));
        PolicyFacts {
            caller: &self.call.caller.principal,
            speaks_for_person: self.call.caller.speaks_for_person(),
            granted: *check != ScopeCheck::Denied,
            sensitivity: scope.map(|scope| scope.sensitivity),
            human_authorization: tool.human_authorization,
            client: self.client_consent(),
            approved_by,
            linked_person: self.call.caller.person.as_ref(),
            on_device: tool.on_device(),
        }
    }

    fn client_consent(&self) -> ClientConsent {
        match self.call.client {
            ClientDecision::NotAsked => ClientConsent::NotNeeded,
            ClientDecision::Trusts => ClientConsent::Trusted,
            ClientDecision::AskFirst => ClientConsent::Unasked,
            // A denial was handled before.
            ClientDecision::Yes | ClientDecision::No { .. } => ClientConsent::Granted,
        }
    }

    async fn ask(&self, tool: &Tool, approver: Approver) -> Result<ApprovalReply, EngineError> {
        self.calls.ensure_committed(self.call.entry).await?;
        let call = &self.call;
        let question = ApprovalQuestion {
            call: call.id.clone(),
            arguments_digest: self.digest,
            arguments: self.arguments.clone(),
            caller: call.caller.principal.clone(),
            agent: call.served.agent.name.clone(),
            tool: tool.name.clone(),
            scope: tool.scope.clone(),
            session: call.turn.as_ref().map(|(session, _)| session.clone()),
        };
        self.calls.approvals.ask(question, approver, call.deadline, call.cancel).await
    }

    /// Runs an admitted call. Its start is stored before it begins, its end before it is reported.
    async fn run(mut self, admitted: AdmittedCall) -> Result<FinishedCall, EngineError> {
        let AdmittedCall { tool, allowed_by, spends, references } = admitted;
        self.references = references;
        let pass = match self.pass(&tool).await? {
            Ok(pass) => pass,
            Err(failure) => {
                return self.finish(None, AuditDecision::Allowed { by: allowed_by }, None, Err(failure)).await;
            }
        };

        let started_at = self.calls.runtime.now();
        let key = match self.begin(&tool, &allowed_by, spends, started_at).await? {
            Ok(key) => key,
            Err(refusal) => return self.refuse(refusal).await,
        };
        if let Some(began) = self.call.began {
            began(started_at);
        }

        let deadline = self.call.deadline.min(started_at.after(tool.call_time()));
        // From here on only their digest is used.
        let arguments = std::mem::take(&mut self.arguments);
        let result = self.run_until(&tool, arguments, deadline).await?;
        // Release the slot before the end is stored.
        drop(pass);
        if result.is_ok() {
            self.call.served.record_latency(&tool.name, started_at.until(self.calls.runtime.now()));
        }
        self.finish(key, AuditDecision::Allowed { by: allowed_by }, Some((&tool, started_at)), result).await
    }

    /// Waits for a free slot of the tool. Human work and fixed answers need no slot.
    async fn pass(&self, tool: &Tool) -> Result<Result<Option<OwnedSemaphorePermit>, ExecutionFailure>, EngineError> {
        if self.call.cancel.is_cancelled() {
            return Ok(Err(cancelled()));
        }
        if matches!(tool.run, Run::Human(_) | Run::Answer(_)) {
            return Ok(Ok(None));
        }
        let gate = self.call.served.gate(&tool.name);
        if let Ok(pass) = Arc::clone(&gate).try_acquire_owned() {
            return Ok(Ok(Some(pass)));
        }
        self.calls.ensure_committed(self.call.entry).await?;
        tokio::select! {
            biased;
            () = self.call.cancel.cancelled() => Ok(Err(cancelled())),
            pass = gate.acquire_owned() => Ok(Ok(Some(pass.expect("gates are never closed")))),
            () = self.calls.runtime.clock().sleep_until(self.call.deadline) => {
                let message = format!("Tool execution failed: too many calls of {} at once", tool.name);
                Ok(Err(ExecutionFailure { code: Code::ToolBusy, message }))
            }
        }
    }

    /// The change that stores the start of the call: in its execution, or as a started call under its own key.
    fn start(&self, tool: &Tool, allowed_by: &[String], at: Timestamp) -> (Option<String>, Change) {
        if let Some(ResultTarget::Execution(place)) = &self.call.place {
            let warrant = CallAuthorization {
                at: self.asked_at,
                by: allowed_by.to_vec(),
                scope: tool.scope.clone(),
                // Human work counts as started once it is in the inbox.
                started: matches!(tool.run, Run::Human(_)),
                references: self.references.clone(),
            };
            let (id, owner) = (place.execution.clone(), self.calls.runtime.process().to_owned());
            let start = Change::StartExecution { id, owner, attempt: place.attempt, at, call: Some(warrant) };
            return (None, start);
        }
        let key = random_name(self.calls.runtime.entropy(), "call_");
        let decision = AuditDecision::Allowed { by: allowed_by.to_vec() };
        let record = self.record(Some(tool), decision, AuditOutcome::NotRun, Some(at), at);
        let start = Change::StartCall { key: key.clone(), record, place: self.call.place.clone() };
        (Some(key), start)
    }

    /// Commits the start together with the grant and approval it uses. If another call used the grant first, looks for
    /// another grant.
    async fn begin(
        &mut self,
        tool: &Tool,
        allowed_by: &[String],
        mut spends: Vec<Change>,
        at: Timestamp,
    ) -> Result<Result<Option<String>, CallRefusal>, EngineError> {
        // Most calls use no grant or approval and need no retry.
        if spends.is_empty() {
            let (key, start) = self.start(tool, allowed_by, at);
            self.calls.commit_with_insert(self.call.entry, vec![start]).await?;
            return Ok(Ok(key));
        }
        loop {
            let (key, start) = self.start(tool, allowed_by, at);
            let changes = spends.iter().cloned().chain([start]).collect();
            match self.calls.commit_with_insert(self.call.entry, changes).await {
                Err(StoreError::Conflict(Conflict::GrantUsed)) => {
                    for grant in used_grants(&spends) {
                        self.calls.access.forget_used_grant(&grant).await;
                    }
                    spends.retain(|change| !matches!(change, Change::UseGrant(_)));
                    let (check, rule) = self.check_scope(tool);
                    self.references.rule = rule;
                    match check {
                        ScopeCheck::Lasting => {}
                        ScopeCheck::Once(grant) => spends.push(Change::UseGrant(grant)),
                        ScopeCheck::Denied => return Ok(Err(ungranted(tool))),
                    }
                }
                Err(StoreError::Conflict(Conflict::ApprovalMoved)) => {
                    let failure = ExecutionFailure {
                        code: Code::ApprovalClosed,
                        message: denial(Some("the approval was already used")),
                    };
                    return Ok(Err(CallRefusal::new("policy", failure)));
                }
                other => {
                    other?;
                    for grant in used_grants(&spends) {
                        self.calls.access.forget_used_grant(&grant).await;
                    }
                    return Ok(Ok(key));
                }
            }
        }
    }

    /// Checks the tool's scope for the caller now.
    fn check_scope(&self, tool: &Tool) -> (ScopeCheck, Option<PermissionSource>) {
        tool.scope.as_ref().map_or((ScopeCheck::Lasting, Some(PermissionSource::NoScope)), |scope| {
            match tool.on_device() {
                true => self.calls.access.check_device_scope(self.call.caller, &self.call.served.agent.name, scope),
                false => {
                    let agent = &self.call.served.agent.name;
                    self.calls.access.table.check_scope_by_rule(
                        self.call.caller,
                        agent,
                        scope,
                        self.calls.runtime.now(),
                    )
                }
            }
        })
    }

    /// Runs the tool. Human work that is open when the server stops has no outcome yet and resumes at the next start.
    async fn run_until(
        &self,
        tool: &Arc<Tool>,
        arguments: Value,
        deadline: Timestamp,
    ) -> Result<Result<ToolOutput, ExecutionFailure>, EngineError> {
        let result = match &tool.run {
            // Boxed, so that the futures of other calls stay small.
            Run::Human(run) => Box::pin(self.run_by_person(tool, run, &arguments, deadline)).await?,
            _ => self.run_by_machine(tool, arguments, deadline).await,
        };
        Ok(result.and_then(|output| output::check(tool, &output).map(|()| output)))
    }

    /// Creates an inbox task and waits for its result.
    async fn run_by_person(
        &self,
        tool: &Arc<Tool>,
        run: &HumanRun,
        arguments: &Value,
        due: Timestamp,
    ) -> Result<Result<ToolOutput, ExecutionFailure>, EngineError> {
        let call = &self.call;
        let execution = match &call.place {
            Some(ResultTarget::Execution(place)) => Some(place.execution.clone()),
            Some(ResultTarget::Message(_)) | None => None,
        };
        let work = HumanWork {
            agent: &call.served.agent.name,
            tool,
            run,
            arguments,
            asked_by: &call.caller.principal,
            call: &call.id,
            execution,
            due,
        };
        self.calls.inbox.run_by_person(work, call.cancel).await
    }

    async fn run_by_machine(
        &self,
        tool: &Arc<Tool>,
        arguments: Value,
        deadline: Timestamp,
    ) -> Result<ToolOutput, ExecutionFailure> {
        let call = &self.call;
        let Value::Object(arguments) = arguments else {
            unreachable!("the arguments were made from a map");
        };
        let trace = self.trace();
        let run = self.calls.runner.run(RunCall {
            agent: Arc::clone(&call.served.agent),
            tool: Arc::clone(tool),
            id: call.id.clone(),
            arguments,
            caller: call.caller.principal.clone(),
            person: call.caller.person.clone(),
            deadline,
            trace,
            program_start: self.program_start.clone(),
            sent: self.sent.clone(),
        });
        if call.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let output = tokio::select! {
            // In this order a tool that answers at once needs no timer and no waker.
            biased;
            output = run => output.map_err(|error| ExecutionFailure {
                code: error.code(),
                message: format!("Tool execution failed: {error}"),
            })?,
            () = call.cancel.cancelled() => return Err(cancelled()),
            () = async { self.calls.runtime.clock().sleep_until(deadline).await } => {
                let message = "Tool execution failed: it took longer than its time limit".to_owned();
                return Err(ExecutionFailure { code: Code::ToolTimeout, message });
            }
            never = self.record_program_start() => match never {},
        };
        Ok(output)
    }

    /// Stores that the program of the execution started, concurrently with the run.
    async fn record_program_start(&self) -> Infallible {
        let Some(ResultTarget::Execution(place)) = &self.call.place else { return std::future::pending().await };
        self.program_start.reported().await;
        self.calls.mark_started(&place.execution, place.attempt).await;
        std::future::pending().await
    }

    /// Identifiers that are forwarded to the tool.
    fn trace(&self) -> BTreeMap<&'static str, String> {
        let call = &self.call;
        let mut trace = BTreeMap::new();
        trace.extend(call.caller.request.clone().map(|id| ("request_id", id)));
        trace.extend(call.trace.trace_id.clone().map(|id| ("trace_id", id)));
        trace.extend(call.trace.traceparent.clone().map(|context| ("traceparent", context)));
        if let Some(ResultTarget::Execution(place)) = &call.place {
            trace.insert("execution_id", place.execution.to_string());
            trace.insert("attempt", place.attempt.to_string());
        }
        trace
    }

    async fn refuse(mut self, refusal: CallRefusal) -> Result<FinishedCall, EngineError> {
        self.references = References { approval: refusal.approval, ..References::default() };
        let decision = AuditDecision::Refused { by: refusal.by, code: refusal.failure.code };
        self.finish(None, decision, None, Err(refusal.failure)).await
    }

    /// Commits the end of the call: its audit record and its result in the history or execution.
    async fn finish(
        &self,
        started: Option<String>,
        decision: AuditDecision,
        ran: Option<(&Tool, Timestamp)>,
        result: Result<ToolOutput, ExecutionFailure>,
    ) -> Result<FinishedCall, EngineError> {
        let outcome = match &result {
            Ok(_) => AuditOutcome::Completed,
            Err(failure) if ran.is_some() => AuditOutcome::Failed { code: failure.code },
            Err(_) => AuditOutcome::NotRun,
        };
        let at = self.calls.runtime.now();
        let stops = self.calls.runtime.closed().is_cancelled();
        let end = match &self.call.place {
            Some(ResultTarget::Execution(place)) => attempt::ending(place, &result, at >= self.call.deadline, stops),
            Some(ResultTarget::Message(_)) | None => None,
        };
        let ended = FinishedCall { result, end, at };
        let tool = self.call.served.agent.tool(self.call.tool.as_str()).map(|tool| &**tool);
        let started_at = ran.map(|(_, at)| at);
        let audit = |decision| Change::Audit(self.record(tool, decision, outcome.clone(), started_at, at));
        let record = self.record(tool, decision.clone(), outcome.clone(), started_at, at);
        self.calls.runtime.meter().call_ended(&record, tool.is_some());
        self.calls.ensure_committed(self.call.entry).await?;

        let finish_call = || started.clone().map(Change::FinishCall);
        let without_result = || [audit(decision.clone())].into_iter().chain(finish_call()).collect();
        let mut changes = vec![Change::Audit(record)];
        let mut failures = STORE_AGAIN.start();
        loop {
            changes.extend(self.result_changes(&ended, ran.is_some(), stops));
            changes.extend(finish_call());
            match self.calls.records.record_end(std::mem::take(&mut changes), without_result).await {
                // The tool has run: only the commit is repeated, never the tool. After a restart the call counts as
                // interrupted.
                Err(error) if error.code == Code::StoreUnavailable && ran.is_some() && self.is_execution() => {
                    tracing::error!(%error, call = %self.call.id, "the end of a call is not on disk yet; it is stored again");
                    tokio::select! {
                        () = self.calls.runtime.clock().sleep_until(self.calls.runtime.now().after(failures.next_delay())) => {}
                        () = self.calls.runtime.closed().cancelled() => return Err(error),
                    }
                    changes.push(audit(decision.clone()));
                }
                other => {
                    other?;
                    return Ok(ended);
                }
            }
        }
    }

    fn is_execution(&self) -> bool {
        matches!(self.call.place, Some(ResultTarget::Execution(_)))
    }

    /// Changes that store the result of the call in the history or execution. `ran` is false for a call that ended
    /// before its start was stored.
    fn result_changes(&self, ended: &FinishedCall, ran: bool, stops: bool) -> Vec<Change> {
        match (&self.call.place, &ended.end) {
            (None, _) => Vec::new(),
            (Some(ResultTarget::Message(place)), _) => vec![Change::AppendMessage {
                session: place.session.clone(),
                turn: place.turn,
                number: place.number,
                message: Message::tool(place.call.clone(), ended.content()),
            }],
            (Some(ResultTarget::Execution(place)), Some(state)) => {
                let attempt = if ran { place.attempt } else { place.attempt - 1 };
                self.calls.end_of_execution(place, attempt, state.clone(), ended.at)
            }
            (Some(ResultTarget::Execution(place)), None) if ran => vec![Change::FinishAttempt {
                id: place.execution.clone(),
                owner: self.calls.runtime.process().to_owned(),
                attempt: place.attempt,
                // An unavailable backend used an attempt; a server stop before the program started did not.
                started: !stops || self.program_start.is_reported(),
            }],
            (Some(ResultTarget::Execution(_)), None) => Vec::new(),
        }
    }

    fn record(
        &self,
        tool: Option<&Tool>,
        decision: AuditDecision,
        outcome: AuditOutcome,
        started_at: Option<Timestamp>,
        ended_at: Timestamp,
    ) -> AuditRecord {
        let call = &self.call;
        AuditRecord {
            caller: call.caller.principal.clone(),
            protocol: call.protocol,
            references: References { messages: self.sent.list(), ..self.references.clone() },
            agent: call.served.agent.name.clone(),
            tool: call.tool.clone(),
            scope: tool.and_then(|tool| tool.scope.clone()),
            call: call.id.clone(),
            session: call.turn.as_ref().map(|(session, _)| session.clone()),
            turn: call.turn.as_ref().map(|(_, number)| *number),
            request: call.caller.request.clone(),
            arguments_digest: self.digest,
            decision,
            outcome,
            asked_at: self.asked_at,
            started_at,
            ended_at,
        }
    }
}

fn used_grants(spends: &[Change]) -> Vec<GrantId> {
    let grant = |change: &Change| match change {
        Change::UseGrant(grant) => Some(grant.clone()),
        _ => None,
    };
    spends.iter().filter_map(grant).collect()
}

fn ungranted(tool: &Tool) -> CallRefusal {
    let scope = tool.scope.as_ref().map(ToString::to_string).unwrap_or_default();
    let message = denial(Some(&format!("the scope {scope} has not been granted")));
    CallRefusal::new("policy", ExecutionFailure { code: Code::ScopeNotGranted, message })
}

pub(crate) fn cancelled() -> ExecutionFailure {
    let message = "Tool execution failed: it was cancelled and may or may not have had an effect".to_owned();
    ExecutionFailure { code: Code::Cancelled, message }
}

pub(crate) fn cancelled_unbegun() -> ExecutionFailure {
    ExecutionFailure { code: Code::Cancelled, message: "it was cancelled before it began".to_owned() }
}
