//! Keeps the directory: checks who is to be listed, looks at them again from time to time, and lists no more
//! what does not hold.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::Code;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::directory::{DirectoryLimits, Entry, EntryId, not_registered};
use nuncio_engine::ports::fetch::{FetchError, Incoming, Outgoing, Trust};
use nuncio_engine::ports::{Entropy, Fetch};
use nuncio_engine::{Engine, EngineError};
use nuncio_identity::Did;
use serde::Deserialize;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use url::Url;

use super::judge::{Fault, FaultKind, Verified, judge};
use super::{Catalogue, Found, ListedAgent, OwnRows, Wanted};
use crate::client::{AnpClient, LocalDids, Options, Target, authority};
use crate::project::Host;

/// How long one request of a check may take.
const EXCHANGE: Duration = Duration::from_secs(10);
/// How many are checked at once because somebody registers them.
const REGISTRATIONS: usize = 8;
/// How many are looked at again at once.
const LOOKS: usize = 4;
/// How soon a stale one is looked at again; twice as long each time, up to the usual interval.
const FIRST_PAUSE: Duration = Duration::from_secs(5 * 60);
/// How long an agent stays listed although nothing is heard of it.
const STALE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Who may register agents of other hosts over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accept {
    /// Nobody; only commands of the operator add agents.
    Nobody,
    /// Keys of this server; and DIDs, for the agents of their own hosts.
    #[default]
    Known,
    /// Anyone.
    Anyone,
}

/// How the directory is kept.
#[derive(Debug, Clone)]
pub struct KeeperOptions {
    /// Who may register.
    pub accept: Accept,
    /// How long it is from one look at an agent to the next.
    pub interval: Duration,
    /// How many agents are listed.
    pub limits: DirectoryLimits,
    /// How DIDs of this machine are looked up.
    pub local: LocalDids,
    /// What every address of ours begins with, while there is a server.
    pub here: Option<String>,
}

/// An agent that was registered.
#[derive(Debug, Clone)]
pub struct Registered {
    /// Its entry.
    pub entry: Entry,
    /// What is listed of it.
    pub listed: ListedAgent,
    /// Whether it was not listed before.
    pub is_new: bool,
}

/// Keeps the directory. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Keeper {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    /// Reads what operators named.
    configured: AnpClient,
    /// Reads what anyone else named: nothing that is not for everyone.
    strangers: AnpClient,
    options: KeeperOptions,
    catalogue: Catalogue,
    own: OwnRows,
    /// Held while an agent of a host is checked.
    hosts: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    places: Semaphore,
    /// Held while something is written and listed, so that both happen in the same order.
    writing: tokio::sync::Mutex<()>,
    /// Something is to be looked at sooner than was thought.
    changed: Notify,
}

