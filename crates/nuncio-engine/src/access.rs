//! Keys and grants: who may use which permission of which agent.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use nuncio_core::Code;
use nuncio_core::audit::references::PermissionSource;
use nuncio_core::digest::{Digest, canonical};
use nuncio_core::grant::{Grant, GrantTerm, KeyScopes};
use nuncio_core::ids::{AgentName, DeviceId, GrantId, KeyId, PersonName, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;

use crate::Engine;
use crate::error::EngineError;
use crate::ports::bus::Notice;
use crate::ports::entropy::random_name;
use crate::ports::store::{ApiKey, Change, Conflict, KeyKind, KeyRole, StoreError};
use crate::vault::Vault;

mod admission;
mod consented;
mod keys;
mod links;
mod nonces;
mod signing;

use consented::Consents;
pub use keys::{NewKey, key_expired};
pub(crate) use links::Links;
pub use signing::SigningKey;

/// The scope that opens `/metrics` and nothing else.
const METRICS_SCOPE: &str = "metrics:read";

/// Who is asking, and what is known about the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who.
    pub principal: Principal,
    /// The person they belong to.
    pub person: Option<PersonName>,
    /// The request's id, for logs and records.
    pub request: Option<String>,
    /// By what they are known.
    pub credential: Credential,
}

/// By what a caller is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// By nothing they showed.
    None,
    /// By an API key.
    Key,
    /// By an access token of an issuer the operator trusts.
    Token {
        /// What the issuer says they may do.
        scopes: Arc<[ScopeId]>,
        /// Whether the operator says that the issuer's subjects are people (`people = true`).
        people: bool,
    },
    /// By a signature over the request.
    Signature,
    /// By a signature with a key of their DID, or a token that one earned here.
    Did,
    /// By an access token that a device of theirs earned here.
    Device(DeviceId),
    /// By the token of an agent's account.
    AgentToken,
}

impl Caller {
    /// A caller with nothing else known.
    #[must_use]
    pub fn new(principal: Principal) -> Self {
        Self { principal, person: None, request: None, credential: Credential::None }
    }

    /// Whether the operator let this caller in to speak for its own person, so that its `trust` or granted permission
    /// is that person's approval of a `high` call.
    #[must_use]
    pub fn speaks_for_person(&self) -> bool {
        match (&self.principal, &self.credential) {
            (Principal::Local | Principal::Key(_), _) => true,
            (Principal::OAuth { .. }, Credential::Token { people, .. }) => *people,
            _ => false,
        }
    }
}

/// What the credentials of a request came to. Every protocol's authentication yields one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// Someone we know, or anyone where the server is open.
    Known(Caller),
    /// No credentials where some are needed.
    Missing,
    /// Credentials that are not valid.
    Invalid,
    /// An API key that expired at this moment. It is refused as an invalid one is, and told why.
    Expired(Timestamp),
}

/// A permission an operator wrote into the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingGrant {
    /// To whom.
    pub principal: Principal,
    /// For which agent; none for every one.
    pub agent: Option<AgentName>,
    /// What.
    pub scopes: KeyScopes,
}

/// Whether a caller has a scope, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It has not.
    No,
    /// It has, for as long as it lasts.
    Lasting,
    /// It has, for one call.
    Once(GrantId),
}

/// What is known of keys and grants, kept in memory because every request asks.
#[derive(Debug, Default)]
pub(crate) struct AccessTable {
    current: RwLock<Arc<Snapshot>>,
    standing: Vec<StandingGrant>,
    /// What people allow by their own word.
    consents: Consents,
}

#[derive(Default)]
struct Snapshot {
    /// The keys that are sent with requests, by the digests of their secrets and of the secrets before.
    keys: HashMap<Digest, Arc<ApiKey>>,
    keys_by_id: HashMap<KeyId, Arc<ApiKey>>,
    signing: Arc<[SigningKey]>,
    /// Whether any key was ever made. A server whose last key was taken back does not open again.
    any: bool,
    grants: HashMap<Principal, Vec<Grant>>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({} keys)", self.keys.len())
    }
}

