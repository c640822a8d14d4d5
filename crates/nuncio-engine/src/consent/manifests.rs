//! Manifest publication: the judge, the new version and the affected relations, in one commit.

use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::account::{AgentAccount, MAX_CHANGE_NOTE, PublishedManifest};
use nuncio_core::audit::{AuditEvent, AuditEventRecord};
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentId;
use nuncio_core::manifest::{CheckedManifest, Manifest, ManifestWarning};
use nuncio_core::principal::Principal;
use nuncio_core::relation::Relation;
use nuncio_judge::ManifestChangeVerdict;
use nuncio_judge::name_history::{MAX_NAMES, ManifestNameHistory};
use serde_json::Value;

use super::impact::ManifestPublicationImpact;
use crate::access::{AccessControl, Caller};
use crate::accounts::{AgentAccountService, AgentLocks, NotificationService, manifest_value, texts};
use crate::consent_error::{ConsentError, ConsentErrorDetails};
use crate::context::EngineContext;
use crate::error::EngineError;
use crate::ports::store::{AgentAccountStore, AuditChange, Change, Conflict, ConsentChange, RelationStore, StoreError};

/// Service for manifests of agents and their versions.
pub struct ManifestService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn AgentAccountStore>,
    pub(crate) relation_store: Arc<dyn RelationStore>,
    pub(crate) access: Arc<AccessControl>,
    pub(crate) accounts: Arc<AgentAccountService>,
    pub(crate) mailbox: Arc<NotificationService>,
    pub(crate) locks: Arc<AgentLocks>,
}

const MAX_PAGE_SIZE: usize = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct ManifestPublicationResult {
    pub account: AgentAccount,
    pub version: u64,
    /// Hash of the published manifest; `None` when it was cleared.
    pub hash: Option<Digest>,
    /// Verdict of the judge on the change from the previous manifest.
    pub verdict: ManifestChangeVerdict,
    /// False if the manifest is unchanged; nothing was stored then.
    pub changed: bool,
    /// Warnings about valid but probably unintended content.
    pub warnings: Vec<ManifestWarning>,
    /// Number of people who must consent again.
    pub affected: usize,
}

pub(super) struct PlannedManifestPublication {
    pub(super) publication: ManifestPublicationResult,
    pub(super) changes: Vec<Change>,
    /// Relations with people, as they are after the publication.
    relations: Vec<Relation>,
}

impl ManifestService {
    /// Publishes a manifest; `None` clears it. Publishing the same manifest again changes nothing. Each person who
    /// consented is judged against the version they accepted. `if_match` must name the current hash, or
    /// [`Digest::ZERO`] if there is no manifest; `None` accepts any.
    pub async fn publish_manifest(
        &self,
        by: &Caller,
        agent: &AgentId,
        manifest: Option<&[u8]>,
        if_match: Option<Digest>,
        change_note: Option<&str>,
    ) -> Result<ManifestPublicationResult, ConsentError> {
        self.accounts.owned(by, agent).await?;
        let checked = self.read_manifest(manifest).await?;
        let note = change_note.map(|note| texts::one_line("change_note", note, MAX_CHANGE_NOTE)).transpose()?;
        self.publish_checked(by, agent, checked, if_match, note.as_deref()).await
    }

    pub(super) async fn publish_checked(
        &self,
        by: &Caller,
        agent: &AgentId,
        checked: Option<CheckedManifest>,
        if_match: Option<Digest>,
        note: Option<&str>,
    ) -> Result<ManifestPublicationResult, ConsentError> {
        self.context.check_quota(by).await?;
        let _turn = self.locks.enter(agent).await;
        loop {
            let account = self.accounts.owned(by, agent).await?;
            if if_match.is_some_and(|hash| account.manifest_hash.unwrap_or(Digest::ZERO) != hash) {
                return Err(stale(&account));
            }
            let planned = self.plan(by, &account, checked.as_ref(), note).await?;
            if !planned.publication.changed {
                return Ok(planned.publication);
            }
            match self.mailbox.commit_and_notify(planned.changes).await {
                // A consent changed meanwhile in another process: plan again.
                Err(StoreError::Conflict(Conflict::Moved | Conflict::Exists)) => continue,
                other => other?,
            }
            for relation in &planned.relations {
                self.access.table.set_consent(relation);
            }
            let publication = planned.publication;
            self.context.meter.manifest_published(
                checked.as_ref().map_or(0, |checked| checked.canonical.len()),
                publication.verdict.breaking,
            );
            return Ok(publication);
        }
    }

    /// Judges a manifest as [`ManifestService::publish_manifest`] would, without storing anything.
    pub async fn judge_manifest(
        &self,
        by: &Caller,
        agent: &AgentId,
        manifest: Option<&[u8]>,
    ) -> Result<ManifestPublicationResult, ConsentError> {
        let account = self.accounts.owned(by, agent).await?;
        let checked = self.read_manifest(manifest).await?;
        Ok(self.plan(by, &account, checked.as_ref(), None).await?.publication)
    }

    /// The current manifest; `None` when the agent has none.
    pub async fn current_manifest(&self, account: &AgentAccount) -> Result<Option<PublishedManifest>, EngineError> {
        let version = self.store.manifest(&account.id, account.manifest_version).await?;
        Ok(version.filter(|version| version.manifest.is_some()))
    }

    /// One version of an agent's manifest, which may be a cleared one.
    pub async fn manifest_version(
        &self,
        agent: &AgentId,
        version: u64,
    ) -> Result<Option<PublishedManifest>, EngineError> {
        Ok(self.store.manifest(agent, version).await?)
    }