impl Keeper {
    /// A directory that lists nobody yet.
    #[must_use]
    pub fn new(engine: Engine, fetch: Arc<dyn Fetch>, entropy: &Arc<dyn Entropy>, options: KeeperOptions) -> Self {
        let client = |fetch| {
            let read = Options { exchange: EXCHANGE, local: options.local, ..Options::default() };
            AnpClient::new(fetch, Arc::clone(engine.clock()), Arc::clone(entropy), read)
        };
        let strangers = client(Arc::new(Strangers(Arc::clone(&fetch))) as Arc<dyn Fetch>);
        let inner = Inner {
            configured: client(fetch),
            strangers,
            engine,
            options,
            catalogue: Catalogue::default(),
            own: OwnRows::default(),
            hosts: Mutex::default(),
            places: Semaphore::new(REGISTRATIONS),
            writing: tokio::sync::Mutex::default(),
            changed: Notify::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Lists again what was kept.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn load(&self) -> Result<(), EngineError> {
        let now = self.inner.engine.now();
        for (entry, description) in self.inner.engine.directory().await? {
            let (entry, listed) = match serde_json::from_str(&description) {
                Ok(listed) => (entry, listed),
                // Another version wrote it; it is found out anew.
                Err(_) => (Entry { next_check: now, ..entry.clone() }, ListedAgent::unread(&entry)),
            };
            self.inner.catalogue.put(entry, listed);
        }
        Ok(())
    }

    /// Who may register.
    #[must_use]
    pub fn accepts(&self) -> Accept {
        self.inner.options.accept
    }

    /// Checks an agent and lists it. Once more is the same entry, as it is now.
    ///
    /// # Errors
    /// The caller may not, the agent cannot be read or does not hold, or there is no room; nothing has changed.
    pub async fn register(&self, target: &Target, by: &Principal) -> Result<Registered, EngineError> {
        let inner = &self.inner;
        inner.may_register(target, by)?;
        let host = inner.host(target);
        let _alone = host.lock().await;
        let Ok(_place) = inner.places.try_acquire() else {
            let message = "this directory is checking as many agents as it can; register again in a minute";
            return Err(EngineError::new(Code::RateLimited, message));
        };
        let verified = inner.check(target, by).await.map_err(|fault| fault.error)?;
        inner.may_list(&verified, by)?;
        let _order = inner.writing.lock().await;
        let known = inner.catalogue.by_url(&verified.url);
        if known.is_none() {
            let entries = inner.catalogue.entries();
            inner.options.limits.room(verified.url.host_str().unwrap_or_default(), entries.iter())?;
        }
        let now = inner.engine.now();
        let is_new = known.is_none();
        let by_whom = match known.as_ref().map(|known| &known.by) {
            None | Some(Principal::Anonymous) => by.clone(),
            Some(first) => first.clone(),
        };
        let since = known.map_or(now, |known| known.since);
        let registered = inner.put(verified, by_whom, since).await?;
        if is_new {
            tracing::info!(url = %registered.entry.url, did = registered.entry.did, by = %registered.entry.by, "listed an agent of another host");
            self.inner.changed.notify_one();
        }
        Ok(Registered { is_new, ..registered })
    }

    /// Lists an agent no more, by the word of whoever may say so.
    ///
    /// # Errors
    /// It is not listed, the caller may not, or the store cannot be written; nothing has changed.
    pub async fn remove(&self, id: &EntryId, by: &Principal) -> Result<Entry, EngineError> {
        let _order = self.inner.writing.lock().await;
        let entry = self.inner.catalogue.by_id(id).ok_or_else(|| not_registered(id.as_str()))?;
        if !entry.may_be_removed_by(by) {
            let message = "an entry is removed by whoever registered it, by the agent itself, or by an operator";
            return Err(EngineError::new(Code::RegistrationRefused, message));
        }
        self.inner.drop_entry(&entry).await?;
        tracing::info!(url = %entry.url, %by, "an agent of another host was removed");
        Ok(entry)
    }

    /// Every entry with what is listed of it, by address.
    #[must_use]
    pub fn entries(&self) -> Vec<(Entry, ListedAgent)> {
        self.inner.catalogue.all()
    }

    /// A page of the agents that are wanted: our own that are for everyone, and those that are registered.
    #[must_use]
    pub fn find(
        &self,
        host: &Host,
        did_of: impl Fn(&nuncio_core::ids::AgentName) -> Option<String>,
        wanted: &Wanted,
    ) -> Found {
        let engine = &self.inner.engine;
        // Read before the agents: a change in between makes the copy old, never wrong for long.
        let edition = engine.agents_edition();
        let agents = engine.agents();
        let dids = agents.iter().map(|agent| did_of(&agent.name)).collect();
        let own = self.inner.own.of(edition, host, &agents, dids);
        self.inner.catalogue.find(&own, wanted)
    }

    /// Looks at each agent again when its time has come, until told to stop.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = stop => {}
            () = self.keep_looking() => {}
        }
    }

