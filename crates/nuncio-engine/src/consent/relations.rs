//! Relations: what a person allows an agent, changed or revoked by an entry that the person's device signs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::account::AgentAccount;
use nuncio_core::agent::Sensitivity;
use nuncio_core::audit::{AuditEvent, AuditEventRecord};
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, GrantId, PersonName, RelationId, ScopeId};
use nuncio_core::ledger::{self, LedgerEntry, LedgerState};
use nuncio_core::notification::{Notification, RelayParty};
use nuncio_core::person::Device;
use nuncio_core::principal::Principal;
use nuncio_core::relation::{ManifestRef, Relation, RelationChangeError, ScopeToGrant};

use super::ManifestService;
use super::manifests::stale;
use crate::access::{AccessControl, Caller};
use crate::accounts::{AgentAccountService, AgentLocks, NotificationService};
use crate::consent_error::{ConsentError, ConsentErrorDetails};
use crate::context::{CommitResultExt as _, EngineContext};
use crate::ed25519::Ed25519Verifier;
use crate::error::EngineError;
use crate::not_found;
use crate::people::PersonService;
use crate::ports::store::{
    AccessChange, AgentAccountStore, AuditChange, Conflict, ConsentChange, PersonStore, RelationStore, StoreError,
};

const MAX_PAGE_SIZE: usize = 500;

/// First consent of a person to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRelation {
    pub agent: AgentId,
    pub consent: NewConsent,
}

/// Consent that replaces what the person allowed before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewConsent {
    pub wishes: Vec<ScopeToGrant>,
    /// Hash of the manifest that the person saw, if the request names it outside the signed entry.
    pub seen: Option<Digest>,
    pub signed: Option<LedgerEntry>,
}

/// Part of a relation's ledger, with the device keys that verify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerSlice {
    pub entries: Vec<LedgerEntry>,
    /// Devices of the person, including revoked ones.
    pub devices: Vec<Device>,
}

/// Service for relations, which say what people allow agents, and for their ledgers.
pub struct ConsentService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn RelationStore>,
    pub(crate) account_store: Arc<dyn AgentAccountStore>,
    pub(crate) person_store: Arc<dyn PersonStore>,
    pub(crate) access: Arc<AccessControl>,
    pub(crate) accounts: Arc<AgentAccountService>,
    pub(crate) manifests: Arc<ManifestService>,
    pub(crate) people: Arc<PersonService>,
    pub(crate) mailbox: Arc<NotificationService>,
    pub(crate) locks: Arc<AgentLocks>,
}

impl ConsentService {
    /// Creates a relation between a person and an agent.
    ///
    /// # Errors
    /// [`ErrorCode::ConsentUnsigned`], with the ledger entry to sign, when the request has no signature.
    pub async fn establish_relation(&self, by: &Caller, new: NewRelation) -> Result<Relation, ConsentError> {
        let (person, device) = self.people.on_device(by).await?;
        let _turn = self.locks.enter(&new.agent).await;
        loop {
            let account = self.accounts.account(&new.agent).await?;
            if let Some(known) = self.store.relation_between(&person, &new.agent).await? {
                let message =
                    format!("{person} already has a relation with agent {}: change relation {}", new.agent, known.id);
                return Err(ConsentError::with(
                    ErrorCode::RelationExists,
                    message,
                    ConsentErrorDetails::Relation(known.id),
                ));
            }
            self.has_room(&person).await?;
            let asked = self.check_scope_requests(&account, &new.consent).await?;
            // The server chose the relation id in its first response; the signed entry contains it.
            let id = match &new.consent.signed {
                Some(entry) if entry.relation_id.as_str().starts_with("rel_") => entry.relation_id.clone(),
                _ => RelationId::parse(&self.context.random_name("rel_"))?,
            };
            let blank = Relation::new(id, person.clone(), new.agent.clone(), self.context.now());
            let entry = self.people.signed(new.consent.signed.as_ref(), &device, account.created_at, |at| {
                blank.draft_grant(&asked.wishes, asked.manifest, &device.id, at)
            })?;
            let relation = self.accepted(&Relation { created_at: entry.at, ..blank }, &entry, &asked)?;
            let created = ConsentChange::CreateRelation {
                relation: relation.clone(),
                manifest_version: account.manifest_version,
            };
            let notification = Notification::RelationEstablished {
                agent: relation.agent.clone(),
                relation: relation.id.clone(),
                person: person.clone(),
                scopes: scopes(&relation),
            };
            let record = self.record_of(AuditEvent::ConsentGiven, by, &relation, &device);
            match self.commit_entry(created, &relation, entry, notification, record).await {
                Err(StoreError::Conflict(Conflict::Moved)) => {}
                Err(StoreError::Conflict(Conflict::Exists)) => {
                    // Another request was first, or the id is taken; this entry cannot be used.
                    let known = self.store.relation_between(&person, &new.agent).await?;
                    let id = known.map_or(relation.id, |known| known.id);
                    let message = format!("relation {id} already exists; repeat the request without a signature");
                    return Err(ConsentError::with(
                        ErrorCode::RelationExists,
                        message,
                        ConsentErrorDetails::Relation(id),
                    ));
                }
                other => {
                    other?;
                    return Ok(relation);
                }
            }
        }
    }

