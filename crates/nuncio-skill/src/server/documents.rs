//! Public documents, serialised once per change of the agents.

use std::sync::Arc;

use nuncio_core::agent::{CapabilityType, Skill, SkillAuth};
use nuncio_core::edition_cache::EditionCache;
use nuncio_core::ids::SkillId;
use nuncio_engine::skills::PublishedSkill;
use nuncio_http::{CachePolicy, CacheableDocument};

use super::SkillServerState;
use crate::project::OAuthEndpoints;
use crate::wire::{SkillDescriptor, SkillIndexEntry};

#[derive(Debug, Clone)]
pub(super) struct SkillIndexPage {
    pub(super) document: CacheableDocument,
    /// Cursor of the next page: the last skill id on the page; `None` on the last page.
    pub(super) next: Option<String>,
}

/// Serialised documents for the current edition of the declared agents.
#[derive(Debug, Default)]
pub(super) struct DocumentCache {
    /// First page of the public index, unfiltered and by type.
    indexes: EditionCache<u64, Option<CapabilityType>, SkillIndexPage>,
    descriptors: EditionCache<u64, SkillId, CacheableDocument>,
}

impl SkillServerState {
    /// First page of the public index.
    pub(super) fn public_index(&self, kind: Option<CapabilityType>, limit: usize) -> SkillIndexPage {
        self.documents.indexes.get_or_put(self.engine.agents().agents_edition(), kind, || {
            self.page(&self.engine.skills().visible_to(None), kind, None, limit, CachePolicy::Public)
        })
    }

    /// Index page with up to `limit` skills after the cursor, of one capability type or of all.
    pub(super) fn page(
        &self,
        skills: &[Arc<PublishedSkill>],
        kind: Option<CapabilityType>,
        after: Option<&str>,
        limit: usize,
        caching: CachePolicy,
    ) -> SkillIndexPage {
        let wanted = skills.iter().map(|offered| offered.skill()).filter(|skill| {
            kind.is_none_or(|kind| skill.kind == kind) && after.is_none_or(|after| skill.id.as_str() > after)
        });
        let mut entries: Vec<SkillIndexEntry> =
            wanted.take(limit.saturating_add(1)).map(|skill| self.host.entry(skill)).collect();
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| more).map(|entry| entry.id.clone());
        let bytes = serde_json::to_vec(&self.host.index(entries)).unwrap_or_default();
        SkillIndexPage { document: CacheableDocument::json(bytes, caching), next }
    }

    /// OAuth endpoints of a skill that requires access tokens.
    pub(super) fn oauth_endpoints(&self, skill: &Skill) -> Option<OAuthEndpoints> {
        match &skill.auth {
            SkillAuth::OAuth2 { issuer } => (self.issuers)(issuer.as_ref()),
            _ => None,
        }
    }

    pub(super) fn descriptor_of(&self, offered: &PublishedSkill) -> SkillDescriptor {
        let skill = offered.skill();
        let oauth = self.oauth_endpoints(skill);
        let timeout = self.engine.skills().execution_timeout(offered);
        self.host.descriptor(&offered.served.agent, offered.tool.as_deref(), skill, oauth.as_ref(), timeout)
    }

    /// Serialised descriptor; cached for public skills.
    pub(super) fn descriptor_document(&self, offered: &PublishedSkill) -> CacheableDocument {
        let write = |caching| {
            let bytes = serde_json::to_vec(&self.descriptor_of(offered)).unwrap_or_default();
            CacheableDocument::json(bytes, caching)
        };
        if offered.is_hidden() {
            return write(CachePolicy::Private);
        }
        let (edition, id) = (self.engine.agents().agents_edition(), offered.skill().id.clone());
        self.documents.descriptors.get_or_put(edition, id, || write(CachePolicy::Public))
    }
}
