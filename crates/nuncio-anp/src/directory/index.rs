//! Maintains the directory of registered agents: verifies new ones, re-verifies them periodically, and removes those
//! that fail.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::Code;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::directory::{DirectoryLimits, DirectoryListing, ListingId, not_registered};
use nuncio_engine::ports::fetch::{FetchError, FetchRequest, FetchResponse, Trust};
use nuncio_engine::ports::{Entropy, Fetch};
use nuncio_engine::{Engine, EngineError};
use nuncio_identity::Did;
use serde::Deserialize;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use url::Url;

use super::verification::{ListingRefusal, RefusalKind, VerifiedAgent, verify};
use super::{Catalogue, ListedAgent, OwnRows, SearchPage, SearchQuery};
use crate::client::{AgentTarget, AnpClient, AnpClientOptions, LocalDids, authority};
use crate::project::Host;

/// Time limit for one request of a verification.
const EXCHANGE: Duration = Duration::from_secs(10);
/// Maximum number of concurrent registrations.
const REGISTRATIONS: usize = 8;
/// Maximum number of concurrent re-verifications.
const REVERIFICATIONS: usize = 4;
/// Delay before a stale entry is verified again. It doubles each time, up to the normal interval.
const FIRST_PAUSE: Duration = Duration::from_secs(5 * 60);
/// How long an unreachable agent stays listed.
const STALE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Who may register agents of other hosts over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegistrationPolicy {
    /// Only operator commands add agents.
    Nobody,
    /// Keys of this server, and DIDs for agents of their own host.
    #[default]
    Known,
    Anyone,
}

#[derive(Debug, Clone)]
pub struct DirectoryOptions {
    pub accept: RegistrationPolicy,
    /// Time between two verifications of an agent.
    pub interval: Duration,
    pub limits: DirectoryLimits,
    /// How DIDs of this machine are resolved.
    pub local: LocalDids,
    /// Base URL of this server; `None` if none is running.
    pub here: Option<String>,
}

#[derive(Debug, Clone)]
pub struct RegisteredAgent {
    pub entry: DirectoryListing,
    pub listed: ListedAgent,
    /// Whether it was not listed before.
    pub is_new: bool,
}

/// Index of the registered agents. Clones are cheap and share their state.
#[derive(Clone)]
pub struct DirectoryIndex {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    /// Fetches targets named by operators.
    configured: AnpClient,
    /// Fetches targets named by anybody else; only public addresses are allowed.
    strangers: AnpClient,
    options: DirectoryOptions,
    catalogue: Catalogue,
    own: OwnRows,
    /// One lock per host, held during a verification.
    hosts: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    registration_slots: Semaphore,
    /// Held while storing and listing an entry, so that both happen in the same order.
    writing: tokio::sync::Mutex<()>,
    /// Signals that an entry is due earlier than planned.
    changed: Notify,
}

