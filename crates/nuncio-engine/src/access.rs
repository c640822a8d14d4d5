//! API keys and grants: which caller may use which permission scope of which agent.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Once, PoisonError, RwLock};

use futures_util::StreamExt as _;
use nuncio_core::ErrorCode;
use nuncio_core::audit::references::PermissionSource;
use nuncio_core::digest::{Digest, canonical};
use nuncio_core::grant::{Grant, GrantTerm, KeyScopes};
use nuncio_core::ids::{AgentName, GrantId, KeyId, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;

use crate::context::{CommitResultExt as _, EngineContext};
use crate::error::EngineError;
use crate::ports::bus::BusNotice;
use crate::ports::store::info::SIGNATURES_SINCE;
use crate::ports::store::{AccessChange, AccessStore, ApiKey, Conflict, KeyKind, KeyRole, RelationStore};
use crate::publish::AgentService;
use crate::secret_cipher::SecretCipher;

mod admission;
mod consents;
mod keys;
mod links;
mod nonces;
mod signing;

use consents::ActiveRelations;
pub use keys::{NewApiKeyRequest, key_expired};
pub(crate) use links::PersonLinkTable;
pub(crate) use nonces::use_nonce;
pub use nuncio_core::caller::{AuthenticationMethod, Caller};
pub use signing::RequestSigningKey;
pub(crate) use signing::signing_key_context;

/// Scope that allows reading `/metrics` and nothing else.
const METRICS_SCOPE: &str = "metrics:read";

/// Scopes that the server itself asks for; `console:tasks` opens the inbox of the console.
const SERVER_SCOPES: [&str; 2] = [METRICS_SCOPE, "console:tasks"];

/// Result of authenticating a request, for every protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerCheckResult {
    /// An authenticated caller, or the anonymous caller where the server allows it.
    Known(Caller),
    /// The server requires credentials and the request has none.
    Missing,
    Invalid,
    /// An API key that expired at this time. It is refused like an invalid key, with a message that says so.
    Expired(Timestamp),
}

impl CallerCheckResult {
    /// The identified caller; `None` for an anonymous one.
    ///
    /// # Errors
    /// The request has a credential that is not valid or has expired.
    pub fn identified(&self) -> Result<Option<&Caller>, EngineError> {
        match self {
            Self::Known(caller) if caller.principal != Principal::Anonymous => Ok(Some(caller)),
            Self::Known(_) | Self::Missing => Ok(None),
            Self::Invalid => Err(invalid_credential()),
            Self::Expired(at) => Err(key_expired(*at)),
        }
    }
}

#[must_use]
pub fn invalid_credential() -> EngineError {
    EngineError::new(ErrorCode::Unauthorized, "the key or token is not valid: it is unknown, expired or revoked")
}

/// A grant from the operator's settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredGrant {
    pub principal: Principal,
    /// Agent that the grant applies to; `None` means every agent.
    pub agent: Option<AgentName>,
    pub scopes: KeyScopes,
}

/// Permission of a caller to use a scope, with the grant or consent that gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScopePermission {
    pub(crate) source: PermissionSource,
    /// One-time grant that the call uses up; `None` if the permission covers any number of calls.
    pub(crate) once: Option<GrantId>,
}

impl ScopePermission {
    pub(crate) fn lasting(source: PermissionSource) -> Self {
        Self { source, once: None }
    }

    fn by_grant(grant: &Grant) -> Self {
        let source = PermissionSource::Grant { grant: grant.id.clone(), hash: Digest::of_bytes(&canonical(grant)) };
        Self { source, once: (grant.term == GrantTerm::Once).then(|| grant.id.clone()) }
    }
}

/// In-memory copy of keys and grants, because every request reads them.
#[derive(Default)]
pub(crate) struct KeyAndGrantTable {
    current: RwLock<Arc<KeyAndGrantSnapshot>>,
    standing: Vec<ConfiguredGrant>,
    /// Consents that people's devices signed.
    consents: ActiveRelations,
}

#[derive(Default, Clone)]
struct KeyAndGrantSnapshot {
    /// Bearer keys by the digest of their current and previous secrets.
    keys: HashMap<Digest, Arc<ApiKey>>,
    keys_by_id: HashMap<KeyId, Arc<ApiKey>>,
    signing: Arc<[RequestSigningKey]>,
    /// Whether any key was ever created, including revoked ones. A server whose last key was revoked stays closed.
    any: bool,
    grants: HashMap<Principal, Vec<Grant>>,
}

impl KeyAndGrantTable {
    pub(crate) fn new(standing: Vec<ConfiguredGrant>) -> Self {
        Self { current: RwLock::default(), standing, consents: ActiveRelations::default() }
    }

