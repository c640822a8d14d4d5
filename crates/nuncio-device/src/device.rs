//! One device of one person: its keys, its relay, and the life in which it answers calls.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use nuncio_a2h::client::{
    DeviceLogin, HttpRelay, Invitation, Relay as _, RelayAddress, RelayError, Sign, What, Who, enrol as let_in,
};
use nuncio_a2h::peer::{Inbound, OnMessage, Peer, PeerConfig, Refused, Sent, StreamEvent};
use nuncio_a2h::wire::artifact::{Artifact, Payload};
use nuncio_core::Code;
use nuncio_core::bundle::{KeyBundle, SealMode};
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, DeviceId, PersonName};
use nuncio_core::manifest::Presets;
use nuncio_core::signature::PublicKey;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::fetch::Trust;
use nuncio_engine::ports::{Clock, Dial, Entropy, Fetch};
use nuncio_identity::seal::{Keep, NewParty, Party};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::audit::{AuditBroken, AuditLog, AuditPage, Chained, Filter};
use crate::calls;
use crate::error::DeviceError;
use crate::guard::Floors;
use crate::introduction::{INTRODUCED, Introduction};
use crate::news::{News, Teller};
use crate::prompt::Prompt;
use crate::records::Records;
use crate::standing;
use crate::taken::Taken;
use crate::talk::Writing;
use crate::tools::Tools;
use crate::windows;

use serve::Arrived;

mod serve;

pub(crate) const SELF: &str = "self";

/// What a device stands on.
#[derive(Debug, Clone)]
pub struct DeviceConfig {
    /// Where its keys are, and all it must not lose. Nobody else may read it.
    pub keep: Arc<dyn Keep>,
    /// The way out.
    pub fetch: Arc<dyn Fetch>,
    /// The way to connections that keep talking.
    pub dial: Arc<dyn Dial>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The scopes everyone knows.
    pub presets: Arc<Presets>,
    /// What an administrator set.
    pub floors: Floors,
    /// What it can do.
    pub tools: Tools,
    /// Who asks the person.
    pub prompt: Arc<dyn Prompt>,
}

/// Who a device is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceIdentity {
    /// Its person.
    pub person: PersonName,
    /// Its name at the relay.
    pub device: DeviceId,
    /// The relay.
    pub url: Url,
    /// What it signs for to get in.
    pub audience: String,
    /// The key of the relay, pinned when it was let in.
    pub server_key: PublicKey,
}

