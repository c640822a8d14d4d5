//! What was agreed upon before, and until when it holds (ANP-06 §10.1).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;
use nuncio_identity::{Did, moment};
use serde_json::json;

use super::{Agreement, Decided, Wish};
use crate::client::AnpClient;
use crate::client::capabilities::Runtime;
use crate::client::describe::Described;
use crate::client::resolve::digest;

/// How many are kept.
const KEPT: usize = 512;
/// How long one holds that does not say, and at most.
const USUAL: Duration = Duration::from_secs(300);
const LONGEST: Duration = Duration::from_secs(3600);

/// The agreements.
#[derive(Debug, Default)]
pub(in crate::client) struct Agreements(Mutex<HashMap<Asked, Kept>>);

/// What is known before: whom we ask, who we are, and what we want, policy and protection included.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Asked {
    target: Did,
    caller: String,
    intent: Digest,
}

/// What came of it: the other half of the key, and the circumstances it holds in.
#[derive(Debug, Clone)]
struct Kept {
    agreement: Agreement,
    until: Timestamp,
    /// The edition of the DID document, and with it of the message service.
    document: Digest,
    /// What the service could do; none where it was not asked.
    runtime: Option<Digest>,
}

impl Agreements {
    /// What was agreed upon for this wish, if nothing it rests on has changed.
    pub(super) fn get(&self, client: &AnpClient, agent: &Described, wish: &Wish) -> Option<Agreement> {
        let (asked, document) = (asked(client, agent, wish)?, digest(agent.document.as_ref()?));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.get(&asked)?;
        let id = found.agreement.result.selected.as_ref().and_then(|it| it.interface.as_deref());
        let is_described = id.is_none_or(|id| agent.description.interface(id).is_some());
        if found.until <= client.clock.now() || found.document != document || !is_described {
            kept.remove(&asked);
            return None;
        }
        Some(Agreement { reused: true, ..found.agreement.clone() })
    }

    pub(super) fn put(&self, client: &AnpClient, agent: &Described, wish: &Wish, agreement: &Agreement) {
        let (Some(asked), Some(document)) = (asked(client, agent, wish), agent.document.as_ref()) else { return };
        let now = client.clock.now();
        let said = agreement.result.valid_until.as_deref().and_then(moment::read);
        let until = said.unwrap_or_else(|| now.after(USUAL)).min(now.after(LONGEST));
        let runtime = match &agreement.decided {
            Decided::There(runtime) => Some(runtime.digest()),
            Decided::Here { .. } => None,
        };
        let kept = Kept { agreement: agreement.clone(), until, document: digest(document), runtime };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEPT {
            all.retain(|_, kept| kept.until > now);
        }
        if all.len() < KEPT {
            all.insert(asked, kept);
        }
    }

    /// Forgets what rests on another state of the service than this one.
    pub(super) fn compare(&self, agent: &Described, runtime: &Runtime) {
        let (Some(target), now) = (agent.did(), runtime.digest()) else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|asked, kept| asked.target != *target || kept.runtime.is_some_and(|then| then == now));
    }

    pub(super) fn forget(&self, agent: &Described, wish: &Wish, client: &AnpClient) {
        if let Some(asked) = asked(client, agent, wish) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&asked);
        }
    }

    pub(super) fn forget_all(&self, agent: &Described) {
        let Some(target) = agent.did() else { return };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|asked, _| asked.target != *target);
    }
}

fn asked(client: &AnpClient, agent: &Described, wish: &Wish) -> Option<Asked> {
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
    Some(Asked { target: agent.did()?.clone(), caller, intent: Digest::of_json(&intent) })
}