    fn snapshot(&self) -> Arc<KeyAndGrantSnapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, keys: Vec<ApiKey>, grants: Vec<Grant>, cipher: &SecretCipher) {
        let mut next = KeyAndGrantSnapshot { any: !keys.is_empty(), ..KeyAndGrantSnapshot::default() };
        let mut signing = Vec::new();
        for key in keys.into_iter().filter(|key| key.revoked_at.is_none()) {
            let key = Arc::new(key);
            let previous = key.previous.as_ref().map(|previous| (&previous.digest, &previous.kind));
            for (digest, kind) in [(&key.digest, &key.kind)].into_iter().chain(previous) {
                match kind {
                    KeyKind::Bearer => {
                        next.keys.insert(*digest, Arc::clone(&key));
                    }
                    KeyKind::Signing { sealed } => {
                        signing.extend(RequestSigningKey::open(cipher, &key, *digest, sealed));
                    }
                }
            }
            next.keys_by_id.insert(key.id.clone(), key);
        }
        next.signing = signing.into();
        for grant in grants {
            next.grants.entry(grant.principal.clone()).or_default().push(grant);
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }

    /// Removes a used one-time grant or consent.
    fn remove_grant(&self, id: &GrantId) {
        if let Some(used) = self.consents.with_used(id) {
            return self.set_consent(&used);
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.grants.values().flatten().any(|grant| grant.id == *id) {
            let current = Arc::make_mut(&mut current);
            current.grants.values_mut().for_each(|grants| grants.retain(|grant| grant.id != *id));
        }
    }

    /// The permission of the caller to use `scope` of `agent` at `now`; `None` if there is none. A lasting permission
    /// is preferred to a one-time one.
    pub(crate) fn permission(
        &self,
        caller: &Caller,
        agent: &AgentName,
        scope: &ScopeId,
        now: Timestamp,
    ) -> Option<ScopePermission> {
        let snapshot = self.snapshot();
        let principal = &caller.principal;
        let by_itself = match (principal, &caller.authentication) {
            (Principal::Local | Principal::Operator, _) => Some(PermissionSource::Local),
            (Principal::Key(id), _) => {
                let key = snapshot.keys_by_id.get(id).filter(|key| !key.is_expired(now));
                key.is_some_and(|key| key.scopes.gives(scope)).then_some(PermissionSource::Key)
            }
            // Scopes of a token count as granted, because the operator trusts the issuer of the token.
            (Principal::OAuth { .. }, AuthenticationMethod::Token { scopes, .. }) => {
                scopes.contains(scope).then_some(PermissionSource::Token)
            }
            _ => None,
        };
        let standing = self.standing.iter().any(|grant| {
            grant.principal == *principal
                && grant.agent.as_ref().is_none_or(|name| name == agent)
                && grant.scopes.gives(scope)
        });
        if let Some(source) = by_itself.or(standing.then_some(PermissionSource::Settings)) {
            return Some(ScopePermission::lasting(source));
        }
        let grants = snapshot.grants.get(principal).map_or(&[][..], Vec::as_slice);
        let mut giving = grants.iter().filter(|grant| grant.agent == *agent && grant.gives(scope, now)).peekable();
        let first = giving.peek().copied();
        let granted = giving.find(|grant| grant.term != GrantTerm::Once).or(first).map(ScopePermission::by_grant);
        // A person's consent counts beside operator grants; a lasting permission is preferred to a one-time one.
        match (granted, self.consents.permission(principal, agent, scope, now)) {
            (Some(granted), Some(consent)) if granted.once.is_some() && consent.once.is_none() => Some(consent),
            (granted, consent) => granted.or(consent),
        }
    }
}

/// Service for API keys, grants and linked DIDs; decides which scopes a caller may use.
pub struct AccessControl {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn AccessStore>,
    pub(crate) relation_store: Arc<dyn RelationStore>,
    pub(crate) agents: Arc<AgentService>,
    pub(crate) table: KeyAndGrantTable,
    pub(crate) links: PersonLinkTable,
    pub(crate) listening: Once,
}

impl AccessControl {
    /// Loads keys, grants, DID links and consents, and follows their changes on other nodes from now on.
    pub async fn load(self: &Arc<Self>) -> Result<(), EngineError> {
        self.listening.call_once(|| self.listen());
        self.reload_access().await
    }

    /// Applies changes of keys and grants that the bus reports, until the server stops.
    fn listen(self: &Arc<Self>) {
        let (mut notices, access) = (self.context.bus.subscribe(), Arc::clone(self));
        self.context.tasks.spawn(async move {
            while let Some(Some(notice)) = access.context.closing.run_until_cancelled(notices.next()).await {
                match notice {
                    BusNotice::Access { by } if *by != *access.context.incarnation.as_str() => {
                        if let Err(error) = access.reload_access().await {
                            tracing::error!(%error, "changed keys and grants could not be read");
                        }
                    }
                    BusNotice::GrantUsed(grant) => access.table.remove_grant(&grant),
                    _ => {}
                }
            }
        });
    }

    /// Reloads keys, grants, DID links and consents from the store.
    pub(crate) async fn reload_access(&self) -> Result<(), EngineError> {
        let keys = self.store.keys().await?;
        let grants = self.store.grants().await?;
        if let Some(since) = self.context.store.store_info().await?.get(SIGNATURES_SINCE) {
            // A time that cannot be read refuses all signatures.
            self.context.signatures_since.store(since.parse().unwrap_or(i64::MAX), Ordering::Relaxed);
        }
        self.table.replace(keys, grants, &self.context.cipher);
        self.links.replace(self.store.links().await?);
        self.reload_consents().await
    }

    /// Whether any key exists, valid or revoked. Without keys, a server on loopback accepts every caller.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.table.snapshot().any
    }

    pub(crate) fn has_scope(&self, caller: &Caller, agent: &AgentName, scope: &ScopeId) -> bool {
        self.table.permission(caller, agent, scope, self.context.now()).is_some()
    }

    /// Whether the caller may read the metrics: `local`, an operator or operator key, a key from before roles existed,
    /// or a key, token or lasting grant that names the scope `metrics:read`. A key or grant of all scopes does not
    /// include it.
    #[must_use]
    pub fn may_read_metrics(&self, caller: &Caller) -> bool {
        let Ok(scope) = ScopeId::parse(METRICS_SCOPE) else { return false };
        let snapshot = self.table.snapshot();
        let is_named = |scopes: &KeyScopes| matches!(scopes, KeyScopes::Only(only) if only.contains(&scope));
        let by_itself = match (&caller.principal, &caller.authentication) {
            (Principal::Local | Principal::Operator, _) => true,
            (Principal::Key(id), _) => snapshot.keys_by_id.get(id).is_some_and(|key| {
                matches!(key.role, KeyRole::Operator | KeyRole::AppWithMetrics) || is_named(&key.scopes)
            }),
            (Principal::OAuth { .. }, AuthenticationMethod::Token { scopes, .. }) => scopes.contains(&scope),
            _ => false,
        };
        let granted = snapshot.grants.get(&caller.principal).map_or(&[][..], Vec::as_slice);
        let standing = self.table.standing.iter().filter(|grant| grant.principal == caller.principal);
        by_itself
            || granted.iter().any(|grant| grant.term != GrantTerm::Once && grant.gives(&scope, self.context.now()))
            || standing.map(|grant| &grant.scopes).any(is_named)
    }

    /// Refuses a grant of an agent that is not served here, or of a scope that the agent does not have. The scopes of the
    /// server itself belong to no agent.
    pub fn check_grantable(&self, agent: &AgentName, scopes: &[ScopeId]) -> Result<(), EngineError> {
        let served = self.agents.agent(agent.as_str())?;
        let mut known: Vec<_> = served.agent.scopes.iter().map(|scope| scope.id.as_str()).collect();
        let is_unknown =
            |scope: &&ScopeId| !known.contains(&scope.as_str()) && !SERVER_SCOPES.contains(&scope.as_str());
        let Some(unknown) = scopes.iter().find(is_unknown) else { return Ok(()) };
        known.sort_unstable();
        let message = match known.as_slice() {
            [] => format!("agent {agent} has no scope {unknown}; it has none at all"),
            known => format!("agent {agent} has no scope {unknown}; it has: {}", known.join(", ")),
        };
        Err(EngineError::new(ErrorCode::ScopeUnknown, message))
    }

    pub async fn create_grant(
        &self,
        principal: Principal,
        agent: AgentName,
        scopes: Vec<ScopeId>,
        term: GrantTerm,
        given_by: Principal,
    ) -> Result<Grant, EngineError> {
        if scopes.is_empty() {
            return Err(EngineError::new(ErrorCode::BadRequest, "a grant needs at least one scope"));
        }
        let id = GrantId::parse(&self.context.random_name("grant_"))?;
        let grant = Grant { id, principal, agent, scopes, term, given_by, given_at: self.context.now() };
        self.context.commit_one(AccessChange::CreateGrant(grant.clone())).await?;
        self.access_changed().await?;
        Ok(grant)
    }

    /// Lists the grants that operators created.
    pub async fn grants(&self) -> Result<Vec<Grant>, EngineError> {
        Ok(self.store.grants().await?)
    }

    pub async fn revoke_grant(&self, id: &GrantId) -> Result<(), EngineError> {
        if !self.context.commit_one(AccessChange::RevokeGrant(id.clone())).await.made_unless(Conflict::Missing)? {
            let message = format!("there is no grant {id}; `nuncio grant list` shows them");
            return Err(EngineError::new(ErrorCode::GrantNotFound, message));
        }
        self.access_changed().await
    }

    /// Takes a used one-time grant out of the cache, here and on other nodes, without reading the store.
    pub(crate) async fn forget_used_grant(&self, grant: &GrantId) {
        self.table.remove_grant(grant);
        self.context.bus.publish(BusNotice::GrantUsed(grant.clone())).await;
    }

    pub(crate) async fn access_changed(&self) -> Result<(), EngineError> {
        self.reload_access().await?;
        self.context.bus.publish(BusNotice::Access { by: self.context.incarnation.as_str().into() }).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret_cipher::KEY_BYTES;

    fn scope(text: &str) -> ScopeId {
        ScopeId::parse(text).unwrap()
    }

    fn grant(id: &str, term: GrantTerm) -> Grant {
        Grant {
            id: GrantId::parse(id).unwrap(),
            principal: Principal::Anonymous,
            agent: AgentName::parse("hotel").unwrap(),
            scopes: vec![scope("rooms:read")],
            term,
            given_by: Principal::Operator,
            given_at: Timestamp::from_millis(0),
        }
    }

    const LASTING: Option<Option<GrantId>> = Some(None);
    const DENIED: Option<Option<GrantId>> = None;

    /// Permission of an anonymous caller: `None` if denied, `Some(None)` if lasting, or the one-time grant.
    fn check(grants: Vec<Grant>, scope_id: &str, now: i64) -> Option<Option<GrantId>> {
        let table = KeyAndGrantTable::new(Vec::new());
        table.replace(Vec::new(), grants, &SecretCipher::new(&[1; KEY_BYTES]));
        let (caller, hotel) = (Caller::new(Principal::Anonymous), AgentName::parse("hotel").unwrap());
        let permission = table.permission(&caller, &hotel, &scope(scope_id), Timestamp::from_millis(now));
        permission.map(|permission| permission.once)
    }

    #[test]
    fn grant_allows_only_its_scope_until_its_expiry() {
        let until = GrantTerm::Until(Timestamp::from_millis(100));
        assert_eq!(check(vec![grant("g1", until)], "rooms:read", 99), LASTING);
        assert_eq!(check(vec![grant("g1", until)], "rooms:read", 100), DENIED);
        assert_eq!(check(vec![grant("g1", until)], "booking:write", 0), DENIED);
        assert_eq!(check(vec![], "rooms:read", 0), DENIED);
    }

    #[test]
    fn lasting_grant_is_preferred_to_one_time_grant() {
        let once = grant("g1", GrantTerm::Once);
        assert_eq!(check(vec![once.clone()], "rooms:read", 0), Some(Some(once.id.clone())));
        assert_eq!(check(vec![once, grant("g2", GrantTerm::UntilRevoked)], "rooms:read", 0), LASTING);
    }

    #[test]
    fn token_permits_its_own_scopes_and_those_granted_to_its_subject() {
        let table = KeyAndGrantTable::new(Vec::new());
        let ada = Principal::OAuth { issuer: "https://id.example".into(), subject: "ada".into() };
        let given = Grant { principal: ada.clone(), ..grant("g1", GrantTerm::UntilRevoked) };
        table.replace(Vec::new(), vec![given], &SecretCipher::new(&[1; KEY_BYTES]));
        let check = |principal: &Principal, authentication: AuthenticationMethod, scope_id: &str| {
            let caller = Caller { authentication, ..Caller::new(principal.clone()) };
            let hotel = AgentName::parse("hotel").unwrap();
            let permission = table.permission(&caller, &hotel, &scope(scope_id), Timestamp::from_millis(0));
            permission.map(|permission| permission.once)
        };
        let token = || AuthenticationMethod::Token { scopes: [scope("booking:write")].into(), people: false };
        assert_eq!(check(&ada, token(), "booking:write"), LASTING);
        assert_eq!(check(&ada, token(), "rooms:read"), LASTING, "by the grant");
        assert_eq!(check(&ada, token(), "rooms:write"), DENIED);
        let bob = Principal::OAuth { issuer: "https://id.example".into(), subject: "bob".into() };
        assert_eq!(check(&bob, token(), "rooms:read"), DENIED);
        assert_eq!(check(&bob, AuthenticationMethod::None, "booking:write"), DENIED);
        assert_eq!(
            check(&Principal::Anonymous, token(), "booking:write"),
            DENIED,
            "a token's scopes apply only to its own subject"
        );
    }
}
