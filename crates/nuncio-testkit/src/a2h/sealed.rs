//! Test device and test agent that exchange sealed messages through the real peer library. The device enrols, stores
//! its keys, opens messages, claims calls and answers them as the test demands.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_a2h::client::{
    DeviceInvitation, DeviceRelayCredentials, HttpRelayClient, RelayAddress, RelayClient as _, RelayClientError,
    RelayClientIdentity, SignFn, enrol,
};
use nuncio_a2h::peer::{
    InboundMessage, IncomingStreamEvent, IncomingStreamEventKind, Peer, PeerConfig, PeerHandler, UnopenableMessage,
};
use nuncio_a2h::wire::artifact::{Artifact, ArtifactPayload, ToolCall, ToolOutcome, ToolResponse};
use nuncio_core::bundle::{KeyBundle, SealMode};
use nuncio_core::conversation::MessageRef;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{CallId, DeviceId, PersonName};
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::notification::RelayParty;
use nuncio_engine::ports::fetch::AddressTrust;
use nuncio_engine::ports::{Clock, Fetch, WebSocketDialer};
use nuncio_identity::seal::{KeyStore, NewSealIdentity, SealIdentity};
use nuncio_server::fetch::{AllowedAddresses, GuardedFetch};
use nuncio_server::{SystemClock, SystemEntropy};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use url::Url;

mod agent;
mod content_keys;
mod jumping;
mod tampering_proxy;

pub use agent::{AgentTransport, SealedAgent};
pub use content_keys::content_key_in;
pub use jumping::JumpingClock;
pub use tampering_proxy::TamperingProxy;

/// Network access and clock of a peer.
#[derive(Debug, Clone)]
pub struct PeerDependencies {
    pub fetch: Arc<dyn Fetch>,
    pub dial: Arc<dyn WebSocketDialer>,
    pub clock: Arc<dyn Clock>,
}

impl PeerDependencies {
    #[must_use]
    pub fn direct() -> Self {
        let fetch = Arc::new(GuardedFetch::new(AllowedAddresses::none(), true, None).unwrap());
        Self { fetch: Arc::clone(&fetch) as _, dial: fetch, clock: Arc::new(SystemClock) }
    }

    #[must_use]
    pub fn through(between: &TamperingProxy) -> Self {
        let between = Arc::new(between.clone());
        Self { fetch: Arc::clone(&between) as _, dial: between, clock: Arc::new(SystemClock) }
    }

    #[must_use]
    pub fn with_clock(self, clock: &(impl Clock + Clone)) -> Self {
        Self { clock: Arc::new(clock.clone()), ..self }
    }
}

/// Function that gives the device's answer to a tool call.
type CallAnswerFn = Arc<dyn Fn(&ToolCall) -> ToolOutcome + Send + Sync>;

/// A test device that exchanges sealed messages.
#[derive(Debug)]
pub struct SealedDevice {
    pub peer: Peer,
    pub relay: Arc<HttpRelayClient>,
    pub person: PersonName,
    /// Number of tool calls that the device ran.
    pub ran: Arc<AtomicUsize>,
    /// Messages that the device opened.
    pub heard: Arc<Mutex<Vec<InboundMessage>>>,
    /// Messages that the device could not open.
    pub refused: Arc<Mutex<Vec<UnopenableMessage>>>,
    /// Stream events that the device received.
    pub streamed: Arc<Mutex<Vec<IncomingStreamEvent>>>,
    who: RelayClientIdentity,
    sign: Signer,
    stop: CancellationToken,
}

struct Signer(SignFn);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

/// Key of the stored record with the device's identity, beside its keys.
const SELF: &str = "test/self";

impl SealedDevice {
    /// Enrols a device with its keys in `key_store`. A device already enrolled there is opened again without `code`.
    pub async fn start(
        url: &str,
        code: &str,
        key_store: Arc<dyn KeyStore>,
        act: impl Fn(&ToolCall) -> ToolOutcome + Send + Sync + 'static,
    ) -> Self {
        Self::start_by(&PeerDependencies::direct(), url, code, key_store, act).await
    }

