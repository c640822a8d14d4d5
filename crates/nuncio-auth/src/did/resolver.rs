//! Resolves DIDs: fetches DID documents of other hosts, verifies and caches them. Concurrent requests for a document
//! share one fetch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::digest::Digest;
use nuncio_core::json::is_json;
use nuncio_engine::ports::fetch::{AddressTrust, FetchError};
use nuncio_engine::ports::{Clock, Fetch};
use nuncio_identity::{BoundDidDocument, Did, DidAuthError, DidDocument, K1ProofRule};
use url::Url;

use super::{DidOwnership, HostDids};
use crate::document_request;

const MAX_DOCUMENT_BYTES: usize = 64 * 1024;
const DOCUMENT_LIFETIME: Duration = Duration::from_secs(300);
const FAILURE_LIFETIME: Duration = Duration::from_secs(30);
/// Capacity of the cache of documents, and of the cache of failures.
const CACHE_CAPACITY: usize = 1024;
const MAX_LOOKUPS: usize = 128;
const MAX_LOOKUPS_PER_HOST: usize = 8;

/// How DIDs with the host `localhost` are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalhostDidPolicy {
    Refused,
    /// Over https, since the operator named a certificate authority.
    Https,
    /// Over plain http, for development.
    Http,
    /// Over https, then over plain http: for development with a certificate authority.
    HttpsOrHttp,
}

/// Resolves DIDs to their documents. Clones share the caches.
#[derive(Debug, Clone)]
pub struct DidResolver {
    inner: Arc<DidResolverState>,
}

#[derive(Debug)]
struct DidResolverState {
    dids: Arc<dyn HostDids>,
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    localhost: LocalhostDidPolicy,
    documents: BoundedCache<Digest, Arc<BoundDidDocument>>,
    /// Failed lookups, in their own cache so that a flood of them evicts no document.
    failures: BoundedCache<Digest, DidAuthError>,
    lookups: Mutex<HashMap<Did, SharedDidLookup>>,
}

type DidResolutionResult = Result<Arc<BoundDidDocument>, DidAuthError>;
type SharedDidLookup = Shared<BoxFuture<'static, DidResolutionResult>>;

impl DidResolver {
    #[must_use]
    pub fn new(
        dids: Arc<dyn HostDids>,
        fetch: Arc<dyn Fetch>,
        clock: Arc<dyn Clock>,
        localhost: LocalhostDidPolicy,
    ) -> Self {
        let (documents, failures) = (BoundedCache::new(CACHE_CAPACITY), BoundedCache::new(CACHE_CAPACITY));
        let lookups = Mutex::default();
        Self { inner: Arc::new(DidResolverState { dids, fetch, clock, localhost, documents, failures, lookups }) }
    }

    /// The verified document of a DID. Documents of this server are not fetched.
    pub async fn resolve(&self, did: &Did) -> Result<Arc<BoundDidDocument>, DidAuthError> {
        let inner = &*self.inner;
        match inner.dids.ownership(did) {
            DidOwnership::Ours(document) => return Ok(document),
            DidOwnership::Unassigned => return Err(DidAuthError::Did(format!("there is no {did} on this server"))),
            DidOwnership::Foreign => {}
        }
        let (key, now) = (Digest::of_bytes(did.as_str().as_bytes()), inner.clock.now());
        let cached = inner.documents.get(&key, now).map(Ok).or_else(|| inner.failures.get(&key, now).map(Err));
        match cached {
            Some(resolution) => resolution,
            None => self.join_or_start_lookup(did, key)?.await,
        }
    }

    #[must_use]
    pub fn fetch(&self) -> &Arc<dyn Fetch> {
        &self.inner.fetch
    }

