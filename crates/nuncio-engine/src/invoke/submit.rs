//! Taking a request in: who may, whether it fits, whether there is room; then it is on disk.

use std::sync::{Arc, Weak};
use std::time::Duration;

use nuncio_core::Code;
use nuncio_core::execution::{AcceptedInvocation, Execution, ExecutionLease, Priority, TraceIds};
use nuncio_core::ids::ExecutionId;
use nuncio_core::policy::Protocol;
use nuncio_core::schema::SchemaViolation;
use nuncio_core::time::Timestamp;
use serde_json::{Map, Value};
use url::Url;

use super::agent;
use super::entry::{Answered, Entry, Tell};
use super::queue::{Full, Live};
use crate::Engine;
use crate::access::{Caller, Credential};
use crate::converse::Idempotency;
use crate::error::EngineError;
use crate::ports::entropy::timed_name;
use crate::ports::store::{Conflict, StoreError};
use crate::skills::{Barred, Offered};

/// A wish to have a skill executed.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// Which skill.
    pub skill: String,
    /// By which protocol it came.
    pub protocol: Protocol,
    /// With what.
    pub inputs: Map<String, Value>,
    /// How urgent it is.
    pub priority: Priority,
    /// How long the caller is ready to wait.
    pub timeout: Option<Duration>,
    /// Identifiers to pass on.
    pub trace: TraceIds,
    /// Who wants to be told when it is over.
    pub callback: Option<Url>,
    /// What makes a repeated request the same execution.
    pub idempotency: Option<Idempotency>,
}

/// An execution that is accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// The execution, as it was when the request was answered.
    pub execution: Execution,
    /// Whether the same request came before.
    pub again: bool,
}

/// Why a request was not accepted. Nothing has changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// The caller may not.
    Barred(Barred),
    /// The inputs do not fit.
    Inputs(Vec<SchemaViolation>),
    /// There is no room.
    Full(Full),
    /// Something else.
    Engine(EngineError),
}

impl<E: Into<EngineError>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Engine(error.into())
    }
}

impl Engine {
    /// Accepts an execution: when this returns it is on disk, and will come to an end.
    ///
    /// # Errors
    /// It was not accepted, and why.
    pub async fn submit(&self, caller: &Caller, submission: Submission) -> Result<Submitted, Refusal> {
        self.submit_and_wait(caller, submission, None).await
    }

    /// The same, for one who waits until it is over or that time has come: the execution is as it is then.
    ///
    /// # Errors
    /// It was not accepted, and why.
    pub async fn submit_until(
        &self,
        caller: &Caller,
        submission: Submission,
        until: Timestamp,
    ) -> Result<Submitted, Refusal> {
        let submitted = self.submit_and_wait(caller, submission, Some(until)).await?;
        if !submitted.again {
            return Ok(submitted);
        }
        let execution = self.execution_until(caller, submitted.execution.id.as_str(), until).await?;
        Ok(Submitted { execution, again: true })
    }