impl DeviceIdentity {
    /// How it gets in at its relay.
    pub(crate) fn login(&self, config: &DeviceConfig, sign: Sign) -> DeviceLogin {
        DeviceLogin {
            who: Who::Device(self.person.clone(), self.device.clone()),
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

/// A device. Cheap to clone; all clones are one.
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
    sign: Sign,
    turn: Mutex<()>,
    /// Calls that other devices took.
    taken: Taken,
    teller: Teller,
    writing: Writing,
}

impl Device {
    /// Brings a new device in by an invite.
    ///
    /// # Errors
    /// There is one already, the invite is not good, or the server is not the one it names.
    pub async fn enrol(config: DeviceConfig, invitation: &Invitation, name: &str) -> Result<Self, DeviceError> {
        let records = Records::new(Arc::clone(&config.keep));
        if records.get::<DeviceIdentity>(SELF)?.is_some() {
            return Err(DeviceError::new(Code::DataDirInUse, "a device lives here already; choose another folder"));
        }
        if !reaches_safely(&invitation.url) {
            let message = "a relay elsewhere is reached by https: what opens its doors would be read on the way";
            return Err(DeviceError::new(Code::OutboundRefused, message));
        }
        // What stands behind the code is between the two devices.
        let (code, introduction) = Introduction::split(&invitation.code);
        let invitation = &Invitation { code: code.to_owned(), ..invitation.clone() };
        let party = party(&config)?;
        let key = party.signing_key();
        let sign = signer(party);
        let enrolled = match let_in(&*config.fetch, invitation, name, key, &sign).await {
            Ok(enrolled) => enrolled,
            Err(error) => {
                // Whoever answered has let that key in, and is not whom the invite names: it is used no more.
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
        if let Err(error) = device.meet_inviter(&device.me()).await {
            tracing::warn!(%error, "the device that invited this one is looked at later");
        }
        Ok(device)
    }

    /// Takes up the device that lives there; none where there is none.
    ///
    /// # Errors
    /// Its keys cannot be used.
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
                handler: Arc::new(Hands(this.clone())),
            });
            Inner {
                config,
                identity,
                records,
                relay,
                peer,
                sign,
                turn: Mutex::default(),
                taken: Taken::new(),
                teller: Teller::new(),
                writing: Writing::new(),
            }
        });
        Ok(Some(Self { inner }))
    }

    /// Answers calls until told to stop. What a process before this one left open is answered first: nothing is run
    /// again, and nobody is asked again.
    ///
    /// # Errors
    /// What is kept cannot be read.
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
        self.resume_talk()?;
        for known in standing::all(self.records())? {
            if known.taken_back
                && let Err(error) = self.revoke(&known.agent).await
                && error.code != Code::RelationNotFound
            {
                tracing::warn!(agent = %known.agent, %error, "the relay has not heard yet that everything was taken back");
            }
            if let Err(error) = self.refresh(&known.agent).await {
                tracing::warn!(agent = %known.agent, %error, "what is known of an agent may be old");
            }
        }
        self.inner.peer.clone().run(stop).await;
        Ok(())
    }

    /// Forgets what is too old.
    fn tidy(&self) -> Result<(), DeviceError> {
        let _turn = self.turn();
        let mut changes = self.audit_log().forget(self.now())?;
        changes.extend(calls::forget(self.records(), self.now().before(crate::audit::KEPT))?);
        Ok(self.records().save(changes)?)
    }

    /// Who it is.
    #[must_use]
    pub fn identity(&self) -> &DeviceIdentity {
        &self.inner.identity
    }

    /// It at its relay: for conversations.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.inner.peer
    }

    /// What happened on it, oldest first.
    ///
    /// # Errors
    /// What is kept cannot be read.
    pub fn audit(&self) -> Result<Vec<Chained>, DeviceError> {
        Ok(self.audit_log().all()?)
    }

    /// Proves what happened on it; how many entries there are.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn verify_audit(&self) -> Result<u64, AuditBroken> {
        // Something may be written while it is read: what does not hold is read again with nobody writing.
        self.audit_log().verify().or_else(|_| {
            let _turn = self.turn();
            self.audit_log().verify()
        })
    }

    /// The newest of what happened on it that fit, before that number where one is given; the whole is proved on the way.
    ///
    /// # Errors
    /// The work was given up.
    pub async fn audit_page(
        &self,
        filter: Filter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<AuditPage, DeviceError> {
        let device = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let page = device.audit_log().page(&filter, before, limit);
            if page.proof.is_ok() {
                return page;
            }
            let _turn = device.turn();
            device.audit_log().page(&filter, before, limit)
        });
        read.await.map_err(|_| DeviceError::new(Code::Internal, "the log was not read to its end"))
    }

    /// Everything that happened on it, one entry a line as JSON, oldest first, each with its hash.
    ///
    /// # Errors
    /// The work was given up.
    pub async fn audit_lines(&self) -> Result<String, DeviceError> {
        let log = self.audit_log();
        let read = tokio::task::spawn_blocking(move || log.lines());
        read.await.map_err(|_| DeviceError::new(Code::Internal, "the log was not read to its end"))
    }

    /// Hears what happens from now on.
    #[must_use]
    pub fn news(&self) -> broadcast::Receiver<News> {
        self.inner.teller.listen()
    }

    pub(crate) fn tell(&self, news: News) {
        self.inner.teller.tell(news);
    }

    fn audit_log(&self) -> AuditLog {
        AuditLog::new(self.inner.records.clone())
    }

    pub(crate) fn records(&self) -> &Records {
        &self.inner.records
    }

    /// Held by whoever reads records to write them: one at a time.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.inner.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn relay(&self) -> &HttpRelay {
        &self.inner.relay
    }

    /// Somebody's keys as the relay shows them.
    pub(crate) async fn relay_keys(&self, owner: &Recipient) -> Result<Vec<KeyBundle>, DeviceError> {
        Ok(self.inner.relay.keys_of(owner).await?)
    }

    pub(crate) fn keep(&self) -> &Arc<dyn Keep> {
        &self.inner.config.keep
    }

    pub(crate) fn presets(&self) -> &Presets {
        &self.inner.config.presets
    }

    pub(crate) fn floors(&self) -> &Floors {
        &self.inner.config.floors
    }

    pub(crate) fn signer(&self) -> &Sign {
        &self.inner.sign
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.config.clock.now()
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.inner.config.entropy
    }

    /// Waits that long.
    pub(crate) async fn pause(&self, time: std::time::Duration) {
        self.inner.config.clock.sleep_until(self.now().after(time)).await;
    }

    pub(crate) fn writing(&self) -> &Writing {
        &self.inner.writing
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} of {})", self.inner.identity.device, self.inner.identity.person)
    }
}