    /// Replaces what a person allows an agent, which also answers a pending request to consent again.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::ConsentUnsigned`], with the ledger entry to sign, when the request has no signature.
    pub async fn change_relation(
        &self,
        by: &Caller,
        id: &RelationId,
        consent: NewConsent,
    ) -> Result<Relation, ConsentError> {
        let (person, device) = self.people.on_device(by).await?;
        let agent = self.active(&person, id).await?.agent;
        let _turn = self.locks.enter(&agent).await;
        loop {
            let before = self.active(&person, id).await?;
            let account = self.accounts.account(&agent).await?;
            let asked = self.check_scope_requests(&account, &consent).await?;
            let entry = self.people.signed(consent.signed.as_ref(), &device, before.updated_at, |at| {
                before.draft_grant(&asked.wishes, asked.manifest, &device.id, at)
            })?;
            let relation = self.accepted(&before, &entry, &asked)?;
            let notification = Notification::ConsentChanged {
                agent: agent.clone(),
                relation: id.clone(),
                person: person.clone(),
                scopes: scopes(&relation),
                version: relation.accepted.version,
            };
            let moved = ConsentChange::MoveRelation {
                from: before.revision,
                relation: relation.clone(),
                manifest_version: Some(account.manifest_version),
            };
            let record = self.record_of(AuditEvent::ConsentChanged, by, &relation, &device);
            let committed = self.commit_entry(moved, &relation, entry, notification, record).await;
            if committed.made_unless(Conflict::Moved)? {
                return Ok(relation);
            }
        }
    }

    /// Revokes a relation for good.
    ///
    /// # Errors
    /// [`ErrorCode::ConsentUnsigned`], with the ledger entry to sign, when the request has no signature.
    pub async fn revoke_relation(
        &self,
        by: &Caller,
        id: &RelationId,
        signed: Option<&LedgerEntry>,
    ) -> Result<Relation, ConsentError> {
        let (person, device) = self.people.on_device(by).await?;
        let agent = self.active(&person, id).await?.agent;
        let _turn = self.locks.enter(&agent).await;
        loop {
            let before = self.active(&person, id).await?;
            let entry =
                self.people.signed(signed, &device, before.updated_at, |at| before.draft_revoke(&device.id, at))?;
            let relation = before.revoke(&entry).map_err(impossible)?;
            let notification =
                Notification::RelationRevoked { agent: agent.clone(), relation: id.clone(), person: person.clone() };
            let moved = ConsentChange::MoveRelation {
                from: before.revision,
                relation: relation.clone(),
                manifest_version: None,
            };
            let record = self.record_of(AuditEvent::ConsentRevoked, by, &relation, &device);
            let committed = self.commit_entry(moved, &relation, entry, notification, record).await;
            if committed.made_unless(Conflict::Moved)? {
                return Ok(relation);
            }
        }
    }

    /// A relation, visible to its person, its agent and the operator.
    pub async fn relation(&self, by: &Caller, id: &RelationId) -> Result<Relation, ConsentError> {
        let relation = self.store.relation(id).await?.filter(|relation| match &by.principal {
            Principal::Person(person) => relation.person == *person,
            Principal::Agent(agent) => relation.agent == *agent,
            Principal::Operator => true,
            _ => false,
        });
        Ok(relation.ok_or_else(|| not_found::relation(id.as_str()))?)
    }

    /// Relations of a person with an id above `after`, including ended ones, ordered by id; at most `limit`, and never
    /// more than 500.
    pub async fn relations(
        &self,
        person: &PersonName,
        after: Option<&RelationId>,
        limit: usize,
    ) -> Result<Vec<Relation>, EngineError> {
        Ok(self.store.relations_of(person, after, limit.min(MAX_PAGE_SIZE)).await?)
    }

    /// Active relations of an agent, ordered by person, of people with a name above `after`; at most `limit`, and never
    /// more than 500.
    pub async fn agent_relations(
        &self,
        agent: &AgentId,
        after: Option<&PersonName>,
        limit: usize,
    ) -> Result<Vec<Relation>, EngineError> {
        Ok(self.store.relations_with(agent, after, limit.min(MAX_PAGE_SIZE)).await?)
    }

