//! Maintains the directory of registered agents: verifies new ones, re-verifies them periodically, and removes those
//! that fail.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::ErrorCode;
use nuncio_core::backoff::Backoff;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::crawl::STALE_AFTER;
use nuncio_engine::directory::{DirectoryLimits, DirectoryListing, ListingId, not_registered};
use nuncio_engine::jobs::JobHandler;
use nuncio_engine::ports::fetch::{AddressTrust, FetchError, FetchRequest, FetchResponse};
use nuncio_engine::ports::store::ClaimedJob;
use nuncio_engine::ports::{Entropy, Fetch};
use nuncio_engine::{Engine, EngineError};
use nuncio_identity::Did;
use serde::Deserialize;
use tokio::sync::{OwnedMutexGuard, Semaphore};
use url::Url;

use super::verification::{ListingRefusal, ListingRefusalKind, VerifiedAgent, verify};
use super::{
    AgentCatalogue, DirectoryRow, DirectorySearchPage, DirectorySearchQuery, ListedAgentSummary, LocalAgentRowCache,
    own_row,
};
use crate::client::{AgentTarget, AnpClient, AnpClientOptions, LocalDidUrlScheme, authority, did_authority};
use crate::project::HostDocumentSettings;

/// Time limit for one request of a verification.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_CONCURRENT_REGISTRATIONS: usize = 8;
/// Delay before a stale entry is verified again; the delay doubles each time, up to the normal interval.
const FIRST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// Who may register agents of other hosts over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegistrationPolicy {
    /// Only operator commands add agents.
    Nobody,
    /// Local callers and holders of a key of this server may register any agent, DIDs only agents of their own host.
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
    pub local: LocalDidUrlScheme,
    /// Base URL of this server; `None` if no server is running.
    pub here: Option<String>,
}

#[derive(Debug, Clone)]
pub struct AgentRegistrationResult {
    pub entry: DirectoryListing,
    pub listed: ListedAgentSummary,
    /// Whether the agent was not listed before this registration.
    pub is_new: bool,
}

/// Index of the registered agents. Clones are cheap and share their state.
#[derive(Clone)]
pub struct DirectoryIndex {
    agents: Arc<DirectoryIndexState>,
}

impl fmt::Debug for DirectoryIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryIndex").finish_non_exhaustive()
    }
}

struct DirectoryIndexState {
    engine: Engine,
    /// Client for targets that operators name.
    configured: AnpClient,
    /// Client for targets that other callers name; only public addresses are allowed.
    strangers: AnpClient,
    options: DirectoryOptions,
    catalogue: AgentCatalogue,
    own: LocalAgentRowCache,
    registration_slots: Semaphore,
    /// Locks by authority, held while a document of the host is read.
    hosts: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Held while an entry is stored and listed, so that entries are listed in the order in which they are stored.
    writing: tokio::sync::Mutex<()>,
}

impl DirectoryIndex {
    #[must_use]
    pub fn new(engine: Engine, fetch: Arc<dyn Fetch>, entropy: &Arc<dyn Entropy>, options: DirectoryOptions) -> Self {
        let client = |fetch| {
            let read =
                AnpClientOptions { exchange: REQUEST_TIMEOUT, local: options.local, ..AnpClientOptions::default() };
            AnpClient::new(fetch, Arc::clone(engine.clock()), Arc::clone(entropy), read)
        };
        let strangers = client(Arc::new(UntrustedFetch(Arc::clone(&fetch))) as Arc<dyn Fetch>);
        let agents = DirectoryIndexState {
            configured: client(fetch),
            strangers,
            engine,
            options,
            catalogue: AgentCatalogue::default(),
            own: LocalAgentRowCache::default(),
            registration_slots: Semaphore::new(MAX_CONCURRENT_REGISTRATIONS),
            hosts: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        };
        Self { agents: Arc::new(agents) }
    }