/// The device's keys, made at first need.
fn party(config: &DeviceConfig) -> Result<Party, DeviceError> {
    Ok(match Party::load(Arc::clone(&config.keep))? {
        Some(party) => party,
        None => {
            let new = NewParty { named: None, mode: SealMode::Stateful, now: config.clock.now() };
            Party::create(Arc::clone(&config.keep), &new)?
        }
    })
}

/// Whether nobody reads what is said to it on the way: it is on this machine, or speaks TLS.
pub(crate) fn reaches_safely(relay: &Url) -> bool {
    relay.scheme() == "https" || (relay.scheme() == "http" && nuncio_core::address::is_local(relay))
}

/// Signs with these keys.
fn signer(party: Party) -> Sign {
    let party = Mutex::new(party);
    Arc::new(move |message| party.lock().unwrap_or_else(PoisonError::into_inner).sign(message))
}

/// Takes what comes to the device.
struct Hands(std::sync::Weak<Inner>);

impl fmt::Debug for Hands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hands")
    }
}

#[async_trait]
impl OnMessage for Hands {
    async fn on_message(&self, _: &Peer, message: Inbound) {
        let Some(device) = self.0.upgrade().map(|inner| Device { inner }) else { return };
        let called = match serde_json::from_value(message.payload.clone()) {
            Ok(Payload::Artifact { artifact: Artifact::ToolCall(call) }) => Some(call),
            _ => None,
        };
        let (Recipient::Agent(agent), Some(call)) = (message.sender.clone(), called) else {
            return device.hear(message).await;
        };
        let arrived = Arrived { message, agent, call };
        // Before this returns the call is on disk: from then on it is not lost.
        let came = match device.take(&arrived) {
            Ok(came) => came,
            Err(error) => return tracing::error!(%error, call = %arrived.call.call_id, "a call could not be taken in"),
        };
        // Apart: while the person is asked about one call, another may be silent.
        tokio::spawn(async move {
            if let Err(error) = device.serve(&arrived, came).await {
                tracing::error!(%error, call = %arrived.call.call_id, "a call could not be dealt with");
            }
        });
    }

    async fn on_refused(&self, _: &Peer, refused: Refused) {
        let Some(device) = self.0.upgrade().map(|inner| Device { inner }) else { return };
        device.hear_refused(refused).await;
    }

    async fn on_sent(&self, _: &Peer, sent: Sent) {
        let Some(device) = self.0.upgrade().map(|inner| Device { inner }) else { return };
        device.heard_sent(sent).await;
    }

    async fn on_stream(&self, _: &Peer, event: StreamEvent) {
        let Some(device) = self.0.upgrade().map(|inner| Device { inner }) else { return };
        device.hear_stream(event);
    }

    async fn on_event(&self, _: &Peer, what: &What) {
        let Some(device) = self.0.upgrade().map(|inner| Device { inner }) else { return };
        let agents: Vec<AgentId> = match what {
            What::KeysChanged(Recipient::Agent(agent)) => {
                let closed = {
                    let _turn = device.turn();
                    windows::close(device.records(), agent).map(|changes| device.records().save(changes))
                };
                if !matches!(closed, Ok(Ok(()))) {
                    tracing::error!(%agent, "windows could not be closed");
                }
                device.tell(News::Agent { agent: agent.clone() });
                vec![agent.clone()]
            }
            What::KeysChanged(Recipient::Person(person)) => {
                if *person == device.inner.identity.person {
                    device.tell(News::Devices);
                }
                return;
            }
            What::Relation(_) => match standing::all(device.records()) {
                Ok(all) => all.into_iter().map(|known| known.agent).collect(),
                Err(_) => return,
            },
            What::Claimed { message, device: other } if *other != device.inner.identity.device => {
                device.inner.taken.add(message.clone());
                return;
            }
            _ => return,
        };
        for agent in agents {
            if let Err(error) = device.refresh(&agent).await {
                tracing::warn!(%agent, %error, "what is known of an agent may be old");
            }
        }
    }
}
