//! One device of one person: its keys, its relay connection and its main loop.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use nuncio_a2h::client::{
    DeviceInvitation, DeviceRelayCredentials, HttpRelayClient, RelayAddress, RelayClientError, RelayClientIdentity,
    RelayEventKind, SignFn, enrol as enrol_at_relay,
};
use nuncio_a2h::peer::{
    InboundMessage, IncomingStreamEvent, Peer, PeerConfig, PeerHandler, SendError, SentMessageConfirmation,
    UnopenableMessage,
};
use nuncio_a2h::wire::artifact::{Artifact, ArtifactPayload, MalformedToolCall};
use nuncio_core::ErrorCode;
use nuncio_core::bundle::SealMode;
use nuncio_core::ids::{AgentId, DeviceId, PersonName};
use nuncio_core::manifest::ScopePresets;
use nuncio_core::notification::RelayParty;
use nuncio_core::opaque_debug;
use nuncio_core::signature::PublicKey;
use nuncio_engine::ports::fetch::AddressTrust;
use nuncio_engine::ports::{Clock, Entropy, Fetch, WebSocketDialer};
use nuncio_identity::seal::{KeyStore, NewSealIdentity, SealIdentity};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::audit::AuditReader;
use crate::backup::DeviceBackupService;
use crate::call_handler::{CallHandler, IncomingCall};
use crate::consent::AgentConsentService;
use crate::consent_windows;
use crate::context::DeviceContext;
use crate::device_events::DeviceEvent;
use crate::devices::OwnDeviceService;
use crate::error::DeviceError;
use crate::guard::SensitivityFloors;
use crate::introduction::{DeviceIntroductionSecret, INTRODUCED};
use crate::known_agents;
use crate::other_device_claims::CallsClaimedByOtherDevices;
use crate::prompt::PermissionPrompt;
use crate::record_store::RecordStore;
use crate::server_connection::ServerConnectionState;
use crate::talk::{AgentMessageService, StreamedReplies};
use crate::tools::LocalTools;

pub(crate) const SELF: &str = "self";

/// Limit of events that wait for a slow subscriber; beyond it the subscriber misses events.
const MAX_QUEUED_EVENTS: usize = 256;