    /// Ledger entries of a relation with a number above `after`, for its person or agent to verify; at most `limit`,
    /// and never more than 500.
    pub async fn ledger(
        &self,
        by: &Caller,
        id: &RelationId,
        after: u64,
        limit: usize,
    ) -> Result<LedgerSlice, ConsentError> {
        let relation = self.relation(by, id).await?;
        let entries = self.store.ledger(id, after, limit.min(MAX_PAGE_SIZE)).await?;
        Ok(LedgerSlice { entries, devices: self.person_store.devices(&relation.person).await? })
    }

    /// Verifies a relation's ledger, and that the relation allows no more than the ledger does.
    pub async fn verify_ledger(&self, id: &RelationId) -> Result<LedgerState, ConsentError> {
        let relation = self.store.relation(id).await?.ok_or_else(|| not_found::relation(id.as_str()))?;
        let devices = self.person_store.devices(&relation.person).await?;
        let mut verifier = ledger::LedgerVerifier::new(&devices, &Ed25519Verifier);
        let broken =
            |why: String| ConsentError::new(ErrorCode::LedgerBroken, format!("the ledger of {id} is not valid: {why}"));
        let mut after = 0;
        loop {
            let entries = self.store.ledger(id, after, MAX_PAGE_SIZE).await?;
            let Some(last) = entries.last() else { break };
            after = last.seq;
            entries.iter().try_for_each(|entry| verifier.take(entry)).map_err(|why| broken(why.to_string()))?;
        }
        let standing = verifier.into_state().ok_or_else(|| broken("it is empty".to_owned()))?;
        let allowed = |scope: &ScopeId| standing.granted.contains_key(scope) && !standing.suspended.contains(scope);
        let more = relation.effective(self.context.now()).find(|grant| !allowed(&grant.scope));
        if let Some(grant) = more {
            return Err(broken(format!("it does not allow {}, but the relation does", grant.scope)));
        }
        if standing.head != relation.ledger {
            return Err(broken("its last entry is not the last one of the relation".to_owned()));
        }
        Ok(standing)
    }

    /// Uses up a one-time consent; returns false if there was none.
    pub async fn use_consent(&self, id: &RelationId, scope: &ScopeId) -> Result<bool, EngineError> {
        let Some(relation) = self.store.relation(id).await? else { return Ok(false) };
        let once =
            relation.effective(self.context.now()).find(|grant| grant.scope == *scope && grant.term == GrantTerm::Once);
        let Some(once) = once else { return Ok(false) };
        let used = self.context.commit_one(AccessChange::UseGrant(once.id.clone())).await;
        if !used.made_unless(Conflict::GrantUsed)? {
            return Ok(false);
        }
        if let Some(used) = relation.use_once(&once.id) {
            self.access.table.set_consent(&used);
        }
        Ok(true)
    }

