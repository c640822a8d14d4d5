//! Delivers the events of agents to their webhooks: one signed request per event, in order within a conversation,
//! retried until it arrives or is given up. Two sets of headers carry the same signature data: those of Hashee, and
//! those of <https://www.standardwebhooks.com>.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use nuncio_core::ids::AgentId;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{FetchRequest, Trust};
use nuncio_engine::ports::store::relay::Delivery;
use nuncio_engine::relay::{DeliveryKey, DeliveryOutcome, DeliveryResult, WebhookCall, WebhookProbe, WebhookSecret};
use nuncio_engine::{Engine, EngineError};
use url::Url;

use crate::webhooks::jobs::{self, ANSWER, DeliverySource, DueJobs, InFlight, PAGE, retry_until_stored};
use crate::webhooks::signing::{SharedSecret, WebhookMessage};

/// How long one request may take.
const TIME: Duration = Duration::from_secs(10);

/// Calls agents.
pub(crate) struct AgentHooks {
    pub(crate) engine: Engine,
    /// The client for addresses that agents' owners set.
    pub(crate) way_out: Arc<LazyFetch>,
}

/// An HTTP client built at first use: most servers have no webhooks, and building it takes a while.
pub(crate) type LazyFetch = LazyLock<FetchSetup, Box<dyn FnOnce() -> FetchSetup + Send>>;

/// The client, or why it could not be built.
type FetchSetup = Result<Arc<dyn Fetch>, String>;

pub(crate) enum AgentHookJob {
    Call(Box<Delivery>),
    Probe(AgentId),
}

/// The event number that stands for a probe; no event has it.
const PROBE: u64 = 0;

impl DeliverySource for AgentHooks {
    type Key = DeliveryKey;
    type Receiver = AgentId;
    type Job = AgentHookJob;

    fn engine(&self) -> &Engine {
        &self.engine
    }

    async fn find_due(&self, held: &InFlight<DeliveryKey, AgentId>) -> Result<DueJobs<Self>, EngineError> {
        let (known, full, now) = (held.known(), held.full(), self.engine.now());
        let found = self.engine.webhooks().deliveries_due(known, &full, PAGE).await?;
        let mut next = match found.is_empty() {
            true => self.engine.webhooks().next_delivery_due(known, &full).await?,
            false => Some(now),
        };
        let mut due: Vec<_> = found.into_iter().map(call).collect();
        let probes = self.engine.webhooks().probes().into_iter().map(|(agent, at)| ((agent, PROBE), at));
        for (key, at) in probes.filter(|(key, _)| !known.contains(key)) {
            if at <= now {
                let agent = key.0.clone();
                due.push((key, agent.clone(), AgentHookJob::Probe(agent)));
            } else {
                next = Some(next.map_or(at, |next: Timestamp| next.min(at)));
            }
        }
        Ok(DueJobs { due, next })
    }

    async fn wait_for_due(&self) {
        self.engine.webhooks().wait_for_delivery().await;
    }

    async fn run(&self, job: AgentHookJob) {
        match job {
            AgentHookJob::Call(delivery) => {
                let call =
                    retry_until_stored(&self.engine, || self.engine.webhooks().webhook_call((*delivery).clone())).await;
                if let Some(call) = call {
                    self.deliver(&call).await;
                }
            }
            AgentHookJob::Probe(agent) => {
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

fn call(delivery: Delivery) -> (DeliveryKey, AgentId, AgentHookJob) {
    let agent = delivery.agent.clone();
    ((agent.clone(), delivery.mailed.seq), agent, AgentHookJob::Call(Box::new(delivery)))
}

impl AgentHooks {
    async fn deliver(&self, call: &WebhookCall) {
        let (kind, answered) = match nuncio_a2h::server::call_body(call) {
            Some((kind, body)) => (kind, self.send(call, body.into()).await),
            None => ("message.new".to_owned(), DeliveryResult::Forgotten),
        };
        let outcome =
            retry_until_stored(&self.engine, || self.engine.webhooks().delivery_ended(call, &kind, &answered)).await;
        let (agent, delivery) = (&call.delivery.agent, &call.delivery_id);
        match outcome {
            DeliveryOutcome::Over => {}
            DeliveryOutcome::Again(at) => {
                tracing::info!(%agent, delivery, ?answered, %at, "a webhook could not be delivered; it is retried");
            }
            DeliveryOutcome::GivenUp => {
                tracing::warn!(%agent, delivery, ?answered, "a webhook could not be delivered; given up");
            }
            DeliveryOutcome::Disabled => {
                tracing::warn!(%agent, delivery, "a webhook answered 410 Gone and is disabled");
            }
        }
    }

    async fn send(&self, call: &WebhookCall, body: Bytes) -> DeliveryResult {
        let Some(secret) = &call.secret else {
            return DeliveryResult::Nothing("its secret cannot be decrypted here; rotate it".to_owned());
        };
        let headers = headers(&call.delivery.agent, &call.delivery_id, secret, self.engine.now(), &body);
        match self.ask(outgoing("POST", call.url.clone(), headers, Some(body))).await {
            Ok(status @ 200..300) => DeliveryResult::Arrived(status),
            Ok(410) => DeliveryResult::Gone,
            Ok(status) => DeliveryResult::Refused(status),
            Err(why) => DeliveryResult::Nothing(why),
        }
    }

    async fn is_healthy(&self, agent: &AgentId, url: Url) -> bool {
        let headers = vec![("x-hashee-agent-id".to_owned(), agent.to_string())];
        matches!(self.ask(outgoing("GET", url, headers, None)).await, Ok(200..300))
    }

    /// The status of the answer, or why there is none.
    async fn ask(&self, request: FetchRequest) -> Result<u16, String> {
        let fetch = (**self.way_out).as_ref().map_err(Clone::clone)?;
        jobs::status(fetch.fetch(request).await).map_err(|error| error.to_string())
    }
}

/// The address was set by the agent's owner, so it gets the trust of a stranger.
fn outgoing(method: &'static str, url: Url, headers: Vec<(String, String)>, body: Option<Bytes>) -> FetchRequest {
    FetchRequest { method, url, headers, body, trust: Trust::Stranger, timeout: TIME, max_bytes: ANSWER }
}

/// Both sets of headers, over the same bytes with the same secret.
fn headers(agent: &AgentId, id: &str, secret: &WebhookSecret, now: Timestamp, body: &[u8]) -> Vec<(String, String)> {
    let secret = SharedSecret::new(secret.bytes());
    let signed = WebhookMessage::new(id, now, body);
    let seconds = signed.seconds().to_string();
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
