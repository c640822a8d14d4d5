//! The documents everyone may see, written once for each change of the agents.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use nuncio_core::agent::CapabilityType;
use nuncio_core::ids::SkillId;
use nuncio_engine::skills::Offered;
use nuncio_http::{Caching, Document};

use super::Skills;
use crate::wire::{SkillDescriptor, SkillIndexEntry};

/// One page of an index.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) document: Document,
    /// The last id on it, when there are more.
    pub(super) next: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Documents(RwLock<Kept>);

#[derive(Debug, Default)]
struct Kept {
    edition: u64,
    /// The first page of the whole public index, and of each kind.
    indexes: HashMap<Option<CapabilityType>, Page>,
    descriptors: HashMap<SkillId, Document>,
}

impl Documents {
    fn kept<T: Clone>(&self, edition: u64, find: impl FnOnce(&Kept) -> Option<&T>) -> Option<T> {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if kept.edition == edition { find(&kept).cloned() } else { None }
    }

    fn keep(&self, edition: u64, put: impl FnOnce(&mut Kept)) {
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept.edition != edition {
            *kept = Kept { edition, ..Kept::default() };
        }
        put(&mut kept);
    }
}

impl Skills {
    /// The first page of what everyone sees.
    pub(super) fn public_index(&self, kind: Option<CapabilityType>, limit: usize) -> Page {
        // Read before the skills: a change in between makes the copy old, never wrong for long.
        let edition = self.engine.agents_edition();
        if let Some(page) = self.documents.kept(edition, |kept| kept.indexes.get(&kind)) {
            return page;
        }
        let page = self.page(&self.engine.skills(None), kind, None, limit, Caching::Public);
        self.documents.keep(edition, |kept| {
            kept.indexes.insert(kind, page.clone());
        });
        page
    }

    /// Those of `skills` that are of that kind and behind the cursor, at most `limit`.
    pub(super) fn page(
        &self,
        skills: &[Arc<Offered>],
        kind: Option<CapabilityType>,
        after: Option<&str>,
        limit: usize,
        caching: Caching,
    ) -> Page {
        let wanted = skills.iter().map(|offered| offered.skill()).filter(|skill| {
            kind.is_none_or(|kind| skill.kind == kind) && after.is_none_or(|after| skill.id.as_str() > after)
        });
        let mut entries: Vec<SkillIndexEntry> =
            wanted.take(limit.saturating_add(1)).map(|skill| self.host.entry(skill)).collect();
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| more).map(|entry| entry.id.clone());
        let bytes = serde_json::to_vec(&self.host.index(entries)).unwrap_or_default();
        Page { document: Document::json(bytes, caching), next }
    }

    /// A skill's descriptor.
    pub(super) fn descriptor_of(&self, offered: &Offered) -> SkillDescriptor {
        let skill = offered.skill();
        let oauth = match &skill.auth {
            nuncio_core::agent::SkillAuth::OAuth2 { issuer } => (self.issuers)(issuer.as_ref()),
            _ => None,
        };
        let timeout = self.engine.execution_timeout(offered);
        self.host.descriptor(&offered.served.agent, offered.tool.as_deref(), skill, oauth.as_ref(), timeout)
    }

    /// The same as bytes; kept for those everyone sees.
    pub(super) fn descriptor_document(&self, offered: &Offered) -> Document {
        let write = |caching| {
            let bytes = serde_json::to_vec(&self.descriptor_of(offered)).unwrap_or_default();
            Document::json(bytes, caching)
        };
        let skill = offered.skill();
        if offered.is_hidden() {
            return write(Caching::Private);
        }
        let edition = self.engine.agents_edition();
        if let Some(document) = self.documents.kept(edition, |kept| kept.descriptors.get(&skill.id)) {
            return document;
        }
        let document = write(Caching::Public);
        self.documents.keep(edition, |kept| {
            kept.descriptors.insert(skill.id.clone(), document.clone());
        });
        document
    }
}
