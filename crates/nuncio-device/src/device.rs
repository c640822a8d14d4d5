//! One device of one person: its keys, its relay connection and its main loop.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use nuncio_a2h::client::{
    DeviceLogin, HttpRelay, Invitation, Relay as _, RelayAddress, RelayError, RelayEventKind, RelayIdentity, SignFn,
    enrol as let_in,
};
use nuncio_a2h::peer::{InboundMessage, Peer, PeerConfig, PeerHandler, SentConfirmation, StreamEvent, UnopenedMessage};
use nuncio_a2h::wire::artifact::{Artifact, Payload};
use nuncio_core::Code;
use nuncio_core::bundle::{KeyBundle, SealMode};
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, DeviceId, PersonName};
use nuncio_core::manifest::Presets;
use nuncio_core::opaque_debug;
use nuncio_core::signature::PublicKey;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::fetch::Trust;
use nuncio_engine::ports::{Clock, Dial, Entropy, Fetch};
use nuncio_identity::seal::{KeyStore, NewSealIdentity, SealIdentity};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::audit::{AuditChainError, AuditFilter, AuditLog, AuditPage, ChainedEntry};
use crate::calls;
use crate::claimed_calls::ClaimedCalls;
use crate::consent_windows;
use crate::device_events::{DeviceEvent, EventSender};
use crate::error::DeviceError;
use crate::guard::Floors;
use crate::introduction::{INTRODUCED, Introduction};
use crate::known_agents;
use crate::prompt::Prompt;
use crate::records::Records;
use crate::talk::ReplyStreams;
use crate::tools::Tools;

use serve::IncomingCall;

mod serve;

pub(crate) const SELF: &str = "self";

#[derive(Debug, Clone)]
pub struct DeviceConfig {
    /// Keys and records. Must not be readable by other users.
    pub keep: Arc<dyn KeyStore>,
    pub fetch: Arc<dyn Fetch>,
    /// Opens WebSocket connections.
    pub dial: Arc<dyn Dial>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// Well-known scopes.
    pub presets: Arc<Presets>,
    /// Minimum sensitivities set by an administrator.
    pub floors: Floors,
    pub tools: Tools,
    pub prompt: Arc<dyn Prompt>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceIdentity {
    pub person: PersonName,
    pub device: DeviceId,
    pub url: Url,
    /// Audience of the signed login challenge.
    pub audience: String,
    /// Public key of the relay, pinned at enrolment.
    pub server_key: PublicKey,
}

impl DeviceIdentity {
    pub(crate) fn login(&self, config: &DeviceConfig, sign: SignFn) -> DeviceLogin {
        DeviceLogin {
            who: RelayIdentity::Device(self.person.clone(), self.device.clone()),
            url: self.url.clone(),
            trust: Trust::Configured,
            audience: self.audience.clone(),
            sign,
            fetch: Arc::clone(&config.fetch),
            clock: Arc::clone(&config.clock),
            entropy: Arc::clone(&config.entropy),
            earned: tokio::sync::Mutex::default(),
        }
    }
}

/// Cheap to clone; all clones share one state.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    config: DeviceConfig,
    identity: DeviceIdentity,
    records: Records,
    relay: Arc<HttpRelay>,
    peer: Peer,
    sign: SignFn,
    lock: Mutex<()>,
    /// Calls that other devices claimed.
    taken: ClaimedCalls,
    events: EventSender,
    writing: ReplyStreams,
}