    async fn has_room(&self, person: &PersonName) -> Result<(), ConsentError> {
        let most = self.context.limits.consent.relations_per_person;
        let mut active = 0;
        let mut after = None;
        loop {
            let page = self.store.relations_of(person, after.as_ref(), MAX_PAGE_SIZE).await?;
            active += page.iter().filter(|relation| relation.is_active()).count();
            if active >= most {
                return Err(ConsentError::limit("agents that this person has a relation with", most));
            }
            match page.last() {
                Some(last) if page.len() == MAX_PAGE_SIZE => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
    }

    async fn active(&self, person: &PersonName, id: &RelationId) -> Result<Relation, ConsentError> {
        let relation = self.store.relation(id).await?;
        let own = relation.filter(|relation| relation.person == *person && relation.is_active());
        Ok(own.ok_or_else(|| not_found::relation(id.as_str()))?)
    }

    /// Checks requested scopes against the current manifest.
    async fn check_scope_requests(
        &self,
        account: &AgentAccount,
        consent: &NewConsent,
    ) -> Result<CheckedScopeRequests, ConsentError> {
        let seen = consent.seen.or_else(|| consent.signed.as_ref().and_then(|entry| entry.manifest_hash));
        let unseen = seen.is_none() && consent.signed.is_some() && account.manifest_hash.is_some();
        if unseen || seen.is_some_and(|hash| account.manifest_hash != Some(hash)) {
            return Err(stale(account));
        }
        let current = self.account_store.manifest(&account.id, account.manifest_version).await?;
        let text = current.and_then(|version| version.manifest);
        // The validation rules may have changed since the manifest was published.
        let manifest = self.manifests.read_manifest(text.as_deref().map(str::as_bytes)).await?;
        let manifest = manifest.map(|checked| checked.manifest);
        let levels: BTreeMap<ScopeId, Sensitivity> =
            manifest.iter().flat_map(|it| &it.scopes).map(|scope| (scope.id.clone(), scope.sensitivity)).collect();
        let wishes: BTreeMap<_, _> = consent.wishes.iter().map(|wish| (wish.scope.clone(), wish.term)).collect();

        let strange: Vec<_> = wishes.keys().filter(|scope| !levels.contains_key(*scope)).cloned().collect();
        if !strange.is_empty() {
            let message = format!("agent {} does not request {}", account.id, list(&strange));
            return Err(ConsentError::with(ErrorCode::ScopeUnknown, message, ConsentErrorDetails::Scopes(strange)));
        }
        let required: BTreeSet<_> =
            manifest.iter().flat_map(|it| &it.tools).filter(|tool| tool.required).map(|tool| &tool.scope).collect();
        let missing: Vec<_> = required.into_iter().filter(|scope| !wishes.contains_key(*scope)).cloned().collect();
        if !missing.is_empty() {
            let message = format!("agent {} requires {}", account.id, list(&missing));
            return Err(ConsentError::with(ErrorCode::ScopeRequired, message, ConsentErrorDetails::Scopes(missing)));
        }
        let now = self.context.now();
        let over: Vec<_> = wishes
            .iter()
            .filter(|(_, term)| matches!(term, GrantTerm::Until(end) if *end <= now))
            .map(|(scope, _)| scope.clone())
            .collect();
        if !over.is_empty() {
            let message = format!("the end of the permission for {} is in the past", list(&over));
            return Err(ConsentError::with(ErrorCode::BadRequest, message, ConsentErrorDetails::Scopes(over)));
        }
        let wishes = wishes.into_iter().map(|(scope, term)| ScopeToGrant { scope, term }).collect();
        let manifest = ManifestRef { version: account.manifest_version, hash: account.manifest_hash };
        Ok(CheckedScopeRequests { wishes, manifest, levels })
    }

    fn accepted(
        &self,
        before: &Relation,
        entry: &LedgerEntry,
        asked: &CheckedScopeRequests,
    ) -> Result<Relation, ConsentError> {
        let level = |scope: &ScopeId| asked.levels.get(scope).copied().unwrap_or(Sensitivity::High);
        let name = || GrantId::parse(&self.context.random_name("con_")).expect("a random name is a grant id");
        before.accept(entry, level, name).map_err(impossible)
    }

    /// Stores a changed relation with its ledger entry and its audit record, and notifies the person's devices and the
    /// agent.
    async fn commit_entry(
        &self,
        change: ConsentChange,
        relation: &Relation,
        entry: LedgerEntry,
        notification: Notification,
        record: AuditEventRecord,
    ) -> Result<(), StoreError> {
        let recipients = [RelayParty::Person(relation.person.clone()), RelayParty::Agent(relation.agent.clone())];
        let mut changes = vec![change.into(), ConsentChange::AppendLedger(entry).into()];
        changes.extend(recipients.map(|recipient| self.mailbox.mail_change(&recipient, notification.clone())));
        changes.push(AuditChange::AppendEvent(record).into());
        self.mailbox.commit_and_notify(changes).await?;
        self.access.table.set_consent(relation);
        Ok(())
    }

    fn record_of(&self, event: AuditEvent, by: &Caller, relation: &Relation, device: &Device) -> AuditEventRecord {
        AuditEventRecord {
            person: Some(relation.person.clone()),
            device: Some(device.id.clone()),
            agent: Some(relation.agent.clone()),
            relation: Some(relation.id.clone()),
            scopes: scopes(relation),
            manifest_version: Some(relation.accepted.version),
            manifest_hash: relation.accepted.hash,
            ..self.context.event_record(event, by)
        }
    }
}

/// Requested scopes, checked against the manifest.
struct CheckedScopeRequests {
    wishes: Vec<ScopeToGrant>,
    manifest: ManifestRef,
    levels: BTreeMap<ScopeId, Sensitivity>,
}

fn scopes(relation: &Relation) -> Vec<ScopeId> {
    relation.grants.iter().map(|grant| grant.scope.clone()).collect()
}

fn list(scopes: &[ScopeId]) -> String {
    scopes.iter().map(ScopeId::as_str).collect::<Vec<_>>().join(", ")
}

/// Error for a signed entry that does not fit; cannot happen, because the entry was drafted from this relation.
fn impossible(error: RelationChangeError) -> ConsentError {
    ConsentError::new(ErrorCode::Internal, format!("the signed entry cannot be added: {error}"))
}
