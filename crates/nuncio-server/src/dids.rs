//! The DIDs of this server and of its agents: keys on disk, documents in memory, one subject a file.
//!
//! The service has the bare domain (`did:wba:HOST%3APORT`); an agent has a path that ends in the fingerprint of
//! its key, so that a new key is a new DID. A retired DID stays published as deactivated, and its
//! document names its successor.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use nuncio_core::Code;
use nuncio_core::ids::AgentName;
use nuncio_engine::EngineError;
use nuncio_engine::ports::{Clock, Entropy};
use nuncio_identity::{BoundDocument, Did, TokenIssuer};

use crate::data::PrivateFiles;
use crate::error::StartError;
use crate::system::SystemEntropy;

mod admin;
mod base;
mod own;
mod peers;
mod routes;
mod signer;

pub(crate) use base::AddressSource;
pub use own::{DidSubject, OwnDid};
pub use peers::signer_of;
#[cfg(test)]
pub(crate) use routes::paths;
pub(crate) use routes::{OPENAPI, routes};
pub use signer::DidSigner;

use base::{DidBase, RecordedBase, moved};
use own::{KeyHistory, PublishedDocument};

/// How long a token lasts that a good signature earns.
const TOKEN_LIFETIME: Duration = Duration::from_secs(3600);

/// The DIDs here. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Dids {
    inner: Arc<Inner>,
}

struct Inner {
    files: PrivateFiles,
    clock: Arc<dyn Clock>,
    /// The address DIDs are made of, or why there are none.
    home: Result<DidBase, String>,
    state: RwLock<State>,
    /// Held while keys are changed, from reading them to the end of writing.
    changing: Mutex<()>,
}

#[derive(Default)]
struct State {
    service: Option<KeyHistory>,
    agents: BTreeMap<AgentName, KeyHistory>,
    tokens: Option<Arc<TokenIssuer>>,
    /// Every DID of this server, retired ones included.
    known: HashMap<Did, KnownDid>,
}

#[derive(Clone)]
struct KnownDid {
    document: Arc<BoundDocument>,
    /// The one in use, where this one is not any more.
    current: Option<Did>,
}

#[derive(Debug, Clone)]
pub enum DidOwnership {
    Ours(Arc<BoundDocument>),
    /// A DID of this host that was never made.
    Nobody,
    Foreign,
}

impl Dids {
    /// The DIDs of a data directory, for a server at that address. The service's is made where there is none.
    pub(crate) fn open(
        files: PrivateFiles,
        base: &str,
        chosen: AddressSource,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let home = DidBase::at(base);
        let dids = Self::load(files, home, clock)?;
        let recorded = RecordedBase::read(&dids.inner.files)?;
        let home = match (&dids.inner.home, recorded) {
            (Ok(home), recorded) => {
                dids.check_address(home, chosen, recorded)?;
                home
            }
            (Err(why), Some(before)) if before.chosen == AddressSource::ByOperator => {
                let message =
                    format!("the DIDs here were made for {0}; start with `--public-url {0}`: {why}", before.base);
                return Err(StartError::new(Code::PublicUrlChanged, message));
            }
            (Err(why), _) => {
                tracing::warn!("this server and its agents have no DIDs: {why}");
                return Ok(dids);
            }
        };
        dids.ensure(&DidSubject::Service, home)?;
        Ok(dids)
    }

    /// The DIDs a data directory was left with, for commands that run while no server does.
    pub(crate) fn left(files: PrivateFiles, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let none = "no server has made any yet; `nuncio serve` does".to_owned();
        let home = RecordedBase::read(&files)?.map_or(Err(none), |recorded| DidBase::at(&recorded.base));
        Self::load(files, home, clock)
    }

    fn load(files: PrivateFiles, home: Result<DidBase, String>, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let now = clock.now();
        let mut state = State {
            service: KeyHistory::read(&DidSubject::Service, &files, now)?,
            agents: BTreeMap::new(),
            ..State::default()
        };
        for name in files.stems("keys/agents", ".json")? {
            let Ok(name) = AgentName::parse(&name) else { continue };
            let line = KeyHistory::read(&DidSubject::Agent(name.clone()), &files, now)?;
            state.agents.extend(line.map(|line| (name, line)));
        }
        state.refresh_derived(home.as_ref().ok());
        let (state, changing) = (RwLock::new(state), Mutex::default());
        Ok(Self { inner: Arc::new(Inner { files, clock, home, state, changing }) })
    }

    /// Checks that the DIDs on disk were made for this address. Without an address chosen by the operator they are moved.
    fn check_address(
        &self,
        home: &DidBase,
        chosen: AddressSource,
        recorded: Option<RecordedBase>,
    ) -> Result<(), StartError> {
        let elsewhere: Vec<_> = self.key_histories().into_iter().filter(|(_, line)| line.base != home.base).collect();
        let now = RecordedBase { base: home.base.clone(), chosen };
        match recorded {
            None if elsewhere.is_empty() => return now.write(&self.inner.files),
            Some(before) if before.base == home.base && elsewhere.is_empty() => {
                return if before.chosen == chosen { Ok(()) } else { now.write(&self.inner.files) };
            }
            Some(before) if before.may_follow(home, chosen) => {
                if before.base != home.base && !elsewhere.is_empty() {
                    tracing::warn!("the DIDs made for {} are now those of {}", before.base, home.base);
                }
            }
            Some(before) if before.base != home.base => return Err(moved(&before.base, &home.base)),
            // A move that broke off.
            _ => return Err(moved(&elsewhere[0].1.base, &home.base)),
        }
        for (subject, line) in elsewhere {
            self.put(&subject, line.follow(&subject, home))?;
        }
        now.write(&self.inner.files)
    }