impl Device {
    /// Enrols a new device with an invite.
    ///
    /// # Errors
    /// The directory already holds a device, the invite is invalid, or the server has another key than the invite
    /// names.
    pub async fn enrol(config: DeviceConfig, invitation: &Invitation, name: &str) -> Result<Self, DeviceError> {
        let records = Records::new(Arc::clone(&config.keep));
        if records.get::<DeviceIdentity>(SELF)?.is_some() {
            return Err(DeviceError::new(Code::DataDirInUse, "a device lives here already; choose another folder"));
        }
        if !reaches_safely(&invitation.url) {
            let message = "a relay elsewhere is reached by https: what opens its doors would be read on the way";
            return Err(DeviceError::new(Code::OutboundRefused, message));
        }
        // The part after the code is meant for the two devices only and not sent to the relay.
        let (code, introduction) = Introduction::split(&invitation.code);
        let invitation = &Invitation { code: code.to_owned(), ..invitation.clone() };
        let party = party(&config)?;
        let key = party.signing_key();
        let sign = signer(party);
        let enrolled = match let_in(&*config.fetch, invitation, name, key, &sign).await {
            Ok(enrolled) => enrolled,
            Err(error) => {
                // A server with another key than the invite names has accepted this device key: the key is discarded.
                if matches!(error, RelayError::Refused { code: Code::PeerUntrusted, .. }) {
                    let names = config.keep.names("")?;
                    config.keep.save(names.into_iter().map(|name| (name, None)).collect())?;
                }
                return Err(error.into());
            }
        };
        let identity = DeviceIdentity {
            person: enrolled.person,
            device: enrolled.device,
            url: invitation.url.clone(),
            audience: enrolled.audience,
            server_key: enrolled.server_key,
        };
        let introduced = introduction.map(|introduction| Records::put(INTRODUCED, &introduction));
        records.save([Records::put(SELF, &identity)].into_iter().chain(introduced).collect())?;
        let device =
            Self::open(config)?.ok_or_else(|| DeviceError::new(Code::Internal, "the device was forgotten at once"))?;
        if let Err(error) = device.trust_inviter(&device.me()).await {
            tracing::warn!(%error, "the device that invited this one is looked at later");
        }
        Ok(device)
    }

    /// Opens the enrolled device; `None` if the directory holds none.
    pub fn open(config: DeviceConfig) -> Result<Option<Self>, DeviceError> {
        let records = Records::new(Arc::clone(&config.keep));
        let Some(identity) = records.get::<DeviceIdentity>(SELF)? else { return Ok(None) };
        let mut keys = party(&config)?;
        let owner = Recipient::Person(identity.person.clone());
        keys.set_owner_device(owner, identity.device.clone(), config.clock.now())?;
        let sign = signer(party(&config)?);
        let login = identity.login(&config, Arc::clone(&sign));
        let address = RelayAddress { url: identity.url.clone(), trust: Trust::Configured };
        let (fetch, dial) = (Arc::clone(&config.fetch), Arc::clone(&config.dial));
        let relay = Arc::new(HttpRelay::by_socket(address, Arc::new(login), fetch, dial));
        let inner = Arc::new_cyclic(|this: &std::sync::Weak<Inner>| {
            let peer = Peer::new(PeerConfig {
                relay: Arc::clone(&relay) as _,
                keep: Arc::clone(&config.keep),
                party: keys,
                clock: Arc::clone(&config.clock),
                entropy: Arc::clone(&config.entropy),
                handler: Arc::new(DeviceHandler(this.clone())),
            });
            Inner {
                config,
                identity,
                records,
                relay,
                peer,
                sign,
                lock: Mutex::default(),
                taken: ClaimedCalls::new(),
                events: EventSender::new(),
                writing: ReplyStreams::new(),
            }
        });
        Ok(Some(Self { inner }))
    }

