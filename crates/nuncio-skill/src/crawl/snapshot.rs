//! Stored snapshot of a followed domain: the pages of its index and the state of its descriptors.

use std::time::Duration;

use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use url::Url;

use super::UnlistedSkill;
use crate::registry::{HostSkillListing, ListedProvider, ListedSkill};
use crate::wire::{AccessPolicy, CapabilityType, SkillDescriptor, SkillIndexEntry, SkillVersion};

/// Time after which an unchanged descriptor is fetched again.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Time after which an unusable descriptor is fetched again although its index entry is unchanged.
const RETRY_AGE: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct DomainSnapshot {
    pub(super) pages: Vec<SnapshotIndexPage>,
    /// Skills whose access is not private.
    pub(super) skills: Vec<SnapshotSkill>,
}

/// A page of the domain's index, without its skills.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SnapshotIndexPage {
    pub(super) url: Url,
    /// `ETag` of the page, for the next conditional request.
    pub(super) etag: Option<String>,
    pub(super) next: Option<Url>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SnapshotSkill {
    pub(super) entry: SkillIndexEntry,
    /// Number of the index page that lists the skill.
    pub(super) page: usize,
    pub(super) state: DescriptorState,
    /// Time the descriptor was last fetched.
    pub(super) read_at: Option<Timestamp>,
    /// `ETag` of the skill's descriptor.
    pub(super) etag: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum DescriptorState {
    Unread,
    /// The descriptor could not be fetched; the next visit tries again.
    Unreachable {
        why: String,
    },
    /// The descriptor is invalid or contradicts the index, so the skill is not listed.
    Unusable {
        why: String,
    },
    Listed(DescriptorSummary),
}

/// Fields of a descriptor that the registry shows. They take precedence over the index entry, because callers use the
/// descriptor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DescriptorSummary {
    provider: ListedProvider,
    tags: Vec<String>,
    capability_type: CapabilityType,
    access: AccessPolicy,
    version: SkillVersion,
}

impl DescriptorSummary {
    pub(super) fn from_descriptor(descriptor: SkillDescriptor) -> Self {
        Self {
            provider: ListedProvider { name: descriptor.provider.name, url: descriptor.provider.url },
            tags: descriptor.tags.unwrap_or_default(),
            capability_type: descriptor.capability_type,
            access: descriptor.access,
            version: descriptor.version,
        }
    }

    fn agrees_with(&self, entry: &SkillIndexEntry) -> bool {
        (self.capability_type, self.access, self.version) == (entry.capability_type, entry.access, entry.version)
    }
}

impl SnapshotSkill {
    /// Creates the state of a skill that is new or whose index entry changed.
    pub(super) fn new(mut entry: SkillIndexEntry, page: usize) -> Self {
        entry.extra.clear();
        Self { entry, page, state: DescriptorState::Unread, read_at: None, etag: None }
    }

    /// Whether the descriptor must be fetched in this visit.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let max_age = match &self.state {
            DescriptorState::Unread | DescriptorState::Unreachable { .. } => return true,
            DescriptorState::Unusable { .. } => RETRY_AGE,
            DescriptorState::Listed(summary) if summary.agrees_with(&self.entry) => MAX_AGE,
            // The index and the descriptor disagree, so one of them is probably being changed.
            DescriptorState::Listed(_) => RETRY_AGE,
        };
        self.read_at.is_none_or(|read_at| read_at.after(max_age) <= now)
    }

    pub(super) fn is_listed(&self) -> bool {
        matches!(self.state, DescriptorState::Listed(_))
    }
}

impl DomainSnapshot {
    /// Parses a stored snapshot; an unreadable one counts as empty.
    pub(super) fn read(offers: &str) -> Self {
        serde_json::from_str(offers).unwrap_or_default()
    }

    pub(super) fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Skills of the snapshot as the registry lists them.
    pub(super) fn host_skills(&self, last_seen: Timestamp) -> HostSkillListing {
        let listed = self.skills.iter().filter_map(|skill| {
            let DescriptorState::Listed(summary) = &skill.state else { return None };
            let entry = SkillIndexEntry {
                capability_type: summary.capability_type,
                access: summary.access,
                version: summary.version,
                ..skill.entry.clone()
            };
            Some(ListedSkill::new(entry, summary.provider.clone(), summary.tags.clone()))
        });
        HostSkillListing::new(listed.collect(), last_seen)
    }

    pub(super) fn listed(&self) -> u64 {
        self.skills.iter().filter(|skill| skill.is_listed()).count() as u64
    }

    pub(super) fn unlisted(&self) -> impl Iterator<Item = UnlistedSkill> {
        self.skills.iter().filter_map(|skill| {
            let why = match &skill.state {
                DescriptorState::Listed(_) => return None,
                DescriptorState::Unread => "its descriptor was not read yet",
                DescriptorState::Unreachable { why } | DescriptorState::Unusable { why } => why,
            };
            Some(UnlistedSkill { id: crate::client::plain(&skill.entry.id), why: why.to_owned() })
        })
    }
}