#[derive(Debug, Clone)]
pub struct DeviceDependencies {
    /// Storage of keys and records. Must not be readable by other users.
    pub key_store: Arc<dyn KeyStore>,
    pub fetch: Arc<dyn Fetch>,
    /// Opens WebSocket connections.
    pub dial: Arc<dyn WebSocketDialer>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// Well-known scopes with their labels and minimum sensitivities.
    pub presets: Arc<ScopePresets>,
    /// Minimum sensitivities set by an administrator.
    pub floors: SensitivityFloors,
    pub tools: LocalTools,
    pub prompt: Arc<dyn PermissionPrompt>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceIdentity {
    pub person: PersonName,
    pub device: DeviceId,
    pub url: Url,
    /// Server name that the signed login contains.
    pub audience: String,
    /// Public key of the relay, pinned at enrolment.
    pub server_key: PublicKey,
}

impl DeviceIdentity {
    pub(crate) fn login(&self, config: &DeviceDependencies, sign: SignFn) -> DeviceRelayCredentials {
        DeviceRelayCredentials {
            who: RelayClientIdentity::Device(self.person.clone(), self.device.clone()),
            url: self.url.clone(),
            trust: AddressTrust::Configured,
            audience: self.audience.clone(),
            sign,
            fetch: Arc::clone(&config.fetch),
            clock: Arc::clone(&config.clock),
            entropy: Arc::clone(&config.entropy),
            earned: tokio::sync::Mutex::default(),
        }
    }
}

/// One device of one person. Cheap to clone; all clones share one state.
#[derive(Clone)]
pub struct Device {
    services: Arc<DeviceServices>,
}

macro_rules! services {
    ($($name:ident: $part:ident),* $(,)?) => {
        struct DeviceServices {
            context: Arc<DeviceContext>,
            calls: Arc<CallHandler>,
            $($name: Arc<$part>,)*
        }

        impl Device {
            $(#[must_use]
            pub fn $name(&self) -> &Arc<$part> {
                &self.services.$name
            })*
        }
    };
}

services! {
    own_devices: OwnDeviceService,
    consents: AgentConsentService,
    messages: AgentMessageService,
    backups: DeviceBackupService,
    audit: AuditReader,
}

impl DeviceServices {
    fn new(context: DeviceContext) -> Self {
        let context = Arc::new(context);
        let shared = || Arc::clone(&context);
        let own_devices = Arc::new(OwnDeviceService { context: shared() });
        let consents = Arc::new(AgentConsentService { context: shared(), own_devices: Arc::clone(&own_devices) });
        let (own, granted) = (Arc::clone(&own_devices), || Arc::clone(&consents));
        let (claimed, writing) = (CallsClaimedByOtherDevices::default(), StreamedReplies::new());
        Self {
            calls: Arc::new(CallHandler { context: shared(), consents: granted(), claimed }),
            messages: Arc::new(AgentMessageService { context: shared(), consents: granted(), writing }),
            backups: Arc::new(DeviceBackupService { context: shared(), own_devices: own, consents: granted() }),
            audit: Arc::new(AuditReader { context: shared() }),
            own_devices,
            consents: granted(),
            context: shared(),
        }
    }
}

impl Device {
    /// Enrols a new device with an invite.
    ///
    /// # Errors
    /// The data directory already holds a device, the invite is invalid, the relay's key is not that of the invite, or
    /// the relay is on another machine and not reached by https.
    pub async fn enrol(
        config: DeviceDependencies,
        invitation: &DeviceInvitation,
        name: &str,
    ) -> Result<Self, DeviceError> {
        let records = RecordStore::new(Arc::clone(&config.key_store));
        if records.get::<DeviceIdentity>(SELF)?.is_some() {
            return Err(folder_in_use());
        }
        if !reaches_safely(&invitation.url) {
            let message = "a relay on another machine needs an https address: without TLS others could read the tokens";
            return Err(DeviceError::new(ErrorCode::OutboundRefused, message));
        }
        // The introduction after the code is for the two devices only and not sent to the relay.
        let (code, introduction) = DeviceIntroductionSecret::split(&invitation.code);
        let invitation = &DeviceInvitation { code: code.to_owned(), ..invitation.clone() };
        let seal_identity = seal_identity(&config)?;
        let key = seal_identity.signing_key();
        let sign = signer(seal_identity);
        let enrolled = enrol_at_relay(&*config.fetch, invitation, name, key, &sign).await;
        // The new device key was sent to a server that is not the one in the invite, so the key is discarded.
        if let Err(RelayClientError::Refused { code: ErrorCode::PeerUntrusted, .. }) = &enrolled {
            let names = config.key_store.names("")?;
            config.key_store.save(names.into_iter().map(|name| (name, None)).collect())?;
        }
        let enrolled = enrolled?;
        let identity = DeviceIdentity {
            person: enrolled.person,
            device: enrolled.device,
            url: invitation.url.clone(),
            audience: enrolled.audience,
            server_key: enrolled.server_key,
        };
        let introduced = introduction.map(|introduction| RecordStore::put(INTRODUCED, &introduction));
        records.save([RecordStore::put(SELF, &identity)].into_iter().chain(introduced).collect())?;
        let device = Self::open_new(config)?;
        if let Err(error) = device.own_devices().trust_inviter(&device.context().me()).await {
            tracing::warn!(%error, "cannot check the keys of the inviting device yet; they are checked later");
        }
        Ok(device)
    }