    /// Manifest versions of an agent below `before`, newest first; at most `limit`, and never more than 100.
    pub async fn manifest_history(
        &self,
        agent: &AgentId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<PublishedManifest>, EngineError> {
        Ok(self.store.manifests(agent, before.unwrap_or(u64::MAX), limit.min(MAX_PAGE_SIZE)).await?)
    }

    /// Parses a manifest and compiles its schemas.
    pub(super) async fn read_manifest(&self, bytes: Option<&[u8]>) -> Result<Option<CheckedManifest>, ConsentError> {
        let Some(bytes) = bytes.map(<[u8]>::to_vec) else { return Ok(None) };
        let presets = self.context.limits.consent.presets.clone();
        let checked = self.context.compute.run(move || Manifest::parse(&bytes, &presets)).await?;
        Ok(Some(checked?))
    }

    /// All changes that publishing the manifest would commit.
    pub(super) async fn plan(
        &self,
        by: &Caller,
        account: &AgentAccount,
        checked: Option<&CheckedManifest>,
        note: Option<&str>,
    ) -> Result<PlannedManifestPublication, ConsentError> {
        let hash = checked.map(|checked| checked.hash);
        let warnings = checked.map(|checked| checked.warnings.clone()).unwrap_or_default();
        if hash == account.manifest_hash {
            let publication = ManifestPublicationResult {
                version: account.manifest_version,
                hash,
                verdict: ManifestChangeVerdict::default(),
                changed: false,
                warnings,
                affected: 0,
                account: account.clone(),
            };
            return Ok(PlannedManifestPublication { publication, changes: Vec::new(), relations: Vec::new() });
        }
        let (now, version) = (self.context.now(), account.manifest_version + 1);
        let before = self.store.name_history(&account.id).await?.unwrap_or_default();
        let new = checked.map(|checked| checked.manifest.source());
        let name_history = before.with(version, new);
        if name_history.names() > MAX_NAMES {
            return Err(ConsentError::limit("different tools and scopes in all manifests of this agent", MAX_NAMES));
        }
        let impact = self.impact(by, account, new, before).await?;

        let revision = account.revision + 1;
        let next = AgentAccount {
            manifest_version: version,
            manifest_hash: hash,
            updated_at: now,
            revision,
            ..account.clone()
        };
        let manifest = checked.map(|checked| String::from_utf8_lossy(&checked.canonical).into_owned());
        let published = PublishedManifest {
            agent: account.id.clone(),
            version,
            hash,
            manifest,
            by: by.principal.clone(),
            at: now,
            verdict: serde_json::to_value(&impact.verdict).unwrap_or_default(),
            change_note: note.map(str::to_owned),
        };
        let record = AuditEventRecord {
            agent: Some(account.id.clone()),
            scopes: name_history.declared().into_iter().collect(),
            manifest_version: Some(version),
            manifest_hash: hash,
            ..self.context.event_record(AuditEvent::ManifestPublished, by)
        };
        let words = texts::search_words(&next, new);
        let mut changes = vec![
            ConsentChange::Publish {
                account: next.clone(),
                words,
                version: Box::new(published),
                name_history: Box::new(name_history.clone()),
            }
            .into(),
            AuditChange::AppendEvent(record).into(),
        ];
        let touched =
            impact.touched(&next, &name_history, now, &self.context.event_record(AuditEvent::ConsentSuspended, by));
        changes.extend(touched.changes);
        let publication = ManifestPublicationResult {
            version,
            hash,
            verdict: Arc::unwrap_or_clone(impact.verdict),
            changed: true,
            warnings,
            affected: touched.affected,
            account: next,
        };
        Ok(PlannedManifestPublication { publication, changes, relations: touched.relations })
    }

    /// Verdicts on a new manifest: against the previous one and each accepted version.
    async fn impact(
        &self,
        by: &Caller,
        account: &AgentAccount,
        new: Option<&Value>,
        before: ManifestNameHistory,
    ) -> Result<ManifestPublicationImpact, ConsentError> {
        let relations = self.relation_store.active_relations(Some(&account.id)).await?;
        let mut accepted: Vec<u64> = relations.iter().map(|relation| relation.accepted.version).collect();
        accepted.push(account.manifest_version);
        accepted.sort_unstable();
        accepted.dedup();
        let mut manifests = Vec::with_capacity(accepted.len());
        for version in accepted {
            manifests.push((version, manifest_value(&*self.store, &account.id, version).await?));
        }
        let (new, policy) = (new.cloned(), self.context.limits.consent.policy);
        let current = account.manifest_version;
        let judge =
            move || ManifestPublicationImpact::judge(relations, manifests, current, new.as_ref(), &before, &policy);
        let judged = match by.principal {
            Principal::Operator => self.context.compute.run_for_operator(judge).await,
            _ => self.context.compute.run(judge).await,
        };
        Ok(judged?)
    }
}

/// Error for a request that refers to an outdated manifest.
pub(super) fn stale(account: &AgentAccount) -> ConsentError {
    let now = account.manifest_hash.map_or_else(|| "none".to_owned(), |hash| hash.to_string());
    let message = format!(
        "the manifest of agent {} has changed in the meantime: it is now version {}, hash {now}; read it again",
        account.id, account.manifest_version
    );
    let details = ConsentErrorDetails::Stale { version: account.manifest_version, hash: account.manifest_hash };
    ConsentError::with(ErrorCode::ManifestStale, message, details)
}