impl AccessTable {
    pub(crate) fn new(standing: Vec<StandingGrant>) -> Self {
        Self { current: RwLock::default(), standing, consents: Consents::default() }
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, keys: Vec<ApiKey>, grants: Vec<Grant>, vault: &Vault) {
        let mut next = Snapshot { any: !keys.is_empty(), ..Snapshot::default() };
        let mut signing = Vec::new();
        for key in keys.into_iter().filter(|key| key.revoked_at.is_none()) {
            let key = Arc::new(key);
            let previous = key.previous.as_ref().map(|previous| (&previous.digest, &previous.kind));
            for (digest, kind) in [(&key.digest, &key.kind)].into_iter().chain(previous) {
                match kind {
                    KeyKind::Bearer => {
                        next.keys.insert(*digest, Arc::clone(&key));
                    }
                    KeyKind::Signing { sealed } => signing.extend(SigningKey::open(vault, &key, *digest, sealed)),
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

    /// Whether the caller has `scope` of `agent` at that moment.
    pub(crate) fn hold(&self, caller: &Caller, agent: &AgentName, scope: &ScopeId, now: Timestamp) -> Hold {
        self.hold_by_rule(caller, agent, scope, now).0
    }

    /// The same, with the rule that gives it, for the record.
    pub(crate) fn hold_by_rule(
        &self,
        caller: &Caller,
        agent: &AgentName,
        scope: &ScopeId,
        now: Timestamp,
    ) -> (Hold, Option<PermissionSource>) {
        let snapshot = self.snapshot();
        let principal = &caller.principal;
        let by_itself = match (principal, &caller.credential) {
            (Principal::Local | Principal::Operator, _) => Some(PermissionSource::Local),
            (Principal::Key(id), _) => {
                let key = snapshot.keys_by_id.get(id).filter(|key| !key.is_expired(now));
                key.is_some_and(|key| key.scopes.gives(scope)).then_some(PermissionSource::Key)
            }
            // The operator trusts the issuer to say what its subjects may do.
            (Principal::OAuth { .. }, Credential::Token { scopes, .. }) => {
                scopes.contains(scope).then_some(PermissionSource::Token)
            }
            _ => None,
        };
        let standing = self.standing.iter().any(|grant| {
            grant.principal == *principal
                && grant.agent.as_ref().is_none_or(|name| name == agent)
                && grant.scopes.gives(scope)
        });
        if let Some(rule) = by_itself.or(standing.then_some(PermissionSource::Settings)) {
            return (Hold::Lasting, Some(rule));
        }
        let grants = snapshot.grants.get(principal).map_or(&[][..], Vec::as_slice);
        let mut giving = grants.iter().filter(|grant| grant.agent == *agent && grant.gives(scope, now)).peekable();
        let once = giving.peek().copied();
        let given = match (giving.find(|grant| grant.term != GrantTerm::Once), once) {
            (Some(lasting), _) => return (Hold::Lasting, Some(rule(lasting))),
            (None, Some(once)) => (Hold::Once(once.id.clone()), Some(rule(once))),
            (None, None) => (Hold::No, None),
        };
        // A person's own word counts beside the operator's; what lasts is not spent.
        match (self.consents.hold_by_rule(principal, agent, scope, now), given) {
            (lasting @ (Hold::Lasting, _), _) => lasting,
            (consent, (Hold::No, _)) => consent,
            (_, given) => given,
        }
    }
}

fn rule(grant: &Grant) -> PermissionSource {
    PermissionSource::Grant { grant: grant.id.clone(), hash: Digest::of_bytes(&canonical(grant)) }
}

impl Engine {
    /// Reads keys and grants anew.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn reload_access(&self) -> Result<(), EngineError> {
        let keys = self.store().keys().await?;
        let grants = self.store().grants().await?;
        self.access_table().replace(keys, grants, self.vault());
        self.person_links().replace(self.store().links().await?);
        self.reload_consents().await
    }

    /// Whether there are keys, valid or taken back. While there are none, a loopback server is open.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.access_table().snapshot().any
    }

    /// Whether the caller may read the metrics: `local`, an operator's key, a key of before roles existed, or the scope
    /// `metrics:read` given by name. All scopes of the agents do not include it.
    #[must_use]
    pub fn may_read_metrics(&self, caller: &Caller) -> bool {
        let Ok(scope) = ScopeId::parse(METRICS_SCOPE) else { return false };
        let snapshot = self.access_table().snapshot();
        let is_named = |scopes: &KeyScopes| matches!(scopes, KeyScopes::Only(only) if only.contains(&scope));
        let by_itself = match (&caller.principal, &caller.credential) {
            (Principal::Local | Principal::Operator, _) => true,
            (Principal::Key(id), _) => snapshot.keys_by_id.get(id).is_some_and(|key| {
                matches!(key.role, KeyRole::Operator | KeyRole::AppWithMetrics) || is_named(&key.scopes)
            }),
            (Principal::OAuth { .. }, Credential::Token { scopes, .. }) => scopes.contains(&scope),
            _ => false,
        };
        let granted = snapshot.grants.get(&caller.principal).map_or(&[][..], Vec::as_slice);
        let standing = self.access_table().standing.iter().filter(|grant| grant.principal == caller.principal);
        by_itself
            || granted.iter().any(|grant| grant.term != GrantTerm::Once && grant.gives(&scope, self.now()))
            || standing.map(|grant| &grant.scopes).any(is_named)
    }

    /// Gives scopes of an agent to a principal.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn create_grant(
        &self,
        principal: Principal,
        agent: AgentName,
        scopes: Vec<ScopeId>,
        term: GrantTerm,
        given_by: Principal,
    ) -> Result<Grant, EngineError> {
        if scopes.is_empty() {
            return Err(EngineError::new(Code::BadRequest, "a grant needs at least one scope"));
        }
        let id = GrantId::parse(&random_name(self.entropy(), "grant_"))?;
        let grant = Grant { id, principal, agent, scopes, term, given_by, given_at: self.now() };
        self.store().commit(vec![Change::CreateGrant(grant.clone())]).await?;
        self.access_changed().await?;
        Ok(grant)
    }

    /// Every grant that operators gave.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn grants(&self) -> Result<Vec<Grant>, EngineError> {
        Ok(self.store().grants().await?)
    }

