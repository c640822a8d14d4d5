//! Cache of agreements with their validity (ANP-06 §10.1).

use std::time::Duration;

use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::digest::Digest;
use nuncio_identity::{Did, rfc3339};
use serde_json::json;

use super::{Agreement, ChosenBy, NegotiationRequest};
use crate::client::AnpClient;
use crate::client::capabilities::MessageService;
use crate::client::describe::VerifiedDescription;
use crate::client::resolve::digest;

const MAX_CACHED_AGREEMENTS: usize = 512;
/// Validity of an agreement that states none.
const DEFAULT_VALIDITY: Duration = Duration::from_secs(300);
const MAX_VALIDITY: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(in crate::client) struct AgreementCache(BoundedCache<AgreementCacheKey, CachedAgreement>);

impl Default for AgreementCache {
    fn default() -> Self {
        Self(BoundedCache::new(MAX_CACHED_AGREEMENTS))
    }
}

/// Cache key: the agent, the caller, and the request including constraints and security profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct AgreementCacheKey {
    target: Did,
    caller: String,
    intent: Digest,
}

/// A cached agreement and the circumstances it depends on.
#[derive(Debug, Clone)]
struct CachedAgreement {
    agreement: Agreement,
    /// Digest of the agent's DID document.
    document: Digest,
    /// Digest of the message service's capabilities; `None` if they were not fetched.
    runtime: Option<Digest>,
}

impl AgreementCache {
    /// Returns an unexpired cached agreement, if DID document and interface of the agent are unchanged.
    pub(super) fn get(
        &self,
        client: &AnpClient,
        agent: &VerifiedDescription,
        needs: &NegotiationRequest,
    ) -> Option<Agreement> {
        let (cache_key, document) = (cache_key(client, agent, needs)?, digest(agent.document.as_ref()?));
        let found = self.0.get(&cache_key, client.http.clock.now())?;
        let id = found.agreement.result.selected.as_ref().and_then(|it| it.interface.as_deref());
        let is_described = id.is_none_or(|id| agent.description.interface(id).is_some());
        if found.document != document || !is_described {
            self.0.remove(&cache_key);
            return None;
        }
        Some(Agreement { reused: true, ..found.agreement })
    }

    pub(super) fn put(
        &self,
        client: &AnpClient,
        agent: &VerifiedDescription,
        needs: &NegotiationRequest,
        agreement: &Agreement,
    ) {
        let (Some(cache_key), Some(document)) = (cache_key(client, agent, needs), agent.document.as_ref()) else {
            return;
        };
        let now = client.http.clock.now();
        let valid_until = agreement.result.valid_until.as_deref().and_then(rfc3339::read);
        let until = valid_until.unwrap_or_else(|| now.after(DEFAULT_VALIDITY)).min(now.after(MAX_VALIDITY));
        let runtime = match &agreement.decided {
            ChosenBy::Agent(runtime) => Some(runtime.digest()),
            ChosenBy::Client { .. } => None,
        };
        let cached = CachedAgreement { agreement: agreement.clone(), document: digest(document), runtime };
        self.0.put(cache_key, cached, until);
    }

    /// Removes agreements that were made under other capabilities than `runtime`.
    pub(super) fn compare(&self, agent: &VerifiedDescription, runtime: &MessageService) {
        let (Some(target), now) = (agent.did(), runtime.digest()) else { return };
        self.0
            .retain(|cache_key, cached| cache_key.target != *target || cached.runtime.is_some_and(|then| then == now));
    }

    pub(super) fn forget(&self, agent: &VerifiedDescription, needs: &NegotiationRequest, client: &AnpClient) {
        if let Some(cache_key) = cache_key(client, agent, needs) {
            self.0.remove(&cache_key);
        }
    }

    pub(super) fn forget_all(&self, agent: &VerifiedDescription) {
        let Some(target) = agent.did() else { return };
        self.0.retain(|cache_key, _| cache_key.target != *target);
    }
}

fn cache_key(client: &AnpClient, agent: &VerifiedDescription, needs: &NegotiationRequest) -> Option<AgreementCacheKey> {
    let body = needs.body(String::new());
    let caller = match &client.http.signer {
        Some(signer) => signer.did().to_string(),
        None => Digest::of_json(&json!(body.caller_capabilities)).to_string(),
    };
    let mut tags = needs.tags.clone();
    tags.sort();
    tags.dedup();
    let words: Option<Vec<_>> =
        needs.intent.as_deref().map(|it| it.split_whitespace().map(str::to_lowercase).collect());
    let intent = json!({
        "tags": tags, "words": words, "required": needs.required, "constraints": body.constraints,
        "capabilities": body.caller_capabilities, "bearer": client.http.bearer.as_ref().map(|it| Digest::of_bytes(it.0.as_bytes())),
    });
    Some(AgreementCacheKey { target: agent.did()?.clone(), caller, intent: Digest::of_json(&intent) })
}
