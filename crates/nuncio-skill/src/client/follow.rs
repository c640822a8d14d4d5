//! Polls an execution until it ends (§5.2).

use nuncio_engine::ports::fetch::FetchResponse;
use serde_json::{Value, json};
use url::Url;

use super::backoff::{RetryDelays, retry_after};
use super::error::{ConsumerErrorReason, SkillConsumerError, display_url};
use super::exchange::{OutgoingRequest, valid};
use super::execution::RemoteExecution;
use super::{InvocationProgress, SkillConsumer};
use crate::validate::WireDocument as _;
use crate::wire::{EXECUTION_ID, ExecutionStatus, InvocationResponse};

/// Limit on consecutive failed polls.
const MAX_FAILURES: u32 = 10;

impl SkillConsumer {
    /// Polls until the execution ends and returns its checked output. At the deadline it gives up with
    /// [`ConsumerErrorReason::GaveUp`]; the provider may still run the execution.
    pub async fn follow(&self, execution: &mut RemoteExecution) -> Result<Value, SkillConsumerError> {
        let mut delays = RetryDelays::polling();
        let mut failures = 0;
        let mut last = ExecutionStatus::Accepted;
        loop {
            if execution.status() != last && execution.status() == ExecutionStatus::Running {
                let (execution_id, attempt) = (execution.id().to_owned(), execution.response().attempt());
                self.progress.report(&InvocationProgress::Running { execution_id, attempt });
            }
            last = execution.status();
            if let Some(outcome) = execution.outcome() {
                if outcome.is_ok() {
                    self.progress.report(&InvocationProgress::Completed { execution_id: execution.id().to_owned() });
                }
                return outcome;
            }
            let now = self.clock.now();
            if execution.deadline.is_some_and(|deadline| now >= deadline) {
                return Err(gave_up(execution));
            }
            let next = now.after(delays.next_delay(execution.retry_after.take(), self.entropy.as_ref()));
            self.clock.sleep_until(execution.deadline.map_or(next, |deadline| next.min(deadline))).await;
            match self.poll(execution).await {
                Ok(()) => failures = 0,
                Err(error)
                    if failures < MAX_FAILURES
                        && (error.is_passing() || error.reason == ConsumerErrorReason::TooSlow) =>
                {
                    failures += 1;
                    execution.retry_after = error.retry_after;
                }
                Err(error) => return Err(error.of(execution.id())),
            }
        }
    }

    /// Fetches the current status of an execution once.
    pub async fn poll(&self, execution: &mut RemoteExecution) -> Result<(), SkillConsumerError> {
        let Some(url) = execution.status_url().cloned() else { return Ok(()) };
        let answer = self.request_about("GET", execution, &url).await?;
        let mut value = self.json::<InvocationResponse>(&url, &answer)?;
        // Some providers return the output only at the result URL.
        let is_bare = value["status"] == "completed" && value.get("output").is_none();
        if is_bare && let Some(result_url) = execution.result_url.clone() {
            let result = self.request_about("GET", execution, &result_url).await?;
            value = self.json::<InvocationResponse>(&result_url, &result)?;
        }
        let (response, _) = valid::<InvocationResponse>(&url, value)?;
        execution.update(&url, response)?;
        execution.retry_after = retry_after(&answer, self.clock.now());
        Ok(())
    }

    /// Asks the provider to cancel an execution.
    pub async fn cancel(&self, execution: &RemoteExecution) -> Result<(), SkillConsumerError> {
        let Some(url) = execution.status_url().cloned() else {
            return Err(SkillConsumerError::new(
                ConsumerErrorReason::NoStatusUrl,
                "the descriptor has no URL with which it could be cancelled",
            ));
        };
        let answer = self.request_about("DELETE", execution, &url).await?;
        self.check_status(&url, &answer)
            .map_err(|error| error.of(execution.id()).advice("the provider does not offer cancellation"))
    }

    async fn request_about(
        &self,
        method: &'static str,
        execution: &RemoteExecution,
        url: &Url,
    ) -> Result<FetchResponse, SkillConsumerError> {
        let request = || {
            let (max_bytes, timeout) = (InvocationResponse::KIND.max_bytes(), self.options.exchange);
            let mut request = OutgoingRequest::get(url, &execution.named_host, max_bytes, timeout);
            request.method = method;
            if method == "GET" {
                let left = execution.deadline.map(|deadline| self.clock.now().until(deadline));
                let hold = left.map_or(self.options.hold, |left| self.options.hold.min(left)).as_secs();
                request.headers.push(("prefer".to_owned(), format!("wait={hold}")));
                request.timeout = timeout.max(self.options.hold);
            }
            request
        };
        self.send_authenticated(&execution.auth, &execution.endpoint, request).await
    }
}

fn gave_up(execution: &RemoteExecution) -> SkillConsumerError {
    let id = execution.id().to_owned();
    let address = execution.status_url().map(display_url).unwrap_or_default();
    let status = execution.status().as_str();
    SkillConsumerError::new(ConsumerErrorReason::GaveUp, format!("it was still {status} at the end of the time limit"))
        .details(json!({EXECUTION_ID.trim_matches(['{', '}']): id, "status_url": address}))
        .advice(format!("it may still run there: {address}"))
        .of(&id)
}