    async fn submit_and_wait(
        &self,
        caller: &Caller,
        submission: Submission,
        until: Option<Timestamp>,
    ) -> Result<Submitted, Refusal> {
        let offered = self.skill(Some(caller), &submission.skill).ok_or(Refusal::Barred(Barred::NotFound))?;
        self.may_use(caller, &offered).map_err(Refusal::Barred)?;
        if self.is_closing() {
            let message = "the server is stopping; try again in a moment";
            return Err(Refusal::Engine(EngineError::new(Code::ShuttingDown, message)));
        }
        if let Some(before) = self.submitted_before(caller, &offered, submission.idempotency.as_ref()).await? {
            return Ok(before);
        }
        self.check_quota(caller).await?;
        let idempotency = submission.idempotency.clone();
        let order = self.order(caller, &offered, submission)?;
        let id = ExecutionId::parse(&timed_name(self.entropy(), "exe_", self.now())).map_err(EngineError::from)?;
        let execution = Execution::accepted(id, order);
        let (who, skill) = (&execution.order.caller, &execution.order.skill);

        self.queue().reserve(who, skill).map_err(Refusal::Full)?;
        match self.accept(execution, Arc::clone(&offered), idempotency.clone(), until).await {
            Ok(execution) => Ok(Submitted { execution, again: false }),
            // The same request came twice at once, and the other was first.
            Err(StoreError::Conflict(Conflict::Exists)) if idempotency.is_some() => {
                let before = self.submitted_before(caller, &offered, idempotency.as_ref()).await?;
                before.ok_or_else(|| EngineError::new(Code::Internal, "the execution id was taken").into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gets it on disk and going. A caller who hangs up meanwhile changes nothing: what is on disk runs.
    /// Whoever waits until some time gets it as it is then, others as it was accepted.
    async fn accept(
        &self,
        execution: Execution,
        offered: Arc<Offered>,
        idempotency: Option<Idempotency>,
        until: Option<Timestamp>,
    ) -> Result<Execution, StoreError> {
        let tell = if until.is_some() { Tell::WhenOver } else { Tell::AtOnce };
        let live = Live::new(execution.clone(), Some(offered), self.closed());
        self.queue().announce(&live);
        let (entry, accepted) = Entry::new(execution.clone(), self.lease(), idempotency, tell);
        let entry = Arc::new(entry);
        let told_by = Arc::downgrade(&entry);
        self.tasks().spawn(self.clone().take_in(Arc::clone(&live), entry));
        match until {
            None => accepted.await.unwrap_or_else(|_| given_up()).map(|()| execution),
            Some(until) => self.waited(&live, &told_by, accepted, until).await.map(|()| live.now()),
        }
    }

    /// The task of its own in which it gets on disk and, if there is a place, runs.
    async fn take_in(self, live: Arc<Live>, entry: Arc<Entry>) {
        let ready = if self.queue().enter_at_once(&live) {
            let ready = self.run_one(&live, Some(&entry)).await;
            entry.tell();
            ready
        } else if self.settle(Some(&entry)).await.is_ok() {
            entry.tell();
            self.queue().enter(&live)
        } else {
            return self.queue().give_up(&live);
        };
        // Mostly nobody waited for its place; then there is nothing to make room for.
        if !ready.is_empty() {
            self.run_here(ready).await;
        }
    }

    /// Waits until it is over, or that time has come and it is on disk.
    async fn waited(
        &self,
        live: &Live,
        entry: &Weak<Entry>,
        mut accepted: Answered,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let told = tokio::select! {
            biased;
            told = &mut accepted => told,
            () = self.no_longer(until) => {
                // Gone with its task, it tells that too.
                entry.upgrade().inspect(|entry| entry.tell());
                return accepted.await.unwrap_or_else(|_| given_up());
            }
        };
        told.unwrap_or_else(|_| given_up())?;
        self.until_over(live, until).await;
        Ok(())
    }

    /// What the same request made before; an error if its body was another.
    async fn submitted_before(
        &self,
        caller: &Caller,
        offered: &Offered,
        idempotency: Option<&Idempotency>,
    ) -> Result<Option<Submitted>, EngineError> {
        let Some(idempotency) = idempotency else { return Ok(None) };
        let skill = &offered.skill().id;
        let found = self.store().execution_by_key(&caller.principal, skill, &idempotency.key).await?;
        let Some((id, body)) = found else { return Ok(None) };
        let execution = match self.execution(caller, id.as_str()).await {
            // It was kept long enough, and its key goes with it.
            Err(error) if error.code == Code::ExecutionNotFound => {
                self.forget_executions(self.now()).await?;
                return Ok(None);
            }
            found => found?,
        };
        if body != idempotency.body {
            let message = "this Idempotency-Key came before with another body; use a new key for a new request";
            return Err(EngineError::new(Code::IdempotencyMismatch, message));
        }
        Ok(Some(Submitted { execution, again: true }))
    }

    /// The order, checked against the skill and with its defaults filled in.
    fn order(&self, caller: &Caller, offered: &Offered, submission: Submission) -> Result<AcceptedInvocation, Refusal> {
        let skill = offered.skill();
        let inputs = match &offered.tool {
            Some(tool) => {
                let inputs = with_defaults(tool.input.source(), submission.inputs);
                let inputs = Value::Object(inputs);
                tool.input.check(&inputs).map_err(Refusal::Inputs)?;
                let Value::Object(inputs) = inputs else { unreachable!("it was made from a map") };
                inputs
            }
            None => agent::check_inputs(submission.inputs).map_err(Refusal::Inputs)?,
        };
        let limits = self.queue().limits();
        let timeout = self.execution_timeout(offered);
        let timeout = submission.timeout.map_or(timeout, |asked| asked.min(timeout));
        let scopes = match &caller.credential {
            Credential::Token { scopes, .. } => scopes.to_vec(),
            _ => Vec::new(),
        };
        Ok(AcceptedInvocation {
            skill: skill.id.clone(),
            version: skill.version,
            agent: offered.served.agent.name.clone(),
            target: offered.target(),
            caller: caller.principal.clone(),
            person: caller.person.clone(),
            scopes,
            protocol: submission.protocol,
            request: caller.request.clone(),
            inputs,
            priority: submission.priority,
            trace: submission.trace,
            callback: submission.callback,
            created_at: self.now(),
            timeout_ms: millis(timeout),
            keep_ms: millis(skill.retention.unwrap_or(limits.keep)),
        })
    }

    pub(crate) fn lease(&self) -> ExecutionLease {
        ExecutionLease { owner: self.process().to_owned(), until: self.now().after(LEASE) }
    }
}

fn given_up() -> Result<(), StoreError> {
    Err(StoreError::Unavailable("the request was given up".to_owned()))
}

/// How long a process that has died keeps what it held.
pub(super) const LEASE: Duration = Duration::from_secs(30);

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Inputs that were left out and have a default get it.
fn with_defaults(schema: &Value, mut inputs: Map<String, Value>) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let Some(default) = property.get("default").filter(|_| !inputs.contains_key(name)) {
            inputs.insert(name.clone(), default.clone());
        }
    }
    inputs
}