    /// Answers calls until `stop`. Calls that were open when the previous process stopped are answered first; nothing
    /// runs again and the person is not asked again.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), DeviceError> {
        self.tidy()?;
        for (record, outcome) in calls::unsent(self.records())? {
            let device = self.clone();
            tokio::spawn(async move { device.send_leftover(record, outcome).await });
        }
        for (record, outcome) in calls::leftovers(self.records())? {
            let device = self.clone();
            tokio::spawn(async move { device.finish_leftover(record, outcome).await });
        }
        self.resume_sending()?;
        for known in known_agents::all(self.records())? {
            if known.taken_back
                && let Err(error) = self.revoke(&known.agent).await
                && error.code != Code::RelationNotFound
            {
                tracing::warn!(agent = %known.agent, %error, "the relay does not know yet that this agent was revoked; retrying at the next start");
            }
            if let Err(error) = self.refresh(&known.agent).await {
                tracing::warn!(agent = %known.agent, %error, "cannot refresh an agent; its stored manifest and ledger may be outdated");
            }
        }
        self.inner.peer.clone().run(stop).await;
        Ok(())
    }

    fn tidy(&self) -> Result<(), DeviceError> {
        let _lock = self.state_lock();
        let mut changes = self.audit_log().forget(self.now())?;
        changes.extend(calls::forget(self.records(), self.now().before(crate::audit::AUDIT_RETENTION))?);
        Ok(self.records().save(changes)?)
    }

    #[must_use]
    pub fn identity(&self) -> &DeviceIdentity {
        &self.inner.identity
    }

    /// The device's connection to its relay, for conversations.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.inner.peer
    }

    /// Audit log, oldest first.
    pub fn audit(&self) -> Result<Vec<ChainedEntry>, DeviceError> {
        Ok(self.audit_log().all()?)
    }

    /// Verifies the audit log. Returns the number of entries.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn verify_audit(&self) -> Result<u64, AuditChainError> {
        // An entry may be appended during the read: a failure is checked again under the lock.
        self.audit_log().verify().or_else(|_| {
            let _lock = self.state_lock();
            self.audit_log().verify()
        })
    }

    /// The newest matching entries numbered below `before`, and the verification of the whole log.
    pub async fn audit_page(
        &self,
        filter: AuditFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<AuditPage, DeviceError> {
        let device = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let page = device.audit_log().page(&filter, before, limit);
            if page.proof.is_ok() {
                return page;
            }
            let _lock = device.state_lock();
            device.audit_log().page(&filter, before, limit)
        });
        read.await.map_err(|_| DeviceError::new(Code::Internal, "the log was not read to its end"))
    }

    /// The audit log as JSON lines, oldest first, each entry with its hash.
    pub async fn audit_lines(&self) -> Result<String, DeviceError> {
        let log = self.audit_log();
        let read = tokio::task::spawn_blocking(move || log.lines());
        read.await.map_err(|_| DeviceError::new(Code::Internal, "the log was not read to its end"))
    }

    /// Hears what happens from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<DeviceEvent> {
        self.inner.events.listen()
    }

    pub(crate) fn notify(&self, news: DeviceEvent) {
        self.inner.events.notify(news);
    }

    fn audit_log(&self) -> AuditLog {
        AuditLog::new(self.inner.records.clone())
    }

    pub(crate) fn records(&self) -> &Records {
        &self.inner.records
    }

    /// Lock for every read-modify-write of the records.
    pub(crate) fn state_lock(&self) -> MutexGuard<'_, ()> {
        self.inner.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn relay(&self) -> &HttpRelay {
        &self.inner.relay
    }

    /// Published keys of an agent or person, as the relay lists them.
    pub(crate) async fn relay_keys(&self, owner: &Recipient) -> Result<Vec<KeyBundle>, DeviceError> {
        Ok(self.inner.relay.keys_of(owner).await?)
    }

    pub(crate) fn keep(&self) -> &Arc<dyn KeyStore> {
        &self.inner.config.keep
    }

    pub(crate) fn presets(&self) -> &Presets {
        &self.inner.config.presets
    }

    pub(crate) fn floors(&self) -> &Floors {
        &self.inner.config.floors
    }

    pub(crate) fn signer(&self) -> &SignFn {
        &self.inner.sign
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.config.clock.now()
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.inner.config.entropy
    }

    pub(crate) async fn pause(&self, time: std::time::Duration) {
        self.inner.config.clock.sleep_until(self.now().after(time)).await;
    }

    pub(crate) fn writing(&self) -> &ReplyStreams {
        &self.inner.writing
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} of {})", self.inner.identity.device, self.inner.identity.person)
    }
}

