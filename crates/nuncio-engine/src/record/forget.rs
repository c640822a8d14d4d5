//! Erasure of a person: their data is deleted, and audit records and ledgers name a pseudonym instead.

use nuncio_core::ErrorCode;
use nuncio_core::audit::redact::PersonRedaction;
use nuncio_core::audit::{AuditEvent, AuditEventRecord, StoredAuditLink};
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::principal::Principal;
use ring::signature::Ed25519KeyPair;
use serde_json::json;

use super::{RECORDS_PER_READ, redaction};
use crate::error::EngineError;
use crate::ports::store::{AuditChange, PersonErasure, RedactedAuditRecord, RedactedLedgerEntry};
use crate::record::AuditChainService;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonErasureReport {
    /// Name that replaces the person in the records.
    pub pseudonym: PersonName,
    /// Number of redacted audit records and ledger entries.
    pub redacted: u64,
    pub devices: Vec<DeviceId>,
}

impl AuditChainService {
    /// Erases a person; fails if nothing is stored about them. Audit chain and ledgers stay verifiable: redacted
    /// records keep their hashes, and `key` signs the redacted text.
    pub async fn forget_person(
        &self,
        name: &PersonName,
        key: &Ed25519KeyPair,
        by: Principal,
    ) -> Result<PersonErasureReport, EngineError> {
        let pseudonym = PersonName::parse(&self.context.random_name("forgotten-"))?;
        let mut principals = vec![Principal::Person(name.clone())];
        let mut keys = self.store.keys().await?;
        keys.retain(|key| key.person.as_ref() == Some(name));
        principals.extend(keys.iter().map(|key| Principal::Key(key.id.clone())));
        let key_names = keys.into_iter().filter_map(|key| key.name).collect();
        let links = self.store.links().await?.into_iter().filter(|link| link.person == *name);
        principals.extend(links.map(|link| link.principal));
        let is_known = self.store.person(name).await?.is_some() || principals.len() > 1;
        // Key ids are random and reveal nothing once their rows are redacted.
        let named = principals.iter().filter(|principal| !matches!(principal, Principal::Key(_))).cloned().collect();
        let replaced =
            PersonRedaction { name: name.clone(), pseudonym: pseudonym.clone(), principals: named, key_names };
        let devices = self.store.devices(name).await?.into_iter().map(|device| device.id).collect();

        let mut ledger = self.erased_entries(&replaced, key).await?;
        let mut redacted = ledger.len() as u64;
        let mut links = self.redacted_links(&replaced, key).await?;
        if !is_known && links.is_empty() {
            let message =
                format!("this server has no data about a person {name}; `nuncio user list` shows all accounts");
            return Err(EngineError::new(ErrorCode::PersonNotFound, message));
        }
        loop {
            redacted += links.len() as u64;
            // Sessions, executions and grants of the person's keys are deleted too.
            let redaction = PersonRedaction { principals: principals.clone(), ..replaced.clone() };
            let ledger = std::mem::take(&mut ledger);
            let forgotten = PersonErasure { redaction, at: self.context.now(), links, ledger };
            self.context.commit_one(AuditChange::ForgetPerson(Box::new(forgotten))).await?;
            self.access.access_changed().await?;
            // A call that was running may have been recorded meanwhile.
            links = self.redacted_links(&replaced, key).await?;
            if links.is_empty() {
                break;
            }
        }
        let record = AuditEventRecord {
            person: Some(pseudonym.clone()),
            count: Some(redacted),
            ..AuditEventRecord::new(AuditEvent::PersonForgotten, by, self.context.now())
        };
        self.context.commit_one(AuditChange::AppendEvent(record)).await?;
        self.store.compact().await?;
        Ok(PersonErasureReport { pseudonym, redacted, devices })
    }

    /// Redacted versions of the audit records that name the person.
    async fn redacted_links(
        &self,
        replaced: &PersonRedaction,
        key: &Ed25519KeyPair,
    ) -> Result<Vec<RedactedAuditRecord>, EngineError> {
        let (mut redacted, mut seen) = (Vec::new(), 0);
        loop {
            let links = self.store.audit_links(seen, RECORDS_PER_READ).await?;
            let Some(last) = links.last() else { return Ok(redacted) };
            seen = last.number;
            redacted.extend(links.iter().filter_map(|StoredAuditLink { number, link, .. }| {
                let record = replaced.of_text(&link.record)?;
                let signature = redaction::sign_link(link.seq, link.hash, &record, key);
                Some(RedactedAuditRecord { number: *number, record, signature })
            }));
        }
    }

    /// Redacted ledger entries of the person, without signatures, which cover the name.
    async fn erased_entries(
        &self,
        replaced: &PersonRedaction,
        key: &Ed25519KeyPair,
    ) -> Result<Vec<RedactedLedgerEntry>, EngineError> {
        let mut erased = Vec::new();
        let mut last = None;
        loop {
            let relations = self.store.relations_of(&replaced.name, last.as_ref(), RECORDS_PER_READ).await?;
            let Some(newest) = relations.last() else { return Ok(erased) };
            last = Some(newest.id.clone());
            for relation in &relations {
                let mut seen = 0;
                loop {
                    let entries = self.store.ledger(&relation.id, seen, RECORDS_PER_READ).await?;
                    let Some(newest) = entries.last() else { break };
                    seen = newest.seq;
                    erased.extend(entries.iter().map(|entry| erase(entry, replaced, key)));
                }
            }
        }
    }
}

fn erase(entry: &LedgerEntry, replaced: &PersonRedaction, key: &Ed25519KeyPair) -> RedactedLedgerEntry {
    let text = json!(LedgerEntry { signature: None, ..entry.clone() }).to_string();
    let erased = RedactedLedgerEntry {
        relation: entry.relation_id.clone(),
        seq: entry.seq,
        previous: entry.prev_hash,
        hash: entry.hash(),
        entry: replaced.of_text(&text).unwrap_or(text),
        signature: String::new(),
    };
    redaction::sign_entry(erased, key)
}