    /// Opens the enrolled device; `None` if the data directory holds none.
    pub fn open(config: DeviceDependencies) -> Result<Option<Self>, DeviceError> {
        let records = RecordStore::new(Arc::clone(&config.key_store));
        let Some(identity) = records.get::<DeviceIdentity>(SELF)? else { return Ok(None) };
        let mut keys = seal_identity(&config)?;
        let owner = RelayParty::Person(identity.person.clone());
        keys.set_owner_device(owner, identity.device.clone(), config.clock.now())?;
        let sign = signer(seal_identity(&config)?);
        let login = identity.login(&config, Arc::clone(&sign));
        let address = RelayAddress { url: identity.url.clone(), trust: AddressTrust::Configured };
        let (fetch, dial) = (Arc::clone(&config.fetch), Arc::clone(&config.dial));
        let relay = Arc::new(HttpRelayClient::by_socket(address, Arc::new(login), fetch, dial));
        let services = Arc::new_cyclic(|this: &Weak<DeviceServices>| {
            let peer = Peer::new(PeerConfig {
                relay: Arc::clone(&relay) as _,
                key_store: Arc::clone(&config.key_store),
                seal_identity: keys,
                clock: Arc::clone(&config.clock),
                entropy: Arc::clone(&config.entropy),
                handler: Arc::new(DevicePeerHandler(this.clone())),
            });
            let (lock, events) = (Mutex::default(), broadcast::Sender::new(MAX_QUEUED_EVENTS));
            let connection = watch::Sender::new(ServerConnectionState::Connecting);
            DeviceServices::new(DeviceContext {
                config,
                identity,
                records,
                relay,
                peer,
                sign,
                lock,
                events,
                connection,
            })
        });
        Ok(Some(Self { services }))
    }

    /// Opens a device whose identity was just stored; fails if there is none.
    pub(crate) fn open_new(config: DeviceDependencies) -> Result<Self, DeviceError> {
        let missing = || DeviceError::new(ErrorCode::Internal, "the identity of the new device cannot be read back");
        Self::open(config)?.ok_or_else(missing)
    }

    /// Answers tool calls until `stop`. Calls that the previous process left open are answered first, without running
    /// them again or asking the person again.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), DeviceError> {
        self.services.calls.resume()?;
        self.messages().resume_sending()?;
        for known in known_agents::all(&self.context().records)? {
            if known.taken_back
                && let Err(error) = self.consents().revoke(&known.agent).await
                && error.code != ErrorCode::RelationNotFound
            {
                tracing::warn!(agent = %known.agent, %error, "the relay does not know yet that this agent was revoked; retrying at the next start");
            }
            if let Err(error) = self.consents().refresh(&known.agent).await {
                tracing::warn!(agent = %known.agent, %error, "cannot refresh an agent; its stored manifest and ledger may be outdated");
            }
        }
        self.peer().clone().run(stop).await;
        Ok(())
    }

    #[must_use]
    pub fn identity(&self) -> &DeviceIdentity {
        &self.context().identity
    }

    /// The device's peer at its relay, which sends and receives sealed messages.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.context().peer
    }

    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<DeviceEvent> {
        self.context().events.subscribe()
    }

    /// The connection to the server, and its changes.
    #[must_use]
    pub fn connection(&self) -> watch::Receiver<ServerConnectionState> {
        self.context().connection.subscribe()
    }

    /// Asks the server now whether it accepts this device.
    pub async fn check_connection(&self) -> ServerConnectionState {
        let state = match self.own_devices().list().await {
            Ok(_) => ServerConnectionState::Connected,
            Err(error) => ServerConnectionState::after(&error),
        };
        self.context().set_connection(state);
        state
    }

    pub(crate) fn context(&self) -> &DeviceContext {
        &self.services.context
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} of {})", self.identity().device, self.identity().person)
    }
}

pub(crate) fn folder_in_use() -> DeviceError {
    DeviceError::new(ErrorCode::DataDirInUse, "this folder already has a device; choose another folder")
}

/// The device's keys; created if the key store has none.
fn seal_identity(config: &DeviceDependencies) -> Result<SealIdentity, DeviceError> {
    Ok(match SealIdentity::load(Arc::clone(&config.key_store))? {
        Some(seal_identity) => seal_identity,
        None => {
            let new = NewSealIdentity { named: None, mode: SealMode::Stateful, now: config.clock.now() };
            SealIdentity::create(Arc::clone(&config.key_store), &new)?
        }
    })
}

/// Whether nobody else can read the connection to the relay: it is on this machine or uses TLS.
pub(crate) fn reaches_safely(relay: &Url) -> bool {
    relay.scheme() == "https" || (relay.scheme() == "http" && nuncio_core::address::is_local(relay))
}

