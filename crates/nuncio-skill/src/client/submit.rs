//! Submits an invocation (§5.3).

use std::time::Duration;

use bytes::Bytes;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::entropy::random_name;
use nuncio_engine::ports::fetch::FetchResponse;
use serde_json::{Map, Value, json};
use url::Url;

use super::backoff::{RetryDelays, retry_after};
use super::credential::{InvocationAuth, SkillInvocationCredential};
use super::describe::ResolvedSkill;
use super::error::{ConsumerErrorReason, SkillConsumerError, plain};
use super::exchange::{OutgoingRequest, valid};
use super::execution::RemoteExecution;
use super::target::UserNamedHost;
use super::{InvocationProgress, SkillConsumer, inputs};
use crate::validate::{WireDocument as _, pretty};
use crate::wire::{Caller, InvocationContext, InvocationRequest, InvocationResponse, SkillDescriptor, SkillHttpMethod};

/// Length limit of a request URL with inputs, in bytes; many proxies refuse longer ones.
const MAX_QUERY: usize = 8 * 1024;
/// Upper bound of `Prefer: wait` in the submission: without its response, no execution id is known to cancel.
const FIRST_HOLD: Duration = Duration::from_secs(1);
/// Time that the consumer waits after the timeout, so that the provider can report the timeout itself.
const TIMEOUT_GRACE: Duration = Duration::from_secs(5);

/// Parameters of one skill invocation.
#[derive(Debug, Clone, Default)]
pub struct SkillCall {
    pub inputs: Map<String, Value>,
    pub credential: SkillInvocationCredential,
    /// Host to which the credential may be sent, if not the host in the target.
    pub credential_for: Option<String>,
    pub context: InvocationContext,
    /// Key under which repeated requests are one execution; `None` generates a key.
    pub idempotency_key: Option<String>,
    /// W3C trace context to forward.
    pub traceparent: Option<String>,
    /// Whether to omit `Prefer: wait`, so that the provider answers before the skill is done.
    pub at_once: bool,
}

/// Invocation request, which may be sent several times.
struct EndpointRequest<'a> {
    method: &'static str,
    url: Url,
    headers: Vec<(String, String)>,
    body: Option<Bytes>,
    endpoint: &'a Url,
    named_host: &'a UserNamedHost,
    auth: &'a InvocationAuth,
}

impl SkillConsumer {
    /// Submits an invocation. Network failures and the statuses 429, 502 and 503 are retried with growing delays and
    /// the same idempotency key, so that only one execution starts.
    pub async fn submit(
        &self,
        described: &ResolvedSkill,
        call: &SkillCall,
    ) -> Result<RemoteExecution, SkillConsumerError> {
        let descriptor = &described.descriptor;
        let filled = inputs::check(descriptor, &call.inputs).map_err(|faults| bad_inputs(descriptor, &faults))?;
        let auth = self.auth(described, &call.credential, call.credential_for.as_deref())?;
        let key = call.idempotency_key.clone();
        let key = key.unwrap_or_else(|| random_name(self.entropy.as_ref(), ""));
        let deadline = self.deadline(descriptor, &call.context);
        let request = self.request(described, call, filled, &key, &auth)?;
        let read = |answer: FetchResponse| {
            let value = self.json::<InvocationResponse>(&request.url, &answer)?;
            let (response, _) = valid::<InvocationResponse>(&request.url, value)?;
            Ok((response, retry_after(&answer, self.clock.now())))
        };
        let answered = self.deliver(&request, descriptor, deadline).await.and_then(read);
        let (response, retry_after) = answered.map_err(|error| with_retry_hint(error, &key))?;
        let mut execution = RemoteExecution::begin(described, auth, response, deadline)?;
        execution.retry_after = retry_after;
        self.progress.report(&InvocationProgress::Accepted { execution_id: execution.id().to_owned() });
        Ok(execution)
    }

    fn deadline(&self, descriptor: &SkillDescriptor, context: &InvocationContext) -> Option<Timestamp> {
        let requested = context.timeout_ms.as_ref().or(descriptor.endpoint.timeout_ms.as_ref());
        let span = requested.map(|limit| limit.as_millis().saturating_add(TIMEOUT_GRACE)).or(self.options.patience)?;
        Some(self.clock.now().after(span))
    }

