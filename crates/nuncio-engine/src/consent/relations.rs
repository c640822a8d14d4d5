//! A person says what they allow an agent, says it anew, or takes it back. Each time a device signs it.

use std::collections::{BTreeMap, BTreeSet};

use nuncio_core::Code;
use nuncio_core::account::Account;
use nuncio_core::agent::Sensitivity;
use nuncio_core::audit::{AuditEvent, AuditEventRecord};
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::happening::{Notification, Recipient};
use nuncio_core::ids::{AgentId, GrantId, PersonName, RelationId, ScopeId};
use nuncio_core::ledger::{self, LedgerEntry, LedgerState};
use nuncio_core::person::Device;
use nuncio_core::principal::Principal;
use nuncio_core::relation::{ManifestRef, Relation, RelationError, ScopeRequest};

use super::error::{ConsentError, Details};
use super::manifests::stale;
use super::signing::Ed25519;
use crate::Engine;
use crate::access::Caller;
use crate::error::EngineError;
use crate::ports::entropy::random_name;
use crate::ports::store::{Change, Conflict, ConsentChange, StoreError};

/// How many relations or entries are read at once.
const PAGE: usize = 500;

/// What a person wants to allow an agent they do not deal with yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRelation {
    /// Which agent.
    pub agent: AgentId,
    /// What they allow.
    pub consent: NewConsent,
}

/// What a person allows: exactly this.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewConsent {
    /// The scopes, and for how long.
    pub wishes: Vec<ScopeRequest>,
    /// The hash of the manifest they saw, if they say so apart from what they signed.
    pub seen: Option<Digest>,
    /// The entry their device signed.
    pub signed: Option<LedgerEntry>,
}

/// A part of a relation's ledger, and the keys it is verified with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// The entries.
    pub entries: Vec<LedgerEntry>,
    /// The person's devices, those taken away too.
    pub devices: Vec<Device>,
}

impl Engine {
    /// A person begins to deal with an agent.
    ///
    /// # Errors
    /// Without a signature [`Code::ConsentUnsigned`], with the entry to sign. Else whatever is wrong.
    pub async fn establish_relation(&self, by: &Caller, new: NewRelation) -> Result<Relation, ConsentError> {
        let (person, device) = self.on_device(by).await?;
        let _turn = self.agent_locks().enter(&new.agent).await;
        loop {
            let account = self.account(&new.agent).await?;
            if let Some(known) = self.store().relation_between(&person, &new.agent).await? {
                let message = format!("{person} deals with agent {} already: change relation {}", new.agent, known.id);
                return Err(ConsentError::with(Code::RelationExists, message, Details::Relation(known.id)));
            }
            self.has_room(&person).await?;
            let asked = self.asked(&account, &new.consent).await?;
            // The name is the server's to give; it comes back with what was signed.
            let id = match &new.consent.signed {
                Some(entry) if entry.relation_id.as_str().starts_with("rel_") => entry.relation_id.clone(),
                _ => RelationId::parse(&random_name(self.entropy(), "rel_"))?,
            };
            let blank = Relation::new(id, person.clone(), new.agent.clone(), self.now());
            let entry = self.signed(new.consent.signed.as_ref(), &device, account.created_at, |at| {
                blank.draft_grant(&asked.wishes, asked.manifest, &device.id, at)
            })?;
            let relation = self.accepted(&Relation { created_at: entry.at, ..blank }, &entry, &asked)?;
            let mut changes = vec![
                ConsentChange::CreateRelation {
                    relation: relation.clone(),
                    manifest_version: account.manifest_version,
                },
                ConsentChange::AppendLedger(entry),
            ];
            let happening = Notification::RelationEstablished {
                agent: relation.agent.clone(),
                relation: relation.id.clone(),
                person: person.clone(),
                scopes: scopes(&relation),
            };
            changes.extend(self.told(&relation, happening));
            changes.push(self.recorded(AuditEvent::ConsentGiven, by, &relation, &device));
            match self.commit_telling(changes.into_iter().map(Into::into).collect()).await {
                Err(StoreError::Conflict(Conflict::Moved)) => continue,
                Err(StoreError::Conflict(Conflict::Exists)) => {
                    // Either somebody was faster, or the name is taken: neither can be signed again.
                    let known = self.store().relation_between(&person, &new.agent).await?;
                    let id = known.map_or(relation.id, |known| known.id);
                    let message = format!("relation {id} exists already; ask again without a signature");
                    return Err(ConsentError::with(Code::RelationExists, message, Details::Relation(id)));
                }
                other => other?,
            }
            self.access_table().set_consent(&relation);
            return Ok(relation);
        }
    }

