//! Callbacks to callers about finished executions: one signed request, retried until it arrives or is given up. The
//! signatures follow <https://www.standardwebhooks.com>: `v1a` with the Ed25519 key of this server, which receivers
//! verify with `/.well-known/jwks.json`, and `v1` with the shared secret of the operator, if there is one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nuncio_core::backoff::Backoff;
use nuncio_core::execution::Execution;
use nuncio_engine::jobs::{JobHandler, JobRetries};
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{AddressTrust, FetchError, FetchRequest, FetchResponse};
use nuncio_engine::ports::store::ClaimedJob;
use nuncio_engine::{Engine, EngineError};

pub(crate) mod signing;

pub(crate) use signing::WebhookSigner;

/// Limit of a response body in bytes; its content is not used.
pub(crate) const MAX_RESPONSE: usize = 16 * 1024;

/// Time limit of one callback request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

const RETRIES: JobRetries =
    JobRetries { attempts: 12, backoff: Backoff::doubling(Duration::from_secs(10), Duration::from_secs(3 * 3600)) };

/// Sends callbacks about finished executions.
pub(crate) struct ExecutionCallbackSender {
    pub(crate) engine: Engine,
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) signer: Arc<WebhookSigner>,
}

#[async_trait]
impl JobHandler for ExecutionCallbackSender {
    async fn run(&self, job: &ClaimedJob) -> Result<(), EngineError> {
        let sent = match self.engine.executions().execution_of_callback(job).await? {
            Some(execution) => self.send(&execution).await,
            None => Ok(()),
        };
        let Err(why) = sent else { return self.engine.jobs().end(job).await };
        let execution = &job.job.key;
        match self.engine.jobs().retry(job, RETRIES).await? {
            Some(again) => {
                tracing::info!(execution, why, %again, "the callback could not be delivered; it is retried");
            }
            None => tracing::warn!(execution, why, "the callback could not be delivered; given up"),
        }
        Ok(())
    }
}

impl ExecutionCallbackSender {
    /// Delivers a callback, or finds that it can never be delivered. An error is the reason to retry it.
    async fn send(&self, execution: &Execution) -> Result<(), String> {
        let Some(url) = execution.order.callback.clone() else { return Ok(()) };
        let body = Bytes::from(nuncio_skill::server::callback_body(execution));
        let response = self
            .fetch
            .fetch(FetchRequest {
                method: "POST",
                url,
                headers: self.signer.headers(execution.id.as_str(), self.engine.now(), &body),
                body: Some(body),
                trust: AddressTrust::Stranger,
                timeout: REQUEST_TIMEOUT,
                max_bytes: MAX_RESPONSE,
            })
            .await;
        match response_status(response) {
            Ok(200..300) => Ok(()),
            Ok(410) => {
                tracing::info!(execution = %execution.id, "the callback receiver is gone");
                Ok(())
            }
            Ok(other) => Err(format!("it answered {other}")),
            // The address is forbidden, so another attempt would fail too.
            Err(FetchError::Refused { why, .. }) => {
                tracing::warn!(execution = %execution.id, why, "requests to the callback address are not allowed");
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The status of a response, also of one over the size limit.
pub(crate) fn response_status(response: Result<FetchResponse, FetchError>) -> Result<u16, FetchError> {
    match response {
        Ok(response) => Ok(response.status),
        Err(FetchError::TooLarge { status, .. }) => Ok(status),
        Err(error) => Err(error),
    }
}