    pub async fn load(&self) -> Result<(), EngineError> {
        let agents = self.agents();
        let now = agents.engine.now();
        for (entry, description) in agents.engine.directory().listings().await? {
            let (entry, listed) = match serde_json::from_str(&description) {
                Ok(listed) => (entry, listed),
                // The entry was written by another version of Nuncio, so the agent is verified again now.
                Err(_) => {
                    let entry = DirectoryListing { next_check: now, ..entry };
                    agents.engine.directory().schedule_check(&entry).await?;
                    let unread = ListedAgentSummary::unread(&entry);
                    (entry, unread)
                }
            };
            agents.list(entry, listed);
        }
        Ok(())
    }

    #[must_use]
    pub fn accepts(&self) -> RegistrationPolicy {
        self.agents().options.accept
    }

    fn agents(&self) -> &DirectoryIndexState {
        &self.agents
    }

    /// Verifies an agent and lists it. Registering it again updates the entry.
    ///
    /// # Errors
    /// Nothing was changed: the caller is not allowed, the verification failed, or a limit is reached.
    pub async fn register(&self, target: &AgentTarget, by: &Principal) -> Result<AgentRegistrationResult, EngineError> {
        let inner = self.agents();
        inner.may_register(target, by)?;
        let _alone = self.lock_host(target_authority(target).unwrap_or_default()).await;
        let Ok(_place) = inner.registration_slots.try_acquire() else {
            let message = "this directory is checking too many agents now; register again in a minute";
            return Err(EngineError::new(ErrorCode::RateLimited, message));
        };
        let verified = inner.check(target, by).await.map_err(|fault| fault.error)?;
        inner.may_list(&verified, by)?;
        let _order = inner.writing.lock().await;
        let listed_before = inner.listing(&verified.url);
        if listed_before.is_none() {
            let entries = inner.listings();
            inner.options.limits.room(verified.url.host_str().unwrap_or_default(), entries.iter())?;
        }
        let is_new = listed_before.is_none();
        let (first, since) = match listed_before {
            Some(entry) if entry.by != Principal::Anonymous => (entry.by, entry.since),
            Some(entry) => (by.clone(), entry.since),
            None => (by.clone(), inner.engine.now()),
        };
        let registered = inner.put(verified, first, since).await?;
        if is_new {
            tracing::info!(url = %registered.entry.url, did = registered.entry.did, by = %registered.entry.by, "listed an agent of another host");
        }
        Ok(AgentRegistrationResult { is_new, ..registered })
    }

    /// Removes an entry on behalf of `by`.
    ///
    /// # Errors
    /// Nothing was changed: the entry does not exist, or the caller may not remove it.
    pub async fn remove(&self, id: &ListingId, by: &Principal) -> Result<DirectoryListing, EngineError> {
        let agents = self.agents();
        let _order = agents.writing.lock().await;
        let entry =
            agents.listings().into_iter().find(|entry| entry.id() == *id).ok_or_else(|| not_registered(id.as_str()))?;
        if !entry.may_be_removed_by(by) {
            let message =
                "an entry can be removed only by the caller who registered it, by the agent itself, or by an operator";
            return Err(EngineError::new(ErrorCode::RegistrationRefused, message));
        }
        agents.drop_entry(&entry).await?;
        tracing::info!(url = %entry.url, %by, "an agent of another host was removed");
        Ok(entry)
    }

    /// All directory entries, sorted by URL.
    #[must_use]
    pub fn entries(&self) -> Vec<(DirectoryListing, ListedAgentSummary)> {
        let rows = self.agents().catalogue.all().into_values();
        rows.filter_map(|row| Some((row.entry.clone()?, row.listed.clone()))).collect()
    }