    fn request<'a>(
        &self,
        described: &'a ResolvedSkill,
        call: &SkillCall,
        filled: Map<String, Value>,
        key: &str,
        auth: &'a InvocationAuth,
    ) -> Result<EndpointRequest<'a>, SkillConsumerError> {
        let ResolvedSkill { descriptor, endpoint, named_host, .. } = described;
        let method = descriptor.endpoint.method;
        let mut url = endpoint.clone();
        let prefer = match call.at_once {
            true => "respond-async".to_owned(),
            false => format!("wait={}", self.options.hold.min(FIRST_HOLD).as_secs()),
        };
        let mut headers = vec![
            ("accept".to_owned(), "application/json".to_owned()),
            ("idempotency-key".to_owned(), key.to_owned()),
            ("prefer".to_owned(), prefer),
        ];
        headers.extend(call.traceparent.clone().map(|context| ("traceparent".to_owned(), context)));
        let (caller_id, caller_type) = (&self.options.caller_id, &self.options.caller_type);
        let body = match method {
            SkillHttpMethod::Get | SkillHttpMethod::Delete => {
                let text = |value: Value| match value {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                if !filled.is_empty() {
                    let pairs = filled.into_iter().map(|(name, value)| (name, text(value)));
                    url.query_pairs_mut().extend_pairs(pairs);
                }
                if url.query().is_some_and(|query| query.len() > MAX_QUERY) {
                    let message = format!("the inputs are too long for a {} request", method.as_str());
                    return Err(SkillConsumerError::new(ConsumerErrorReason::CannotSend, message));
                }
                headers.push(("x-skill-caller-id".to_owned(), caller_id.clone()));
                headers.push(("x-skill-caller-type".to_owned(), caller_type.clone()));
                headers.extend(context_headers(&call.context));
                None
            }
            SkillHttpMethod::Post | SkillHttpMethod::Put => {
                headers.push(("content-type".to_owned(), json_type(descriptor)?));
                let context = (call.context != InvocationContext::default()).then(|| call.context.clone());
                let caller =
                    Caller { id: caller_id.clone(), r#type: caller_type.clone(), credentials: None, extra: Map::new() };
                let request = InvocationRequest {
                    caller,
                    skill_id: descriptor.id.clone(),
                    inputs: filled,
                    context,
                    extra: Map::new(),
                };
                let body = Bytes::from(pretty(&request));
                let limit = InvocationRequest::KIND.max_bytes();
                if body.len() > limit {
                    let message = format!("the inputs take more than {limit} bytes");
                    return Err(SkillConsumerError::new(ConsumerErrorReason::CannotSend, message));
                }
                Some(body)
            }
        };
        Ok(EndpointRequest { method: method.as_str(), url, headers, body, endpoint, named_host, auth })
    }

    /// Sends a request and repeats it after network failures and the statuses 429, 502 and 503, and once with a new token
    /// after 401, until the attempts or the deadline are used up.
    async fn deliver(
        &self,
        request: &EndpointRequest<'_>,
        descriptor: &SkillDescriptor,
        deadline: Option<Timestamp>,
    ) -> Result<FetchResponse, SkillConsumerError> {
        let (mut delays, attempts) = RetryDelays::unreachable(descriptor.endpoint.retry.as_ref());
        let mut attempt = 1;
        loop {
            let error = match self.send(request, deadline).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if error.reason == ConsumerErrorReason::TooSlow
                && deadline.is_some_and(|deadline| self.clock.now() >= deadline)
            {
                return Err(SkillConsumerError::new(ConsumerErrorReason::GaveUp, error.message.clone()));
            }
            if !error.is_passing() || attempt >= attempts {
                return Err(error);
            }
            let advised = error.retry.as_ref().map(|retry| retry.suggested_delay_ms.as_millis());
            let pause = delays.next_delay(error.retry_after.max(advised), self.entropy.as_ref());
            let next = self.clock.now().after(pause);
            if deadline.is_some_and(|deadline| next >= deadline) {
                return Err(error);
            }
            let delay_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            self.progress.report(&InvocationProgress::Retrying { attempt, delay_ms, why: error.message.clone() });
            self.clock.sleep_until(next).await;
            attempt += 1;
        }
    }

    async fn send(
        &self,
        request: &EndpointRequest<'_>,
        deadline: Option<Timestamp>,
    ) -> Result<FetchResponse, SkillConsumerError> {
        let EndpointRequest { method, url, named_host, headers, body, .. } = request;
        let outgoing = || {
            let left = deadline.map(|deadline| self.clock.now().until(deadline));
            OutgoingRequest {
                method,
                url,
                named_host,
                headers: headers.clone(),
                body: body.clone(),
                max_bytes: InvocationResponse::KIND.max_bytes(),
                timeout: left.map_or(self.options.exchange, |left| self.options.exchange.min(left)),
            }
        };
        let answer = self.send_authenticated(request.auth, request.endpoint, outgoing).await?;
        self.check_status(url, &answer)?;
        Ok(answer)
    }
}

/// Invocation context as headers, for requests without a body.
fn context_headers(context: &InvocationContext) -> Vec<(String, String)> {
    let all = [
        ("x-skill-trace-id", context.trace_id.clone()),
        ("x-skill-priority", context.priority.map(|priority| priority.as_str().to_owned())),
        ("x-skill-timeout-ms", context.timeout_ms.as_ref().map(|limit| limit.as_u64().to_string())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Content type of the request body; only JSON types are supported.
fn json_type(descriptor: &SkillDescriptor) -> Result<String, SkillConsumerError> {
    let kind = descriptor.endpoint.content_type();
    if nuncio_core::json::is_json(kind) {
        return Ok(kind.to_owned());
    }
    let message = format!("the skill requires requests of type {:?}; this client can send only JSON", plain(kind));
    Err(SkillConsumerError::new(ConsumerErrorReason::CannotSend, message).details(json!({"content_type": kind})))
}

fn bad_inputs(descriptor: &SkillDescriptor, faults: &[crate::validate::DocumentFault]) -> SkillConsumerError {
    let requested: Vec<_> = faults.iter().map(ToString::to_string).collect();
    let message = format!("the inputs do not fit {:?}: {}", plain(&descriptor.id), requested.join("; "));
    SkillConsumerError::new(ConsumerErrorReason::BadInputs, message)
        .details(json!(faults))
        .advice("nothing was invoked")
}

/// Adds the idempotency key to errors after which the provider may nevertheless have accepted the request.
fn with_retry_hint(error: SkillConsumerError, key: &str) -> SkillConsumerError {
    match error.reason {
        ConsumerErrorReason::TooSlow | ConsumerErrorReason::GaveUp | ConsumerErrorReason::InvalidDocument => {
            let advice = format!(
                "the provider may have accepted it; retry with --idempotency-key {key} so that it does not run twice"
            );
            error.advice(advice)
        }
        ConsumerErrorReason::Unreachable => error.advice("check that the provider is up, and try again later"),
        _ => error,
    }
}

impl SkillCall {
    #[must_use]
    pub fn with(inputs: Map<String, Value>) -> Self {
        Self { inputs, ..Self::default() }
    }
}
