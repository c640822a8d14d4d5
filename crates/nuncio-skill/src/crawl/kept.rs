//! What is kept of a domain between visits: its index, page by page, and what its descriptors said.

use std::time::Duration;

use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use url::Url;

use super::Unlisted;
use crate::registry::{ListedProvider, ListedSkill, Shelf};
use crate::wire::{AccessPolicy, CapabilityType, SkillDescriptor, SkillIndexEntry, SkillVersion};

/// How long a descriptor is believed when its entry stays the same.
const BELIEVED: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a descriptor that cannot be listed is left alone when its entry stays the same.
const LEFT_ALONE: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The pages of the index, in order.
    pub(super) pages: Vec<PageMark>,
    /// The skills that are not private.
    pub(super) skills: Vec<KeptSkill>,
}

/// One page of an index, without its skills.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PageMark {
    pub(super) url: Url,
    /// By which the host knows whether we have it as it is.
    pub(super) etag: Option<String>,
    pub(super) next: Option<Url>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptSkill {
    /// As the index has it.
    pub(super) entry: SkillIndexEntry,
    /// The number of its page.
    pub(super) page: usize,
    /// What its descriptor came to.
    pub(super) state: State,
    /// When its descriptor was last read.
    pub(super) read_at: Option<Timestamp>,
    /// By which its host knows whether we have it as it is.
    pub(super) etag: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum State {
    /// Its descriptor was not read yet.
    Unread,
    /// Its descriptor could not be had; it is asked for at the next visit.
    Unreachable { why: String },
    /// It cannot be listed.
    Unusable { why: String },
    /// It is listed.
    Listed(Told),
}

/// What a descriptor says. Where it differs from the index, a caller will meet what it says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Told {
    provider: ListedProvider,
    tags: Vec<String>,
    capability_type: CapabilityType,
    access: AccessPolicy,
    version: SkillVersion,
}

impl Told {
    pub(super) fn by(descriptor: SkillDescriptor) -> Self {
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

impl KeptSkill {
    /// A skill that is new, or whose entry has changed.
    pub(super) fn new(mut entry: SkillIndexEntry, page: usize) -> Self {
        entry.extra.clear();
        Self { entry, page, state: State::Unread, read_at: None, etag: None }
    }

    /// Whether its descriptor is to be read.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let believed = match &self.state {
            State::Unread | State::Unreachable { .. } => return true,
            State::Unusable { .. } => LEFT_ALONE,
            State::Listed(told) if told.agrees_with(&self.entry) => BELIEVED,
            // One of the two is being changed.
            State::Listed(_) => LEFT_ALONE,
        };
        self.read_at.is_none_or(|read_at| read_at.after(believed) <= now)
    }

    pub(super) fn is_listed(&self) -> bool {
        matches!(self.state, State::Listed(_))
    }
}

impl Kept {
    /// What was written. What cannot be read any more is as if it had never been.
    pub(super) fn read(offers: &str) -> Self {
        serde_json::from_str(offers).unwrap_or_default()
    }

    pub(super) fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What is listed of it.
    pub(super) fn shelf(&self, last_seen: Timestamp) -> Shelf {
        let listed = self.skills.iter().filter_map(|skill| {
            let State::Listed(told) = &skill.state else { return None };
            let entry = SkillIndexEntry {
                capability_type: told.capability_type,
                access: told.access,
                version: told.version,
                ..skill.entry.clone()
            };
            Some(ListedSkill::new(entry, told.provider.clone(), told.tags.clone()))
        });
        Shelf::new(listed.collect(), last_seen)
    }

    pub(super) fn listed(&self) -> u64 {
        self.skills.iter().filter(|skill| skill.is_listed()).count() as u64
    }

    pub(super) fn unlisted(&self) -> impl Iterator<Item = Unlisted> {
        self.skills.iter().filter_map(|skill| {
            let why = match &skill.state {
                State::Listed(_) => return None,
                State::Unread => "its descriptor was not read yet",
                State::Unreachable { why } | State::Unusable { why } => why,
            };
            Some(Unlisted { id: crate::client::plain(&skill.entry.id), why: why.to_owned() })
        })
    }
}