    /// Takes a grant back.
    ///
    /// # Errors
    /// There is no such grant.
    pub async fn revoke_grant(&self, id: &GrantId) -> Result<(), EngineError> {
        match self.store().commit(vec![Change::RevokeGrant(id.clone())]).await {
            Err(StoreError::Conflict(Conflict::Missing)) => {
                let message = format!("there is no grant {id}; `nuncio grant list` shows them");
                Err(EngineError::new(Code::GrantNotFound, message))
            }
            other => {
                other?;
                self.access_changed().await
            }
        }
    }

    pub(crate) async fn access_changed(&self) -> Result<(), EngineError> {
        self.reload_access().await?;
        self.bus().publish(Notice::Access).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::KEY_BYTES;

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

    fn hold(grants: Vec<Grant>, scope_id: &str, now: i64) -> Hold {
        let table = AccessTable::new(Vec::new());
        table.replace(Vec::new(), grants, &Vault::new(&[1; KEY_BYTES]));
        table.hold(
            &Caller::new(Principal::Anonymous),
            &AgentName::parse("hotel").unwrap(),
            &scope(scope_id),
            Timestamp::from_millis(now),
        )
    }

    #[test]
    fn a_grant_holds_for_its_scope_and_its_time() {
        let until = GrantTerm::Until(Timestamp::from_millis(100));
        assert_eq!(hold(vec![grant("g1", until)], "rooms:read", 99), Hold::Lasting);
        assert_eq!(hold(vec![grant("g1", until)], "rooms:read", 100), Hold::No);
        assert_eq!(hold(vec![grant("g1", until)], "booking:write", 0), Hold::No);
        assert_eq!(hold(vec![], "rooms:read", 0), Hold::No);
    }

    #[test]
    fn a_grant_for_once_is_spent_only_when_nothing_lasting_gives_the_scope() {
        let once = grant("g1", GrantTerm::Once);
        assert_eq!(hold(vec![once.clone()], "rooms:read", 0), Hold::Once(once.id.clone()));
        assert_eq!(hold(vec![once, grant("g2", GrantTerm::UntilRevoked)], "rooms:read", 0), Hold::Lasting);
    }

    #[test]
    fn a_token_holds_the_scopes_it_names_and_what_its_subject_was_granted() {
        let table = AccessTable::new(Vec::new());
        let ada = Principal::OAuth { issuer: "https://id.example".into(), subject: "ada".into() };
        let given = Grant { principal: ada.clone(), ..grant("g1", GrantTerm::UntilRevoked) };
        table.replace(Vec::new(), vec![given], &Vault::new(&[1; KEY_BYTES]));
        let hold = |principal: &Principal, credential: Credential, scope_id: &str| {
            let caller = Caller { credential, ..Caller::new(principal.clone()) };
            table.hold(&caller, &AgentName::parse("hotel").unwrap(), &scope(scope_id), Timestamp::from_millis(0))
        };
        let token = || Credential::Token { scopes: [scope("booking:write")].into(), people: false };
        assert_eq!(hold(&ada, token(), "booking:write"), Hold::Lasting);
        assert_eq!(hold(&ada, token(), "rooms:read"), Hold::Lasting, "by the grant");
        assert_eq!(hold(&ada, token(), "rooms:write"), Hold::No);
        let bob = Principal::OAuth { issuer: "https://id.example".into(), subject: "bob".into() };
        assert_eq!(hold(&bob, token(), "rooms:read"), Hold::No);
        assert_eq!(hold(&bob, Credential::None, "booking:write"), Hold::No);
        assert_eq!(hold(&Principal::Anonymous, token(), "booking:write"), Hold::No, "a token speaks for its subject");
    }
}
