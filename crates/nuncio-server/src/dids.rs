//! The DIDs of this server and of its agents: keys on disk, documents in memory, one subject a file.
//!
//! The service has the bare domain (`did:wba:HOST%3APORT`); an agent has a path that ends in the fingerprint of
//! its key, so that a new key is a new DID. What gave way stays published: out of use, and naming what took its
//! place.

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

mod desk;
mod home;
mod own;
mod peers;
mod routes;
mod signer;

pub(crate) use home::Chosen;
pub use own::{OwnDid, Subject};
pub use peers::signer_of;
#[cfg(test)]
pub(crate) use routes::paths;
pub(crate) use routes::{OPENAPI, routes};
pub use signer::Signer;

use home::{Home, Recorded, moved};
use own::{Line, Published};

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
    home: Result<Home, String>,
    state: RwLock<State>,
    /// Held by whoever changes keys, from reading them to the end of writing.
    changing: Mutex<()>,
}

#[derive(Default)]
struct State {
    service: Option<Line>,
    agents: BTreeMap<AgentName, Line>,
    tokens: Option<Arc<TokenIssuer>>,
    /// Every DID of ours.
    known: HashMap<Did, Known>,
}

#[derive(Clone)]
struct Known {
    document: Arc<BoundDocument>,
    /// The one in use, where this one is not any more.
    current: Option<Did>,
}

/// What a DID is to us.
#[derive(Debug, Clone)]
pub enum Standing {
    /// One of ours, and its document.
    Ours(Arc<BoundDocument>),
    /// It would be one of ours, but there is none like it.
    Nobody,
    /// Somebody else's.
    Foreign,
}

impl Dids {
    /// The DIDs of a data directory, for a server at that address. The service's is made where there is none.
    ///
    /// # Errors
    /// A key file cannot be used, or DIDs were made for another address.
    pub(crate) fn open(
        files: PrivateFiles,
        base: &str,
        chosen: Chosen,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let home = Home::at(base);
        let dids = Self::load(files, home, clock)?;
        let recorded = Recorded::read(&dids.inner.files)?;
        let home = match (&dids.inner.home, recorded) {
            (Ok(home), recorded) => {
                dids.settle(home, chosen, recorded)?;
                home
            }
            (Err(why), Some(before)) if before.chosen == Chosen::ByOperator => {
                let message =
                    format!("the DIDs here were made for {0}; start with `--public-url {0}`: {why}", before.base);
                return Err(StartError::new(Code::PublicUrlChanged, message));
            }
            (Err(why), _) => {
                tracing::warn!("this server and its agents have no DIDs: {why}");
                return Ok(dids);
            }
        };
        dids.ensure(&Subject::Service, home)?;
        Ok(dids)
    }

    /// The DIDs a data directory was left with, for commands that run while no server does.
    ///
    /// # Errors
    /// A key file cannot be used.
    pub(crate) fn left(files: PrivateFiles, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let none = "no server has made any yet; `nuncio serve` does".to_owned();
        let home = Recorded::read(&files)?.map_or(Err(none), |recorded| Home::at(&recorded.base));
        Self::load(files, home, clock)
    }

    fn load(files: PrivateFiles, home: Result<Home, String>, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let now = clock.now();
        let mut state =
            State { service: Line::read(&Subject::Service, &files, now)?, agents: BTreeMap::new(), ..State::default() };
        for name in files.stems("keys/agents", ".json")? {
            let Ok(name) = AgentName::parse(&name) else { continue };
            let line = Line::read(&Subject::Agent(name.clone()), &files, now)?;
            state.agents.extend(line.map(|line| (name, line)));
        }
        state.settle(home.as_ref().ok());
        let (state, changing) = (RwLock::new(state), Mutex::default());
        Ok(Self { inner: Arc::new(Inner { files, clock, home, state, changing }) })
    }

