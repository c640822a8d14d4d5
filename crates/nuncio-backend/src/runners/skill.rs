//! Tools that are skills of other hosts.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::agent::{SkillCredential, SkillRun};
use nuncio_core::template::{EscapeContext, Template};
use nuncio_engine::ports::runner::{RunCall, RunError, ToolOutput};
use nuncio_engine::ports::{Clock, Entropy, Fetch};
use nuncio_skill::client::{
    Call, Consumer, ConsumerError, Credential, Execution, FailureCode, Options, Reason, Secret, Target,
};
use nuncio_skill::wire::{ErrorCode, InvocationContext};
use serde_json::json;

use super::secrets::Secrets;

/// How long the other side may take to hear that it should stop.
const FAREWELL: Duration = Duration::from_secs(10);

/// The skills of other hosts. Tokens they were given are remembered while the server runs.
#[derive(Debug)]
pub(super) struct Skills {
    consumer: Consumer,
    clock: Arc<dyn Clock>,
}

impl Skills {
    pub(super) fn new(fetch: Arc<dyn Fetch>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        let consumer = Consumer::new(fetch, Arc::clone(&clock), entropy, Options::default());
        Self { consumer, clock }
    }

    /// Has a skill done. Whoever drops this before it is over has it stopped there too, if they still can.
    pub(super) async fn run(&self, secrets: &Secrets, run: &SkillRun, call: &RunCall) -> Result<ToolOutput, RunError> {
        let failed = |error: ConsumerError| failure(secrets, &error);
        let target = Target::parse(&run.target).map_err(failed)?;
        let credential = credential(secrets, run).map_err(|why| RunError::Failed(secrets.redact(&why)))?;
        let described = self.consumer.describe(&target, &credential).await.map_err(failed)?;
        let request = self.request(credential, call);
        let mut watch = Watch { execution: None, consumer: &self.consumer };
        call.program_start.report();
        let submitted = self.consumer.submit(&described, &request).await.map_err(failed)?;
        let outcome = self.consumer.follow(watch.execution.insert(submitted)).await;
        if outcome.as_ref().err().is_none_or(|error| error.reason != Reason::GaveUp) {
            watch.execution = None;
        }
        outcome.map(ToolOutput::json).map_err(failed)
    }

    fn request(&self, credential: Credential, call: &RunCall) -> Call {
        let left = self.clock.now().until(call.deadline);
        let said = |name: &str| call.trace.get(name).cloned();
        let context = InvocationContext {
            trace_id: said("trace_id"),
            timeout_ms: Some(left.max(Duration::from_millis(1)).into()),
            ..InvocationContext::default()
        };
        // Each attempt of ours is an execution of its own there; what is sent twice in one attempt is one.
        let idempotency_key = said("execution_id").map(|execution| {
            let attempt = said("attempt").unwrap_or_default();
            format!("{execution}-{attempt}-{}", call.id)
        });
        let (inputs, traceparent) = (call.arguments.clone(), said("traceparent"));
        Call { inputs, credential, context, idempotency_key, traceparent, ..Call::default() }
    }
}

/// An execution that is cancelled when nobody waits for it any more.
struct Watch<'a> {
    execution: Option<Execution>,
    consumer: &'a Consumer,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let Some(execution) = self.execution.take().filter(|execution| !execution.status().is_terminal()) else {
            return;
        };
        let consumer = self.consumer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                match tokio::time::timeout(FAREWELL, consumer.cancel(&execution)).await {
                    Ok(Ok(())) => tracing::debug!(execution = execution.id(), "the other host was told to stop"),
                    Ok(Err(error)) => tracing::warn!(execution = execution.id(), %error, "it may go on elsewhere"),
                    Err(_) => tracing::warn!(execution = execution.id(), "it may go on elsewhere"),
                }
            });
        }
    }
}

/// Checks, before the tool is served, what can be known about it.
pub(super) fn check(run: &SkillRun) -> Result<(), String> {
    match Target::parse(&run.target).map_err(|error| error.to_string())? {
        Target::Host(_) => Err(format!("{:?} names a host and no skill", run.target)),
        Target::Skill { .. } | Target::Descriptor(_) => Ok(()),
    }
}

fn credential(secrets: &Secrets, run: &SkillRun) -> Result<Credential, String> {
    let filled = |template: &Template| {
        let context = json!({"secrets": secrets});
        let text = template.render(EscapeContext::Line, &context);
        text.map_err(|error| format!("the credential cannot be filled in: {error}"))
    };
    Ok(match &run.credential {
        None => Credential::None,
        Some(SkillCredential::ApiKey(key)) => Credential::ApiKey(Secret::new(filled(key)?)),
        Some(SkillCredential::Token(token)) => Credential::Token(Secret::new(filled(token)?)),
        Some(SkillCredential::Signature(key)) => Credential::Signature(Secret::new(filled(key)?)),
        Some(SkillCredential::Client { id, secret }) => {
            Credential::Client { id: filled(id)?, secret: Secret::new(filled(secret)?), scopes: Vec::new() }
        }
    })
}

fn failure(secrets: &Secrets, error: &ConsumerError) -> RunError {
    let said = secrets.redact(&format!("{}: {}", error.code, error.message));
    match (error.reason, error.code) {
        (Reason::Unreachable | Reason::TooSlow, _) => RunError::Unavailable(said),
        (Reason::Answered, FailureCode::Protocol(ErrorCode::EndpointUnreachable)) => RunError::Unavailable(said),
        _ => RunError::Failed(said),
    }
}