/// The device's key material, created on first use.
fn party(config: &DeviceConfig) -> Result<SealIdentity, DeviceError> {
    Ok(match SealIdentity::load(Arc::clone(&config.keep))? {
        Some(party) => party,
        None => {
            let new = NewSealIdentity { named: None, mode: SealMode::Stateful, now: config.clock.now() };
            SealIdentity::create(Arc::clone(&config.keep), &new)?
        }
    })
}

/// Whether the connection cannot be read on the way: local, or TLS.
pub(crate) fn reaches_safely(relay: &Url) -> bool {
    relay.scheme() == "https" || (relay.scheme() == "http" && nuncio_core::address::is_local(relay))
}

fn signer(party: SealIdentity) -> SignFn {
    let party = Mutex::new(party);
    Arc::new(move |message| party.lock().unwrap_or_else(PoisonError::into_inner).sign(message))
}

/// Dispatches what arrives at the device.
struct DeviceHandler(std::sync::Weak<Inner>);

opaque_debug!(DeviceHandler);

#[async_trait]
impl PeerHandler for DeviceHandler {
    async fn on_message(&self, _: &Peer, message: InboundMessage) {
        let Some(device) = self.0.upgrade().map(|inner| Device { inner }) else { return };
        let called = match serde_json::from_value(message.payload.clone()) {
            Ok(Payload::Artifact { artifact: Artifact::ToolCall(call) }) => Some(call),
            _ => None,
        };
        let (Recipient::Agent(agent), Some(call)) = (message.sender.clone(), called) else {
            return device.receive_message(message).await;
        };
        let arrived = IncomingCall { message, agent, call };
        // The call is on disk before this returns, so that it is not lost.
        let came = match device.take(&arrived) {
            Ok(came) => came,
            Err(error) => return tracing::error!(%error, call = %arrived.call.call_id, "cannot store an incoming call"),
        };
        // In its own task, because the person may take long to answer.
        tokio::spawn(async move {
            if let Err(error) = device.serve(&arrived, came).await {
                tracing::error!(%error, call = %arrived.call.call_id, "cannot answer a call");
            }
        });
    }

    async fn on_refused(&self, _: &Peer, refused: UnopenedMessage) {
        let Some(device) = self.0.upgrade().map(|inner| Device { inner }) else { return };
        device.store_unopened(refused).await;
    }

    async fn on_sent(&self, _: &Peer, sent: SentConfirmation) {
        let Some(device) = self.0.upgrade().map(|inner| Device { inner }) else { return };
        device.confirm_sent(sent).await;
    }

    async fn on_stream(&self, _: &Peer, event: StreamEvent) {
        let Some(device) = self.0.upgrade().map(|inner| Device { inner }) else { return };
        device.forward_stream(event);
    }

    async fn on_event(&self, _: &Peer, what: &RelayEventKind) {
        let Some(device) = self.0.upgrade().map(|inner| Device { inner }) else { return };
        let agents: Vec<AgentId> = match what {
            RelayEventKind::KeysChanged(Recipient::Agent(agent)) => {
                let closed = {
                    let _lock = device.state_lock();
                    consent_windows::close(device.records(), agent).map(|changes| device.records().save(changes))
                };
                if !matches!(closed, Ok(Ok(()))) {
                    tracing::error!(%agent, "cannot close the consent windows of an agent");
                }
                device.notify(DeviceEvent::Agent { agent: agent.clone() });
                vec![agent.clone()]
            }
            RelayEventKind::KeysChanged(Recipient::Person(person)) => {
                if *person == device.inner.identity.person {
                    device.notify(DeviceEvent::Devices);
                }
                return;
            }
            RelayEventKind::Relation(_) => match known_agents::all(device.records()) {
                Ok(all) => all.into_iter().map(|known| known.agent).collect(),
                Err(_) => return,
            },
            RelayEventKind::Claimed { message, device: other } if *other != device.inner.identity.device => {
                device.inner.taken.add(message.clone());
                return;
            }
            _ => return,
        };
        for agent in agents {
            if let Err(error) = device.refresh(&agent).await {
                tracing::warn!(%agent, %error, "cannot refresh an agent; its stored manifest and ledger may be outdated");
            }
        }
    }
}