    /// Makes sure that what is on disk was made for this address; what nobody chose goes along.
    fn settle(&self, home: &Home, chosen: Chosen, recorded: Option<Recorded>) -> Result<(), StartError> {
        let elsewhere: Vec<_> = self.lines().into_iter().filter(|(_, line)| line.base != home.base).collect();
        let now = Recorded { base: home.base.clone(), chosen };
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
    ///
    /// # Errors
    /// Its key cannot be written.
    pub(crate) fn admit(&self, name: &AgentName) -> Result<(), StartError> {
        match &self.inner.home {
            Ok(home) => self.ensure(&Subject::Agent(name.clone()), home),
            Err(_) => Ok(()),
        }
    }

    fn ensure(&self, subject: &Subject, home: &Home) -> Result<(), StartError> {
        let _changing = self.inner.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.line(subject).is_some() {
            return Ok(());
        }
        self.put(subject, Line::begin(subject, home, &SystemEntropy, self.inner.clock.now()))
    }

    /// Writes a line, then shows it.
    fn put(&self, subject: &Subject, line: Line) -> Result<(), StartError> {
        line.write(subject, &self.inner.files)?;
        let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
        match subject {
            Subject::Service => state.service = Some(line),
            Subject::Agent(name) => {
                state.agents.insert(name.clone(), line);
            }
        }
        state.settle(self.inner.home.as_ref().ok());
        Ok(())
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.inner.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self, subject: &Subject) -> Option<Line> {
        let state = self.state();
        match subject {
            Subject::Service => state.service.clone(),
            Subject::Agent(name) => state.agents.get(name).cloned(),
        }
    }

    fn lines(&self) -> Vec<(Subject, Line)> {
        let state = self.state();
        let service = state.service.iter().map(|line| (Subject::Service, line.clone()));
        let agents = state.agents.iter().map(|(name, line)| (Subject::Agent(name.clone()), line.clone()));
        service.chain(agents).collect()
    }

    /// The DID of this server; none where its address allows none.
    #[must_use]
    pub fn service(&self) -> Option<Arc<OwnDid>> {
        self.of(&Subject::Service)
    }

    /// The DID of an agent; none where it was never served, or the address allows none.
    #[must_use]
    pub fn agent(&self, name: &AgentName) -> Option<Arc<OwnDid>> {
        let state = self.state();
        self.inner.home.as_ref().ok().and_then(|_| state.agents.get(name)).map(|line| Arc::clone(&line.current))
    }

    /// The DID of a subject.
    #[must_use]
    pub fn of(&self, subject: &Subject) -> Option<Arc<OwnDid>> {
        match subject {
            Subject::Agent(name) => self.agent(name),
            Subject::Service => {
                let state = self.state();
                self.inner.home.as_ref().ok().and(state.service.as_ref()).map(|line| Arc::clone(&line.current))
            }
        }
    }

    /// Why there are none.
    #[must_use]
    pub fn why_none(&self) -> Option<&str> {
        self.inner.home.as_ref().err().map(String::as_str)
    }

    /// Who makes and checks the tokens that callers get; none where this server has no DID.
    #[must_use]
    pub fn tokens(&self) -> Option<Arc<TokenIssuer>> {
        self.state().tokens.clone()
    }

    /// Whether a DID is ours; if so, its document, without asking anyone.
    #[must_use]
    pub fn standing(&self, did: &Did) -> Standing {
        match (self.state().known.get(did), &self.inner.home) {
            (Some(known), _) => Standing::Ours(Arc::clone(&known.document)),
            (None, Ok(home)) if home.is_of(did) => Standing::Nobody,
            (None, _) => Standing::Foreign,
        }
    }

    /// The DID in use in place of one of ours that is not any more.
    #[must_use]
    pub fn successor(&self, did: &Did) -> Option<Did> {
        self.state().known.get(did).and_then(|known| known.current.clone())
    }

    /// Signs with the DID of an agent. As [`Signer::sign`].
    ///
    /// # Errors
    /// There is no such DID, or the address cannot be signed for.
    pub fn sign(
        &self,
        agent: &AgentName,
        outgoing: &mut nuncio_engine::ports::fetch::Outgoing,
    ) -> Result<(), EngineError> {
        self.signer(&Subject::Agent(agent.clone()))?.sign(outgoing, None)
    }

    /// Whoever signs for a subject, with the key it has now.
    ///
    /// # Errors
    /// It has no DID.
    pub fn signer(&self, subject: &Subject) -> Result<Signer, EngineError> {
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        self.of(subject)
            .map(|own| Signer::new(own, Arc::clone(&self.inner.clock), entropy))
            .ok_or_else(|| self.unavailable(subject))
    }

    fn unavailable(&self, subject: &Subject) -> EngineError {
        let why = self.why_none().unwrap_or("it has never been served here; `nuncio did show` lists those there are");
        EngineError::new(Code::DidUnavailable, format!("{subject} has no DID: {why}"))
    }
}

impl State {
    /// Brings in line what is derived from the keys.
    fn settle(&mut self, home: Option<&Home>) {
        let lines = self.service.iter().chain(self.agents.values());
        let known = lines.flat_map(|line| {
            let current = line.current.did();
            let old = |old: &Published| (Arc::clone(&old.bound), Some(current.clone()));
            let all = line.retired.iter().map(old).chain([(Arc::clone(line.current.document()), None)]);
            all.map(|(document, current)| (document.did().clone(), Known { document, current })).collect::<Vec<_>>()
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
