//! The DIDs of this server and of its agents: keys in the keyring with one entry per subject, documents in memory.
//!
//! The DID of the service is the bare domain (`did:wba:HOST%3APORT`). That of an agent ends in the fingerprint of its
//! key, so that a new key makes a new DID. A retired DID stays published as deactivated and names its successor.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use nuncio_anp::client::{AgentSignerLookup, KeySigner, RequestSigner};
use nuncio_auth::did::{DidOwnership, HostDids};
use nuncio_core::ErrorCode;
use nuncio_core::ids::AgentName;
use nuncio_core::opaque_debug;
use nuncio_engine::EngineError;
use nuncio_engine::ports::Clock;
use nuncio_engine::ports::fetch::FetchRequest;
use nuncio_engine::secret_cipher::SecretCipher;
use nuncio_identity::{BoundDidDocument, Did, DidAccessTokenService};
use nuncio_store::dump::read_stored_keyring;
use tokio::sync::Mutex;

use crate::data::{DataDir, SecretKeySource, StoreLocation};
use crate::error::OperatorError;
use crate::keyring::{ServerKeyring, StoredKey, damaged, open_all};
use crate::system::SystemEntropy;

mod admin;
mod base;
mod files;
mod own;
mod routes;

pub(crate) use base::PublicUrlSource;
pub(crate) use files::key_files;
pub use own::{DidSubject, OwnDid};
#[cfg(test)]
pub(crate) use routes::paths;
pub(crate) use routes::{OPENAPI, routes};

use base::{BASE_ENTRY, DidBaseUrl, RecordedDidBaseUrl, url_changed};
use own::{AGENT_ENTRIES, DidHistory, PublishedDidDocument};

/// Validity of an access token that a DID caller gets for a valid signature.
const TOKEN_LIFETIME: Duration = Duration::from_secs(3600);

/// The DIDs of a store. Clones share their state.
#[derive(Clone)]
pub struct Dids {
    inner: Arc<DidsShared>,
}

struct DidsShared {
    keyring: ServerKeyring,
    clock: Arc<dyn Clock>,
    /// The URL that the DIDs are made of, or why there are no DIDs.
    base: Result<DidBaseUrl, String>,
    state: RwLock<DidState>,
    /// Held while keys are changed, from reading the old keys until the new ones are written.
    changing: Mutex<()>,
}

#[derive(Default)]
struct DidState {
    service: Option<DidHistory>,
    agents: BTreeMap<AgentName, DidHistory>,
    tokens: Option<Arc<DidAccessTokenService>>,
    /// Every DID of this server, retired ones included.
    known: HashMap<Did, CurrentOrRetiredDid>,
}

#[derive(Clone)]
struct CurrentOrRetiredDid {
    document: Arc<BoundDidDocument>,
    /// The DID that replaced this one, if it is retired.
    successor: Option<Did>,
}