    async fn keep_looking(&self) {
        // Looks end with this set.
        let mut looks = JoinSet::new();
        let mut under_way = HashSet::new();
        loop {
            let (due, next) = self.inner.due(&under_way, LOOKS.saturating_sub(under_way.len()));
            for entry in due {
                let url = entry.url.clone();
                under_way.insert(url.clone());
                let keeper = self.clone();
                looks.spawn(async move {
                    keeper.inner.look(entry).await;
                    url
                });
            }
            tokio::select! {
                Some(ended) = looks.join_next() => match ended {
                    Ok(url) => {
                        under_way.remove(&url);
                    }
                    // It stays under way, so that it does not panic again and again.
                    Err(error) => tracing::error!(%error, "a look at a listed agent broke off"),
                },
                () = self.inner.engine.clock().sleep_until(next) => {}
                () = self.inner.changed.notified() => {}
            }
        }
    }
}

impl Inner {
    /// Whether a caller may register what they name, before anything is read.
    fn may_register(&self, target: &Target, by: &Principal) -> Result<(), EngineError> {
        let refused = |message: String| Err(EngineError::new(Code::RegistrationRefused, message));
        if self.options.here.as_ref().and_then(|here| Url::parse(here).ok()).is_some_and(|here| is_of(target, &here)) {
            return refused("the agents of this host are listed without being registered".to_owned());
        }
        match (self.options.accept, by) {
            (_, Principal::Operator) | (Accept::Anyone, _) => Ok(()),
            (Accept::Nobody, _) => refused("this directory takes no registrations; ask its operator".to_owned()),
            (Accept::Known, Principal::Local | Principal::Key(_)) => Ok(()),
            (Accept::Known, Principal::Did(did)) => match Did::parse(did) {
                Ok(did) if place_of(target) == Some(home_of(&did)) => Ok(()),
                _ => refused(format!("{did} may register agents of its own host only")),
            },
            (Accept::Known, _) => {
                refused("register with a signature by the agent's DID, or with a key of this server".to_owned())
            }
        }
    }

    /// Whether a caller may have this very agent listed: itself, or any of the host that is its own.
    fn may_list(&self, verified: &Verified, by: &Principal) -> Result<(), EngineError> {
        let (Accept::Known, Principal::Did(text)) = (self.options.accept, by) else { return Ok(()) };
        let own = Did::parse(text).is_ok_and(|caller| {
            caller == verified.did || (caller.is_bare() && home_of(&caller) == home_of(&verified.did))
        });
        match own {
            true => Ok(()),
            false => {
                let message = format!("{text} may register itself, and {} is another", verified.did);
                Err(EngineError::new(Code::RegistrationRefused, message))
            }
        }
    }

    async fn check(&self, target: &Target, by: &Principal) -> Result<Verified, Fault> {
        let client = if *by == Principal::Operator { &self.configured } else { &self.strangers };
        judge(&client.describe(target).await?)
    }

    /// Writes down what was verified now, and lists it.
    async fn put(&self, verified: Verified, by: Principal, since: Timestamp) -> Result<Registered, EngineError> {
        let now = self.engine.now();
        let Verified { url, did, listed } = verified;
        let next_check = now.after(self.options.interval);
        let did = did.to_string();
        let entry = Entry { url, did, by, since, verified: now, next_check, failures: 0, problem: None };
        let description = serde_json::to_string(&listed).unwrap_or_default();
        self.engine.put_entry(entry.clone(), description).await?;
        self.catalogue.put(entry.clone(), listed.clone());
        Ok(Registered { entry, listed, is_new: false })
    }

    async fn drop_entry(&self, entry: &Entry) -> Result<(), EngineError> {
        self.engine.remove_entry(&entry.id()).await?;
        self.catalogue.remove(&entry.url);
        Ok(())
    }