    /// Makes sure that an agent that is about to be served has a DID.
    pub(crate) fn admit(&self, name: &AgentName) -> Result<(), StartError> {
        match &self.inner.home {
            Ok(home) => self.ensure(&DidSubject::Agent(name.clone()), home),
            Err(_) => Ok(()),
        }
    }

    fn ensure(&self, subject: &DidSubject, home: &DidBase) -> Result<(), StartError> {
        let _changing = self.inner.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.key_history(subject).is_some() {
            return Ok(());
        }
        self.put(subject, KeyHistory::begin(subject, home, &SystemEntropy, self.inner.clock.now()))
    }

    /// Writes a line, then shows it.
    fn put(&self, subject: &DidSubject, line: KeyHistory) -> Result<(), StartError> {
        line.write(subject, &self.inner.files)?;
        let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
        match subject {
            DidSubject::Service => state.service = Some(line),
            DidSubject::Agent(name) => {
                state.agents.insert(name.clone(), line);
            }
        }
        state.refresh_derived(self.inner.home.as_ref().ok());
        Ok(())
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.inner.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn key_history(&self, subject: &DidSubject) -> Option<KeyHistory> {
        let state = self.state();
        match subject {
            DidSubject::Service => state.service.clone(),
            DidSubject::Agent(name) => state.agents.get(name).cloned(),
        }
    }

    fn key_histories(&self) -> Vec<(DidSubject, KeyHistory)> {
        let state = self.state();
        let service = state.service.iter().map(|line| (DidSubject::Service, line.clone()));
        let agents = state.agents.iter().map(|(name, line)| (DidSubject::Agent(name.clone()), line.clone()));
        service.chain(agents).collect()
    }

    /// The DID of this server; none where its address allows none.
    #[must_use]
    pub fn service(&self) -> Option<Arc<OwnDid>> {
        self.of(&DidSubject::Service)
    }

    /// The DID of an agent; none where it was never served, or the address allows none.
    #[must_use]
    pub fn agent(&self, name: &AgentName) -> Option<Arc<OwnDid>> {
        let state = self.state();
        self.inner.home.as_ref().ok().and_then(|_| state.agents.get(name)).map(|line| Arc::clone(&line.current))
    }

    #[must_use]
    pub fn of(&self, subject: &DidSubject) -> Option<Arc<OwnDid>> {
        match subject {
            DidSubject::Agent(name) => self.agent(name),
            DidSubject::Service => {
                let state = self.state();
                self.inner.home.as_ref().ok().and(state.service.as_ref()).map(|line| Arc::clone(&line.current))
            }
        }
    }

    #[must_use]
    pub fn why_none(&self) -> Option<&str> {
        self.inner.home.as_ref().err().map(String::as_str)
    }

    /// Issues and verifies access tokens for DID callers; none if this server has no DID.
    #[must_use]
    pub fn tokens(&self) -> Option<Arc<TokenIssuer>> {
        self.state().tokens.clone()
    }

    /// Whether a DID belongs to this server; if so, with its document, which needs no network.
    #[must_use]
    pub fn standing(&self, did: &Did) -> DidOwnership {
        match (self.state().known.get(did), &self.inner.home) {
            (Some(known), _) => DidOwnership::Ours(Arc::clone(&known.document)),
            (None, Ok(home)) if home.is_of(did) => DidOwnership::Nobody,
            (None, _) => DidOwnership::Foreign,
        }
    }

    /// The successor of a retired DID of this server.
    #[must_use]
    pub fn successor(&self, did: &Did) -> Option<Did> {
        self.state().known.get(did).and_then(|known| known.current.clone())
    }

    /// Signs with the DID of an agent. As [`DidSigner::sign`].
    pub fn sign(
        &self,
        agent: &AgentName,
        outgoing: &mut nuncio_engine::ports::fetch::FetchRequest,
    ) -> Result<(), EngineError> {
        self.signer(&DidSubject::Agent(agent.clone()))?.sign(outgoing, None)
    }

    /// Returns a signer with the current key of a subject.
    pub fn signer(&self, subject: &DidSubject) -> Result<DidSigner, EngineError> {
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        self.of(subject)
            .map(|own| DidSigner::new(own, Arc::clone(&self.inner.clock), entropy))
            .ok_or_else(|| self.unavailable(subject))
    }

    fn unavailable(&self, subject: &DidSubject) -> EngineError {
        let why = self.why_none().unwrap_or("it has never been served here; `nuncio did show` lists those there are");
        EngineError::new(Code::DidUnavailable, format!("{subject} has no DID: {why}"))
    }
}

impl State {
    /// Recomputes what is derived from the keys.
    fn refresh_derived(&mut self, home: Option<&DidBase>) {
        let lines = self.service.iter().chain(self.agents.values());
        let known = lines.flat_map(|line| {
            let current = line.current.did();
            let old = |old: &PublishedDocument| (Arc::clone(&old.bound), Some(current.clone()));
            let all = line.retired.iter().map(old).chain([(Arc::clone(line.current.document()), None)]);
            all.map(|(document, current)| (document.did().clone(), KnownDid { document, current })).collect::<Vec<_>>()
        });
        self.known = known.collect();
        self.tokens = self.service.as_ref().zip(home).map(|(line, home)| {
            let own = &line.current;
            Arc::new(TokenIssuer::new(own.key(), own.did().as_str(), &home.base, TOKEN_LIFETIME))
        });
    }
}

impl fmt::Debug for Dids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dids").field("home", &self.inner.home).finish_non_exhaustive()
    }
}
