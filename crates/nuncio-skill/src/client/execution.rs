//! State of an execution at another host, as reported by its provider.

use std::time::Duration;

use nuncio_core::schema::Schema;
use nuncio_core::time::Timestamp;
use serde_json::{Value, json};
use url::Url;

use super::credential::InvocationAuth;
use super::describe::ResolvedSkill;
use super::error::{ConsumerErrorReason, ConsumerFailureCode, SkillConsumerError, display_url, plain};
use super::target::UserNamedHost;
use crate::wire::{ExecutionStatus, InvocationResponse};

/// Limit on the bytes of an execution id.
const MAX_ID: usize = 512;

/// An execution at another host, with its last known state.
#[derive(Debug, Clone)]
pub struct RemoteExecution {
    response: InvocationResponse,
    status_url: Option<Url>,
    pub(super) result_url: Option<Url>,
    pub(super) endpoint: Url,
    pub(super) auth: InvocationAuth,
    pub(super) named_host: UserNamedHost,
    pub(super) deadline: Option<Timestamp>,
    /// Delay from the `Retry-After` header of the last response.
    pub(super) retry_after: Option<Duration>,
    output: Option<serde_json::Map<String, Value>>,
}

impl RemoteExecution {
    /// Creates the execution from the response to the invocation.
    pub(super) fn begin(
        described: &ResolvedSkill,
        auth: InvocationAuth,
        response: InvocationResponse,
        deadline: Option<Timestamp>,
    ) -> Result<Self, SkillConsumerError> {
        let (descriptor, endpoint) = (&described.descriptor, &described.endpoint);
        let id = response.execution_id.clone();
        if id.is_empty() || id.len() > MAX_ID {
            let message = format!("{} returned an execution id of {} bytes", display_url(endpoint), id.len());
            return Err(SkillConsumerError::new(ConsumerErrorReason::InvalidDocument, message));
        }
        if response.skill_id != descriptor.id {
            return Err(changed(endpoint, "skill", &descriptor.id, &response.skill_id).of(&id));
        }
        let parsed = |url: Option<String>| url.and_then(|url| Url::parse(&url).ok());
        let status_url = parsed(descriptor.endpoint.status_of(&id));
        if status_url.is_none() && !response.status.is_terminal() {
            let message =
                format!("{} accepted the request, but its descriptor has no status_url", display_url(endpoint));
            let error = SkillConsumerError::new(ConsumerErrorReason::NoStatusUrl, message).of(&id);
            return Err(error.advice("the provider must add a status_url to the descriptor; the outcome is unknown"));
        }
        Ok(Self {
            response,
            status_url,
            result_url: parsed(descriptor.endpoint.result_of(&id)),
            endpoint: endpoint.clone(),
            auth,
            named_host: described.named_host.clone(),
            deadline,
            retry_after: None,
            output: descriptor.output.schema.clone(),
        })
    }

    #[must_use]
    pub fn id(&self) -> &str {
        &self.response.execution_id
    }

    /// Status that the provider reported last.
    #[must_use]
    pub fn status(&self) -> ExecutionStatus {
        self.response.status
    }

    /// Last response of the provider about the execution.
    #[must_use]
    pub fn response(&self) -> &InvocationResponse {
        &self.response
    }

    #[must_use]
    pub fn status_url(&self) -> Option<&Url> {
        self.status_url.as_ref()
    }

    /// Applies a later response about the execution; fails if it contradicts the known state.
    pub(super) fn update(&mut self, url: &Url, response: InvocationResponse) -> Result<(), SkillConsumerError> {
        if response.execution_id != self.id() {
            return Err(changed(url, "execution", self.id(), &response.execution_id));
        }
        if response.skill_id != self.response.skill_id {
            return Err(changed(url, "skill", &self.response.skill_id, &response.skill_id));
        }
        let (before, now) = (self.status(), response.status);
        if rank(now) < rank(before) {
            let message =
                format!("{} reports {} after it had reported {}", display_url(url), now.as_str(), before.as_str());
            let error = SkillConsumerError::new(ConsumerErrorReason::Backwards, message);
            return Err(error.advice("an execution never returns to an earlier state; its result is unknown"));
        }
        self.response = response;
        Ok(())
    }

    /// Result of a finished execution, checked against the output schema; `None` while the execution runs.
    pub(super) fn outcome(&self) -> Option<Result<Value, SkillConsumerError>> {
        match self.status() {
            ExecutionStatus::Accepted | ExecutionStatus::Running => None,
            ExecutionStatus::Completed => Some(self.checked_output()),
            ExecutionStatus::Failed => Some(Err(self.failure(ConsumerErrorReason::Failed))),
            ExecutionStatus::Timeout => Some(Err(self.failure(ConsumerErrorReason::TimedOut))),
        }
    }

    fn checked_output(&self) -> Result<Value, SkillConsumerError> {
        let output = self.response.output.clone().unwrap_or_default();
        // An output schema that cannot be compiled was reported as a warning, so the output is not checked.
        let schema = self.output.clone().and_then(|schema| Schema::compile(Value::Object(schema)).ok());
        match schema.map(|schema| schema.check(&output)) {
            Some(Err(faults)) => {
                let found: Vec<_> = faults.iter().map(|fault| plain(&fault.to_string())).collect();
                let message = format!("the output is not what the descriptor promises: {}", found.join("; "));
                Err(SkillConsumerError::new(ConsumerErrorReason::BadOutput, message)
                    .details(json!({"faults": found}))
                    .of(self.id()))
            }
            _ => Ok(output),
        }
    }

    fn failure(&self, reason: ConsumerErrorReason) -> SkillConsumerError {
        let Some(error) = &self.response.error else {
            return SkillConsumerError::new(reason, "it failed, and the provider gave no reason").of(self.id());
        };
        let code = match reason {
            ConsumerErrorReason::TimedOut => {
                ConsumerFailureCode::Protocol(crate::wire::SkillErrorCode::InvocationTimeout)
            }
            _ => ConsumerFailureCode::read(&error.code),
        };
        let mut failure = SkillConsumerError::new(reason, plain(&error.message)).code(code).retry(error.retry.clone());
        if code == ConsumerFailureCode::ExecutionFailed && error.code != code.as_str() {
            failure = failure.advice(format!("the provider's error code is {}", plain(&error.code)));
        }
        if let Some(details) = &error.details {
            failure = failure.details(details.clone());
        }
        failure.of(self.id())
    }
}

fn rank(status: ExecutionStatus) -> u8 {
    match status {
        ExecutionStatus::Accepted => 0,
        ExecutionStatus::Running => 1,
        ExecutionStatus::Completed | ExecutionStatus::Failed | ExecutionStatus::Timeout => 2,
    }
}

fn changed(url: &Url, what: &str, expected: &str, found: &str) -> SkillConsumerError {
    let (expected, found) = (plain(expected), plain(found));
    let message = format!("{} returned the {what} {found:?}, but {expected:?} was requested", display_url(url));
    let error = SkillConsumerError::new(ConsumerErrorReason::Changed, message)
        .details(json!({"expected": expected, "actual": found}));
    error.advice("the answer does not match the request and is not used")
}
