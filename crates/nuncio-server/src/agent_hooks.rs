//! Delivers the events of agents to their webhooks: one signed request per event, in order within a conversation,
//! retried until it arrives or is given up. Two sets of headers carry the same signature data: those of Hashee, and
//! those of <https://www.standardwebhooks.com>.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nuncio_core::ids::AgentId;
use nuncio_core::time::Timestamp;
use nuncio_engine::accounts::{DeliveryNextStep, WebhookCall, WebhookResponse, WebhookSecret};
use nuncio_engine::jobs::JobHandler;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{AddressTrust, FetchRequest};
use nuncio_engine::ports::store::{ClaimedJob, JobKind};
use nuncio_engine::{Engine, EngineError};
use url::Url;

use crate::webhooks::signing::{SharedSecret, WebhookMessage};
use crate::webhooks::{MAX_RESPONSE, response_status};

/// Time limit of one webhook request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Delivers events to the webhooks of agents' accounts, and probes unreachable webhooks.
#[derive(Clone)]
pub(crate) struct AgentWebhookSender {
    pub(crate) engine: Engine,
    /// The HTTP client for URLs that agents' owners set.
    pub(crate) fetch: Arc<LazyFetch>,
}

/// An HTTP client built at first use: most servers have no webhooks, and building it takes a while.
pub(crate) type LazyFetch = LazyLock<FetchBuildResult, Box<dyn FnOnce() -> FetchBuildResult + Send>>;

/// The HTTP client, or why it could not be built.
type FetchBuildResult = Result<Arc<dyn Fetch>, String>;

#[async_trait]
impl JobHandler for AgentWebhookSender {
    async fn run(&self, job: &ClaimedJob) -> Result<(), EngineError> {
        let webhooks = self.engine.webhooks();
        if job.job.kind == JobKind::Probe {
            return match webhooks.probe(job).await? {
                Some(url) => webhooks.health_probed(job, self.is_healthy(&job.job.receiver, url).await).await,
                None => Ok(()),
            };
        }
        match webhooks.delivery_call(job).await? {
            Some(call) => self.deliver(&call).await,
            None => Ok(()),
        }
    }
}

impl AgentWebhookSender {
    async fn deliver(&self, call: &WebhookCall) -> Result<(), EngineError> {
        let (kind, result) = match nuncio_a2h::server::call_body(call) {
            Some((kind, body)) => (kind, self.send(call, body.into()).await),
            None => ("message.new".to_owned(), WebhookResponse::Forgotten),
        };
        let outcome = self.engine.webhooks().delivery_ended(call, &kind, &result).await?;
        let (agent, delivery) = (&call.delivery.agent, &call.delivery_id);
        match outcome {
            DeliveryNextStep::Over => {}
            DeliveryNextStep::Again(at) => {
                tracing::info!(%agent, delivery, ?result, %at, "a webhook could not be delivered; it is retried");
            }
            DeliveryNextStep::GivenUp => {
                tracing::warn!(%agent, delivery, ?result, "a webhook could not be delivered; given up");
            }
            DeliveryNextStep::Disabled => {
                tracing::warn!(%agent, delivery, "a webhook answered 410 Gone and is disabled");
            }
        }
        Ok(())
    }

    async fn send(&self, call: &WebhookCall, body: Bytes) -> WebhookResponse {
        let Some(secret) = &call.secret else {
            return WebhookResponse::Nothing("its secret cannot be decrypted here; rotate it".to_owned());
        };
        let headers = headers(&call.delivery.agent, &call.delivery_id, secret, self.engine.now(), &body);
        match self.request_status("POST", call.url.clone(), headers, Some(body)).await {
            Ok(status @ 200..300) => WebhookResponse::Arrived(status),
            Ok(410) => WebhookResponse::Gone,
            Ok(status) => WebhookResponse::Refused(status),
            Err(why) => WebhookResponse::Nothing(why),
        }
    }

    async fn is_healthy(&self, recipient: &str, url: Url) -> bool {
        let agent = recipient.trim_start_matches("agent:");
        let headers = vec![("x-hashee-agent-id".to_owned(), agent.to_owned())];
        matches!(self.request_status("GET", url, headers, None).await, Ok(200..300))
    }

    /// The status of the response, or why there is none. The owner of the agent set the address, so it is not trusted.
    async fn request_status(
        &self,
        method: &'static str,
        url: Url,
        headers: Vec<(String, String)>,
        body: Option<Bytes>,
    ) -> Result<u16, String> {
        let fetch = (**self.fetch).as_ref().map_err(Clone::clone)?;
        let (trust, timeout, max_bytes) = (AddressTrust::Stranger, REQUEST_TIMEOUT, MAX_RESPONSE);
        let request = FetchRequest { method, url, headers, body, trust, timeout, max_bytes };
        response_status(fetch.fetch(request).await).map_err(|error| error.to_string())
    }
}

/// Both sets of signature headers, made over the same bytes with the same secret.
fn headers(agent: &AgentId, id: &str, secret: &WebhookSecret, now: Timestamp, body: &[u8]) -> Vec<(String, String)> {
    let secret = SharedSecret::new(secret.bytes());
    let signed = WebhookMessage::new(id, now, body);
    let seconds = signed.seconds.to_string();
    let tag = secret.sign(&[format!("{seconds}.{id}.").as_bytes(), body]);
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut headers = signed.headers(&[signed.v1(&secret)]);
    let own = [
        ("x-hashee-signature", hex),
        ("x-hashee-timestamp", seconds),
        ("x-hashee-delivery-id", id.to_owned()),
        ("x-hashee-agent-id", agent.to_string()),
    ];
    headers.extend(own.map(|(name, value)| (name.to_owned(), value)));
    headers
}