    /// Searches the publicly listed local agents and the registered ones.
    #[must_use]
    pub fn find(
        &self,
        host: &HostDocumentSettings,
        did_of: impl Fn(&nuncio_core::ids::AgentName) -> Option<String>,
        wanted: &DirectorySearchQuery,
    ) -> DirectorySearchPage {
        let DirectoryIndexState { engine, own, catalogue, .. } = self.agents();
        // The edition is read before the agents, so that a concurrent change invalidates the cached rows.
        let edition = engine.agents().agents_edition();
        let agents = engine.agents().list();
        let dids: Vec<_> = agents.iter().map(|agent| did_of(&agent.name)).collect();
        let own = own.get_or_put((edition, dids.clone()), (), || {
            let with_dids = agents.iter().zip(&dids);
            with_dids.filter_map(|(agent, did)| own_row(host, agent, did.as_deref())).collect()
        });
        wanted.find(catalogue, &own)
    }

    /// Waits until the host is not being read for another registration or check, and prevents further ones.
    async fn lock_host(&self, host: String) -> OwnedMutexGuard<()> {
        let lock = {
            let mut hosts = self.agents().hosts.lock().unwrap_or_else(PoisonError::into_inner);
            hosts.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(hosts.entry(host).or_default())
        };
        lock.lock_owned().await
    }
}

impl DirectoryIndexState {
    fn list(&self, entry: DirectoryListing, listed: ListedAgentSummary) {
        let url = entry.url.clone();
        self.catalogue.put(url.clone().as_str(), Arc::new(DirectoryRow::new(url, listed, Some(entry))));
    }

    fn listing(&self, url: &Url) -> Option<DirectoryListing> {
        self.catalogue.get(url.as_str())?.entry.clone()
    }

    fn listings(&self) -> Vec<DirectoryListing> {
        self.catalogue.all().into_values().filter_map(|row| row.entry.clone()).collect()
    }

    /// Checks whether the caller may register the target, before anything is fetched.
    fn may_register(&self, target: &AgentTarget, by: &Principal) -> Result<(), EngineError> {
        let refused = |message: &str| Err(EngineError::new(ErrorCode::RegistrationRefused, message));
        let here = self.options.here.as_ref().and_then(|here| Url::parse(here).ok());
        if here.is_some_and(|here| target_authority(target) == Some(authority(&here))) {
            return refused("the agents of this host are listed without being registered");
        }
        match (self.options.accept, by) {
            (_, Principal::Operator) | (RegistrationPolicy::Anyone, _) => Ok(()),
            (RegistrationPolicy::Nobody, _) => {
                refused("this directory does not accept registrations; ask its operator")
            }
            (RegistrationPolicy::Known, Principal::Local | Principal::Key(_)) => Ok(()),
            (RegistrationPolicy::Known, Principal::Did(did)) => match Did::parse(did) {
                Ok(did) if target_authority(target) == Some(did_authority(&did)) => Ok(()),
                _ => refused(&format!("{did} may register agents of its own host only")),
            },
            (RegistrationPolicy::Known, _) => {
                refused("register with a signature by the agent's DID, or with a key of this server")
            }
        }
    }

    /// Checks whether the caller may list this agent. A DID may list itself; a host's own DID may list all its agents.
    fn may_list(&self, verified: &VerifiedAgent, by: &Principal) -> Result<(), EngineError> {
        let (RegistrationPolicy::Known, Principal::Did(text)) = (self.options.accept, by) else { return Ok(()) };
        let own = Did::parse(text).is_ok_and(|caller| {
            caller == verified.did || (caller.is_bare() && did_authority(&caller) == did_authority(&verified.did))
        });
        if own {
            return Ok(());
        }
        let message = format!("{text} may register only itself, and {} is another agent", verified.did);
        Err(EngineError::new(ErrorCode::RegistrationRefused, message))
    }

    async fn check(&self, target: &AgentTarget, by: &Principal) -> Result<VerifiedAgent, ListingRefusal> {
        let client = if *by == Principal::Operator { &self.configured } else { &self.strangers };
        verify(&client.describe(target).await?)
    }