    pub async fn start_by(
        network: &PeerDependencies,
        url: &str,
        code: &str,
        key_store: Arc<dyn KeyStore>,
        act: impl Fn(&ToolCall) -> ToolOutcome + Send + Sync + 'static,
    ) -> Self {
        let PeerDependencies { fetch, dial, clock } = network.clone();
        let (url, now) = (Url::parse(url).unwrap(), clock.now());
        let mut seal_identity = match SealIdentity::load(Arc::clone(&key_store)).unwrap() {
            Some(seal_identity) => seal_identity,
            None => {
                let new = NewSealIdentity { named: None, mode: SealMode::Stateful, now };
                SealIdentity::create(Arc::clone(&key_store), &new).unwrap()
            }
        };
        let key = seal_identity.signing_key();
        let signing = Mutex::new(SealIdentity::load(Arc::clone(&key_store)).unwrap().unwrap());
        let sign: SignFn = Arc::new(move |message| signing.lock().unwrap().sign(message));
        let enrolment = key_store.load(SELF).unwrap().map(|bytes| serde_json::from_slice::<Value>(&bytes).unwrap());
        let enrolment = match enrolment {
            Some(enrolment) => enrolment,
            None => {
                let invitation = DeviceInvitation {
                    url: url.clone(),
                    trust: AddressTrust::Configured,
                    code: code.to_owned(),
                    fingerprint: None,
                };
                let enrolled = enrol(&*fetch, &invitation, "laptop", key, &sign).await.unwrap();
                let enrolment =
                    json!({"person": enrolled.person, "device": enrolled.device, "audience": enrolled.audience});
                key_store.save(vec![(SELF.to_owned(), Some(enrolment.to_string().into_bytes()))]).unwrap();
                enrolment
            }
        };
        let person: PersonName = serde_json::from_value(enrolment["person"].clone()).unwrap();
        let device: DeviceId = serde_json::from_value(enrolment["device"].clone()).unwrap();
        seal_identity.set_owner_device(RelayParty::Person(person.clone()), device.clone(), now).unwrap();
        let who = RelayClientIdentity::Device(person.clone(), device);
        let login = DeviceRelayCredentials {
            who: who.clone(),
            url: url.clone(),
            trust: AddressTrust::Configured,
            audience: enrolment["audience"].as_str().unwrap().to_owned(),
            sign: Arc::clone(&sign),
            fetch: Arc::clone(&fetch),
            clock: Arc::clone(&clock),
            entropy: Arc::new(SystemEntropy),
            earned: tokio::sync::Mutex::default(),
        };
        let address = RelayAddress { url, trust: AddressTrust::Configured };
        let relay = Arc::new(HttpRelayClient::by_socket(address, Arc::new(login), fetch, dial));
        let ran = Arc::<AtomicUsize>::default();
        let (heard, refused) = <(Arc<Mutex<Vec<InboundMessage>>>, Arc<Mutex<Vec<UnopenableMessage>>>)>::default();
        let streamed = Arc::<Mutex<Vec<IncomingStreamEvent>>>::default();
        let hands = TestDeviceHandler {
            relay: Arc::clone(&relay),
            key_store: Arc::clone(&key_store),
            act: Arc::new(act),
            ran: Arc::clone(&ran),
            heard: Arc::clone(&heard),
            refused: Arc::clone(&refused),
            streamed: Arc::clone(&streamed),
            clock: Arc::clone(&clock),
        };
        let peer = Peer::new(PeerConfig {
            relay: Arc::clone(&relay) as _,
            key_store,
            seal_identity,
            clock,
            entropy: Arc::new(SystemEntropy),
            handler: Arc::new(hands),
        });
        peer.keys().publish_keys().await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(peer.clone().run(stop.clone()));
        Self { peer, relay, person, ran, heard, refused, streamed, who, sign: Signer(sign), stop }
    }

    /// Grants scopes to an agent.
    pub async fn allow(&self, agent: &str, scopes: &[&str]) -> Value {
        self.consent("POST", "/h2a/relations", json!({"agent_id": agent, "granted_scopes": scopes})).await
    }

    /// Signs and sends a consent.
    pub async fn consent(&self, method: &'static str, path: &str, mut body: Value) -> Value {
        let asked = self.relay.ask(method, path, Some(body.clone())).await;
        let Err(RelayClientError::Unsigned(entry)) = asked else { panic!("{asked:?}") };
        let entry: LedgerEntry = serde_json::from_value(entry).unwrap();
        let signature = Some((self.sign.0)(&entry.message()));
        body["entry"] = json!(LedgerEntry { signature, ..entry });
        self.relay.ask(method, path, Some(body)).await.unwrap()
    }

    /// The device's keys as published at the relay.
    pub async fn bundle(&self) -> KeyBundle {
        let RelayClientIdentity::Device(person, device) = &self.who else { panic!("a device belongs to a person") };
        let all = self.relay.keys_of(&RelayParty::Person(person.clone())).await.unwrap();
        all.into_iter().find(|bundle| bundle.keys.device_id == *device).unwrap()
    }

    /// Endorses another device of the same person.
    pub async fn endorse(&self, other: &Self) -> Value {
        let other = other.bundle().await.keys;
        let signature = (self.sign.0)(&other.endorsed());
        let path = format!("/users/me/devices/{}/endorsement", other.device_id);
        self.relay.ask("POST", &path, Some(json!({"signature": signature}))).await.unwrap()
    }