impl Dids {
    /// Opens the DIDs of a store for a server at `base`, if it has a lasting URL. Creates the DID of the service if there
    /// is none.
    pub(crate) async fn open(
        keyring: ServerKeyring,
        base: Option<&str>,
        chosen: PublicUrlSource,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OperatorError> {
        let no_url = || "it listens on all addresses and has no lasting URL; give it one with --public-url".to_owned();
        let stored = keyring.all().await?;
        let dids = Self::load(keyring, &stored, base.ok_or_else(no_url).and_then(DidBaseUrl::at), clock)?;
        let recorded = recorded_base(&stored)?;
        let did_base = match (&dids.inner.base, recorded) {
            (Ok(did_base), recorded) => {
                let revision = stored.get(BASE_ENTRY).map_or(0, |entry| entry.revision);
                dids.check_address(did_base, chosen, recorded, revision).await?;
                did_base
            }
            (Err(why), Some(before)) if before.chosen == PublicUrlSource::ByOperator => {
                let message =
                    format!("the DIDs here were made for {0}; start with `--public-url {0}`: {why}", before.base);
                return Err(OperatorError::new(ErrorCode::PublicUrlChanged, message));
            }
            (Err(why), _) => {
                tracing::warn!("this server and its agents have no DIDs: {why}");
                return Ok(dids);
            }
        };
        dids.ensure(&DidSubject::Service, did_base).await?;
        Ok(dids)
    }

    /// Opens the DIDs for commands that run while no server does: for the URL of the last server.
    pub(crate) async fn open_offline(keyring: ServerKeyring, clock: Arc<dyn Clock>) -> Result<Self, OperatorError> {
        let stored = keyring.all().await?;
        Self::load(keyring, &stored, last_base(&stored)?, clock)
    }

    fn load(
        keyring: ServerKeyring,
        stored: &BTreeMap<String, StoredKey>,
        did_base: Result<DidBaseUrl, String>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OperatorError> {
        let now = clock.now();
        let mut state = DidState::default();
        for (entry, key) in stored {
            let Some(subject) = subject_of(entry) else { continue };
            let history = DidHistory::parse(&subject, key.content.as_bytes(), key.revision, now);
            state.insert(subject, history.map_err(|why| damaged(entry, &why))?);
        }
        state.refresh_derived(did_base.as_ref().ok());
        let (state, changing) = (RwLock::new(state), Mutex::default());
        Ok(Self { inner: Arc::new(DidsShared { keyring, clock, base: did_base, state, changing }) })
    }

    /// Checks that the stored DIDs were made for this URL. They are moved to it if no operator chose the URL. `revision`
    /// is that of the recorded URL.
    async fn check_address(
        &self,
        did_base: &DidBaseUrl,
        chosen: PublicUrlSource,
        recorded: Option<RecordedDidBaseUrl>,
        revision: u64,
    ) -> Result<(), OperatorError> {
        let misplaced: Vec<_> =
            self.key_histories().into_iter().filter(|(_, history)| history.base != did_base.base).collect();
        let now = RecordedDidBaseUrl { base: did_base.base.clone(), chosen };
        match recorded {
            None if misplaced.is_empty() => return now.write(&self.inner.keyring, revision).await,
            Some(before) if before.base == did_base.base && misplaced.is_empty() => {
                return match before.chosen == chosen {
                    true => Ok(()),
                    false => now.write(&self.inner.keyring, revision).await,
                };
            }
            Some(before) if before.may_follow(did_base, chosen) => {
                if before.base != did_base.base && !misplaced.is_empty() {
                    tracing::warn!("the DIDs made for {} are now those of {}", before.base, did_base.base);
                }
            }
            Some(before) if before.base != did_base.base => return Err(url_changed(&before.base, &did_base.base)),
            // An earlier move was interrupted.
            _ => return Err(url_changed(&misplaced[0].1.base, &did_base.base)),
        }
        for (subject, history) in misplaced {
            self.put(&subject, history.follow(&subject, did_base)).await?;
        }
        now.write(&self.inner.keyring, revision).await
    }

    /// Creates a DID for an agent that is about to be served, unless it has one.
    pub(crate) async fn admit(&self, name: &AgentName) -> Result<(), OperatorError> {
        match &self.inner.base {
            Ok(did_base) => self.ensure(&DidSubject::Agent(name.clone()), did_base).await,
            Err(_) => Ok(()),
        }
    }

    async fn ensure(&self, subject: &DidSubject, did_base: &DidBaseUrl) -> Result<(), OperatorError> {
        let _changing = self.inner.changing.lock().await;
        if self.key_history(subject).is_some() {
            return Ok(());
        }
        let now = self.inner.clock.now();
        let new = || DidHistory::begin(subject, did_base, &SystemEntropy, now).to_stored();
        // Another node may create one at the same time.
        let stored = self.inner.keyring.read_or_create(&subject.entry(), new).await?;
        let history = DidHistory::parse(subject, stored.content.as_bytes(), stored.revision, now);
        self.publish(subject, history.map_err(|why| damaged(&subject.entry(), &why))?);
        Ok(())
    }

    /// Stores a key history, then publishes its DIDs.
    async fn put(&self, subject: &DidSubject, mut history: DidHistory) -> Result<(), OperatorError> {
        let content = history.to_stored();
        history.revision = self.inner.keyring.replace(&subject.entry(), &content, history.revision).await?;
        self.publish(subject, history);
        Ok(())
    }

    fn publish(&self, subject: &DidSubject, history: DidHistory) {
        let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
        state.insert(subject.clone(), history);
        state.refresh_derived(self.inner.base.as_ref().ok());
    }

    fn state(&self) -> RwLockReadGuard<'_, DidState> {
        self.inner.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn key_history(&self, subject: &DidSubject) -> Option<DidHistory> {
        self.state().history(subject).cloned()
    }

    fn key_histories(&self) -> Vec<(DidSubject, DidHistory)> {
        let state = self.state();
        let service = state.service.iter().map(|history| (DidSubject::Service, history.clone()));
        let agents = state.agents.iter().map(|(name, history)| (DidSubject::Agent(name.clone()), history.clone()));
        service.chain(agents).collect()
    }

    /// The DID of this server; `None` if none can be made of its URL.
    #[must_use]
    pub fn service(&self) -> Option<Arc<OwnDid>> {
        self.of(&DidSubject::Service)
    }

    /// The DID of an agent; `None` if it was never served, or none can be made of the URL of the server.
    #[must_use]
    pub fn agent(&self, name: &AgentName) -> Option<Arc<OwnDid>> {
        self.of(&DidSubject::Agent(name.clone()))
    }

    #[must_use]
    pub fn of(&self, subject: &DidSubject) -> Option<Arc<OwnDid>> {
        self.inner.base.as_ref().ok()?;
        self.state().history(subject).map(|history| Arc::clone(&history.current))
    }

    #[must_use]
    pub fn why_none(&self) -> Option<&str> {
        self.inner.base.as_ref().err().map(String::as_str)
    }

    /// Signs a request with the DID of an agent.
    pub fn sign(&self, agent: &AgentName, outgoing: &mut FetchRequest) -> Result<(), EngineError> {
        let signed = self.signer(&DidSubject::Agent(agent.clone()))?.sign(outgoing, None, &[]);
        signed.map_err(|why| {
            EngineError::new(ErrorCode::BadRequest, format!("{} cannot be signed for: {why}", outgoing.url))
        })
    }

    /// Returns a signer with the current key of a subject.
    pub fn signer(&self, subject: &DidSubject) -> Result<KeySigner, EngineError> {
        let own = self.of(subject).ok_or_else(|| self.unavailable(subject))?;
        let (did, key) = (own.did().clone(), own.key().clone());
        Ok(KeySigner::new(did, key, Arc::clone(&self.inner.clock), Arc::new(SystemEntropy)))
    }

    fn unavailable(&self, subject: &DidSubject) -> EngineError {
        let why = self.why_none().unwrap_or("it has never been served here; `nuncio did show` lists the existing DIDs");
        EngineError::new(ErrorCode::DidUnavailable, format!("{subject} has no DID: {why}"))
    }
}

impl AgentSignerLookup for Dids {
    fn signer(&self, agent: &AgentName) -> Option<Arc<dyn RequestSigner>> {
        Some(Arc::new(self.signer(&DidSubject::Agent(agent.clone())).ok()?))
    }
}

/// A signer with the key of an agent in a data directory, for commands of its owner. Works whether a server runs or not,
/// and changes nothing.
pub async fn signer_of(
    data: &Path,
    location: &StoreLocation,
    secret_key: &SecretKeySource,
    agent: &AgentName,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn RequestSigner>, OperatorError> {
    let subject = DidSubject::Agent(agent.clone());
    let stored = stored_keys(data, location, secret_key, &*clock).await?;
    let unavailable = |why: &str| {
        let message = format!("{subject} has no DID: {why}; `nuncio did show` lists the existing DIDs");
        OperatorError::new(ErrorCode::DidUnavailable, message)
    };
    last_base(&stored)?.map_err(|why| unavailable(&why))?;
    let entry = subject.entry();
    let key = stored.get(&entry).ok_or_else(|| unavailable("it has never been served here"))?;
    let history = DidHistory::parse(&subject, key.content.as_bytes(), key.revision, clock.now());
    let own = history.map_err(|why| damaged(&entry, &why))?.current;
    Ok(Arc::new(KeySigner::new(own.did().clone(), own.key().clone(), clock, Arc::new(SystemEntropy))))
}

/// The keys of a data directory that another process may use. Those of an earlier version are in files.
async fn stored_keys(
    data: &Path,
    location: &StoreLocation,
    secret_key: &SecretKeySource,
    clock: &dyn Clock,
) -> Result<BTreeMap<String, StoredKey>, OperatorError> {
    let files = DataDir::files_of(data)?;
    let in_files = key_files(&files, clock.now())?.into_iter();
    let mut stored: BTreeMap<_, _> =
        in_files.map(|key| (key.name, StoredKey { content: key.content, revision: 0 })).collect();
    let entries = match location {
        StoreLocation::DataDirectory => nuncio_store::read_keyring(&data.join(DataDir::DATABASE))?,
        StoreLocation::Postgres(_) => read_stored_keyring(&mut *location.snapshot(data).await?).await?,
    };
    if !entries.is_empty() {
        let cipher = SecretCipher::new(&secret_key.read_existing(&files)?);
        stored.extend(open_all(&cipher, entries)?);
    }
    Ok(stored)
}

fn recorded_base(stored: &BTreeMap<String, StoredKey>) -> Result<Option<RecordedDidBaseUrl>, OperatorError> {
    let recorded = stored.get(BASE_ENTRY).map(|entry| RecordedDidBaseUrl::parse(entry.content.as_bytes()));
    recorded.transpose().map_err(|why| damaged(BASE_ENTRY, &why))
}

/// The URL of the last server, or why there are no DIDs.
fn last_base(stored: &BTreeMap<String, StoredKey>) -> Result<Result<DidBaseUrl, String>, OperatorError> {
    let none = "no server has created any yet; `nuncio serve` creates them".to_owned();
    Ok(recorded_base(stored)?.map_or(Err(none), |recorded| DidBaseUrl::at(&recorded.base)))
}

/// The subject of an entry in the keyring; `None` for another entry.
fn subject_of(entry: &str) -> Option<DidSubject> {
    match entry.strip_prefix(AGENT_ENTRIES) {
        Some(name) => AgentName::parse(name).ok().map(DidSubject::Agent),
        None => (entry == DidSubject::Service.entry()).then_some(DidSubject::Service),
    }
}

impl HostDids for Dids {
    fn tokens(&self) -> Option<Arc<DidAccessTokenService>> {
        self.state().tokens.clone()
    }

    fn is_service(&self, did: &str) -> bool {
        self.service().is_some_and(|service| service.did().as_str() == did)
    }

    fn ownership(&self, did: &Did) -> DidOwnership {
        match (self.state().known.get(did), &self.inner.base) {
            (Some(known), _) => DidOwnership::Ours(Arc::clone(&known.document)),
            (None, Ok(did_base)) if did_base.contains(did) => DidOwnership::Unassigned,
            (None, _) => DidOwnership::Foreign,
        }
    }

    fn successor(&self, did: &Did) -> Option<Did> {
        self.state().known.get(did).and_then(|known| known.successor.clone())
    }
}

impl DidState {
    fn insert(&mut self, subject: DidSubject, history: DidHistory) {
        match subject {
            DidSubject::Service => self.service = Some(history),
            DidSubject::Agent(name) => {
                self.agents.insert(name, history);
            }
        }
    }

    fn history(&self, subject: &DidSubject) -> Option<&DidHistory> {
        match subject {
            DidSubject::Service => self.service.as_ref(),
            DidSubject::Agent(name) => self.agents.get(name),
        }
    }

    /// Recomputes the list of known DIDs and the token issuer from the keys.
    fn refresh_derived(&mut self, did_base: Option<&DidBaseUrl>) {
        let histories = self.service.iter().chain(self.agents.values());
        let known = histories.flat_map(|history| {
            let current = history.current.did();
            let old = |old: &PublishedDidDocument| (Arc::clone(&old.bound), Some(current.clone()));
            let all = history.retired.iter().map(old).chain([(Arc::clone(history.current.document()), None)]);
            all.map(|(document, successor)| (document.did().clone(), CurrentOrRetiredDid { document, successor }))
                .collect::<Vec<_>>()
        });
        self.known = known.collect();
        self.tokens = self.service.as_ref().zip(did_base).map(|(history, base)| {
            let own = &history.current;
            Arc::new(DidAccessTokenService::new(own.key(), own.did().as_str(), &base.base, TOKEN_LIFETIME))
        });
    }
}

opaque_debug!(Dids);
