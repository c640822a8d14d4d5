//! Calling agents with what they are told: one signed request each, in order within a conversation, tried
//! again until it arrives or there is no point. Two sets of headers say the same: those of Hashee, and
//! those of <https://www.standardwebhooks.com>.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use nuncio_core::ids::AgentId;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{Outgoing, Trust};
use nuncio_engine::ports::store::relay::Delivery;
use nuncio_engine::relay::{AgentCall, Answered, CallKey, CallOutcome, Probe, WebhookSecret};
use nuncio_engine::{Engine, EngineError};
use url::Url;

use crate::webhooks::errands::{self, ANSWER, Errands, Found, Held, PAGE, insist};
use crate::webhooks::signing::{SharedSecret, Signed};

/// How long one request may take.
const TIME: Duration = Duration::from_secs(10);

/// Calls agents.
pub(crate) struct AgentHooks {
    pub(crate) engine: Engine,
    /// Reaches what strangers may name.
    pub(crate) way_out: WayOut,
}

/// A way out that is made when it is first used: most servers call nobody, and it takes a while.
pub(crate) type WayOut = LazyLock<Made, Box<dyn FnOnce() -> Made + Send>>;

/// The way out, or why there is none.
type Made = Result<Arc<dyn Fetch>, String>;

/// What is to be done.
pub(crate) enum Errand {
    /// An agent is called with something.
    Call(Box<Delivery>),
    /// An agent is asked whether it is back.
    Probe(AgentId),
}

/// The number of no event: it stands for asking whether an agent is back.
const PROBE: u64 = 0;

impl Errands for AgentHooks {
    type Key = CallKey;
    type Receiver = AgentId;
    type Errand = Errand;

    fn engine(&self) -> &Engine {
        &self.engine
    }

    async fn look(&self, held: &Held<CallKey, AgentId>) -> Result<Found<Self>, EngineError> {
        let (known, full, now) = (held.known(), held.full(), self.engine.now());
        let found = self.engine.calls_due(known, &full, PAGE).await?;
        let mut next = match found.is_empty() {
            true => self.engine.next_call(known, &full).await?,
            false => Some(now),
        };
        let mut due: Vec<_> = found.into_iter().map(call).collect();
        let probes = self.engine.probes().into_iter().map(|(agent, at)| ((agent, PROBE), at));
        for (key, at) in probes.filter(|(key, _)| !known.contains(key)) {
            if at <= now {
                let agent = key.0.clone();
                due.push((key, agent.clone(), Errand::Probe(agent)));
            } else {
                next = Some(next.map_or(at, |next: Timestamp| next.min(at)));
            }
        }
        Ok(Found { due, next })
    }

    async fn owed(&self) {
        self.engine.call_owed().await;
    }

    async fn run(&self, errand: Errand) {
        match errand {
            Errand::Call(delivery) => {
                let call = insist(&self.engine, || self.engine.agent_call((*delivery).clone())).await;
                if let Some(call) = call {
                    self.deliver(&call).await;
                }
            }
            Errand::Probe(agent) => match insist(&self.engine, || self.engine.probe(&agent)).await {
                None => {}
                Some(Probe::Call(call)) => self.deliver(&call).await,
                Some(Probe::Health(url)) => {
                    let healthy = self.is_healthy(&agent, url).await;
                    insist(&self.engine, || self.engine.health_probed(&agent, healthy)).await;
                }
            },
        }
    }
}

fn call(delivery: Delivery) -> (CallKey, AgentId, Errand) {
    let agent = delivery.agent.clone();
    ((agent.clone(), delivery.mailed.seq), agent, Errand::Call(Box::new(delivery)))
}

impl AgentHooks {
    async fn deliver(&self, call: &AgentCall) {
        let (kind, answered) = match nuncio_a2h::server::call_body(call) {
            Some((kind, body)) => (kind, self.send(call, body.into()).await),
            None => ("message.new".to_owned(), Answered::Forgotten),
        };
        let outcome = insist(&self.engine, || self.engine.call_ended(call, &kind, &answered)).await;
        let (agent, delivery) = (&call.delivery.agent, &call.delivery_id);
        match outcome {
            CallOutcome::Over => {}
            CallOutcome::Again(at) => tracing::info!(%agent, delivery, ?answered, %at, "an agent could not be called"),
            CallOutcome::GivenUp => {
                tracing::warn!(%agent, delivery, ?answered, "an agent could not be called; given up");
            }
            CallOutcome::Disabled => {
                tracing::warn!(%agent, delivery, "an agent's webhook is gone; it is called no more");
            }
        }
    }

    async fn send(&self, call: &AgentCall, body: Bytes) -> Answered {
        let Some(secret) = &call.secret else {
            return Answered::Nothing("its secret cannot be opened here; have it made anew".to_owned());
        };
        let headers = headers(&call.delivery.agent, &call.delivery_id, secret, self.engine.now(), &body);
        match self.ask(outgoing("POST", call.url.clone(), headers, Some(body))).await {
            Ok(status @ 200..300) => Answered::Arrived(status),
            Ok(410) => Answered::Gone,
            Ok(status) => Answered::Refused(status),
            Err(why) => Answered::Nothing(why),
        }
    }

    async fn is_healthy(&self, agent: &AgentId, url: Url) -> bool {
        let headers = vec![("x-hashee-agent-id".to_owned(), agent.to_string())];
        matches!(self.ask(outgoing("GET", url, headers, None)).await, Ok(200..300))
    }

    /// The status of the answer, or why there is none.
    async fn ask(&self, request: Outgoing) -> Result<u16, String> {
        let fetch = self.way_out.as_ref().map_err(Clone::clone)?;
        errands::status(fetch.fetch(request).await).map_err(|error| error.to_string())
    }
}

/// The addresses came from whoever owns the agent.
fn outgoing(method: &'static str, url: Url, headers: Vec<(String, String)>, body: Option<Bytes>) -> Outgoing {
    Outgoing { method, url, headers, body, trust: Trust::Stranger, timeout: TIME, max_bytes: ANSWER }
}

/// Both sets of headers, over the same bytes with the same secret.
fn headers(agent: &AgentId, id: &str, secret: &WebhookSecret, now: Timestamp, body: &[u8]) -> Vec<(String, String)> {
    let secret = SharedSecret::new(secret.bytes());
    let signed = Signed::new(id, now, body);
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
