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

/// Maximum number of entries.
const KEPT: usize = 512;
/// Validity of an agreement that names none, and the maximum.
const USUAL: Duration = Duration::from_secs(300);
const LONGEST: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(in crate::client) struct Agreements(BoundedCache<AgreementCacheKey, CachedAgreement>);

impl Default for Agreements {
    fn default() -> Self {
        Self(BoundedCache::new(KEPT))
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
    /// Digest of the service's capabilities; `None` if it was not asked.
    runtime: Option<Digest>,
}

impl Agreements {
    /// Returns the agreement for this request if nothing it depends on has changed.
    pub(super) fn get(
        &self,
        client: &AnpClient,
        agent: &VerifiedDescription,
        wish: &NegotiationRequest,
    ) -> Option<Agreement> {
        let (asked, document) = (asked(client, agent, wish)?, digest(agent.document.as_ref()?));
        let found = self.0.get(&asked, client.clock.now())?;
        let id = found.agreement.result.selected.as_ref().and_then(|it| it.interface.as_deref());
        let is_described = id.is_none_or(|id| agent.description.interface(id).is_some());
        if found.document != document || !is_described {
            self.0.remove(&asked);
            return None;
        }
        Some(Agreement { reused: true, ..found.agreement })
    }

    pub(super) fn put(
        &self,
        client: &AnpClient,
        agent: &VerifiedDescription,
        wish: &NegotiationRequest,
        agreement: &Agreement,
    ) {
        let (Some(asked), Some(document)) = (asked(client, agent, wish), agent.document.as_ref()) else { return };
        let now = client.clock.now();
        let said = agreement.result.valid_until.as_deref().and_then(rfc3339::read);
        let until = said.unwrap_or_else(|| now.after(USUAL)).min(now.after(LONGEST));
        let runtime = match &agreement.decided {
            ChosenBy::Agent(runtime) => Some(runtime.digest()),
            ChosenBy::Client { .. } => None,
        };
        let kept = CachedAgreement { agreement: agreement.clone(), document: digest(document), runtime };
        self.0.put(asked, kept, until);
    }

    /// Removes agreements that were made under other capabilities.
    pub(super) fn compare(&self, agent: &VerifiedDescription, runtime: &MessageService) {
        let (Some(target), now) = (agent.did(), runtime.digest()) else { return };
        self.0.retain(|asked, kept| asked.target != *target || kept.runtime.is_some_and(|then| then == now));
    }

    pub(super) fn forget(&self, agent: &VerifiedDescription, wish: &NegotiationRequest, client: &AnpClient) {
        if let Some(asked) = asked(client, agent, wish) {
            self.0.remove(&asked);
        }
    }

    pub(super) fn forget_all(&self, agent: &VerifiedDescription) {
        let Some(target) = agent.did() else { return };
        self.0.retain(|asked, _| asked.target != *target);
    }
}

fn asked(client: &AnpClient, agent: &VerifiedDescription, wish: &NegotiationRequest) -> Option<AgreementCacheKey> {
    let body = wish.body(String::new());
    let caller = match &client.signer {
        Some(signer) => signer.did().to_string(),
        None => Digest::of_json(&json!(body.caller_capabilities)).to_string(),
    };
    let mut tags = wish.tags.clone();
    tags.sort();
    tags.dedup();
    let words: Option<Vec<_>> = wish.intent.as_deref().map(|it| it.split_whitespace().map(str::to_lowercase).collect());
    let intent = json!({
        "tags": tags, "words": words, "required": wish.required, "constraints": body.constraints,
        "capabilities": body.caller_capabilities, "bearer": client.bearer.as_ref().map(|it| Digest::of_bytes(it.0.as_bytes())),
    });
    Some(AgreementCacheKey { target: agent.did()?.clone(), caller, intent: Digest::of_json(&intent) })
}