    /// A person allows something else than before: exactly this. It answers what waited for a new yes.
    ///
    /// # Errors
    /// As [`Engine::establish_relation`]; or no such relation of theirs goes on.
    pub async fn change_relation(
        &self,
        by: &Caller,
        id: &RelationId,
        consent: NewConsent,
    ) -> Result<Relation, ConsentError> {
        let (person, device) = self.on_device(by).await?;
        let agent = self.active(&person, id).await?.agent;
        let _turn = self.agent_locks().enter(&agent).await;
        loop {
            let before = self.active(&person, id).await?;
            let account = self.account(&agent).await?;
            let asked = self.asked(&account, &consent).await?;
            let entry = self.signed(consent.signed.as_ref(), &device, before.updated_at, |at| {
                before.draft_grant(&asked.wishes, asked.manifest, &device.id, at)
            })?;
            let relation = self.accepted(&before, &entry, &asked)?;
            let happening = Notification::ConsentChanged {
                agent: agent.clone(),
                relation: id.clone(),
                person: person.clone(),
                scopes: scopes(&relation),
                version: relation.accepted.version,
            };
            let mut changes = vec![
                ConsentChange::MoveRelation {
                    from: before.revision,
                    relation: relation.clone(),
                    manifest_version: Some(account.manifest_version),
                },
                ConsentChange::AppendLedger(entry),
            ];
            changes.extend(self.told(&relation, happening));
            changes.push(self.recorded(AuditEvent::ConsentChanged, by, &relation, &device));
            match self.commit_telling(changes.into_iter().map(Into::into).collect()).await {
                Err(StoreError::Conflict(Conflict::Moved)) => continue,
                other => other?,
            }
            self.access_table().set_consent(&relation);
            return Ok(relation);
        }
    }

    /// A person takes everything back, for good.
    ///
    /// # Errors
    /// Without a signature [`Code::ConsentUnsigned`], with the entry to sign; or no such relation of theirs goes on.
    pub async fn revoke_relation(
        &self,
        by: &Caller,
        id: &RelationId,
        signed: Option<&LedgerEntry>,
    ) -> Result<Relation, ConsentError> {
        let (person, device) = self.on_device(by).await?;
        let agent = self.active(&person, id).await?.agent;
        let _turn = self.agent_locks().enter(&agent).await;
        loop {
            let before = self.active(&person, id).await?;
            let entry = self.signed(signed, &device, before.updated_at, |at| before.draft_revoke(&device.id, at))?;
            let relation = before.revoke(&entry).map_err(impossible)?;
            let happening =
                Notification::RelationRevoked { agent: agent.clone(), relation: id.clone(), person: person.clone() };
            let mut changes = vec![
                ConsentChange::MoveRelation {
                    from: before.revision,
                    relation: relation.clone(),
                    manifest_version: None,
                },
                ConsentChange::AppendLedger(entry),
            ];
            changes.extend(self.told(&relation, happening));
            changes.push(self.recorded(AuditEvent::ConsentRevoked, by, &relation, &device));
            match self.commit_telling(changes.into_iter().map(Into::into).collect()).await {
                Err(StoreError::Conflict(Conflict::Moved)) => continue,
                other => other?,
            }
            self.access_table().set_consent(&relation);
            return Ok(relation);
        }
    }

    /// A relation, for the person or the agent in it.
    ///
    /// # Errors
    /// The caller is in no such relation.
    pub async fn relation(&self, by: &Caller, id: &RelationId) -> Result<Relation, ConsentError> {
        let relation = self.store().relation(id).await?.filter(|relation| match &by.principal {
            Principal::Person(person) => relation.person == *person,
            Principal::Agent(agent) => relation.agent == *agent,
            Principal::Operator => true,
            _ => false,
        });
        relation.ok_or_else(|| unknown(id))
    }

