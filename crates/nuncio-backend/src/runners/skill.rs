//! Tools that are skills of other hosts.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::agent::{SkillCredential, SkillRunSpec};
use nuncio_core::template::{EscapeContext, Template};
use nuncio_engine::ports::runner::{AuthorizedToolCall, ToolOutput, ToolRunError};
use nuncio_engine::ports::{Clock, Entropy, Fetch};
use nuncio_skill::client::{
    ConsumerErrorReason, ConsumerFailureCode, RemoteExecution, SecretString, SkillCall, SkillConsumer,
    SkillConsumerError, SkillConsumerOptions, SkillInvocationCredential, SkillTarget,
};
use nuncio_skill::wire::{InvocationContext, SkillErrorCode};
use serde_json::json;

use super::secrets::SecretValues;

/// Timeout of the cancellation request to the other host.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// Client for skills of other hosts. OAuth tokens are kept in memory.
#[derive(Debug)]
pub(super) struct SkillToolRunner {
    consumer: SkillConsumer,
    clock: Arc<dyn Clock>,
}

impl SkillToolRunner {
    pub(super) fn new(fetch: Arc<dyn Fetch>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        let consumer = SkillConsumer::new(fetch, Arc::clone(&clock), entropy, SkillConsumerOptions::default());
        Self { consumer, clock }
    }

    /// Invokes a skill. Dropping the future cancels the execution at the other host.
    pub(super) async fn run(
        &self,
        secrets: &SecretValues,
        run: &SkillRunSpec,
        call: &AuthorizedToolCall,
    ) -> Result<ToolOutput, ToolRunError> {
        let failed = |error: SkillConsumerError| failure(secrets, &error);
        let target = SkillTarget::parse(&run.target).map_err(failed)?;
        let credential = credential(secrets, run).map_err(|why| ToolRunError::Failed(secrets.redact(&why)))?;
        let described = self.consumer.describe(&target, &credential).await.map_err(failed)?;
        let request = self.request(credential, call);
        let mut watch = RemoteExecutionCancelGuard { execution: None, consumer: &self.consumer };
        call.program_start.report();
        let submitted = self.consumer.submit(&described, &request).await.map_err(failed)?;
        let outcome = self.consumer.follow(watch.execution.insert(submitted)).await;
        if outcome.as_ref().err().is_none_or(|error| error.reason != ConsumerErrorReason::GaveUp) {
            watch.execution = None;
        }
        outcome.map(ToolOutput::json).map_err(failed)
    }

    fn request(&self, credential: SkillInvocationCredential, call: &AuthorizedToolCall) -> SkillCall {
        let left = self.clock.now().until(call.deadline);
        let traced = |name: &str| call.trace.get(name).cloned();
        let context = InvocationContext {
            trace_id: traced("trace_id"),
            timeout_ms: Some(left.max(Duration::from_millis(1)).into()),
            ..InvocationContext::default()
        };
        // Each attempt is a separate execution at the other host; retries within one attempt share the key.
        let idempotency_key = traced("execution_id").map(|execution| {
            let attempt = traced("attempt").unwrap_or_default();
            format!("{execution}-{attempt}-{}", call.id)
        });
        let (inputs, traceparent) = (call.arguments.clone(), traced("traceparent"));
        SkillCall { inputs, credential, context, idempotency_key, traceparent, ..SkillCall::default() }
    }
}

/// Cancels an unfinished execution at the other host when dropped.
struct RemoteExecutionCancelGuard<'a> {
    execution: Option<RemoteExecution>,
    consumer: &'a SkillConsumer,
}

impl Drop for RemoteExecutionCancelGuard<'_> {
    fn drop(&mut self) {
        let Some(execution) = self.execution.take().filter(|execution| !execution.status().is_terminal()) else {
            return;
        };
        let consumer = self.consumer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                match tokio::time::timeout(CANCEL_TIMEOUT, consumer.cancel(&execution)).await {
                    Ok(Ok(())) => tracing::debug!(execution = execution.id(), "the execution at the other host was cancelled"),
                    Ok(Err(error)) => tracing::warn!(execution = execution.id(), %error, "the execution at the other host may still run"),
                    Err(_) => tracing::warn!(execution = execution.id(), "the execution at the other host may still run"),
                }
            });
        }
    }
}

/// Checks the declaration of a skill tool.
pub(super) fn check(run: &SkillRunSpec) -> Result<(), String> {
    match SkillTarget::parse(&run.target).map_err(|error| error.to_string())? {
        SkillTarget::Host(_) => Err(format!("{:?} is a host, not a skill", run.target)),
        SkillTarget::Skill { .. } | SkillTarget::Descriptor(_) => Ok(()),
    }
}

fn credential(secrets: &SecretValues, run: &SkillRunSpec) -> Result<SkillInvocationCredential, String> {
    let filled = |template: &Template| {
        let context = json!({"secrets": secrets});
        let text = template.render(EscapeContext::Line, &context);
        text.map_err(|error| format!("the credential cannot be filled in: {error}"))
    };
    Ok(match &run.credential {
        None => SkillInvocationCredential::None,
        Some(SkillCredential::ApiKey(key)) => SkillInvocationCredential::ApiKey(SecretString::new(filled(key)?)),
        Some(SkillCredential::Token(token)) => SkillInvocationCredential::Token(SecretString::new(filled(token)?)),
        Some(SkillCredential::Signature(key)) => SkillInvocationCredential::Signature(SecretString::new(filled(key)?)),
        Some(SkillCredential::Client { id, secret }) => SkillInvocationCredential::Client {
            id: filled(id)?,
            secret: SecretString::new(filled(secret)?),
            scopes: Vec::new(),
        },
    })
}

fn failure(secrets: &SecretValues, error: &SkillConsumerError) -> ToolRunError {
    let message = secrets.redact(&format!("{}: {}", error.code, error.message));
    match (error.reason, error.code) {
        (ConsumerErrorReason::Unreachable | ConsumerErrorReason::TooSlow, _) => ToolRunError::Unavailable(message),
        (ConsumerErrorReason::Answered, ConsumerFailureCode::Protocol(SkillErrorCode::EndpointUnreachable)) => {
            ToolRunError::Unavailable(message)
        }
        _ => ToolRunError::Failed(message),
    }
}