impl DirectoryIndex {
    #[must_use]
    pub fn new(engine: Engine, fetch: Arc<dyn Fetch>, entropy: &Arc<dyn Entropy>, options: DirectoryOptions) -> Self {
        let client = |fetch| {
            let read = AnpClientOptions { exchange: EXCHANGE, local: options.local, ..AnpClientOptions::default() };
            AnpClient::new(fetch, Arc::clone(engine.clock()), Arc::clone(entropy), read)
        };
        let strangers = client(Arc::new(UntrustedFetch(Arc::clone(&fetch))) as Arc<dyn Fetch>);
        let inner = Inner {
            configured: client(fetch),
            strangers,
            engine,
            options,
            catalogue: Catalogue::default(),
            own: OwnRows::default(),
            hosts: Mutex::default(),
            registration_slots: Semaphore::new(REGISTRATIONS),
            writing: tokio::sync::Mutex::default(),
            changed: Notify::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Loads the stored entries.
    pub async fn load(&self) -> Result<(), EngineError> {
        let now = self.inner.engine.now();
        for (entry, description) in self.inner.engine.directory().listings().await? {
            let (entry, listed) = match serde_json::from_str(&description) {
                Ok(listed) => (entry, listed),
                // Written by another version; the agent will be verified again now.
                Err(_) => (DirectoryListing { next_check: now, ..entry.clone() }, ListedAgent::unread(&entry)),
            };
            self.inner.catalogue.put(entry, listed);
        }
        Ok(())
    }

    #[must_use]
    pub fn accepts(&self) -> RegistrationPolicy {
        self.inner.options.accept
    }

    /// Verifies an agent and lists it. Registering it again updates the entry.
    ///
    /// # Errors
    /// Nothing was changed: the caller is not allowed, the verification failed, or a limit is reached.
    pub async fn register(&self, target: &AgentTarget, by: &Principal) -> Result<RegisteredAgent, EngineError> {
        let inner = &self.inner;
        inner.may_register(target, by)?;
        let host = inner.host_lock(target);
        let _alone = host.lock().await;
        let Ok(_place) = inner.registration_slots.try_acquire() else {
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
        Ok(RegisteredAgent { is_new, ..registered })
    }

    /// Removes an entry on behalf of `by`.
    ///
    /// # Errors
    /// Nothing was changed: the entry does not exist, or the caller may not remove it.
    pub async fn remove(&self, id: &ListingId, by: &Principal) -> Result<DirectoryListing, EngineError> {
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

    /// All entries, sorted by URL.
    #[must_use]
    pub fn entries(&self) -> Vec<(DirectoryListing, ListedAgent)> {
        self.inner.catalogue.all()
    }

    /// Searches the publicly listed local agents and the registered ones.
    #[must_use]
    pub fn find(
        &self,
        host: &Host,
        did_of: impl Fn(&nuncio_core::ids::AgentName) -> Option<String>,
        wanted: &SearchQuery,
    ) -> SearchPage {
        let engine = &self.inner.engine;
        // The edition is read before the agents, so that a concurrent change invalidates the cached rows.
        let edition = engine.agents().agents_edition();
        let agents = engine.agents().list();
        let dids = agents.iter().map(|agent| did_of(&agent.name)).collect();
        let own = self.inner.own.of(edition, host, &agents, dids);
        self.inner.catalogue.find(&own, wanted)
    }

    /// Re-verifies agents when they are due, until `stop` completes.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = stop => {}
            () = self.reverify_loop() => {}
        }
    }

    async fn reverify_loop(&self) {
        // Dropping the set ends its tasks.
        let mut reverifications = JoinSet::new();
        let mut in_progress = HashSet::new();
        loop {
            let (due, next) = self.inner.due(&in_progress, REVERIFICATIONS.saturating_sub(in_progress.len()));
            for entry in due {
                let url = entry.url.clone();
                in_progress.insert(url.clone());
                let keeper = self.clone();
                reverifications.spawn(async move {
                    keeper.inner.reverify(entry).await;
                    url
                });
            }
            tokio::select! {
                Some(ended) = reverifications.join_next() => match ended {
                    Ok(url) => {
                        in_progress.remove(&url);
                    }
                    // The URL stays marked, so that a panicking verification is not repeated.
                    Err(error) => tracing::error!(%error, "a look at a listed agent broke off"),
                },
                () = self.inner.engine.clock().sleep_until(next) => {}
                () = self.inner.changed.notified() => {}
            }
        }
    }
}

impl Inner {
    /// Checks whether the caller may register the target, before anything is fetched.
    fn may_register(&self, target: &AgentTarget, by: &Principal) -> Result<(), EngineError> {
        let refused = |message: String| Err(EngineError::new(Code::RegistrationRefused, message));
        if self.options.here.as_ref().and_then(|here| Url::parse(here).ok()).is_some_and(|here| is_local(target, &here))
        {
            return refused("the agents of this host are listed without being registered".to_owned());
        }
        match (self.options.accept, by) {
            (_, Principal::Operator) | (RegistrationPolicy::Anyone, _) => Ok(()),
            (RegistrationPolicy::Nobody, _) => {
                refused("this directory takes no registrations; ask its operator".to_owned())
            }
            (RegistrationPolicy::Known, Principal::Local | Principal::Key(_)) => Ok(()),
            (RegistrationPolicy::Known, Principal::Did(did)) => match Did::parse(did) {
                Ok(did) if target_authority(target) == Some(did_authority(&did)) => Ok(()),
                _ => refused(format!("{did} may register agents of its own host only")),
            },
            (RegistrationPolicy::Known, _) => {
                refused("register with a signature by the agent's DID, or with a key of this server".to_owned())
            }
        }
    }

    /// Checks whether the caller may list this agent: its own DID, or any agent of its own domain.
    fn may_list(&self, verified: &VerifiedAgent, by: &Principal) -> Result<(), EngineError> {
        let (RegistrationPolicy::Known, Principal::Did(text)) = (self.options.accept, by) else { return Ok(()) };
        let own = Did::parse(text).is_ok_and(|caller| {
            caller == verified.did || (caller.is_bare() && did_authority(&caller) == did_authority(&verified.did))
        });
        match own {
            true => Ok(()),
            false => {
                let message = format!("{text} may register itself, and {} is another", verified.did);
                Err(EngineError::new(Code::RegistrationRefused, message))
            }
        }
    }

    async fn check(&self, target: &AgentTarget, by: &Principal) -> Result<VerifiedAgent, ListingRefusal> {
        let client = if *by == Principal::Operator { &self.configured } else { &self.strangers };
        verify(&client.describe(target).await?)
    }

    /// Stores and lists a verified agent.
    async fn put(
        &self,
        verified: VerifiedAgent,
        by: Principal,
        since: Timestamp,
    ) -> Result<RegisteredAgent, EngineError> {
        let now = self.engine.now();
        let VerifiedAgent { url, did, listed } = verified;
        let next_check = now.after(self.options.interval);
        let did = did.to_string();
        let entry = DirectoryListing { url, did, by, since, verified: now, next_check, failures: 0, problem: None };
        let description = serde_json::to_string(&listed).unwrap_or_default();
        self.engine.directory().put_listing(entry.clone(), description).await?;
        self.catalogue.put(entry.clone(), listed.clone());
        Ok(RegisteredAgent { entry, listed, is_new: false })
    }

    async fn drop_entry(&self, entry: &DirectoryListing) -> Result<(), EngineError> {
        self.engine.directory().remove_listing(&entry.id()).await?;
        self.catalogue.remove(&entry.url);
        Ok(())
    }

    /// Returns the due entries, at most `room`, and the next due time.
    fn due(&self, in_progress: &HashSet<Url>, room: usize) -> (Vec<DirectoryListing>, Timestamp) {
        let now = self.engine.now();
        let mut entries = self.catalogue.entries();
        entries.retain(|entry| !in_progress.contains(&entry.url));
        let later = entries.iter().map(|entry| entry.next_check).filter(|next| *next > now);
        let next = later.min().unwrap_or(Timestamp::LAST);
        entries.retain(|entry| entry.next_check <= now);
        entries.sort_by_key(|entry| entry.next_check);
        entries.truncate(room);
        (entries, next)
    }

    /// Re-verifies a listed agent.
    async fn reverify(&self, entry: DirectoryListing) {
        let target = AgentTarget::Description(entry.url.clone());
        let outcome = {
            let host = self.host_lock(&target);
            let _alone = host.lock().await;
            self.check(&target, &entry.by).await
        };
        let _order = self.writing.lock().await;
        // The entry may have been removed or registered again meanwhile.
        let Some(now) = self.catalogue.by_url(&entry.url).filter(|now| *now == entry) else { return };
        let kept = match outcome {
            Ok(verified) => {
                if now.is_stale() {
                    tracing::info!(url = %now.url, "a listed agent can be verified again");
                }
                self.put(verified, now.by, now.since).await.map(drop)
            }
            Err(fault) => self.record_failure(now, fault).await,
        };
        if let Err(error) = kept {
            tracing::warn!(%error, url = %entry.url, "what became of a listed agent cannot be kept");
            // Only in memory, so that an unavailable store is not retried constantly.
            let next_check = self.engine.now().after(FIRST_PAUSE);
            self.catalogue.update(DirectoryListing { next_check, ..entry });
        }
    }

    async fn record_failure(&self, entry: DirectoryListing, fault: ListingRefusal) -> Result<(), EngineError> {
        let (now, why) = (self.engine.now(), fault.error.message);
        let is_over = entry.verified.after(STALE) <= now;
        if fault.kind == RefusalKind::Untrue || is_over {
            tracing::info!(url = %entry.url, why, "an agent of another host is listed no more");
            return self.drop_entry(&entry).await;
        }
        if !entry.is_stale() {
            tracing::info!(url = %entry.url, why, "a listed agent cannot be verified now; it is stale");
        }
        let doubled = FIRST_PAUSE.saturating_mul(1 << entry.failures.min(20));
        let entry = DirectoryListing {
            failures: entry.failures.saturating_add(1),
            next_check: now.after(doubled.min(self.options.interval)),
            problem: Some(why),
            ..entry
        };
        if self.engine.directory().record_listing_check(entry.clone()).await? {
            self.catalogue.update(entry);
        } else {
            self.catalogue.remove(&entry.url);
        }
        Ok(())
    }

    /// Returns the lock of the target's host and drops unused locks.
    fn host_lock(&self, target: &AgentTarget) -> Arc<tokio::sync::Mutex<()>> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(hosts.entry(target_authority(target).unwrap_or_default()).or_default())
    }
}

/// Host and port of a target.
fn target_authority(target: &AgentTarget) -> Option<String> {
    match target {
        AgentTarget::Did(did) => Some(did_authority(did)),
        AgentTarget::Description(url) | AgentTarget::Host(url) => url.host_str().map(|_| authority(url)),
    }
}

/// Host and port of a DID.
fn did_authority(did: &Did) -> String {
    did.port().map_or_else(|| did.host().to_owned(), |port| format!("{}:{port}", did.host()))
}

/// Returns whether the target is on this server.
fn is_local(target: &AgentTarget, here: &Url) -> bool {
    target_authority(target) == Some(authority(here))
}

/// Marks every request as untrusted, so that only public addresses are fetched.
#[derive(Debug)]
struct UntrustedFetch(Arc<dyn Fetch>);

#[async_trait]
impl Fetch for UntrustedFetch {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        self.0.fetch(FetchRequest { trust: Trust::Stranger, ..request }).await
    }
}

impl fmt::Debug for DirectoryIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryIndex").field("options", &self.inner.options).finish_non_exhaustive()
    }
}
