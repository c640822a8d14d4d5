//! Callbacks to callers about finished executions: one signed request, retried until it arrives or is given up. The
//! signatures follow <https://www.standardwebhooks.com>: `v1a` with the Ed25519 key of this server, which receivers
//! verify with `/.well-known/jwks.json`, and `v1` with the shared secret of the operator, if there is one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nuncio_core::execution::Execution;
use nuncio_core::ids::ExecutionId;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{AddressTrust, FetchError, FetchRequest};
use nuncio_engine::{Engine, EngineError};

pub(crate) mod jobs;
pub(crate) mod signing;

pub(crate) use signing::WebhookSigner;

use jobs::{DeliverySource, DueJobs, JobsInFlight, MAX_RESPONSE, PAGE, retry_until_stored};

/// Time limit of one callback request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Sends callbacks about finished executions.
pub(crate) struct ExecutionCallbackSender {
    pub(crate) engine: Engine,
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) signer: Arc<WebhookSigner>,
}

impl DeliverySource for ExecutionCallbackSender {
    type Key = ExecutionId;
    type Receiver = String;
    /// The execution, and how often its callback was tried.
    type Job = (ExecutionId, u32);

    fn engine(&self) -> &Engine {
        &self.engine
    }

    async fn find_due(&self, in_flight: &JobsInFlight<ExecutionId, String>) -> Result<DueJobs<Self>, EngineError> {
        let due = self.engine.callbacks().callbacks_due(&in_flight.keys, PAGE).await?;
        let next = match due.is_empty() {
            true => self.engine.callbacks().next_callback(&in_flight.keys).await?,
            false => Some(self.engine.now()),
        };
        let job = |(execution, attempts): (Execution, u32)| {
            let receiver = execution.order.callback.as_ref().map(|url| url.origin().ascii_serialization());
            (execution.id.clone(), receiver.unwrap_or_default(), (execution.id, attempts))
        };
        Ok(DueJobs { due: due.into_iter().map(job).collect(), next })
    }

    async fn wait_for_due(&self) {
        self.engine.callbacks().callback_owed().await;
    }

    async fn run(&self, (id, attempts): (ExecutionId, u32)) {
        let sent = match retry_until_stored(&self.engine, || self.engine.callbacks().owed_execution(&id)).await {
            Some(execution) => self.send(&execution).await,
            None => Ok(()),
        };
        let Err(why) = sent else {
            return retry_until_stored(&self.engine, || self.engine.callbacks().callback_done(&id)).await;
        };
        match retry_until_stored(&self.engine, || self.engine.callbacks().callback_failed(&id, attempts)).await {
            Some(again) => {
                tracing::info!(execution = %id, why, %again, "the callback could not be delivered; it is retried");
            }
            None => tracing::warn!(execution = %id, why, "the callback could not be delivered; given up"),
        }
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
        match jobs::status(response) {
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