    #[must_use]
    pub fn runs(&self) -> usize {
        self.ran.load(Ordering::SeqCst)
    }

    /// Reasons why messages could not be opened by the device.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        self.refused.lock().unwrap().iter().map(|refused| refused.why.to_string()).collect()
    }

    /// Stream events in short form: `begun`, the joined text, `done` or `aborted`.
    #[must_use]
    pub fn streams(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut saying = false;
        for event in &*self.streamed.lock().unwrap() {
            match (&event.what, words.last_mut()) {
                (IncomingStreamEventKind::Delta(more), Some(body)) if saying => body.push_str(more),
                (IncomingStreamEventKind::Delta(more), _) => words.push(more.clone()),
                (IncomingStreamEventKind::Begun, _) => words.push("begun".to_owned()),
                (IncomingStreamEventKind::Done { .. }, _) => words.push("done".to_owned()),
                (IncomingStreamEventKind::Aborted, _) => words.push("aborted".to_owned()),
            }
            saying = matches!(event.what, IncomingStreamEventKind::Delta(_));
        }
        words
    }

    /// Texts of the messages that the device opened.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let heard = self.heard.lock().unwrap();
        heard.iter().filter_map(|message| message.payload["text"].as_str().map(str::to_owned)).collect()
    }

    pub fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for SealedDevice {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Claims tool calls and answers each once; a repeated call gets the stored answer.
struct TestDeviceHandler {
    relay: Arc<HttpRelayClient>,
    key_store: Arc<dyn KeyStore>,
    act: CallAnswerFn,
    ran: Arc<AtomicUsize>,
    heard: Arc<Mutex<Vec<InboundMessage>>>,
    refused: Arc<Mutex<Vec<UnopenableMessage>>>,
    streamed: Arc<Mutex<Vec<IncomingStreamEvent>>>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for TestDeviceHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestDeviceHandler")
    }
}

#[async_trait]
impl PeerHandler for TestDeviceHandler {
    async fn on_message(&self, peer: &Peer, message: InboundMessage) {
        self.heard.lock().unwrap().push(message.clone());
        let Ok(ArtifactPayload::Artifact { artifact: Artifact::ToolCall(call) }) =
            serde_json::from_value(message.payload.clone())
        else {
            return;
        };
        let index = MessageRef { conversation: message.conversation.clone(), seq: message.seq };
        if !self.claim(&index).await {
            return;
        }
        tokio::task::yield_now().await;
        let outcome = self.once(&call).await;
        tokio::task::yield_now().await;
        let response = ToolResponse { call_id: call.call_id, outcome };
        let _ = peer.calls().respond(&message.conversation, response).await;
    }

    async fn on_refused(&self, _: &Peer, refused: UnopenableMessage) {
        self.refused.lock().unwrap().push(refused);
    }

    async fn on_stream(&self, _: &Peer, event: IncomingStreamEvent) {
        self.streamed.lock().unwrap().push(event);
    }
}

impl TestDeviceHandler {
    /// Claims a tool call, retrying while the relay cannot be reached.
    async fn claim(&self, index: &MessageRef) -> bool {
        loop {
            match self.relay.claim(&index.id().unwrap()).await {
                Ok(mine) => return mine,
                Err(error) if error.is_retryable() => {
                    self.clock.sleep_until(self.clock.now().after(Duration::from_millis(200))).await;
                }
                Err(_) => return false,
            }
        }
    }

    /// Runs a new tool call; returns the stored outcome of a known one.
    async fn once(&self, call: &ToolCall) -> ToolOutcome {
        let name = |call: &CallId| format!("test/call/{}", Digest::of_bytes(call.as_str().as_bytes()));
        let name = name(&call.call_id);
        if let Some(enrolment) = self.key_store.load(&name).unwrap() {
            return serde_json::from_slice(&enrolment).unwrap();
        }
        let begun: ToolOutcome = serde_json::from_value(json!({
            "status": "error", "error_code": "TOOL_PLATFORM_ERROR", "message": "the device stopped while it ran",
        }))
        .unwrap();
        let save = |outcome: &ToolOutcome| {
            self.key_store.save(vec![(name.clone(), Some(serde_json::to_vec(outcome).unwrap()))]).unwrap();
        };
        save(&begun);
        self.ran.fetch_add(1, Ordering::SeqCst);
        let outcome = (self.act)(call);
        // Simulates the time of a file access.
        self.clock.sleep_until(self.clock.now().after(Duration::from_millis(20))).await;
        save(&outcome);
        outcome
    }
}
