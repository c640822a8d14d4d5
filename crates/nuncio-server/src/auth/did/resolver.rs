//! The documents of other DIDs: fetched over the outbound client, checked once, kept for a while. However many
//! requests wait for a document, it is fetched once.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::digest::Digest;
use nuncio_core::json::is_json;
use nuncio_engine::ports::fetch::{FetchError, FetchRequest, Trust};
use nuncio_engine::ports::{Clock, Fetch};
use nuncio_identity::{AuthError, BoundDocument, Did, DidDocument, K1ProofRule};
use url::Url;

use crate::dids::{DidOwnership, Dids};

/// How large a document may be.
const MAX_BYTES: usize = 64 * 1024;
/// How long its host may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// For how long a document counts without being looked at again.
const FRESH: Duration = Duration::from_secs(300);
/// For how long one that could not be had is not asked for again.
const PAUSE: Duration = Duration::from_secs(30);
/// How many documents are kept, and how many that could not be had.
const KEPT: usize = 1024;
/// How many are being fetched at once, in all and from one host.
const AT_ONCE: usize = 128;
const AT_ONCE_FROM_ONE: usize = 8;

/// How DIDs of this machine are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalPeers {
    Refused,
    /// Over https, since the operator named an authority of their own.
    Https,
    /// Over plain http, for developing.
    Http,
    /// Over https, and over plain http where that fails: for developing, with such an authority.
    Either,
}

/// Finds the documents of DIDs. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Resolver {
    inner: Arc<Inner>,
}

struct Inner {
    dids: Dids,
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    local: LocalPeers,
    good: BoundedCache<Digest, Arc<BoundDocument>>,
    /// Failed lookups, in their own cache so that a flood of them evicts no document.
    bad: BoundedCache<Digest, AuthError>,
    under_way: Mutex<HashMap<Did, Lookup>>,
}

type Resolution = Result<Arc<BoundDocument>, AuthError>;
type Lookup = Shared<BoxFuture<'static, Resolution>>;

impl Resolver {
    #[must_use]
    pub fn new(dids: Dids, fetch: Arc<dyn Fetch>, clock: Arc<dyn Clock>, local: LocalPeers) -> Self {
        let (good, bad) = (BoundedCache::new(KEPT), BoundedCache::new(KEPT));
        Self { inner: Arc::new(Inner { dids, fetch, clock, local, good, bad, under_way: Mutex::default() }) }
    }

    /// The verified document of a DID. Documents of this server need no request.
    pub async fn resolve(&self, did: &Did) -> Result<Arc<BoundDocument>, AuthError> {
        match self.inner.dids.standing(did) {
            DidOwnership::Ours(document) => return Ok(document),
            DidOwnership::Nobody => return Err(AuthError::Did(format!("there is no {did} here"))),
            DidOwnership::Foreign => {}
        }
        let (key, now) = (Digest::of_bytes(did.as_str().as_bytes()), self.inner.clock.now());
        if let Some(document) = self.inner.good.get(&key, now) {
            return Ok(document);
        }
        if let Some(fault) = self.inner.bad.get(&key, now) {
            return Err(fault);
        }
        self.look_up(did, key)?.await
    }

    pub(crate) fn way_out(&self) -> &Arc<dyn Fetch> {
        &self.inner.fetch
    }

    /// The lookup of a DID that is under way, or a new one. It is brought to its end also when the asker goes
    /// away, or whoever comes and goes could have a host asked without end.
    fn look_up(&self, did: &Did, key: Digest) -> Result<Lookup, AuthError> {
        let mut under_way = self.under_way();
        if let Some(lookup) = under_way.get(did) {
            return Ok(lookup.clone());
        }
        let same = |other: &&Did| other.host() == did.host() && other.port() == did.port();
        let from_the_same = under_way.keys().filter(same).count();
        if under_way.len() >= AT_ONCE || from_the_same >= AT_ONCE_FROM_ONE {
            return Err(AuthError::Busy);
        }
        let (this, asked) = (self.clone(), did.clone());
        let task = tokio::spawn(async move {
            let _landing = LookupGuard { resolver: &this, did: &asked };
            let found = this.inner.fetch(&asked).await;
            let now = this.inner.clock.now();
            match &found {
                Ok(document) => this.inner.good.put(key, Arc::clone(document), now.after(FRESH)),
                Err(fault) => this.inner.bad.put(key, fault.clone(), now.after(PAUSE)),
            }
            found
        });
        let lookup = task
            .map(|ended| ended.unwrap_or_else(|_| Err(AuthError::Did("the lookup broke off".to_owned()))))
            .boxed()
            .shared();
        under_way.insert(did.clone(), lookup.clone());
        Ok(lookup)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Did, Lookup>> {
        self.inner.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a lookup, whichever way it ends.
struct LookupGuard<'a> {
    resolver: &'a Resolver,
    did: &'a Did,
}

impl Drop for LookupGuard<'_> {
    fn drop(&mut self) {
        self.resolver.under_way().remove(self.did);
    }
}

impl Inner {
    async fn fetch(&self, did: &Did) -> Resolution {
        let mut found =
            Err(AuthError::Did(format!("the document of {did} cannot be had: it is a name of this machine")));
        for (base, trust) in self.places(did) {
            let url = base.map_or_else(|| did.resolution_url(), |base| did.resolution_url_at(&base));
            found = self.fetch_from(&url, trust, did).await;
            if found.is_ok() {
                break;
            }
        }
        found
    }

    /// The URLs a DID document may be fetched from, in order, and how far each address is trusted.
    fn places(&self, did: &Did) -> Vec<(Option<String>, Trust)> {
        if did.host() != "localhost" {
            return vec![(None, Trust::Stranger)];
        }
        // The operator's own authority vouches for who answers.
        let https = (None, Trust::Configured);
        let http = (Some(format!("http://localhost:{}", did.port().unwrap_or(80))), Trust::Stranger);
        match self.local {
            LocalPeers::Refused => Vec::new(),
            LocalPeers::Https => vec![https],
            LocalPeers::Http => vec![http],
            LocalPeers::Either => vec![https, http],
        }
    }

    async fn fetch_from(&self, url: &str, trust: Trust, did: &Did) -> Resolution {
        // What a stranger is told says nothing about names and addresses inside.
        let failed = |why: &str| AuthError::Did(format!("the document of {did} cannot be had: {why}"));
        let request = FetchRequest {
            method: "GET",
            url: Url::parse(url).map_err(|_| failed("it makes no address"))?,
            headers: vec![("accept".to_owned(), "application/json".to_owned())],
            body: None,
            trust,
            timeout: TIMEOUT,
            max_bytes: MAX_BYTES,
        };
        let answer = self.fetch.fetch(request).await.map_err(|error| {
            tracing::debug!(%did, %error, "a DID document could not be fetched");
            failed(match error {
                FetchError::Refused { .. } => "its host may not be reached from here",
                FetchError::Unreachable { .. } => "its host cannot be reached",
                FetchError::TooSlow { .. } => "its host did not answer in time",
                FetchError::TooLarge { .. } => "it is too large",
            })
        })?;
        if answer.status != 200 {
            return Err(failed(&format!("its host answered {}", answer.status)));
        }
        if !answer.header("content-type").is_some_and(is_json) {
            return Err(failed("its host did not send it as JSON"));
        }
        let document = DidDocument::from_slice(&answer.body).map_err(|fault| failed(&fault.to_string()))?;
        Ok(Arc::new(document.bind(did, self.clock.now(), K1ProofRule::Optional)?))
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("local", &self.inner.local).finish_non_exhaustive()
    }
}