    async fn put(
        &self,
        verified: VerifiedAgent,
        by: Principal,
        since: Timestamp,
    ) -> Result<AgentRegistrationResult, EngineError> {
        let now = self.engine.now();
        let VerifiedAgent { url, did, listed } = verified;
        let next_check = now.after(self.options.interval);
        let did = did.to_string();
        let entry = DirectoryListing { url, did, by, since, verified: now, next_check, failures: 0, problem: None };
        let description = serde_json::to_string(&listed).unwrap_or_default();
        self.engine.directory().put_listing(entry.clone(), description).await?;
        self.list(entry.clone(), listed.clone());
        Ok(AgentRegistrationResult { entry, listed, is_new: false })
    }

    async fn drop_entry(&self, entry: &DirectoryListing) -> Result<(), EngineError> {
        self.engine.directory().remove_listing(&entry.id()).await?;
        self.catalogue.remove(entry.url.as_str());
        Ok(())
    }

    /// Verifies a listed agent if it is due, and stores the result with the time of the next check.
    async fn check_listing(&self, url: &Url) -> Result<(), EngineError> {
        let due = |entry: &DirectoryListing| entry.next_check <= self.engine.now();
        let Some(entry) = self.listing(url).filter(due) else { return Ok(()) };
        let outcome = self.check(&AgentTarget::Description(url.clone()), &entry.by).await;
        let _order = self.writing.lock().await;
        // The entry may have been removed meanwhile.
        if self.listing(url).as_ref() != Some(&entry) {
            return Ok(());
        }
        match outcome {
            Ok(verified) => {
                if entry.is_stale() {
                    tracing::info!(%url, "a listed agent can be verified again");
                }
                self.put(verified, entry.by, entry.since).await.map(drop)
            }
            Err(fault) => self.record_failure(entry, fault).await,
        }
    }

    async fn record_failure(&self, entry: DirectoryListing, fault: ListingRefusal) -> Result<(), EngineError> {
        let (now, why) = (self.engine.now(), fault.error.message);
        let is_over = entry.verified.after(STALE_AFTER) <= now;
        if fault.kind == ListingRefusalKind::Untrue || is_over {
            tracing::info!(url = %entry.url, why, "an agent of another host is no longer listed");
            return self.drop_entry(&entry).await;
        }
        if !entry.is_stale() {
            tracing::info!(url = %entry.url, why, "a listed agent cannot be verified now; it is stale");
        }
        let failures = entry.failures.saturating_add(1);
        let backoff = Backoff::doubling(FIRST_PAUSE, self.options.interval);
        let entry =
            DirectoryListing { failures, next_check: now.after(backoff.after(failures)), problem: Some(why), ..entry };
        match self.catalogue.get(entry.url.as_str()) {
            Some(row) if self.engine.directory().record_listing_check(entry.clone()).await? => {
                self.list(entry, row.listed.clone());
            }
            _ => self.catalogue.remove(entry.url.as_str()),
        }
        Ok(())
    }
}

#[async_trait]
impl JobHandler for DirectoryIndex {
    /// Verifies a listed agent when it is due, and schedules the next check.
    async fn run(&self, job: &ClaimedJob) -> Result<(), EngineError> {
        let jobs = self.agents().engine.jobs();
        let Ok(url) = Url::parse(&job.job.key) else { return jobs.end(job).await };
        {
            let _alone = self.lock_host(authority(&url)).await;
            self.agents().check_listing(&url).await?;
        }
        match self.agents().listing(&url) {
            Some(entry) => jobs.postpone(job, entry.next_check).await,
            None => jobs.end(job).await,
        }
    }
}

fn target_authority(target: &AgentTarget) -> Option<String> {
    match target {
        AgentTarget::Did(did) => Some(did_authority(did)),
        AgentTarget::Description(url) | AgentTarget::Host(url) => url.host_str().map(|_| authority(url)),
    }
}

/// HTTP client that marks every request as untrusted, so that only public addresses are fetched.
#[derive(Debug)]
struct UntrustedFetch(Arc<dyn Fetch>);

#[async_trait]
impl Fetch for UntrustedFetch {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        self.0.fetch(FetchRequest { trust: AddressTrust::Stranger, ..request }).await
    }
}