fn signer(seal_identity: SealIdentity) -> SignFn {
    let seal_identity = Mutex::new(seal_identity);
    Arc::new(move |message| seal_identity.lock().unwrap_or_else(PoisonError::into_inner).sign(message))
}

struct DevicePeerHandler(Weak<DeviceServices>);

opaque_debug!(DevicePeerHandler);

#[async_trait]
impl PeerHandler for DevicePeerHandler {
    async fn on_message(&self, _: &Peer, message: InboundMessage) {
        let Some(device) = self.0.upgrade() else { return };
        let call = match serde_json::from_value(message.payload.clone()) {
            Ok(ArtifactPayload::Artifact { artifact: Artifact::ToolCall(call) }) => Some(call),
            _ => None,
        };
        let (RelayParty::Agent(agent), Some(call)) = (message.sender.clone(), call) else {
            let (RelayParty::Agent(_), Some(malformed)) = (&message.sender, MalformedToolCall::read(&message.payload))
            else {
                return device.messages.receive(message).await;
            };
            tokio::spawn(async move {
                if let Err(error) = device.calls.answer_malformed(&message, malformed).await {
                    tracing::error!(%error, "cannot answer a malformed call");
                }
            });
            return;
        };
        let incoming = IncomingCall { message, agent, call };
        // The call is stored before this handler returns, so that it is not lost.
        let arrival = match device.calls.take(&incoming) {
            Ok(arrival) => arrival,
            Err(error) => {
                return tracing::error!(%error, call = %incoming.call.call_id, "cannot store an incoming call");
            }
        };
        // The call runs in its own task, because the person may take long to answer.
        tokio::spawn(async move {
            if let Err(error) = device.calls.serve(&incoming, arrival).await {
                tracing::error!(%error, call = %incoming.call.call_id, "cannot answer a call");
            }
        });
    }

    async fn on_refused(&self, _: &Peer, refused: UnopenableMessage) {
        let Some(device) = self.0.upgrade() else { return };
        device.messages.store_unopened(refused).await;
    }

    async fn on_sent(&self, _: &Peer, sent: SentMessageConfirmation) {
        let Some(device) = self.0.upgrade() else { return };
        device.messages.confirm_sent(sent).await;
    }

    async fn on_stream(&self, _: &Peer, event: IncomingStreamEvent) {
        let Some(device) = self.0.upgrade() else { return };
        device.messages.forward_stream(event);
    }

    async fn on_connection(&self, _: &Peer, lost: Option<&SendError>) {
        let Some(device) = self.0.upgrade() else { return };
        let lost = lost.map(|error| ServerConnectionState::after(&error.clone().into()));
        device.context.set_connection(lost.unwrap_or(ServerConnectionState::Connected));
    }

    async fn on_event(&self, _: &Peer, what: &RelayEventKind) {
        let Some(device) = self.0.upgrade() else { return };
        let agents: Vec<AgentId> = match what {
            RelayEventKind::KeysChanged(RelayParty::Agent(agent)) => {
                let closed = {
                    let _lock = device.context.state_lock();
                    consent_windows::close(&device.context.records, agent)
                        .map(|changes| device.context.records.save(changes))
                };
                if !matches!(closed, Ok(Ok(()))) {
                    tracing::error!(%agent, "cannot close the consent windows of an agent");
                }
                device.context.notify(DeviceEvent::Agent { agent: agent.clone() });
                vec![agent.clone()]
            }
            RelayEventKind::KeysChanged(RelayParty::Person(person)) if *person == device.context.identity.person => {
                return device.context.notify(DeviceEvent::Devices);
            }
            RelayEventKind::Relation(_) => {
                let all = known_agents::all(&device.context.records).unwrap_or_default();
                all.into_iter().map(|known| known.agent).collect()
            }
            RelayEventKind::Claimed { message, device: other } if *other != device.context.identity.device => {
                return device.calls.claimed.add(message.clone());
            }
            _ => return,
        };
        for agent in agents {
            if let Err(error) = device.consents.refresh(&agent).await {
                tracing::warn!(%agent, %error, "cannot refresh an agent; its stored manifest and ledger may be outdated");
            }
        }
    }
}
