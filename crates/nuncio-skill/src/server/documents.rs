//! Public documents, serialised once per change of the agents.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use nuncio_core::agent::CapabilityType;
use nuncio_core::ids::SkillId;
use nuncio_engine::skills::PublishedSkill;
use nuncio_http::{CachePolicy, CacheableDocument};

use super::Skills;
use crate::wire::{SkillDescriptor, SkillIndexEntry};

#[derive(Debug, Clone)]
pub(super) struct IndexPage {
    pub(super) document: CacheableDocument,
    /// Last id on the page, if there are more pages.
    pub(super) next: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Documents(RwLock<CachedDocuments>);

#[derive(Debug, Default)]
struct CachedDocuments {
    edition: u64,
    /// First page of the public index, unfiltered and by type.
    indexes: HashMap<Option<CapabilityType>, IndexPage>,
    descriptors: HashMap<SkillId, CacheableDocument>,
}

impl Documents {
    fn kept<T: Clone>(&self, edition: u64, find: impl FnOnce(&CachedDocuments) -> Option<&T>) -> Option<T> {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if kept.edition == edition { find(&kept).cloned() } else { None }
    }

    fn keep(&self, edition: u64, put: impl FnOnce(&mut CachedDocuments)) {
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept.edition != edition {
            *kept = CachedDocuments { edition, ..CachedDocuments::default() };
        }
        put(&mut kept);
    }
}

impl Skills {
    /// First page of the public index.
    pub(super) fn public_index(&self, kind: Option<CapabilityType>, limit: usize) -> IndexPage {
        // The edition is read before the skills: a change in between makes the cached copy outdated, which the next
        // request corrects.
        let edition = self.engine.agents().agents_edition();
        if let Some(page) = self.documents.kept(edition, |kept| kept.indexes.get(&kind)) {
            return page;
        }
        let page = self.page(&self.engine.skills().visible_to(None), kind, None, limit, CachePolicy::Public);
        self.documents.keep(edition, |kept| {
            kept.indexes.insert(kind, page.clone());
        });
        page
    }

    /// Up to `limit` skills of that type after the cursor.
    pub(super) fn page(
        &self,
        skills: &[Arc<PublishedSkill>],
        kind: Option<CapabilityType>,
        after: Option<&str>,
        limit: usize,
        caching: CachePolicy,
    ) -> IndexPage {
        let wanted = skills.iter().map(|offered| offered.skill()).filter(|skill| {
            kind.is_none_or(|kind| skill.kind == kind) && after.is_none_or(|after| skill.id.as_str() > after)
        });
        let mut entries: Vec<SkillIndexEntry> =
            wanted.take(limit.saturating_add(1)).map(|skill| self.host.entry(skill)).collect();
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| more).map(|entry| entry.id.clone());
        let bytes = serde_json::to_vec(&self.host.index(entries)).unwrap_or_default();
        IndexPage { document: CacheableDocument::json(bytes, caching), next }
    }

    pub(super) fn descriptor_of(&self, offered: &PublishedSkill) -> SkillDescriptor {
        let skill = offered.skill();
        let oauth = match &skill.auth {
            nuncio_core::agent::SkillAuth::OAuth2 { issuer } => (self.issuers)(issuer.as_ref()),
            _ => None,
        };
        let timeout = self.engine.skills().execution_timeout(offered);
        self.host.descriptor(&offered.served.agent, offered.tool.as_deref(), skill, oauth.as_ref(), timeout)
    }

    /// Serialised descriptor; cached for public skills.
    pub(super) fn descriptor_document(&self, offered: &PublishedSkill) -> CacheableDocument {
        let write = |caching| {
            let bytes = serde_json::to_vec(&self.descriptor_of(offered)).unwrap_or_default();
            CacheableDocument::json(bytes, caching)
        };
        let skill = offered.skill();
        if offered.is_hidden() {
            return write(CachePolicy::Private);
        }
        let edition = self.engine.agents().agents_edition();
        if let Some(document) = self.documents.kept(edition, |kept| kept.descriptors.get(&skill.id)) {
            return document;
        }
        let document = write(CachePolicy::Public);
        self.documents.keep(edition, |kept| {
            kept.descriptors.insert(skill.id.clone(), document.clone());
        });
        document
    }
}
