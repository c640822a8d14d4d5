//! Cache of agreements with their validity (ANP-06 §10.1).

use std::path::PathBuf;
use std::time::Duration;

use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;
use nuncio_identity::{Did, rfc3339};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::agreement_file::{AgreementFile, StoredAgreement};
use super::{ChosenBy, NegotiationAgreement, NegotiationRequest};
use crate::client::AnpClient;
use crate::client::capabilities::RemoteMessageService;
use crate::client::describe::VerifiedAgentDescription;
use crate::client::resolve::digest;

const MAX_CACHED_AGREEMENTS: usize = 512;
/// Validity of an agreement that states none.
const DEFAULT_VALIDITY: Duration = Duration::from_secs(300);
pub(super) const MAX_VALIDITY: Duration = Duration::from_secs(3600);

/// Agreements in memory and, if the client has a file for them, on disk.
#[derive(Debug)]
pub(in crate::client) struct AgreementCache {
    memory: BoundedCache<AgreementCacheKey, CachedAgreement>,
    file: Option<AgreementFile>,
}

impl Default for AgreementCache {
    fn default() -> Self {
        Self { memory: BoundedCache::new(MAX_CACHED_AGREEMENTS), file: None }
    }
}

/// Cache key: the agent, the caller, and the request including constraints and security profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct AgreementCacheKey {
    target: Did,
    caller: String,
    intent: Digest,
}

/// A cached agreement and the circumstances it depends on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CachedAgreement {
    pub(super) agreement: NegotiationAgreement,
    /// Digest of the agent's DID document.
    document: Digest,
    /// Digest of the message service's capabilities; `None` if they were not fetched.
    runtime: Option<Digest>,
}

impl AgreementCache {
    /// Loads the agreements of a file, which need not exist. Later agreements are stored there too.
    pub(in crate::client) fn stored_at(path: PathBuf, now: Timestamp) -> Self {
        let file = AgreementFile::at(path);
        let memory = BoundedCache::new(MAX_CACHED_AGREEMENTS);
        file.read(now).into_iter().for_each(|it| memory.put(it.key, it.cached, it.until));
        Self { memory, file: Some(file) }
    }

    /// Returns an unexpired cached agreement, if DID document and interface of the agent are unchanged.
    pub(super) fn get(
        &self,
        client: &AnpClient,
        agent: &VerifiedAgentDescription,
        needs: &NegotiationRequest,
    ) -> Option<NegotiationAgreement> {
        let (cache_key, document) = (cache_key(client, agent, needs)?, digest(agent.document.as_ref()?));
        let found = self.memory.get(&cache_key, client.http.clock.now())?;
        let id = found.agreement.result.selected.as_ref().and_then(|it| it.interface.as_deref());
        let is_described = id.is_none_or(|id| agent.description.interface(id).is_some());
        if found.document != document || !is_described {
            self.remove(&cache_key, client.http.clock.now());
            return None;
        }
        Some(NegotiationAgreement { reused: true, ..found.agreement })
    }

    /// Whether the agent itself made a cached agreement that is still valid.
    pub(in crate::client) fn has_agreed(
        &self,
        client: &AnpClient,
        agent: &VerifiedAgentDescription,
        needs: &NegotiationRequest,
    ) -> bool {
        self.get(client, agent, needs).is_some_and(|agreement| matches!(agreement.decided, ChosenBy::Agent(_)))
    }

    pub(super) fn put(
        &self,
        client: &AnpClient,
        agent: &VerifiedAgentDescription,
        needs: &NegotiationRequest,
        agreement: &NegotiationAgreement,
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
        if let Some(file) = &self.file {
            let stored = StoredAgreement { key: cache_key.clone(), until, cached: cached.clone() };
            file.change(now, |all| {
                all.retain(|it| it.key != stored.key);
                all.push(stored);
            });
        }
        self.memory.put(cache_key, cached, until);
    }

    /// Removes agreements that were made under other capabilities than `runtime`.
    pub(super) fn compare(&self, agent: &VerifiedAgentDescription, runtime: &RemoteMessageService, now: Timestamp) {
        let (Some(target), current) = (agent.did(), runtime.digest()) else { return };
        self.retain(now, |key, cached| key.target != *target || cached.runtime.is_some_and(|then| then == current));
    }

    pub(super) fn forget(&self, agent: &VerifiedAgentDescription, needs: &NegotiationRequest, client: &AnpClient) {
        if let Some(cache_key) = cache_key(client, agent, needs) {
            self.remove(&cache_key, client.http.clock.now());
        }
    }

    pub(super) fn forget_all(&self, agent: &VerifiedAgentDescription, now: Timestamp) {
        let Some(target) = agent.did() else { return };
        self.retain(now, |key, _| key.target != *target);
    }

    fn remove(&self, cache_key: &AgreementCacheKey, now: Timestamp) {
        self.retain(now, |key, _| key != cache_key);
    }

    fn retain(&self, now: Timestamp, keep: impl Fn(&AgreementCacheKey, &CachedAgreement) -> bool) {
        let before = self.memory.weight();
        self.memory.retain(&keep);
        // The file can only have what this process loaded or stored, or what another process stored later.
        if let Some(file) = self.file.as_ref().filter(|_| self.memory.weight() != before) {
            file.change(now, |all| all.retain(|it| keep(&it.key, &it.cached)));
        }
    }
}

fn cache_key(
    client: &AnpClient,
    agent: &VerifiedAgentDescription,
    needs: &NegotiationRequest,
) -> Option<AgreementCacheKey> {
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
