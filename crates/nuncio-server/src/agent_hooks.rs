//! Delivers the events of agents to their webhooks: one signed request per event, in order within a conversation,
//! retried until it arrives or is given up. Two sets of headers carry the same signature data: those of Hashee, and
//! those of <https://www.standardwebhooks.com>.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use nuncio_core::ids::AgentId;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{AddressTrust, FetchRequest};
use nuncio_engine::ports::store::relay::WebhookDelivery;
use nuncio_engine::relay::{
    DeliveryNextStep, WebhookCall, WebhookDeliveryId, WebhookProbe, WebhookResponse, WebhookSecret,
};
use nuncio_engine::{Engine, EngineError};
use url::Url;

use crate::webhooks::jobs::{self, DeliverySource, DueJobs, JobsInFlight, MAX_RESPONSE, PAGE, retry_until_stored};
use crate::webhooks::signing::{SharedSecret, WebhookMessage};

/// Time limit of one webhook request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Delivers events to the webhooks of agents' accounts.
pub(crate) struct AgentWebhookSender {
    pub(crate) engine: Engine,
    /// The HTTP client for URLs that agents' owners set.
    pub(crate) fetch: Arc<LazyFetch>,
}

/// An HTTP client built at first use: most servers have no webhooks, and building it takes a while.
pub(crate) type LazyFetch = LazyLock<FetchBuildResult, Box<dyn FnOnce() -> FetchBuildResult + Send>>;

/// The HTTP client, or why it could not be built.
type FetchBuildResult = Result<Arc<dyn Fetch>, String>;

pub(crate) enum AgentWebhookJob {
    Call(Box<WebhookDelivery>),
    Probe(AgentId),
}

/// The number of a probe in place of an event number. Event numbers start at one.
const PROBE_NUMBER: u64 = 0;

impl DeliverySource for AgentWebhookSender {
    type Key = WebhookDeliveryId;
    type Receiver = AgentId;
    type Job = AgentWebhookJob;

    fn engine(&self) -> &Engine {
        &self.engine
    }

    async fn find_due(
        &self,
        in_flight: &JobsInFlight<WebhookDeliveryId, AgentId>,
    ) -> Result<DueJobs<Self>, EngineError> {
        let (in_flight_keys, full, now) = (&in_flight.keys, in_flight.full(), self.engine.now());
        let found = self.engine.webhooks().deliveries_due(in_flight_keys, &full, PAGE).await?;
        let mut next = match found.is_empty() {
            true => self.engine.webhooks().next_delivery_due(in_flight_keys, &full).await?,
            false => Some(now),
        };
        let mut due: Vec<_> = found.into_iter().map(call_job).collect();
        let probes = self.engine.webhooks().probes().into_iter().map(|(agent, at)| ((agent, PROBE_NUMBER), at));
        for (key, at) in probes.filter(|(key, _)| !in_flight_keys.contains(key)) {
            if at <= now {
                let agent = key.0.clone();
                due.push((key, agent.clone(), AgentWebhookJob::Probe(agent)));
            } else {
                next = Some(next.map_or(at, |next: Timestamp| next.min(at)));
            }
        }
        Ok(DueJobs { due, next })
    }

    async fn wait_for_due(&self) {
        self.engine.webhooks().wait_for_delivery().await;
    }

    async fn run(&self, job: AgentWebhookJob) {
        match job {
            AgentWebhookJob::Call(delivery) => {
                let call =
                    retry_until_stored(&self.engine, || self.engine.webhooks().webhook_call((*delivery).clone())).await;
                if let Some(call) = call {
                    self.deliver(&call).await;
                }
            }
            AgentWebhookJob::Probe(agent) => {
                match retry_until_stored(&self.engine, || self.engine.webhooks().probe(&agent)).await {
                    None => {}
                    Some(WebhookProbe::Call(call)) => self.deliver(&call).await,
                    Some(WebhookProbe::Health(url)) => {
                        let healthy = self.is_healthy(&agent, url).await;
                        retry_until_stored(&self.engine, || self.engine.webhooks().health_probed(&agent, healthy))
                            .await;
                    }
                }
            }
        }
    }
}

fn call_job(delivery: WebhookDelivery) -> (WebhookDeliveryId, AgentId, AgentWebhookJob) {
    let agent = delivery.agent.clone();
    ((agent.clone(), delivery.mailed.seq), agent, AgentWebhookJob::Call(Box::new(delivery)))
}

impl AgentWebhookSender {
    async fn deliver(&self, call: &WebhookCall) {
        let (kind, result) = match nuncio_a2h::server::call_body(call) {
            Some((kind, body)) => (kind, self.send(call, body.into()).await),
            None => ("message.new".to_owned(), WebhookResponse::Forgotten),
        };
        let outcome =
            retry_until_stored(&self.engine, || self.engine.webhooks().delivery_ended(call, &kind, &result)).await;
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

    async fn is_healthy(&self, agent: &AgentId, url: Url) -> bool {
        let headers = vec![("x-hashee-agent-id".to_owned(), agent.to_string())];
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
        jobs::status(fetch.fetch(request).await).map_err(|error| error.to_string())
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