    /// The running lookup of a DID, or a new one. A lookup continues after its client disconnects; otherwise clients
    /// that disconnect could cause requests to a host without end.
    fn join_or_start_lookup(&self, did: &Did, key: Digest) -> Result<SharedDidLookup, DidAuthError> {
        let mut lookups = self.lookups();
        if let Some(lookup) = lookups.get(did) {
            return Ok(lookup.clone());
        }
        let has_same_host = |other: &&Did| other.host() == did.host() && other.port() == did.port();
        let at_same_host = lookups.keys().filter(has_same_host).count();
        if lookups.len() >= MAX_LOOKUPS || at_same_host >= MAX_LOOKUPS_PER_HOST {
            return Err(DidAuthError::Busy);
        }
        let (this, target) = (self.clone(), did.clone());
        let task = tokio::spawn(async move {
            let _guard = DidLookupGuard { resolver: &this, did: &target };
            let resolution = this.inner.fetch(&target).await;
            let now = this.inner.clock.now();
            match &resolution {
                Ok(document) => this.inner.documents.put(key, Arc::clone(document), now.after(DOCUMENT_LIFETIME)),
                Err(fault) => this.inner.failures.put(key, fault.clone(), now.after(FAILURE_LIFETIME)),
            }
            resolution
        });
        let lookup = task
            .map(|ended| ended.unwrap_or_else(|_| Err(DidAuthError::Did("the lookup was interrupted".to_owned()))))
            .boxed()
            .shared();
        lookups.insert(did.clone(), lookup.clone());
        Ok(lookup)
    }

    fn lookups(&self) -> MutexGuard<'_, HashMap<Did, SharedDidLookup>> {
        self.inner.lookups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a lookup from the running lookups when dropped, also after a panic.
struct DidLookupGuard<'a> {
    resolver: &'a DidResolver,
    did: &'a Did,
}

impl Drop for DidLookupGuard<'_> {
    fn drop(&mut self) {
        self.resolver.lookups().remove(self.did);
    }
}

impl DidResolverState {
    async fn fetch(&self, did: &Did) -> DidResolutionResult {
        let mut resolution = Err(DidAuthError::Did(format!(
            "the document of {did} cannot be fetched: its host is a name of this machine"
        )));
        for (base, trust) in self.sources(did) {
            let url = base.map_or_else(|| did.resolution_url(), |base| did.resolution_url_at(&base));
            resolution = self.fetch_from(&url, trust, did).await;
            if resolution.is_ok() {
                break;
            }
        }
        resolution
    }

    /// The sources of a DID document in the order of use: a base URL if it differs from that of the DID, and the trust
    /// in its address.
    fn sources(&self, did: &Did) -> Vec<(Option<String>, AddressTrust)> {
        if did.host() != "localhost" {
            return vec![(None, AddressTrust::Stranger)];
        }
        // The operator's certificate authority authenticates the host, so the loopback address is trusted.
        let https = (None, AddressTrust::Configured);
        let http = (Some(format!("http://localhost:{}", did.port().unwrap_or(80))), AddressTrust::Stranger);
        match self.localhost {
            LocalhostDidPolicy::Refused => Vec::new(),
            LocalhostDidPolicy::Https => vec![https],
            LocalhostDidPolicy::Http => vec![http],
            LocalhostDidPolicy::HttpsOrHttp => vec![https, http],
        }
    }

    async fn fetch_from(&self, url: &str, trust: AddressTrust, did: &Did) -> DidResolutionResult {
        // The message for the caller contains no internal names and addresses.
        let failed = |why: &str| DidAuthError::Did(format!("the document of {did} cannot be fetched: {why}"));
        let url = Url::parse(url).map_err(|_| failed("the DID does not form a valid address"))?;
        let response = self.fetch.fetch(document_request(url, trust, MAX_DOCUMENT_BYTES)).await.map_err(|error| {
            tracing::debug!(%did, %error, "a DID document could not be fetched");
            failed(match error {
                FetchError::Refused { .. } => "requests to its host are not allowed",
                FetchError::Unreachable { .. } => "its host cannot be reached",
                FetchError::TooSlow { .. } => "its host did not answer in time",
                FetchError::TooLarge { .. } => "it is too large",
            })
        })?;
        if response.status != 200 {
            return Err(failed(&format!("its host answered {}", response.status)));
        }
        if !response.header("content-type").is_some_and(is_json) {
            return Err(failed("its host did not send it as JSON"));
        }
        let document = DidDocument::from_slice(&response.body).map_err(|fault| failed(&fault.to_string()))?;
        Ok(Arc::new(document.bind(did, self.clock.now(), K1ProofRule::Optional)?))
    }
}
