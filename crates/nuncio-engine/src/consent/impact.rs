//! Effects of a new manifest on everyone who uses the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nuncio_core::account::AgentAccount;
use nuncio_core::audit::{AuditEvent, AuditEventRecord};
use nuncio_core::ids::ScopeId;
use nuncio_core::notification::{Notification, RelayParty};
use nuncio_core::relation::{ManifestComparison, Relation, RelationChange};
use nuncio_core::time::Timestamp;
use nuncio_judge::name_history::ManifestNameHistory;
use nuncio_judge::{ChangeJudgingPolicy, ManifestChangeVerdict};
use serde_json::Value;

use crate::ports::store::{AuditChange, Change, ConsentChange};

/// Verdicts on a new manifest, and the relations they affect.
pub(super) struct ManifestPublicationImpact {
    /// Verdict on the new manifest compared with the previous one.
    pub(super) verdict: Arc<ManifestChangeVerdict>,
    relations: Vec<Relation>,
    /// Changed scopes, by the manifest version that people accepted.
    changed: BTreeMap<u64, BTreeSet<ScopeId>>,
}

/// Changes to relations that are committed with a new manifest.
pub(super) struct ManifestPublicationEffects {
    pub(super) changes: Vec<Change>,
    pub(super) relations: Vec<Relation>,
    /// Number of people who must consent again.
    pub(super) affected: usize,
}

impl ManifestPublicationImpact {
    /// Judges the new manifest against each accepted version and the `current` one.
    pub(super) fn judge(
        relations: Vec<Relation>,
        manifests: Vec<(u64, Option<Value>)>,
        current: u64,
        new: Option<&Value>,
        before: &ManifestNameHistory,
        policy: &ChangeJudgingPolicy,
    ) -> Self {
        let history = before.as_history();
        let mut verdict = Arc::default();
        let mut changed = BTreeMap::new();
        for (version, old) in manifests {
            // Consent to a deleted manifest covers nothing of the new one.
            let judged = Arc::new(nuncio_judge::manifests(old.as_ref(), new, &history, policy));
            let scopes = judged.scopes_requiring_reauth.iter().filter_map(|scope| ScopeId::parse(scope).ok());
            changed.insert(version, scopes.collect());
            if version == current {
                verdict = judged;
            }
        }
        Self { verdict, relations, changed }
    }

    /// All changes to relations, ledgers, mail and audit records. `record` names the publisher.
    pub(super) fn touched(
        &self,
        account: &AgentAccount,
        name_history: &ManifestNameHistory,
        now: Timestamp,
        record: &AuditEventRecord,
    ) -> ManifestPublicationEffects {
        let declared = name_history.declared();
        let mut fresh = BTreeMap::new();
        let mut touched = ManifestPublicationEffects { changes: Vec::new(), relations: Vec::new(), affected: 0 };
        let mut asked = BTreeSet::new();
        for relation in &self.relations {
            let accepted = relation.accepted.version;
            let none = BTreeSet::new();
            let published = ManifestComparison {
                version: account.manifest_version,
                hash: account.manifest_hash,
                declared: &declared,
                changed: self.changed.get(&accepted).unwrap_or(&none),
                fresh: fresh.entry(accepted).or_insert_with(|| name_history.fresh_since(accepted)),
                at: now,
            };
            let Some(judged) = relation.with_manifest(&published) else { continue };
            touched.add(relation, judged, account, now, record, &mut asked);
        }
        if let (Some(hash), false) = (account.manifest_hash, asked.is_empty()) {
            let notification = Notification::ReauthRequired {
                agent: account.id.clone(),
                relation: None,
                version: account.manifest_version,
                hash,
                scopes: asked.into_iter().collect(),
            };
            touched.mail(RelayParty::Agent(account.id.clone()), now, notification);
        }
        touched
    }
}

impl ManifestPublicationEffects {
    fn add(
        &mut self,
        before: &Relation,
        judged: RelationChange,
        account: &AgentAccount,
        now: Timestamp,
        record: &AuditEventRecord,
        asked: &mut BTreeSet<ScopeId>,
    ) {
        let RelationChange { relation, entries, pruned, suspended, restored } = judged;
        let from = before.revision;
        self.changes
            .push(ConsentChange::MoveRelation { from, relation: relation.clone(), manifest_version: None }.into());
        self.changes.extend(entries.into_iter().map(|entry| ConsentChange::AppendLedger(entry).into()));
        for (event, scopes) in [
            (AuditEvent::ConsentPruned, &pruned),
            (AuditEvent::ConsentSuspended, &suspended),
            (AuditEvent::ConsentRestored, &restored),
        ] {
            if scopes.is_empty() {
                continue;
            }
            let record = AuditEventRecord {
                event,
                person: Some(relation.person.clone()),
                agent: Some(relation.agent.clone()),
                relation: Some(relation.id.clone()),
                scopes: scopes.clone(),
                manifest_version: Some(account.manifest_version),
                manifest_hash: account.manifest_hash,
                ..record.clone()
            };
            self.changes.push(AuditChange::AppendEvent(record).into());
        }
        let person = RelayParty::Person(relation.person.clone());
        match (&relation.pending, account.manifest_hash) {
            (Some(pending), Some(hash)) => {
                self.affected += 1;
                asked.extend(pending.scopes.iter().cloned());
                let notification = Notification::ReauthRequired {
                    agent: relation.agent.clone(),
                    relation: Some(relation.id.clone()),
                    version: pending.version,
                    hash,
                    scopes: pending.scopes.clone(),
                };
                self.mail(person, now, notification);
            }
            _ if before.pending.is_some() => {
                let notification = Notification::Restored {
                    agent: relation.agent.clone(),
                    relation: relation.id.clone(),
                    version: account.manifest_version,
                    scopes: restored,
                };
                self.mail(person, now, notification.clone());
                self.mail(RelayParty::Agent(relation.agent.clone()), now, notification);
            }
            _ => {}
        }
        self.relations.push(relation);
    }

    fn mail(&mut self, recipient: RelayParty, at: Timestamp, notification: Notification) {
        self.changes.push(ConsentChange::PutMail { recipient, at, notification }.into());
    }
}