    /// Those whose time has come, not more than there is room for; and when to see who is next.
    fn due(&self, under_way: &HashSet<Url>, room: usize) -> (Vec<Entry>, Timestamp) {
        let now = self.engine.now();
        let mut entries = self.catalogue.entries();
        entries.retain(|entry| !under_way.contains(&entry.url));
        let later = entries.iter().map(|entry| entry.next_check).filter(|next| *next > now);
        let next = later.min().unwrap_or(Timestamp::LAST);
        entries.retain(|entry| entry.next_check <= now);
        entries.sort_by_key(|entry| entry.next_check);
        entries.truncate(room);
        (entries, next)
    }

    /// Looks at a listed agent again.
    async fn look(&self, entry: Entry) {
        let target = Target::Description(entry.url.clone());
        let outcome = {
            let host = self.host(&target);
            let _alone = host.lock().await;
            self.check(&target, &entry.by).await
        };
        let _order = self.writing.lock().await;
        // Somebody may have removed it meanwhile, or registered it again.
        let Some(now) = self.catalogue.by_url(&entry.url).filter(|now| *now == entry) else { return };
        let kept = match outcome {
            Ok(verified) => {
                if now.is_stale() {
                    tracing::info!(url = %now.url, "a listed agent can be verified again");
                }
                self.put(verified, now.by, now.since).await.map(drop)
            }
            Err(fault) => self.fail(now, fault).await,
        };
        if let Err(error) = kept {
            tracing::warn!(%error, url = %entry.url, "what became of a listed agent cannot be kept");
            // In memory alone, so that a store that cannot be used is not asked all the time.
            let next_check = self.engine.now().after(FIRST_PAUSE);
            self.catalogue.update(Entry { next_check, ..entry });
        }
    }

    async fn fail(&self, entry: Entry, fault: Fault) -> Result<(), EngineError> {
        let (now, why) = (self.engine.now(), fault.error.message);
        let is_over = entry.verified.after(STALE) <= now;
        if fault.kind == FaultKind::Untrue || is_over {
            tracing::info!(url = %entry.url, why, "an agent of another host is listed no more");
            return self.drop_entry(&entry).await;
        }
        if !entry.is_stale() {
            tracing::info!(url = %entry.url, why, "a listed agent cannot be verified now; it is stale");
        }
        let doubled = FIRST_PAUSE.saturating_mul(1 << entry.failures.min(20));
        let entry = Entry {
            failures: entry.failures.saturating_add(1),
            next_check: now.after(doubled.min(self.options.interval)),
            problem: Some(why),
            ..entry
        };
        if self.engine.keep_check(entry.clone()).await? {
            self.catalogue.update(entry);
        } else {
            self.catalogue.remove(&entry.url);
        }
        Ok(())
    }

    /// The lock of the host that is meant. Those that nobody holds are forgotten.
    fn host(&self, target: &Target) -> Arc<tokio::sync::Mutex<()>> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(hosts.entry(place_of(target).unwrap_or_default()).or_default())
    }
}

/// Host and port that a target names.
fn place_of(target: &Target) -> Option<String> {
    match target {
        Target::Did(did) => Some(home_of(did)),
        Target::Description(url) | Target::Host(url) => url.host_str().map(|_| authority(url)),
    }
}

/// Host and port of a DID.
fn home_of(did: &Did) -> String {
    did.port().map_or_else(|| did.host().to_owned(), |port| format!("{}:{port}", did.host()))
}

/// Whether a target is an agent of ours.
fn is_of(target: &Target, here: &Url) -> bool {
    place_of(target) == Some(authority(here))
}

/// Whatever is fetched, a stranger named it.
#[derive(Debug)]
struct Strangers(Arc<dyn Fetch>);

#[async_trait]
impl Fetch for Strangers {
    async fn fetch(&self, request: Outgoing) -> Result<Incoming, FetchError> {
        self.0.fetch(Outgoing { trust: Trust::Stranger, ..request }).await
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("options", &self.inner.options).finish_non_exhaustive()
    }
}