    /// A person's relations by id, ended ones too, those behind `after`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn relations(
        &self,
        person: &PersonName,
        after: Option<&RelationId>,
        limit: usize,
    ) -> Result<Vec<Relation>, EngineError> {
        Ok(self.store().relations_of(person, after, limit.min(PAGE)).await?)
    }

    /// A relation's ledger after `after`, for the person or the agent in it, to verify it themselves.
    ///
    /// # Errors
    /// The caller is in no such relation.
    pub async fn ledger(&self, by: &Caller, id: &RelationId, after: u64, limit: usize) -> Result<Ledger, ConsentError> {
        let relation = self.relation(by, id).await?;
        let entries = self.store().ledger(id, after, limit.min(PAGE)).await?;
        Ok(Ledger { entries, devices: self.store().devices(&relation.person).await? })
    }

    /// Proves a relation's ledger, and that it says what the relation says.
    ///
    /// # Errors
    /// It does not hold, or there is no such relation.
    pub async fn verify_ledger(&self, id: &RelationId) -> Result<LedgerState, ConsentError> {
        let relation = self.store().relation(id).await?.ok_or_else(|| unknown(id))?;
        let devices = self.store().devices(&relation.person).await?;
        let mut verifier = ledger::LedgerVerifier::new(&devices, &Ed25519);
        let broken =
            |why: String| ConsentError::new(Code::LedgerBroken, format!("the ledger of {id} does not hold: {why}"));
        let mut after = 0;
        loop {
            let entries = self.store().ledger(id, after, PAGE).await?;
            let Some(last) = entries.last() else { break };
            after = last.seq;
            entries.iter().try_for_each(|entry| verifier.take(entry)).map_err(|why| broken(why.to_string()))?;
        }
        let standing = verifier.standing().ok_or_else(|| broken("it is empty".to_owned()))?;
        let allowed = |scope: &ScopeId| standing.granted.contains_key(scope) && !standing.suspended.contains(scope);
        let more = relation.effective(self.now()).find(|grant| !allowed(&grant.scope));
        if let Some(grant) = more {
            return Err(broken(format!("it does not allow {}, but the relation does", grant.scope)));
        }
        if standing.head != relation.ledger {
            return Err(broken("its end is not where the relation has got to".to_owned()));
        }
        Ok(standing)
    }

    /// What was allowed for once is used up. Says whether it was there to be used.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn use_consent(&self, id: &RelationId, scope: &ScopeId) -> Result<bool, EngineError> {
        let Some(relation) = self.store().relation(id).await? else { return Ok(false) };
        let once = relation.effective(self.now()).find(|grant| grant.scope == *scope && grant.term == GrantTerm::Once);
        let Some(once) = once else { return Ok(false) };
        match self.store().commit(vec![Change::UseGrant(once.id.clone())]).await {
            Err(StoreError::Conflict(Conflict::GrantUsed)) => return Ok(false),
            other => other?,
        }
        if let Some(used) = relation.use_once(&once.id) {
            self.access_table().set_consent(&used);
        }
        Ok(true)
    }

    async fn has_room(&self, person: &PersonName) -> Result<(), ConsentError> {
        let most = self.limits().consent.relations_per_person;
        let mut active = 0;
        let mut after = None;
        loop {
            let page = self.store().relations_of(person, after.as_ref(), PAGE).await?;
            active += page.iter().filter(|relation| relation.is_active()).count();
            if active >= most {
                return Err(ConsentError::limit("agents this person deals with", most));
            }
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
    }

    async fn active(&self, person: &PersonName, id: &RelationId) -> Result<Relation, ConsentError> {
        let relation = self.store().relation(id).await?;
        relation.filter(|relation| relation.person == *person && relation.is_active()).ok_or_else(|| unknown(id))
    }

    /// Holds what a person wants to allow against the manifest as it is now.
    async fn asked(&self, account: &Account, consent: &NewConsent) -> Result<Asked, ConsentError> {
        let seen = consent.seen.or_else(|| consent.signed.as_ref().and_then(|entry| entry.manifest_hash));
        let unseen = seen.is_none() && consent.signed.is_some() && account.manifest_hash.is_some();
        if unseen || seen.is_some_and(|hash| account.manifest_hash != Some(hash)) {
            return Err(stale(account));
        }
        let current = self.store().manifest(&account.id, account.manifest_version).await?;
        let text = current.and_then(|version| version.manifest);
        // Its rules may have changed since it was published; it is read as it is.
        let manifest = self.read_manifest(text.as_deref().map(str::as_bytes)).await?;
        let manifest = manifest.map(|checked| checked.manifest);
        let levels: BTreeMap<ScopeId, Sensitivity> =
            manifest.iter().flat_map(|it| &it.scopes).map(|scope| (scope.id.clone(), scope.sensitivity)).collect();
        let wishes: BTreeMap<_, _> = consent.wishes.iter().map(|wish| (wish.scope.clone(), wish.term)).collect();

        let strange: Vec<_> = wishes.keys().filter(|scope| !levels.contains_key(*scope)).cloned().collect();
        if !strange.is_empty() {
            let message = format!("agent {} does not ask for {}", account.id, list(&strange));
            return Err(ConsentError::with(Code::ScopeUnknown, message, Details::Scopes(strange)));
        }
        let required: BTreeSet<_> =
            manifest.iter().flat_map(|it| &it.tools).filter(|tool| tool.required).map(|tool| &tool.scope).collect();
        let missing: Vec<_> = required.into_iter().filter(|scope| !wishes.contains_key(*scope)).cloned().collect();
        if !missing.is_empty() {
            let message = format!("agent {} does not work without {}", account.id, list(&missing));
            return Err(ConsentError::with(Code::ScopeRequired, message, Details::Scopes(missing)));
        }
        let now = self.now();
        let over: Vec<_> = wishes
            .iter()
            .filter(|(_, term)| matches!(term, GrantTerm::Until(end) if *end <= now))
            .map(|(scope, _)| scope.clone())
            .collect();
        if !over.is_empty() {
            let message = format!("the time until which {} would be allowed has passed", list(&over));
            return Err(ConsentError::with(Code::BadRequest, message, Details::Scopes(over)));
        }
        let wishes = wishes.into_iter().map(|(scope, term)| ScopeRequest { scope, term }).collect();
        let manifest = ManifestRef { version: account.manifest_version, hash: account.manifest_hash };
        Ok(Asked { wishes, manifest, levels })
    }

    fn accepted(&self, before: &Relation, entry: &LedgerEntry, asked: &Asked) -> Result<Relation, ConsentError> {
        let level = |scope: &ScopeId| asked.levels.get(scope).copied().unwrap_or(Sensitivity::High);
        let name = || GrantId::parse(&random_name(self.entropy(), "con_")).expect("a random name is a grant id");
        before.accept(entry, level, name).map_err(impossible)
    }

    /// Tells the person's devices and the agent.
    fn told(&self, relation: &Relation, happening: Notification) -> [ConsentChange; 2] {
        let (person, agent) = (Recipient::Person(relation.person.clone()), Recipient::Agent(relation.agent.clone()));
        [(person, happening.clone()), (agent, happening)].map(|(recipient, happening)| ConsentChange::PutMail {
            recipient,
            at: self.now(),
            happening,
        })
    }

    fn recorded(&self, happened: AuditEvent, by: &Caller, relation: &Relation, device: &Device) -> ConsentChange {
        ConsentChange::Record(AuditEventRecord {
            person: Some(relation.person.clone()),
            device: Some(device.id.clone()),
            agent: Some(relation.agent.clone()),
            relation: Some(relation.id.clone()),
            scopes: scopes(relation),
            manifest_version: Some(relation.accepted.version),
            manifest_hash: relation.accepted.hash,
            ..self.happened(happened, by)
        })
    }
}

/// What a person wants, as far as the manifest has it.
struct Asked {
    wishes: Vec<ScopeRequest>,
    manifest: ManifestRef,
    levels: BTreeMap<ScopeId, Sensitivity>,
}

fn scopes(relation: &Relation) -> Vec<ScopeId> {
    relation.grants.iter().map(|grant| grant.scope.clone()).collect()
}

fn list(scopes: &[ScopeId]) -> String {
    scopes.iter().map(ScopeId::as_str).collect::<Vec<_>>().join(", ")
}

fn unknown(id: &RelationId) -> ConsentError {
    ConsentError::new(Code::RelationNotFound, format!("there is no relation {id} of yours that goes on"))
}

/// The entry was drafted from this very relation.
fn impossible(error: RelationError) -> ConsentError {
    ConsentError::new(Code::Internal, format!("what was signed does not fit: {error}"))
}
